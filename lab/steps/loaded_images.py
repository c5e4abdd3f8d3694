"""Step ``images:NAME``: the workers have images that are needed after the node image was built: a tenant's, a KAI's.

The step changes containerd's store in the nodes, not the node image: nothing remains after the lab is removed. The
archives come from the supply, so this works without a network as well.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from lab.engine.step import Effect, Observed
from lab.errors import StepFailed
from lab.session.context import LabContext, is_control_plane
from lab.session.step import LabStep
from lab.text import count

_CTR = ("ctr", "-n", "k8s.io", "images")
_IMPORT = f'{" ".join(_CTR)} import "$1"; status=$?; rm -f "$1"; exit $status'
"""In one command: it goes on in the node when kailab is killed, and leaves no archive."""

_FOLDER = "/opt"
"""Temporary place of archives in a node, on its root: /tmp is a tmpfs in kind's nodes, which docker cp does not see."""


@dataclass(frozen=True)
class LoadedImages(LabStep):
    """Full references of one owner's images, to be loaded into the workers."""

    owner: str
    """A tenant's name, or ``kai`` for KAI on the host."""
    images: tuple[str, ...]
    needs: tuple[str, ...] = ()
    """The steps that fetch or build images that this machine does not have yet."""

    def wanted(self) -> object:
        return self.images

    @property
    def id(self) -> str:
        return f"images:{self.owner}"

    @property
    def title(self) -> str:
        return f"Images of {self.owner} in the nodes"

    def effects(self) -> tuple[Effect, ...]:
        return (Effect("node", f"up to {len(self.images)} images imported into workers' containerd", "kailab down"),)

    def observe(self, ctx: LabContext) -> Observed:
        lacking = missing(ctx, self.images)
        if not lacking:
            return Observed.ready(f"{len(self.images)} images")
        number = len({image for images in lacking.values() for image in images})
        return Observed.absent(f"{count(number, 'image')} to load into {count(len(lacking), 'node')}")

    def apply(self, ctx: LabContext) -> None:
        lacking = missing(ctx, self.images)
        wanted = sorted({image for images in lacking.values() for image in images})
        archives: dict[str, Path] = {}
        for number, image in enumerate(wanted, 1):
            ctx.progress(image, number, len(wanted))
            archives[image] = ctx.supply.image(image)
        ctx.progress(f"loading {count(len(wanted), 'image')} into {count(len(lacking), 'node')}")
        with ThreadPoolExecutor(max_workers=8, thread_name_prefix="images") as pool:
            list(pool.map(lambda node: load(ctx, node, [archives[image] for image in lacking[node]]), lacking))

    def verify(self, ctx: LabContext) -> None:
        for node, images in missing(ctx, self.images).items():
            raise StepFailed(
                f"node {node} does not have {images[0]} although its archive was imported",
                evidence=[f"the archive has another name than {image}" for image in images],
                fix=f"list the images of the node: {ctx.engine.name} exec {node} {' '.join(_CTR)} ls -q",
            )


def missing(ctx: LabContext, images: Iterable[str]) -> Mapping[str, tuple[str, ...]]:
    """Worker, by its container's name → the images that it lacks; complete workers are left out.

    Raises CommandFailed.
    """
    wanted = {image: _full(image) for image in images}
    names = workers(ctx)
    with ThreadPoolExecutor(max_workers=8, thread_name_prefix="images") as pool:
        listed = pool.map(lambda name: ctx.engine.exec(name, [*_CTR, "ls", "-q"]).out.split(), names)
        present = dict(zip(names, listed, strict=True))
    lacking = {name: tuple(i for i, full in wanted.items() if full not in have) for name, have in present.items()}
    return {name: images for name, images in lacking.items() if images}


def workers(ctx: LabContext) -> list[str]:
    """The workers' containers, or those of the control planes in a lab without workers, which run its workloads."""
    nodes = ctx.kubernetes_nodes()
    return [node.name for node in nodes if not is_control_plane(node)] or [node.name for node in nodes]


def load(ctx: LabContext, node: str, archives: Sequence[Path]) -> None:
    """Import image archives into a node's containerd; an image of the same name is replaced. Raises CommandFailed."""
    for archive in archives:
        key = hashlib.sha256(str(archive).encode()).hexdigest()[:12]
        inside = f"{_FOLDER}/kailab-import-{key}.tar"
        try:
            ctx.engine.copy_in(node, archive, inside)
            ctx.engine.exec(node, ["sh", "-c", _IMPORT, "sh", inside])
        except BaseException:
            ctx.engine.exec(node, ["rm", "-f", inside], check=False)
            raise


def _full(image: str) -> str:
    """A reference as containerd stores it: with registry, ``library/`` and tag (distribution/reference)."""
    first, slash, _ = image.partition("/")
    if not slash:
        image = f"docker.io/library/{image}"
    elif not ("." in first or ":" in first or first == "localhost"):
        image = f"docker.io/{image}"
    elif first == "docker.io" and image.count("/") == 1:
        image = image.replace("docker.io/", "docker.io/library/", 1)
    last = image.rpartition("/")[2]
    return image if ":" in last or "@" in last else f"{image}:latest"

"""The node image: kind's node image with the lab's images and NVIDIA's container toolkit baked in, made once.

Its tag names its content, so an equal lab finds it there. Images are unpacked at baking time; at a node's first boot
``kind/images/adopt-images`` links them into containerd's store, so that a warm ``lab up`` neither loads nor unpacks
anything.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from lab.config import LabSpec
from lab.engine.step import Effect, Observed
from lab.errors import LabError, Unavailable
from lab.paths import assets, cache_root, owner
from lab.session.context import LabContext
from lab.session.step import LabStep
from lab.supply import Choice, Item, Supply
from lab.supply.cache import alone, key_of, place
from lab.supply.catalogue import kind_node

OWNER = "kailab"
"""Label on every container and image of ours; its value is the lab's name."""

STATE = "kailab-state"
"""Label on every container of ours; its value tells the state directory, since labs of others may be named alike."""

IMAGE_OWNER = "kailab-image"
"""Label on baked images; another key than OWNER, since containers inherit the labels of their image."""

_TOOLKIT = Item("binary", "container-toolkit")

NODE_IMAGE = "node-image"
_KEPT = 6
"""Baked images that stay in the engine, of all labs together; each takes 1 to 2 GB."""

_CTR = ("ctr", "-n", "k8s.io")


def base_image(spec: LabSpec) -> Item:
    """The node image that ours is derived from."""
    return kind_node(spec.cluster.kubernetes)


def control_plane_images(spec: LabSpec, supply: Supply) -> tuple[Item, ...]:
    """Images that kubeadm needs and that a node image of ours does not carry yet."""
    if not supply.own_node:
        return ()
    return tuple(Item("image", row.reference) for row in supply.catalogue.images.values() if row.in_node)


@dataclass(frozen=True)
class NodeImage(LabStep):
    """Step ``node-image``: the derived node image is in the container engine."""

    spec: LabSpec
    images: tuple[Item, ...]
    tag: str
    needs: tuple[str, ...] = ()
    id: str = NODE_IMAGE
    title: str = "Node image"

    @classmethod
    def of(cls, spec: LabSpec, supply: Supply, images: Iterable[Item], needs: tuple[str, ...]) -> NodeImage:
        """The step for a set of images; its tag is known before anything is built."""
        images = tuple(sorted(set(images), key=str))
        ours = {path.name: path.read_text() for path in sorted((assets("kind") / "images").iterdir())}
        parts = [supply.identity(base_image(spec)), [supply.identity(item) for item in images], ours, 6]
        parts.append(supply.identity(_TOOLKIT) if spec.gpu.mode != "none" else "")
        return cls(spec, images, f"kailab/node:v{spec.cluster.kubernetes}-{key_of(parts)}", needs)

    def effects(self) -> tuple[Effect, ...]:
        return (Effect("lab", f"bake {len(self.images)} images into {self.tag}", "lab down --images"),)

    def observe(self, ctx: LabContext) -> Observed:
        return Observed.ready(self.tag) if ctx.engine.image_id(self.tag) else Observed.absent()

    def apply(self, ctx: LabContext) -> None:
        """Labs that come up at once may need the same image: one bakes it, the others wait."""
        with alone(self.tag, ctx.run.stopped, lambda: ctx.progress("it is being made already; waiting")):
            if ctx.engine.image_id(self.tag) is None:
                self._make(ctx)

    def _make(self, ctx: LabContext) -> None:
        base = base_image(self.spec)
        ctx.progress("loading the base image")
        archive = ctx.supply.path(base, ctx.progress)
        ctx.engine.call("load", "-q", "-i", str(archive))
        # with the lab's name: 'lab down' of a lab whose bake was killed must not meet another one's
        name = f"kailab-bake-{self.spec.name}-{key_of(owner(), self.tag)}"
        # a bake that was killed leaves its container behind
        ctx.engine.remove(name)
        ctx.journal.owns("container", name, self.id)
        ctx.journal.owns("image", self.tag, self.id)
        try:
            self._bake(ctx, name, base.name)
        finally:
            ctx.engine.remove(name)
            ctx.journal.released("container", name)
        drop_old_images(ctx, self.tag)

    def _bake(self, ctx: LabContext, name: str, base: str) -> None:
        archives = {item: ctx.supply.path(item, ctx.progress) for item in self.images}
        mounts = {str(path.parent) for path in archives.values()} | {str(cache_root())}
        ctx.engine.call(
            "run",
            "-d",
            "--privileged",
            "--name",
            name,
            "--label",
            f"{OWNER}={self.spec.name}",
            "--label",
            f"{STATE}={owner()}",
            "--network",
            "none",
            # overlay snapshots cannot lie on the container's own overlay
            "-v",
            "/var/lib/containerd",
            *[word for m in sorted(mounts) for word in ("-v", f"{m}:{m}:ro")],
            "--entrypoint",
            "containerd",
            base,
        )
        self._wait_for_containerd(ctx, name)
        for number, (item, archive) in enumerate(archives.items(), 1):
            ctx.progress(item.name, number, len(archives))
            ctx.engine.exec(name, [*_CTR, "images", "import", str(archive)])
        # What was unpacked is not needed as an archive any more: half of the node image, and of the time to write it.
        ctx.engine.exec(name, [*_CTR, "content", "prune", "references"])
        ctx.progress("unpacked; writing the image")
        if self.spec.gpu.mode != "none":
            self._add_toolkit(ctx, name)
        self._add_adoption(ctx, name)
        ctx.engine.call(
            "commit",
            "--change",
            'ENTRYPOINT ["/usr/local/bin/entrypoint","/sbin/init"]',
            "--change",
            "CMD []",
            "--change",
            f"LABEL {IMAGE_OWNER}={self.spec.name} {OWNER}= {STATE}=",
            name,
            self.tag,
        )

    def _wait_for_containerd(self, ctx: LabContext, name: str) -> None:
        script = "for i in $(seq 100); do ctr version >/dev/null 2>&1 && exit 0; sleep 0.1; done; ctr version"
        ctx.engine.exec(name, ["sh", "-c", script])

    def _add_toolkit(self, ctx: LabContext, name: str) -> None:
        for program in sorted(ctx.supply.path(_TOOLKIT, ctx.progress).iterdir()):
            ctx.engine.copy_in(name, program, f"/usr/bin/{program.name}")

    def _add_adoption(self, ctx: LabContext, name: str) -> None:
        ours = assets("kind") / "images"
        unit = "/etc/systemd/system/kailab-images.service"
        ctx.engine.write_file(name, "/opt/kailab/bin/adopt-images", (ours / "adopt-images").read_text(), "0755")
        ctx.engine.write_file(name, unit, (ours / "kailab-images.service").read_text())
        # the stop lets containerd close its databases before they are copied
        script = (
            "set -e; mkdir -p /etc/systemd/system/multi-user.target.wants;"
            f" ln -sf {unit} /etc/systemd/system/multi-user.target.wants/kailab-images.service;"
            " sync; cp -a /var/lib/containerd /opt/kailab/containerd;"
            " rm -rf /opt/kailab/containerd/tmpmounts /opt/kailab/containerd/io.containerd.runtime*"
        )
        ctx.engine.exec(name, ["sh", "-c", script])

    def verify(self, ctx: LabContext) -> None:
        if ctx.engine.image_id(self.tag) is None:
            raise LabError(f"the node image {self.tag} is not in {ctx.engine.name}", fix="run 'lab up' again")

    @property
    def part_of(self) -> str:
        return ""

    def wanted(self) -> object:
        return self.tag

    def undo(self, ctx: LabContext) -> None:
        """Remove every node image of the lab; the engine refuses one that another lab's containers run on."""
        for owned in ctx.journal.owned("image"):
            ctx.engine.call("rmi", owned.name, check=False)
            ctx.journal.released("image", owned.name)
        for reference in images_of(ctx):
            ctx.engine.call("rmi", reference, check=False)

    def remains(self, ctx: LabContext) -> tuple[str, ...]:
        return tuple(f"image {name}" for name in images_of(ctx))


def images_of(ctx: LabContext) -> list[str]:
    """Node images that carry the lab's label."""
    label = f"label={IMAGE_OWNER}={ctx.spec.name}"
    listed = ctx.engine.call("images", "--filter", label, "--format", "{{.Repository}}:{{.Tag}}", check=False)
    return sorted(set(listed.out.split()))


def mark_used(tag: str) -> None:
    """Note that nodes are made from a baked image: those that were used last are kept."""
    mark = _mark(tag)
    with contextlib.suppress(OSError):  # a full disk stops what needs the room, not this
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()


def drop_old_images(ctx: LabContext, tag: str) -> None:
    """Remove all baked images but ``tag`` and those used last; the engine refuses one that a container runs on."""
    listed = ctx.engine.call(
        "images", "--filter", f"label={IMAGE_OWNER}", "--format", "{{.Repository}}:{{.Tag}}", check=False
    ).out.split()
    others = dict.fromkeys(name for name in listed if "<none>" not in name and name != tag)
    # the engine lists the newest first, and the order of those that were never used stays
    for name in sorted(others, key=_used, reverse=True)[_KEPT - 1 :]:
        if ctx.engine.call("rmi", name, check=False).code == 0:
            ctx.journal.released("image", name)
            _mark(name).unlink(missing_ok=True)


def _mark(tag: str) -> Path:
    return place("used", tag, key_of(tag))


def _used(tag: str) -> float:
    """When nodes were last made from it, in seconds since the epoch; 0: not known."""
    try:
        return _mark(tag).stat().st_mtime
    except OSError:
        return 0.0


@dataclass(frozen=True)
class Fetch(LabStep):
    """Step ``supply:NAME``: what is not on this machine yet is downloaded or built before anything needs it."""

    name: str
    source: str
    items: tuple[Item, ...]
    where: str
    needs: tuple[str, ...] = ("host",)

    @property
    def part_of(self) -> str:
        """Nothing: the cache is kept."""
        return ""

    def wanted(self) -> object:
        return self.items

    @property
    def id(self) -> str:
        return f"supply:{self.name}"

    @property
    def title(self) -> str:
        return f"{'Build' if self.source == 'build' else 'Fetch'} {self._what}"

    @property
    def _what(self) -> str:
        """The name in words: ``kubernetes 1.33.13`` for the recipe ``kubernetes-1.33.13``."""
        return re.sub(r"-(?=\d+\.)", " ", self.name)

    def effects(self) -> tuple[Effect, ...]:
        return (
            Effect(
                "lab", f"{self.source} {self._what} from {self.where}, into the cache", "delete the cache directory"
            ),
        )

    def observe(self, ctx: LabContext) -> Observed:
        return Observed.absent()

    def apply(self, ctx: LabContext) -> None:
        for item in self.items:
            ctx.supply.path(item, ctx.progress)

    def verify(self, ctx: LabContext) -> None:
        if gone := [item for item in self.items if not ctx.supply.path(item).exists()]:
            raise Unavailable(f"{gone[0]} was fetched but is not in the cache", fix="run the command again")


def builds_needed(choices: Iterable[Choice], supply: Supply) -> tuple[Fetch, ...]:
    """One step per Go module to build, per source for the rest; nothing for what is present or in a bundle."""
    groups: dict[tuple[str, str], list[Item]] = {}
    for choice in choices:
        if choice.source == "build":
            groups.setdefault(("build", supply.recipe_of(choice.item)), []).append(choice.item)
        elif choice.source == "registry":
            groups.setdefault(("registry", choice.item.name.split("/")[0]), []).append(choice.item)
    where = {choice.item: choice.where for choice in choices}
    return tuple(Fetch(name, source, tuple(items), where[items[0]]) for (source, name), items in groups.items())

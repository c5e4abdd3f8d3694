"""The node image: kind's node image with the lab's images and NVIDIA's container toolkit baked in.

Its tag is the hash of its content, so equal labs share it. Baking unpacks the images; at a node's first boot
``kind/images/adopt-images`` links them into containerd's store, so a warm ``kailab up`` neither loads nor unpacks them.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from lab.config import LabSpec
from lab.engine.journal import Journal
from lab.engine.step import Effect, Observed
from lab.errors import LabError, Unavailable
from lab.paths import assets, cache_root, host_journal, owner
from lab.session.context import LabContext
from lab.session.step import LabStep
from lab.supply import Choice, Item, Supply
from lab.supply.cache import alone, key_of, place

OWNER = "kailab"  # label on kailab's containers and images; its value is the lab's name

STATE = "kailab-state"
"""Label on kailab's containers; its value identifies the state directory, since lab names are not unique."""

IMAGE_OWNER = "kailab-image"
"""Label on baked images; differs from OWNER, since containers inherit the labels of their image."""

_TOOLKIT = Item("binary", "container-toolkit")

NODE_IMAGE = "node-image"
_KEPT = 6  # maximum number of baked images in the engine, of all labs; each has 1 to 2 GB

_CTR = ("ctr", "-n", "k8s.io")

_UNPACK = (
    "ctr -n k8s.io images ls | tail -n +2 | while read -r _ _ digest _; do echo $digest; done | sort -u"
    " | xargs -r -n 1 ctr -n k8s.io snapshots unpack"
)
"""Unpacks the images of a released node image, which kind imports with ``--no-unpack`` (v0.33.0, imageimporter.go)."""


def control_plane_images(supply: Supply) -> tuple[Item, ...]:
    """Images that kubeadm needs and that a node image built here lacks."""
    if not supply.own_node:
        return ()
    return tuple(Item("image", row.reference) for row in supply.catalogue.images.values() if row.in_node)


@dataclass(frozen=True)
class NodeImage(LabStep):
    """Step ``node-image``: the baked node image is in the container engine."""

    spec: LabSpec
    images: tuple[Item, ...]
    tag: str
    needs: tuple[str, ...] = ()
    id: str = NODE_IMAGE
    title: str = "Node image"

    @classmethod
    def of(cls, spec: LabSpec, supply: Supply, images: Iterable[Item], needs: tuple[str, ...]) -> NodeImage:
        """The step for a set of images, with the tag of the image to bake."""
        images = tuple(sorted(set(images), key=str))
        ours = {path.name: path.read_text() for path in sorted((assets("kind") / "images").iterdir())}
        parts = [supply.identity(supply.base_node), [supply.identity(item) for item in images], ours, 6]
        parts.append(supply.identity(_TOOLKIT) if spec.gpu.mode != "none" and not supply.ready_node else "")
        parts += [] if supply.own_node else [_UNPACK]
        return cls(spec, images, f"kailab/node:v{spec.cluster.kubernetes}-{key_of(parts)}", needs)

    def effects(self) -> tuple[Effect, ...]:
        return (Effect("lab", f"bake {len(self.images)} images into {self.tag}", "kailab down --images"),)

    def observe(self, ctx: LabContext) -> Observed:
        return Observed.ready(self.tag) if ctx.engine.image_id(self.tag) else Observed.absent()

    def apply(self, ctx: LabContext) -> None:
        """Bake the image; of several labs that need it at the same time, one bakes and the others wait."""
        with alone(self.tag, ctx.run.stopped, lambda: ctx.progress("another process is baking it; waiting")):
            if ctx.engine.image_id(self.tag) is None:
                self._create(ctx)

    def _create(self, ctx: LabContext) -> None:
        base = ctx.supply.base_node
        ctx.progress("loading the base image")
        archive = ctx.supply.path(base, ctx.progress)
        if ctx.engine.image_id(base.name) is None:
            Journal(host_journal()).owns("image", base.name, self.id)  # all labs of this state directory use it
        ctx.engine.call("load", "-q", "-i", str(archive))
        # with the lab's name, so that 'kailab down' after a killed bake removes only this lab's container
        name = f"kailab-bake-{self.spec.name}-{key_of(owner(), self.tag)}"
        # a killed bake leaves its container
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
        labels = ["--label", f"{OWNER}={self.spec.name}", "--label", f"{STATE}={owner()}"]
        # containerd on a volume: overlay snapshots do not work on the container's own overlay
        volumes = ["-v", "/var/lib/containerd", *[w for m in sorted(mounts) for w in ctx.engine.read_only_mount(m)]]
        options = ["-d", "--privileged", "--name", name, *labels, "--network", "none", *volumes]
        ctx.engine.call("run", *options, "--entrypoint", "containerd", base)
        script = "for i in $(seq 100); do ctr version >/dev/null 2>&1 && exit 0; sleep 0.1; done; ctr version"
        ctx.engine.exec(name, ["sh", "-c", script])
        if not ctx.supply.own_node:
            ctx.engine.exec(name, ["sh", "-c", _UNPACK])
        for number, (item, archive) in enumerate(archives.items(), 1):
            ctx.progress(item.name, number, len(archives))
            ctx.engine.exec(name, [*_CTR, "images", "import", str(archive)])
        # archives are not needed after unpacking: half of the node image, and of the time to write it
        ctx.engine.exec(name, [*_CTR, "content", "prune", "references"])
        ctx.progress("unpacked; writing the image")
        if self.spec.gpu.mode != "none" and not ctx.supply.ready_node:
            for program in sorted(ctx.supply.path(_TOOLKIT, ctx.progress).iterdir()):
                ctx.engine.copy_in(name, program, f"/usr/bin/{program.name}")
        self._add_adoption(ctx, name)
        changes = (
            'ENTRYPOINT ["/usr/local/bin/entrypoint","/sbin/init"]',
            "CMD []",
            f"LABEL {IMAGE_OWNER}={self.spec.name} {OWNER}= {STATE}=",
        )
        ctx.engine.call("commit", *[word for change in changes for word in ("--change", change)], name, self.tag)

    def _add_adoption(self, ctx: LabContext, name: str) -> None:
        ours = assets("kind") / "images"
        unit = "/etc/systemd/system/kailab-images.service"
        ctx.engine.write_file(name, "/opt/kailab/bin/adopt-images", (ours / "adopt-images").read_text(), "0755")
        ctx.engine.write_file(name, unit, (ours / "kailab-images.service").read_text())
        # sync before the copy of containerd's databases
        script = (
            "set -e; mkdir -p /etc/systemd/system/multi-user.target.wants;"
            f" ln -sf {unit} /etc/systemd/system/multi-user.target.wants/kailab-images.service;"
            " sync; cp -a /var/lib/containerd /opt/kailab/containerd;"
            " rm -rf /opt/kailab/containerd/tmpmounts /opt/kailab/containerd/io.containerd.runtime*"
        )
        ctx.engine.exec(name, ["sh", "-c", script])

    def verify(self, ctx: LabContext) -> None:
        if ctx.engine.image_id(self.tag) is None:
            raise LabError(f"node image {self.tag} is missing in {ctx.engine.name}", fix="re-run 'kailab up'")

    @property
    def part_of(self) -> str:
        return ""

    def wanted(self) -> object:
        return self.tag

    def undo(self, ctx: LabContext) -> None:
        """Remove all node images of the lab, and their base; the engine refuses those that another lab's nodes use."""
        for owned in ctx.journal.owned("image"):
            ctx.engine.call("rmi", owned.name, check=False)
            ctx.journal.released("image", owned.name)
        for reference in images_of(ctx):
            ctx.engine.call("rmi", reference, check=False)
        host = Journal(host_journal())
        for owned in host.owned("image"):
            ctx.engine.call("rmi", owned.name, check=False)
            if ctx.engine.image_id(owned.name) is None:
                host.released("image", owned.name)

    def remains(self, ctx: LabContext) -> tuple[str, ...]:
        return tuple(f"image {name}" for name in images_of(ctx))


def images_of(ctx: LabContext) -> list[str]:
    """Node images with the lab's label."""
    return sorted(set(_images(ctx, f"{IMAGE_OWNER}={ctx.spec.name}")))


def baked(ctx: LabContext) -> list[str]:
    """Node images of all labs, newest first."""
    return _images(ctx, IMAGE_OWNER)


def _images(ctx: LabContext, label: str) -> list[str]:
    """References of the images with a label, newest first."""
    filters = ("--filter", f"label={label}", "--format", "{{.Repository}}:{{.Tag}}")
    return ctx.engine.call("images", *filters, check=False).out.split()


def mark_used(tag: str) -> None:
    """Record the use of a baked image for new nodes: ``drop_old_images`` keeps the most recently used."""
    mark = _mark(tag)
    with contextlib.suppress(OSError):  # a full disk must not fail this
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()


def drop_old_images(ctx: LabContext, tag: str) -> None:
    """Remove all baked images but ``tag`` and the most recently used; the engine refuses one that a container uses.

    ``tag``, which is new, counts as used: another lab that bakes must not remove it before its nodes exist.
    """
    mark_used(tag)
    others = dict.fromkeys(name for name in baked(ctx) if "<none>" not in name and name != tag)
    # the sort is stable, so images without a record stay in the engine's order, newest first
    for name in sorted(others, key=_used, reverse=True)[_KEPT - 1 :]:
        if ctx.engine.call("rmi", name, check=False).code == 0:
            ctx.journal.released("image", name)
            _mark(name).unlink(missing_ok=True)


def _mark(tag: str) -> Path:
    return place("used", tag, key_of(tag))


def _used(tag: str) -> float:
    """Time of the last use in seconds since the epoch; 0 if not known."""
    try:
        return _mark(tag).stat().st_mtime
    except OSError:
        return 0.0


@dataclass(frozen=True)
class Fetch(LabStep):
    """Step ``supply:NAME``: items that this machine lacks are downloaded or built."""

    name: str
    source: str
    items: tuple[Item, ...]
    where: str
    needs: tuple[str, ...] = ("host",)

    @property
    def part_of(self) -> str:
        """Empty: the cache is kept."""
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
        """``kubernetes 1.33.13`` for the recipe ``kubernetes-1.33.13``."""
        return re.sub(r"-(?=\d+\.)", " ", self.name)

    def effects(self) -> tuple[Effect, ...]:
        what = f"{self.source} {self._what} from {self.where}, into the cache"
        return (Effect("lab", what, "delete the cache directory"),)

    def observe(self, ctx: LabContext) -> Observed:
        return Observed.absent()

    def apply(self, ctx: LabContext) -> None:
        for item in self.items:
            ctx.supply.path(item, ctx.progress)

    def verify(self, ctx: LabContext) -> None:
        if missing := [item for item in self.items if not ctx.supply.path(item).exists()]:
            raise Unavailable(f"{missing[0]} was fetched but is not in the cache", fix="re-run the command")


def builds_needed(choices: Iterable[Choice], supply: Supply) -> tuple[Fetch, ...]:
    """One step per Go module to build and per registry; none for items that are present or in a bundle."""
    groups: dict[tuple[str, str], list[Item]] = {}
    for choice in choices:
        if choice.source == "build":
            groups.setdefault(("build", supply.recipe_of(choice.item)), []).append(choice.item)
        elif choice.source == "registry":
            groups.setdefault(("registry", choice.item.name.split("/")[0]), []).append(choice.item)
    where = {choice.item: choice.where for choice in choices}
    return tuple(Fetch(name, source, tuple(items), where[items[0]]) for (source, name), items in groups.items())

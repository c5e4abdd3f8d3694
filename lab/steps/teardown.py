"""Taking a lab away, by journal and label, from any half-made state; and the proof that nothing is left."""

from __future__ import annotations

import shutil
from dataclasses import dataclass

from lab.engine.step import Effect, Observed
from lab.paths import owner
from lab.session.context import NODE_LABEL, LabContext
from lab.steps.node_image import IMAGE_OWNER, OWNER, STATE
from lab.tools.processes import processes_naming

KIND_NETWORK = "kind"
"""kind puts all clusters of a machine on one network; the lab removes it only if it made it and it is unused."""


@dataclass(frozen=True)
class _Gone:
    """A step whose only verb is ``undo``."""

    id: str
    title: str
    needs: tuple[str, ...] = ()

    def effects(self) -> tuple[Effect, ...]:
        """See Step."""
        return ()

    def observe(self, ctx: LabContext) -> Observed:
        """See Step."""
        return Observed.ready()

    def apply(self, ctx: LabContext) -> None:
        """Nothing is made here."""

    def verify(self, ctx: LabContext) -> None:
        """Nothing is made here."""

    def undo(self, ctx: LabContext) -> None:
        """Each kind of thing says how it goes."""
        raise AssertionError(self.id)


@dataclass(frozen=True)
class Containers(_Gone):
    """Node containers of the lab's kind cluster and whatever else carries its label."""

    id: str = "containers"
    title: str = "Containers and volumes"

    def undo(self, ctx: LabContext) -> None:
        """Remove them, running or not, with their volumes."""
        names = container_names(ctx)
        if names:
            ctx.progress(f"removing {len(names)}")
            ctx.engine.remove(*names)
        for owned in ctx.journal.owned("container"):
            ctx.engine.remove(owned.name)
            ctx.journal.released("container", owned.name)
        ctx.journal.released("cluster", ctx.kind_name)


@dataclass(frozen=True)
class Network(_Gone):
    """kind's network, if this lab made it and nobody else is on it."""

    id: str = "network"
    title: str = "Network"
    # runs after the containers: in 'down' a step waits for those that need it
    needs: tuple[str, ...] = ()

    def undo(self, ctx: LabContext) -> None:
        """Remove it where that hurts nobody."""
        for owned in ctx.journal.owned("network"):
            # the engine itself refuses while any container is attached
            ctx.engine.call("network", "rm", owned.name, check=False)
            ctx.journal.released("network", owned.name)


@dataclass(frozen=True)
class Images(_Gone):
    """Node images baked for this lab; kept for the next one unless asked."""

    id: str = "images"
    title: str = "Node images"
    keep: bool = True

    def undo(self, ctx: LabContext) -> None:
        """Remove the images, unless they are kept or another lab runs on them."""
        if self.keep:
            return
        for owned in ctx.journal.owned("image"):
            ctx.engine.call("rmi", owned.name, check=False)
            ctx.journal.released("image", owned.name)
        for reference in images(ctx):
            ctx.engine.call("rmi", reference, check=False)


@dataclass(frozen=True)
class Files(_Gone):
    """The lab's state directory: kubeconfigs, log, journal. Last, since it holds the journal."""

    id: str = "files"
    title: str = "Kubeconfigs and state"

    def undo(self, ctx: LabContext) -> None:
        """Remove it."""
        shutil.rmtree(ctx.paths.root, ignore_errors=True)


def teardown(*, keep_images: bool) -> tuple[_Gone, ...]:
    """The steps of ``lab down``. In a down run a step is taken after those that need it."""
    return (
        Files(),
        Images(needs=("files",), keep=keep_images),
        Network(needs=("images",)),
        Containers(needs=("network",)),
    )


def container_names(ctx: LabContext) -> list[str]:
    """Containers that carry kind's label for its cluster, or the lab's label and no other state directory's."""
    labelled = [
        *ctx.nodes(),
        *(
            container
            for container in ctx.engine.containers(f"{OWNER}={ctx.spec.name}")
            if container.labels.get(STATE, owner()) == owner()
        ),
    ]
    return sorted({container.name for container in labelled})


def images(ctx: LabContext) -> list[str]:
    """Node images that carry the lab's label."""
    out = ctx.engine.call(
        "images",
        "--filter",
        f"label={IMAGE_OWNER}={ctx.spec.name}",
        "--format",
        "{{.Repository}}:{{.Tag}}",
        check=False,
    ).out
    return sorted(set(out.split()))


def remains(ctx: LabContext, *, keep_images: bool) -> list[str]:
    """What is left of the lab after ``lab down``; an empty list is the proof."""
    left = [f"container {name}" for name in container_names(ctx)]
    label = f"label={NODE_LABEL}={ctx.kind_name}"
    volumes = ctx.engine.call("volume", "ls", "-q", "--filter", label, check=False).out.split()
    left += [f"volume {name}" for name in volumes]
    if not keep_images:
        left += [f"image {name}" for name in images(ctx)]
    if ctx.paths.root.exists():
        left += [f"file {path}" for path in sorted(ctx.paths.root.rglob("*"))] or [f"directory {ctx.paths.root}"]
    left += [f"process {pid}: {line}" for pid, line in processes_naming(ctx.paths.root)]
    return left

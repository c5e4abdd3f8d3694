"""Step ``cluster``: a kind cluster of the lab's shape runs, with a kubeconfig."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass

import yaml

from lab.config import LabSpec
from lab.engine.journal import Owned
from lab.engine.step import Effect, Observed
from lab.errors import ApiFailed, Interrupted, LabError, NameTaken
from lab.gpu.nvidia.resolve import claim
from lab.host.engines import inspect
from lab.host.machine import Machine
from lab.paths import owner
from lab.session.context import LabContext
from lab.session.step import LabStep
from lab.steps.cluster import checkpoint
from lab.steps.cluster.checkpoint import Checkpoint
from lab.steps.cluster.config import VOLUMES, kind_config, shape
from lab.steps.cluster.network import claim_network, creating, why_kept
from lab.steps.cluster.ownership import one_off, owner_mounts, refuse_foreign_nodes
from lab.steps.cluster.pausing import thaw
from lab.steps.cluster.ports import free_ports
from lab.steps.node_image import OWNER, STATE, baked, mark_used
from lab.tools.container import Container
from lab.tools.kind import Kind

_API_SECONDS = 120.0


@dataclass(frozen=True)
class KindCluster(LabStep):
    """The lab's kind cluster."""

    spec: LabSpec
    image: str  # the node image's tag
    own_node: bool  # whether the node image was built here, without kindnet
    needs: tuple[str, ...] = ("node-image",)
    id: str = "cluster"
    title: str = "Kubernetes cluster"

    def effects(self) -> tuple[Effect, ...]:
        nodes = self.spec.cluster.control_planes + self.spec.cluster.workers
        create = f"kind create cluster --name kailab-{self.spec.name} ({nodes} node containers)"
        return (
            Effect("lab", create, "kailab down"),
            Effect("lab", "kubeconfig in the lab's state directory; yours is not touched", "kailab down"),
        )

    def observe(self, ctx: LabContext) -> Observed:
        nodes = ctx.nodes()
        if not nodes:
            return Observed.absent()
        recorded = _recorded(ctx)
        if recorded.get("complete") != "yes":
            return Observed.drifted("an earlier creation did not finish", ["will be created again"])
        if recorded.get("shape") != shape(self.spec, self.image):
            return Observed.drifted("created from another lab file", ["nodes, node image or GPU mode differ"])
        if ctx.paths.paused.exists() or any(node.state == "paused" for node in nodes):
            return Observed.drifted("paused", ["its nodes are frozen"])
        if stopped := [node.name for node in nodes if node.state != "running"]:
            return Observed.drifted("stopped", [f"{name} is not running" for name in stopped])
        if not ctx.paths.kubeconfig.exists():
            return Observed.drifted("its kubeconfig is missing")
        if not ctx.cluster().healthy():
            return Observed.drifted("API does not answer")
        return Observed.ready(f"{len(nodes)} nodes")

    def apply(self, ctx: LabContext) -> None:
        """Create or start the cluster. Raises LabError if one of another shape runs, instead of recreating it."""
        kind = Kind(ctx.run, ctx.supply.binary("kind"), ctx.engine.name)
        wanted, recorded, nodes = shape(self.spec, self.image), _recorded(ctx), ctx.nodes()
        if nodes and recorded.get("complete") == "yes":
            if recorded.get("shape") != wanted:
                raise LabError(
                    f"cluster {ctx.kind_name} runs with another shape (nodes, node image or GPU mode)",
                    fix=f"kailab down --name {self.spec.name}, then kailab up; or rename the new lab with --name",
                )
            self._start(ctx, kind)
            return
        if nodes:
            refuse_foreign_nodes(ctx)
            ctx.progress("removing an incomplete cluster")
            kind.delete(ctx.kind_name, ctx.paths.kubeconfig)
        if saved := checkpoint.usable(ctx, self._checkpoint_key):
            try:
                self._create(ctx, kind, wanted, saved)
            except (Interrupted, NameTaken):
                checkpoint.trust(ctx)
                raise
            except LabError as error:
                refuse_foreign_nodes(ctx)
                ctx.notice(f"the checkpoint could not be restored, so the lab is created without it: {error.what}")
                checkpoint.discard(ctx)
                kind.delete(ctx.kind_name, ctx.paths.kubeconfig)
            else:
                return
        self._create(ctx, kind, wanted)

    @property
    def _checkpoint_key(self) -> str:
        """Empty where none is kept: the members of an etcd with several know each other by address."""
        kept = self.spec.cluster.checkpoint and self.spec.cluster.control_planes == 1
        return checkpoint.checkpoint_key(self.spec, self.image) if kept else ""

    def keep_checkpoint(self, ctx: LabContext) -> None:
        """For nodes of this run, after all other steps: save a checkpoint, or record that the restored one is good.

        Raises LabError, OSError: none was saved.
        """
        if not self._checkpoint_key:
            return
        if _recorded(ctx).get("restored") == "yes":
            checkpoint.trust(ctx)
        else:
            ctx.progress("saving a checkpoint")
            checkpoint.save(ctx, self._checkpoint_key)

    def _create(self, ctx: LabContext, kind: Kind, wanted: str, saved: Checkpoint | None = None) -> None:
        """Create the cluster, with a checkpoint from its state."""
        mounts = claim(ctx, self.id) if self.spec.gpu.mode == "nvidia" else {}
        restored = checkpoint.restore_mounts(saved.folder) if saved else ()
        old_cgroups = inspect(ctx.engine.name, ctx.run, Machine()).cgroup_version == "1"
        with creating(ctx) as unlock:
            marks = owner_mounts(ctx, made_network=claim_network(ctx, self.id))
            with free_ports(self.spec, saved.ports if saved else {}) as ports:
                remove_volumes(ctx, self.image)
                ctx.paths.volumes.mkdir(exist_ok=True)
                everywhere = (*marks, {"hostPath": str(ctx.paths.volumes), "containerPath": VOLUMES}, *restored)
                config = kind_config(
                    self.spec,
                    ports,
                    own_node=self.own_node,
                    old_cgroups=old_cgroups,
                    mounts=mounts,
                    everywhere=everywhere,
                )
            for port in ports.mappings:
                ctx.journal.owns("port", port.owner, self.id, host=str(port.host), node=str(port.node))
            ctx.journal.owns("cluster", ctx.kind_name, self.id, complete="no", shape=wanted)
            ctx.journal.owns("file", str(ctx.paths.kubeconfig), self.id)
            mark_used(self.image)

            def on_line(line: str) -> None:
                unlock()
                _report(ctx, line)

            kind.create(
                ctx.kind_name,
                yaml.safe_dump(config),
                self.image,
                ctx.paths.kubeconfig,
                on_line,
                again=lambda: refuse_foreign_nodes(ctx),
            )
        ctx.paths.kubeconfig.chmod(0o600)
        claim_network(ctx, self.id)  # that of a lab which was created at the same time had no node on it before
        state = {"complete": "yes", "shape": wanted, "restored": "yes" if saved else "no"}
        ctx.journal.owns("cluster", ctx.kind_name, self.id, **state)

    def _start(self, ctx: LabContext, kind: Kind) -> None:
        """Start the nodes of a stopped lab in the order of their creation, so that they keep their addresses.

        Those of a paused lab continue.
        """
        stopped = [node for node in ctx.nodes() if node.state not in ("running", "paused")]
        if stopped:
            ctx.notice(f"the lab was stopped: restarting {len(stopped)} node containers")
        for node in stopped:
            ctx.progress(f"starting {node.name}")
            ctx.engine.call("start", node.name)
        if thaw(ctx):
            ctx.notice("the lab was paused: its nodes continue")
        if not ctx.paths.kubeconfig.exists():
            kind.export(ctx.kind_name, ctx.paths.kubeconfig)
        cluster = ctx.cluster()
        if not cluster.poll(cluster.healthy, timeout=_API_SECONDS, interval=0.3):
            raise ApiFailed(
                f"the API server of {ctx.kind_name} did not answer within {_API_SECONDS:.0f} s of its start",
                fix=f"docker logs {ctx.kind_name}-control-plane, or kailab down and kailab up",
            )

    def verify(self, ctx: LabContext) -> None:
        if not ctx.cluster().healthy():
            raise ApiFailed(f"the API server of {ctx.kind_name} does not answer /readyz", fix="kailab logs")

    @property
    def part_of(self) -> str:
        return ""

    def undo(self, ctx: LabContext) -> None:
        """Remove the lab's containers with their volumes, and kind's network if labs created it and nobody uses it.

        Uses the journal and labels, so it works from any incomplete state and without kind.
        """
        owned_containers = map(ctx.engine.inspect, (owned.name for owned in ctx.journal.owned("container")))
        containers = [*lab_containers(ctx), *filter(None, owned_containers)]
        for container in containers:
            for volume in container.volumes:  # kind's anonymous volumes have no label
                ctx.journal.owns("volume", volume, self.id)
        if containers:
            ctx.progress(f"removing {len(containers)}")
            ctx.engine.remove(*(container.name for container in containers))
        images = [container.image for container in containers] or baked(ctx)  # a killed removal left no containers
        remove_volumes(ctx, next(iter(images), ""))
        for owned in ctx.journal.owned("container"):
            ctx.journal.released("container", owned.name)
        for owned in ctx.journal.owned("network"):
            if why := why_kept(ctx, owned):
                ctx.notice(f"network {owned.name} is kept: {why}", "info")
                ctx.journal.released("network", owned.name)
        for owned in _networks_and_volumes(ctx):
            ctx.engine.discard(owned.kind, owned.name)
            if not ctx.engine.exists(owned.kind, owned.name):
                ctx.journal.released(owned.kind, owned.name)
        ctx.paths.paused.unlink(missing_ok=True)  # of these nodes, not of those that 'kailab reset' creates
        ctx.paths.kubeconfig.unlink(missing_ok=True)
        ctx.paths.kubeconfig.with_suffix(".lock").unlink(missing_ok=True)
        ctx.journal.released("cluster", ctx.kind_name)
        ctx.journal.released("file", str(ctx.paths.kubeconfig))
        for port in ctx.journal.owned("port"):
            ctx.journal.released("port", port.name)

    def remains(self, ctx: LabContext) -> tuple[str, ...]:
        owned = (
            f"{one.kind} {one.name}" for one in _networks_and_volumes(ctx) if ctx.engine.exists(one.kind, one.name)
        )
        folder = (f"directory {ctx.paths.volumes}",) if ctx.paths.volumes.exists() else ()
        return (*(f"container {container.name}" for container in lab_containers(ctx)), *owned, *folder)


def remove_volumes(ctx: LabContext, image: str) -> None:
    """Remove the data of the lab's volumes; its nodes must be gone.

    Pods wrote it as root. For a user who may not remove it, a container of ``image`` does.
    """
    folder = ctx.paths.volumes
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists() and image:
        empty = ("--entrypoint", "find", image, VOLUMES, "-mindepth", "1", "-delete")
        ctx.engine.call("run", *one_off(ctx), "--volume", f"{folder}:{VOLUMES}", *empty, check=False)
        shutil.rmtree(folder, ignore_errors=True)


def _networks_and_volumes(ctx: LabContext) -> tuple[Owned, ...]:
    return (*ctx.journal.owned("network"), *ctx.journal.owned("volume"))


def _recorded(ctx: LabContext) -> Mapping[str, str]:
    """The journal's facts about the cluster."""
    return next((owned.facts for owned in ctx.journal.owned("cluster") if owned.name == ctx.kind_name), {})


def _report(ctx: LabContext, line: str) -> None:
    """Show a line of kind's output, unless it is advice for its user."""
    text = line.encode("ascii", "ignore").decode().strip().rstrip(". ")  # without its emoji, which few fonts have
    if text and not text.startswith(("Set kubectl", "kubectl", "Have a", "Thanks", "You can now")):
        ctx.progress(text[:60])


def lab_containers(ctx: LabContext) -> list[Container]:
    """Containers with kind's label of the lab's cluster, or the lab's label and none of another state directory."""
    ours = ctx.engine.containers(f"{OWNER}={ctx.spec.name}")
    mine = [container for container in ours if container.labels.get(STATE, owner()) == owner()]
    found = {container.name: container for container in (*ctx.nodes(), *mine)}
    return [found[name] for name in sorted(found)]

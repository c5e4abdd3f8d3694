"""Changes of a whole cluster that scenarios need, each with its undo."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from lab.gpu.device_plugin import NAMESPACE
from lab.gpu.simulated.fault_injection import GpuRef, every_gpu, fail, heal
from lab.gpu.simulated.health import Health
from lab.kai.names import GPU_RESOURCE
from lab.kube.readiness import is_ready
from lab.session.context import LabContext
from lab.session.lab import Lab
from lab.snapshot.cluster_snapshot import take
from lab.snapshot.kai_installation import KaiInstallation, installation
from lab.tools.container import ContainerEngine
from lab.tools.process import HostRunner

if TYPE_CHECKING:
    from lab.kube import Cluster

Json = dict[str, Any]
SECONDS = 180.0
_CONFIG = ("Config.kai.scheduler", "kai-config")
_OPERATOR = "kai-operator"
_TAINT = {"key": "kailab.dev/scenario", "value": "tainted", "effect": "NoSchedule"}


class ClusterChange(Protocol):
    """A change of the cluster."""

    def do(self, cluster: Cluster) -> None:
        """Make the change and wait until it takes effect."""
        ...

    def undo(self, cluster: Cluster) -> None:
        """Revert the change and wait until it is reverted; safe after a ``do`` that did not finish."""
        ...


def kai_of(cluster: Cluster) -> KaiInstallation:
    """The cluster's KAI. Raises LookupError: the cluster has none."""
    kai = installation(take(cluster, kinds=("Deployment", "Pod")))
    if kai is None:
        raise LookupError("no KAI in this cluster")
    return kai


def scale(cluster: Cluster, name: str, namespace: str, replicas: int) -> None:
    """Scale a Deployment, and wait until its pods are Ready or gone; nothing without the Deployment."""
    if cluster.get("Deployment", name, namespace) is None:
        return
    cluster.patch("Deployment", name, {"spec": {"replicas": replicas}}, namespace)
    if replicas:
        cluster.wait_ready("Deployment", name, namespace, timeout=SECONDS)
        return
    cluster.wait(
        "Deployment",
        lambda found: all(not obj.get("status", {}).get("replicas") for obj in found),
        namespace=namespace,
        fields=f"metadata.name={name}",
        timeout=SECONDS,
        what=f"{name} has no pods",
    )


def run_on(node: str, script: str) -> None:
    """Run a shell script in the container of a node."""
    ContainerEngine(HostRunner()).exec(node, ["sh", "-c", script], timeout=SECONDS)


@dataclass(frozen=True)
class ScaledDown:
    """One of KAI's Deployments scaled to 0, and the operator too, which would scale it up again."""

    deployment: str

    def do(self, cluster: Cluster) -> None:
        kai = kai_of(cluster)
        for name in (_OPERATOR, self.deployment):
            scale(cluster, name, kai.namespace, 0)

    def undo(self, cluster: Cluster) -> None:
        kai = kai_of(cluster)
        for name in (self.deployment, _OPERATOR):
            scale(cluster, name, kai.namespace, 1)


@dataclass(frozen=True)
class Cordoned:
    """All workers are cordoned."""

    def do(self, cluster: Cluster) -> None:
        _each_worker(cluster, {"unschedulable": True})

    def undo(self, cluster: Cluster) -> None:
        _each_worker(cluster, {"unschedulable": None})


@dataclass(frozen=True)
class Tainted:
    """All workers have a taint."""

    def do(self, cluster: Cluster) -> None:
        for node in _workers(cluster):
            kept = [taint for taint in node["spec"].get("taints") or [] if taint["key"] != _TAINT["key"]]
            cluster.patch("Node", node["metadata"]["name"], {"spec": {"taints": [*kept, _TAINT]}})

    def undo(self, cluster: Cluster) -> None:
        for node in _workers(cluster):
            kept = [taint for taint in node["spec"].get("taints") or [] if taint["key"] != _TAINT["key"]]
            cluster.patch("Node", node["metadata"]["name"], {"spec": {"taints": kept or None}})


@dataclass(frozen=True)
class SharingOff:
    """KAI's admission refuses fractions."""

    def do(self, cluster: Cluster) -> None:
        cluster.patch(*_CONFIG, {"spec": {"admission": {"gpuSharing": False}}})
        _settled(cluster, "admission", "--gpu-sharing-enabled=true", there=False)

    def undo(self, cluster: Cluster) -> None:
        cluster.patch(*_CONFIG, {"spec": {"admission": {"gpuSharing": True}}})
        _settled(cluster, "admission", "--gpu-sharing-enabled=true", there=True)


@dataclass(frozen=True)
class ReservationRuntimeClass:
    """Reservation pods get a RuntimeClass that does not exist; undo restores ``before``, a lab's default."""

    before: str = "nvidia"

    def do(self, cluster: Cluster) -> None:
        self._set(cluster, "no-such-class")

    def undo(self, cluster: Cluster) -> None:
        self._set(cluster, self.before)

    def _set(self, cluster: Cluster, name: str) -> None:
        cluster.patch(*_CONFIG, {"spec": {"binder": {"resourceReservation": {"runtimeClassName": name}}}})
        _settled(cluster, "binder", name, there=True)


@dataclass(frozen=True)
class Patched:
    """An object patched by JSON merge, and patched back."""

    kind: str
    name: str
    change: Json
    back: Json
    namespace: str = ""

    def do(self, cluster: Cluster) -> None:
        cluster.patch(self.kind, self.name, self.change, self.namespace or None)

    def undo(self, cluster: Cluster) -> None:
        cluster.patch(self.kind, self.name, self.back, self.namespace or None)


@dataclass(frozen=True)
class Restarted:
    """The pods of a Deployment of KAI, deleted after a change and after its undo."""

    deployment: str

    def do(self, cluster: Cluster) -> None:
        self._delete(cluster)

    def undo(self, cluster: Cluster) -> None:
        self._delete(cluster)
        cluster.wait_ready("Deployment", self.deployment, kai_of(cluster).namespace, timeout=SECONDS)

    def _delete(self, cluster: Cluster) -> None:
        cluster.delete_all("Pod", kai_of(cluster).namespace, f"app={self.deployment}", grace=1)


@dataclass(frozen=True)
class Configured:
    """KAI's Config changed, until one of the Deployments has, or lacks, an argument; undone by ``back``."""

    change: Json
    back: Json
    deployment: str
    argument: str
    there: bool = True

    def do(self, cluster: Cluster) -> None:
        cluster.patch(*_CONFIG, {"spec": self.change})
        _settled(cluster, self.deployment, self.argument, there=self.there)

    def undo(self, cluster: Cluster) -> None:
        cluster.patch(*_CONFIG, {"spec": self.back})
        _settled(cluster, self.deployment, self.argument, there=not self.there)


@dataclass(frozen=True)
class Absent:
    """A cluster-scoped object deleted, and created again as it was."""

    kind: str
    name: str
    kept: list[Json] = field(default_factory=list, compare=False)

    def do(self, cluster: Cluster) -> None:
        if (obj := cluster.get(self.kind, self.name)) is not None:
            self.kept[:] = [obj]
            cluster.delete(self.kind, self.name, wait=SECONDS)

    def undo(self, cluster: Cluster) -> None:
        dropped = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "deletionTimestamp")
        for obj in self.kept:
            meta = {key: value for key, value in obj["metadata"].items() if key not in dropped}
            if cluster.get(self.kind, self.name) is None:
                cluster.create({**{key: obj[key] for key in obj if key != "status"}, "metadata": meta})


@dataclass(frozen=True)
class WorkersLabelled:
    """All workers with a label, or without it (None)."""

    key: str
    value: str | None
    before: dict[str, str | None] = field(default_factory=dict, compare=False)

    def do(self, cluster: Cluster) -> None:
        for node in _workers(cluster):
            name, labels = node["metadata"]["name"], node["metadata"].get("labels") or {}
            self.before.setdefault(name, labels.get(self.key))
            cluster.patch("Node", name, {"metadata": {"labels": {self.key: self.value}}})

    def undo(self, cluster: Cluster) -> None:
        for name, value in self.before.items():
            cluster.patch("Node", name, {"metadata": {"labels": {self.key: value}}})


@dataclass(frozen=True)
class WorkersOffer:
    """All workers offer an extended resource that no device plugin manages."""

    resource: str
    amount: str

    def do(self, cluster: Cluster) -> None:
        self._set(cluster, self.amount)

    def undo(self, cluster: Cluster) -> None:
        self._set(cluster, None)

    def _set(self, cluster: Cluster, amount: str | None) -> None:
        status = {"status": {side: {self.resource: amount} for side in ("capacity", "allocatable")}}
        for node in _workers(cluster):
            cluster.patch("Node", node["metadata"]["name"], status, subresource="status")


@dataclass(frozen=True)
class NodeWithoutKubelet:
    """A Node object that no kubelet serves: Ready for 40 s, tainted for everybody but the scenario's pods."""

    labels: dict[str, str]
    offers: dict[str, str]
    name: str = "s-node"

    def do(self, cluster: Cluster) -> None:
        self.undo(cluster)
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        labels = {"kubernetes.io/hostname": self.name, **self.labels}
        meta = {"name": self.name, "labels": labels}
        cluster.create({"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": {"taints": [_TAINT]}})
        offers = {"cpu": "8", "memory": "16Gi", "pods": "110", **self.offers}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
        ready |= {"lastHeartbeatTime": now, "lastTransitionTime": now}
        status = {"capacity": offers, "allocatable": offers, "conditions": [ready]}
        cluster.patch("Node", self.name, {"status": status}, subresource="status")

    def undo(self, cluster: Cluster) -> None:
        cluster.delete("Node", self.name, wait=SECONDS)


@dataclass(frozen=True)
class OnNodes:
    """A shell script run in the containers of nodes, and another one that reverts it."""

    script: str
    revert: str
    control_plane: bool = False
    not_ready: bool = False
    """Wait until the nodes are not Ready, and Ready again after the undo."""

    def do(self, cluster: Cluster) -> None:
        self._run(cluster, self.script)
        if self.not_ready:
            self._wait(cluster, ready=False)

    def undo(self, cluster: Cluster) -> None:
        self._run(cluster, self.revert)
        if self.not_ready:
            self._wait(cluster, ready=True)

    def _nodes(self, cluster: Cluster) -> list[str]:
        workers = {node["metadata"]["name"] for node in _workers(cluster)}
        names = [node["metadata"]["name"] for node in cluster.list("Node")]
        return [name for name in names if (name in workers) != self.control_plane]

    def _run(self, cluster: Cluster, script: str) -> None:
        for name in self._nodes(cluster):
            run_on(name, script)

    def _wait(self, cluster: Cluster, *, ready: bool) -> None:
        names = set(self._nodes(cluster))

        def holds(found: list[Json]) -> bool:
            return all(is_ready(node) == ready for node in found if node["metadata"]["name"] in names)

        cluster.wait("Node", holds, timeout=SECONDS, what=f"nodes {'Ready' if ready else 'not Ready'}")


@dataclass(frozen=True)
class NoDevicePlugin:
    """The device plugins run on no node, so the kubelets offer no GPU."""

    def do(self, cluster: Cluster) -> None:
        self._select(cluster, {"kailab.dev/scenario": "nowhere"}, gpus=False)

    def undo(self, cluster: Cluster) -> None:
        self._select(cluster, {"kailab.dev/scenario": None}, gpus=True)

    def _select(self, cluster: Cluster, selector: Json, *, gpus: bool) -> None:
        change = {"spec": {"template": {"spec": {"nodeSelector": selector}}}}
        for obj in cluster.list("DaemonSet", NAMESPACE):
            if "device-plugin" in obj["metadata"]["name"]:
                cluster.patch("DaemonSet", obj["metadata"]["name"], change, NAMESPACE)

        def holds(found: list[Json]) -> bool:
            offered = [int((node["status"].get("allocatable") or {}).get(GPU_RESOURCE, 0)) for node in found]
            return any(offered) == gpus

        cluster.wait("Node", holds, timeout=SECONDS, what=f"{'some' if gpus else 'no'} GPUs are offered", hold=3.0)


@dataclass(frozen=True)
class GpusFailed:
    """The first simulated GPU of each worker has an uncorrectable error, as ``kailab gpu fail`` injects it."""

    def do(self, cluster: Cluster) -> None:
        ctx = self._context(cluster)
        for node in _workers(cluster):
            fail(ctx, GpuRef(node["metadata"]["name"], 0), Health(48))

    def undo(self, cluster: Cluster) -> None:
        ctx = self._context(cluster)
        heal(ctx, every_gpu(ctx))

    def _context(self, cluster: Cluster) -> LabContext:
        return Lab.attach(cluster.kubeconfig.parent.name).context("gpu")


def _settled(cluster: Cluster, deployment: str, word: str, *, there: bool) -> None:
    """Wait until the operator has rolled out the Deployment with, or without, an argument."""

    def holds(found: list[Json]) -> bool:
        args = [
            str(arg)
            for obj in found
            for container in obj["spec"]["template"]["spec"]["containers"]
            for arg in container.get("args") or []
        ]
        return bool(found) and any(word in arg for arg in args) == there and all(map(is_ready, found))

    cluster.wait(
        "Deployment",
        holds,
        namespace=kai_of(cluster).namespace,
        fields=f"metadata.name={deployment}",
        timeout=SECONDS,
        what=f"{deployment} runs {'with' if there else 'without'} {word}",
        hold=3.0,
    )


def _workers(cluster: Cluster) -> list[Json]:
    return [
        node
        for node in cluster.list("Node")
        if "node-role.kubernetes.io/control-plane" not in (node["metadata"].get("labels") or {})
    ]


def _each_worker(cluster: Cluster, spec: Json) -> None:
    for node in _workers(cluster):
        cluster.patch("Node", node["metadata"]["name"], {"spec": spec})

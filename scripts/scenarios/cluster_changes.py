"""Changes of a whole cluster that scenarios need, each with its undo."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from lab.kube.readiness import is_ready
from lab.snapshot.cluster_snapshot import take
from lab.snapshot.kai_installation import KaiInstallation, installation

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


def _scale(cluster: Cluster, name: str, namespace: str, replicas: int) -> None:
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


@dataclass(frozen=True)
class ScaledDown:
    """One of KAI's Deployments scaled to 0, and the operator too, which would scale it up again."""

    deployment: str

    def do(self, cluster: Cluster) -> None:
        kai = kai_of(cluster)
        for name in (_OPERATOR, self.deployment):
            _scale(cluster, name, kai.namespace, 0)

    def undo(self, cluster: Cluster) -> None:
        kai = kai_of(cluster)
        for name in (self.deployment, _OPERATOR):
            _scale(cluster, name, kai.namespace, 1)


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

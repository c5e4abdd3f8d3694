"""Changes of a whole cluster that a situation needs, each with its undo."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from lab.explain.installation import KaiInstallation, installation
from lab.kube.readiness import is_ready
from lab.snapshot.cluster_snapshot import take

if TYPE_CHECKING:
    from lab.kube import Cluster

Json = dict[str, Any]
SECONDS = 180.0
_CONFIG = ("Config.kai.scheduler", "kai-config")
_OPERATOR = "kai-operator"
_TAINT = {"key": "kailab.dev/situation", "value": "tainted", "effect": "NoSchedule"}


class Step(Protocol):
    """A change of the cluster."""

    def do(self, cluster: Cluster) -> None:
        """Make it, and wait until it holds."""
        ...

    def undo(self, cluster: Cluster) -> None:
        """Take it back, and wait until everything is as before. Safe when ``do`` stopped half-way."""
        ...


def kai_of(cluster: Cluster) -> KaiInstallation:
    """KAI in the cluster. Raises LookupError where there is none."""
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
class Down:
    """One of KAI's Deployments at 0 replicas; the operator as well, as it would put them back."""

    deployment: str

    def do(self, cluster: Cluster) -> None:
        """See Step."""
        kai = kai_of(cluster)
        for name in (_OPERATOR, self.deployment):
            _scale(cluster, name, kai.namespace, 0)

    def undo(self, cluster: Cluster) -> None:
        """See Step."""
        kai = kai_of(cluster)
        for name in (self.deployment, _OPERATOR):
            _scale(cluster, name, kai.namespace, 1)


@dataclass(frozen=True)
class Cordoned:
    """All nodes that take workloads are cordoned."""

    def do(self, cluster: Cluster) -> None:
        """See Step."""
        _each_worker(cluster, {"unschedulable": True})

    def undo(self, cluster: Cluster) -> None:
        """See Step."""
        _each_worker(cluster, {"unschedulable": None})


@dataclass(frozen=True)
class Tainted:
    """All nodes that take workloads have a taint."""

    def do(self, cluster: Cluster) -> None:
        """See Step."""
        for node in _workers(cluster):
            kept = [taint for taint in node["spec"].get("taints") or [] if taint["key"] != _TAINT["key"]]
            cluster.patch("Node", node["metadata"]["name"], {"spec": {"taints": [*kept, _TAINT]}})

    def undo(self, cluster: Cluster) -> None:
        """See Step."""
        for node in _workers(cluster):
            kept = [taint for taint in node["spec"].get("taints") or [] if taint["key"] != _TAINT["key"]]
            cluster.patch("Node", node["metadata"]["name"], {"spec": {"taints": kept or None}})


@dataclass(frozen=True)
class NoSharing:
    """KAI's admission refuses fractions."""

    def do(self, cluster: Cluster) -> None:
        """See Step."""
        cluster.patch(*_CONFIG, {"spec": {"admission": {"gpuSharing": False}}})
        _settled(cluster, "admission", "--gpu-sharing-enabled=true", there=False)

    def undo(self, cluster: Cluster) -> None:
        """See Step."""
        cluster.patch(*_CONFIG, {"spec": {"admission": {"gpuSharing": True}}})
        _settled(cluster, "admission", "--gpu-sharing-enabled=true", there=True)


@dataclass(frozen=True)
class OddReservationClass:
    """Reservation pods get a RuntimeClass that does not exist. The class before must be ``nvidia``, as in a lab."""

    before: str = "nvidia"

    def do(self, cluster: Cluster) -> None:
        """See Step."""
        self._set(cluster, "no-such-class")

    def undo(self, cluster: Cluster) -> None:
        """See Step."""
        self._set(cluster, self.before)

    def _set(self, cluster: Cluster, name: str) -> None:
        cluster.patch(*_CONFIG, {"spec": {"binder": {"resourceReservation": {"runtimeClassName": name}}}})
        _settled(cluster, "binder", name, there=True)


def _settled(cluster: Cluster, deployment: str, word: str, *, there: bool) -> None:
    """Wait until the operator has rolled the Deployment out with an argument, or without it."""

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

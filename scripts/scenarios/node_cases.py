"""Scenarios in which a node goes, restarts or is shut down, or its container runtime injects no GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lab.kube.readiness import is_ready
from lab.tools.container import ContainerEngine
from lab.tools.process import HostRunner
from lab.workloads.pods import cpu_pod
from scripts.scenarios.cluster_changes import SECONDS, NodeWithoutKubelet, ScaledDown, kai_of, run_on, scale
from scripts.scenarios.manifests import cpu, half, main, one, over
from scripts.scenarios.model import Scenario, Setting
from scripts.scenarios.scheduling_cases import on_fake

if TYPE_CHECKING:
    from lab.kube import Cluster

Json = dict[str, Any]
_KUBELET = "/var/lib/kubelet/config.yaml"


@dataclass(frozen=True)
class NodeGoneBeforeBind:
    """The scheduler has chosen a node for the scenario's pod, and the node goes before the binder is back."""

    space: str
    node: str = "s-node"

    def do(self, cluster: Cluster) -> None:
        chosen = f"a BindRequest of {self.space}"
        cluster.wait("BindRequest", bool, namespace=self.space, timeout=SECONDS, what=chosen)
        space = kai_of(cluster).namespace
        scale(cluster, "kai-scheduler-default", space, 0)
        cluster.delete("Node", self.node, wait=SECONDS)
        scale(cluster, "binder", space, 1)

    def undo(self, cluster: Cluster) -> None:
        scale(cluster, "kai-scheduler-default", kai_of(cluster).namespace, 1)


@dataclass(frozen=True)
class NodeShutDown:
    """The node of the scenario's pod is shut down: systemd-logind tells its kubelet, which ends the pods.

    The kubelet does so for ``shutdownGracePeriod``, which is 0 in kind; nodes of kind do not run logind.
    """

    space: str

    def do(self, cluster: Cluster) -> None:
        run_on(_node_of(cluster, self.space), _SHUTDOWN)

    def undo(self, cluster: Cluster) -> None:
        for node in cluster.list("Node"):
            run_on(node["metadata"]["name"], _NO_SHUTDOWN)
        cluster.wait("Node", _all_ready, timeout=SECONDS, what="all nodes are Ready")


@dataclass(frozen=True)
class NodeRestarted:
    """The node of the scenario's pod restarts, as after a power cut."""

    space: str

    def do(self, cluster: Cluster) -> None:
        ContainerEngine(HostRunner()).call("restart", "--time", "0", _node_of(cluster, self.space))

    def undo(self, cluster: Cluster) -> None:
        cluster.wait("Node", _all_ready, timeout=SECONDS, what="all nodes are Ready")


@dataclass(frozen=True)
class Ungated:
    """The pod p of a namespace loses its scheduling gate."""

    space: str

    def do(self, cluster: Cluster) -> None:
        cluster.patch("Pod", "p", {"spec": {"schedulingGates": []}}, self.space)

    def undo(self, cluster: Cluster) -> None:
        """Do nothing."""


def _node_of(cluster: Cluster, space: str) -> str:
    """The node of the only running pod in a namespace."""

    def running(pods: list[Json]) -> list[Json]:
        return [pod for pod in pods if pod["status"].get("phase") == "Running"]

    found = cluster.wait(
        "Pod", lambda pods: bool(running(pods)), namespace=space, timeout=SECONDS, what=f"a pod of {space} runs"
    )
    (pod,) = running(found)
    return str(pod["spec"]["nodeName"])


def _all_ready(nodes: list[Json]) -> bool:
    return all(map(is_ready, nodes))


_SHUTDOWN = (
    f"systemctl start dbus systemd-logind && sed -i 's/^shutdownGracePeriod: .*/shutdownGracePeriod: 20s/' {_KUBELET}"
    " && systemctl restart kubelet && sleep 5"
    " && busctl emit /org/freedesktop/login1 org.freedesktop.login1.Manager PrepareForShutdown b true"
)
_NO_SHUTDOWN = (
    f"sed -i 's/^shutdownGracePeriod: 20s/shutdownGracePeriod: 0s/' {_KUBELET};"
    " if systemctl is-active -q systemd-logind; then systemctl stop systemd-logind dbus; systemctl restart kubelet; fi"
)


def _ends_with_1(s: Setting) -> Json:
    """A pod that does not end well when it has to: of one that does, the kubelet does not say why it ended."""
    return main(cpu(s), command=["sh", "-c", "trap 'exit 1' TERM; while :; do sleep 1; done"])


_GATE = {"name": "kailab.dev/scenario"}
_NO_GPU = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "GPU-00000000-0000-0000-0000-000000000000"}

LOST_NODES = (
    Scenario(
        "node-gone-before-bind",
        "bind.node-gone",
        one(lambda s: on_fake(cpu_pod("p", queue=s.queue))),
        changes=(NodeWithoutKubelet({"kailab.dev/scenario": "node"}, {}), ScaledDown("binder")),
        then=(NodeGoneBeforeBind("s-node-gone-before-bind"),),
    ),
    Scenario(
        "node-shut-down", "pod.node-shutdown", one(_ends_with_1), then=(NodeShutDown("s-node-shut-down"),), alone=True
    ),
    Scenario(
        "no-such-gpu", "sandbox.cdi", one(lambda s: main(cpu(s, spec={"runtimeClassName": "nvidia"}), env=[_NO_GPU]))
    ),
    Scenario(
        "node-restarted",
        "shared.reservation-no-gpu",
        one(lambda s: over(half(s), {"spec": {"schedulingGates": [_GATE]}})),
        first=one(lambda s: half(s, "holder")),
        then=(NodeRestarted("s-node-restarted"), Ungated("s-node-restarted")),
        alone=True,
    ),
)
"""Nodes that go, restart or are shut down."""

"""Scenarios in which a node goes, restarts or is shut down, or its container runtime injects no GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lab.kube.readiness import is_ready
from lab.tools.container import ContainerEngine
from lab.tools.process import HostRunner
from lab.workloads.pods import cpu_pod
from scripts.scenarios.cluster_changes import SECONDS, NodeWithoutKubelet, kai_of, scale
from scripts.scenarios.manifests import cpu, half, main, one, over
from scripts.scenarios.model import Scenario
from scripts.scenarios.scheduling_cases import on_fake

if TYPE_CHECKING:
    from lab.kube import Cluster

Json = dict[str, Any]
_KUBELET = "/var/lib/kubelet/config.yaml"


@dataclass(frozen=True)
class NodeGoneBeforeBind:
    """The scheduler has chosen a node for the scenario's pod, and the node goes before the binder binds."""

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
        """The operator restores the scheduler."""


@dataclass(frozen=True)
class NodeOf:
    """The node of the scenario's pod, changed by a script, until it is not Ready or the pod has ended."""

    space: str
    script: str
    revert: str

    def do(self, cluster: Cluster) -> None:
        running = f"p of {self.space} runs"
        (pod,) = cluster.wait("Pod", _one_runs, namespace=self.space, timeout=SECONDS, what=running)
        _on(pod["spec"]["nodeName"], self.script)

    def undo(self, cluster: Cluster) -> None:
        nodes = [node["metadata"]["name"] for node in cluster.list("Node")]
        for name in nodes:
            _on(name, self.revert)
        cluster.wait("Node", lambda found: all(map(is_ready, found)), timeout=SECONDS, what="all nodes are Ready")


def _one_runs(pods: list[Json]) -> bool:
    return [pod["status"].get("phase") for pod in pods] == ["Running"]


def _on(node: str, script: str) -> None:
    ContainerEngine(HostRunner()).exec(node, ["sh", "-c", script], timeout=SECONDS)


_BECOME_READY = f"grep -q '^shutdownGracePeriod: 0s' {_KUBELET} || grep -q shutdownGracePeriod {_KUBELET}"
_SHUTDOWN = (
    "systemctl start dbus systemd-logind;"
    f" sed -i 's/^shutdownGracePeriod: .*/shutdownGracePeriod: 20s/' {_KUBELET};"
    " systemctl restart kubelet; sleep 5;"
    " busctl emit /org/freedesktop/login1 org.freedesktop.login1.Manager PrepareForShutdown b true"
)
_NO_SHUTDOWN = (
    f"sed -i 's/^shutdownGracePeriod: 20s/shutdownGracePeriod: 0s/' {_KUBELET};"
    " if systemctl is-active -q systemd-logind; then systemctl stop systemd-logind dbus; systemctl restart kubelet; fi"
)

NODES = (
    Scenario(
        "node-gone",
        "bind.node-gone",
        one(lambda s: on_fake(cpu_pod("p", queue=s.queue))),
        changes=(NodeWithoutKubelet({"kailab.dev/scenario": "node"}, {}),),
        then=(NodeGoneBeforeBind("s-node-gone"),),
    ),
    Scenario(
        "node-shut-down", "pod.node-shutdown", one(cpu), then=(NodeOf("s-node-shut-down", _SHUTDOWN, _NO_SHUTDOWN),)
    ),
    Scenario(
        "no-such-gpu",
        "sandbox.cdi",
        one(
            lambda s: main(
                over(cpu(s), {"spec": {"runtimeClassName": "nvidia"}}),
                env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "GPU-00000000-0000-0000-0000-000000000000"}],
            )
        ),
    ),
    Scenario(
        "node-restarted",
        "shared.reservation-no-gpu",
        one(half),
        then=(NodeOf("s-node-restarted", "true", "true"),),
        alone=True,
    ),
)
"""Nodes that go, restart or are shut down."""

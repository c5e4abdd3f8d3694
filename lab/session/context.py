"""The context that each step gets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from lab.config import LabSpec
from lab.engine.events import Bus, Notice, StepProgress
from lab.engine.journal import Journal
from lab.kube import Cluster
from lab.paths import LabPaths
from lab.supply import Supply
from lab.tools.container import Container, ContainerEngine
from lab.tools.process import Runner

_JUST_STARTED = timedelta(minutes=2)

KIND_CLUSTER_LABEL = "io.x-k8s.kind.cluster"  # kind's label of node containers; its value is the cluster's name


KIND_ROLE_LABEL = "io.x-k8s.kind.role"
"""kind's label on containers (pkg/cluster/internal/providers/docker/constants.go)."""


def is_control_plane(node: Container) -> bool:
    """Whether a node container of kind runs a control plane."""
    return node.labels.get(KIND_ROLE_LABEL) == "control-plane"


@dataclass(frozen=True)
class LabContext:
    """Context passed to every step: the lab's config, its command runner and clients, and a progress channel.

    ``open_cluster`` returns the client of the lab's cluster (key "") or of a tenant (key: its name).
    """

    step: str
    spec: LabSpec
    paths: LabPaths
    run: Runner
    journal: Journal
    bus: Bus
    supply: Supply
    engine: ContainerEngine
    open_cluster: Callable[[str], Cluster]
    images_in_nodes: bool = True
    """Whether the lab has put all images into the nodes, as in its own clusters."""

    @property
    def kind_name(self) -> str:
        return f"kailab-{self.spec.name}"

    def cluster(self) -> Cluster:
        return self.open_cluster("")

    def tenant(self, name: str) -> Cluster:
        return self.open_cluster(name)

    def nodes(self) -> tuple[Container, ...]:
        """The node containers of the lab's kind cluster, oldest first."""
        return self.engine.containers(f"{KIND_CLUSTER_LABEL}={self.kind_name}")

    def kubernetes_nodes(self) -> tuple[Container, ...]:
        """Those that run Kubernetes: a cluster with several control planes also has a load balancer's container."""
        return tuple(node for node in self.nodes() if node.labels.get(KIND_ROLE_LABEL) in ("control-plane", "worker"))

    def node_starts(self) -> dict[str, datetime]:
        """The last start of each node container; empty on an existing cluster. Raises CommandFailed."""
        if not self.spec.cluster.own:
            return {}
        return {node.name: datetime.fromisoformat(node.started) for node in self.nodes() if node.started}

    def nodes_just_started(self) -> bool:
        """Whether the nodes started so recently that pods may only need time. Raises CommandFailed."""
        starts = self.node_starts().values()
        return bool(starts) and datetime.now(UTC) - max(starts) < _JUST_STARTED

    def progress(self, text: str, done: int | None = None, total: int | None = None) -> None:
        self.bus.emit(StepProgress(self.step, text, done, total))

    def notice(self, text: str, level: str = "warning") -> None:
        """Show a message to the user."""
        self.bus.emit(Notice(level, text))

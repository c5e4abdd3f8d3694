"""What a scenario is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from scripts.scenarios.cluster_changes import ClusterChange

Json = dict[str, Any]


NO_KAI = "none"
"""A lab without KAI."""


@dataclass(frozen=True)
class Setting:
    """The lab on which a scenario is set up."""

    queue: str
    """A leaf queue with free quota."""
    parent: str
    """A queue with children; empty when the lab has none."""
    workers: int
    """Nodes with GPUs."""
    gpus: int
    """GPUs of each worker."""
    memory: int
    """MiB of one GPU."""
    worker: str = "worker"
    """Name of a node with GPUs."""
    cpu: int = 0
    """Millicores that a worker offers."""
    ram: int = 0
    """MiB of memory that a worker offers."""


Docs = Callable[[Setting], list[Json]]


@dataclass(frozen=True)
class Scenario:
    """One scenario in which a pod does not run, or a counterexample in which it does."""

    name: str
    expects: str
    """The rule that must come first; empty: the pod runs, and no rule may match."""
    docs: Docs
    first: Docs = lambda s: []
    """Objects created first; their pods must be Ready and occupy what the pod then lacks."""
    tenant: str = ""
    """Mode of the tenant in which it is set up; empty: on the host."""
    beside: str = ""
    """Mode of a tenant that the lab must have; empty: any lab."""
    kai: str = ""
    """Versions of KAI in which it exists, such as ``<0.13``, or ``NO_KAI``; empty: all."""
    changes: tuple[ClusterChange, ...] = ()
    """Changes of the whole cluster, undone afterwards."""
    labels: dict[str, str] = field(default_factory=dict)
    """Labels of the namespace."""
    all_gpus: bool = False
    """Needs all GPUs of the lab."""
    also: tuple[str, ...] = ()
    """Rules that must match after the first."""
    subject: str = "p"
    """The pod or workload that is explained."""
    then: tuple[ClusterChange, ...] = ()
    """What happens after the objects were created; undone afterwards."""
    inside: Docs = lambda s: []
    """Objects created in the tenant's cluster, whatever their scope."""
    settle: float = 0.0
    """Seconds between ``first`` and ``docs``, for what the API server notices late."""
    seconds: float = 120.0
    """Until the expected explanation must hold."""
    alone: bool = False
    """Disturbs other pods, although it changes nothing outside its namespace."""

    @property
    def rules(self) -> frozenset[str]:
        """The rules that it captures."""
        return frozenset({self.expects, *self.also}) - {""}

    @property
    def exclusive(self) -> bool:
        """Whether nothing else may run on the cluster meanwhile."""
        return self.all_gpus or self.alone or bool(self.changes)

"""An overview of a whole cluster: components, nodes and their GPUs, queues, and every unhealthy pod."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lab.explain.diagnosis import explain
from lab.explain.explanation import Explanation, PodStage
from lab.explain.lookup import LabSnapshot
from lab.explain.rules.queues import describe
from lab.explain.workload_explanation import SameReason, grouped
from lab.objects.fields import Obj
from lab.objects.kai import queue_path
from lab.objects.synced import MANAGED_BY_LABEL
from lab.objects.workload import WORKLOADS, WorkloadView
from lab.snapshot.cluster_snapshot import ClusterSnapshot
from lab.snapshot.kai_installation import KaiInstallation, installation
from lab.snapshot.node_info import NodeInfo, node_infos


@dataclass(frozen=True)
class ClusterOverview:
    """One cluster of the overview."""

    side: str
    """``host``, ``tenant NAME``, or empty for a cluster without tenants."""
    kai: KaiInstallation | None
    node_infos: tuple[NodeInfo, ...]
    queues: tuple[str, ...]
    """Each with its use, quota and limit, parents first."""
    pods: Mapping[str, int]
    """Stage → number of pods."""
    unwell: tuple[Explanation, ...]
    """Unhealthy pods and workloads, and running ones with a finding."""
    reasons: tuple[SameReason, ...]
    """The same, grouped by workload and reason."""

    @property
    def troubles(self) -> tuple[str, ...]:
        """Problems of KAI's components and of nodes."""
        lines = [line for c in (self.kai.components.values() if self.kai else ()) if not c.up for line in c.state()]
        for info in self.node_infos:
            if not info.node.ready:
                lines.append(f"node {info.node.name} is not Ready")
            if info.capacity_gpus > info.node.gpus:
                lines.append(f"node {info.node.name}: {info.node.gpus} of {info.capacity_gpus} GPUs allocatable")
        return tuple(lines)

    JSON = "side kai nodes=node_infos queues pods troubles unwell reasons"


@dataclass(frozen=True)
class Overview:
    """The clusters of a lab."""

    sides: tuple[ClusterOverview, ...]

    @property
    def well(self) -> bool:
        return not any(side.unwell or side.troubles for side in self.sides)

    JSON = "well sides"


def overview_of(lab: LabSnapshot) -> Overview:
    """Return the overview of a host and its tenants. A tenant's pod is reported in its tenant only."""
    read = {tenant.name for tenant in lab.tenants}
    pods = zip(lab.host.of("Pod"), lab.host.pods, strict=True)
    sides = [_side(lab, lab.host, "", [obj for obj, pod in pods if pod.labels.get(MANAGED_BY_LABEL) not in read])]
    sides += [_side(lab, one.snapshot, one.name, one.snapshot.of("Pod")) for one in lab.tenants]
    return Overview(tuple(sides))


def _side(lab: LabSnapshot, snapshot: ClusterSnapshot, tenant: str, pods: Iterable[Obj]) -> ClusterOverview:
    explanations = [explain(*lab.cases_of(obj, tenant)) for obj in (*pods, *_incomplete(snapshot))]
    parents = {queue.name: queue.parent for queue in snapshot.queues}
    queues = sorted(snapshot.queues, key=lambda queue: (len(queue_path(queue.name, parents)), queue.name))
    return ClusterOverview(
        side=f"tenant {tenant}" if tenant else ("host" if lab.tenants else ""),
        kai=installation(snapshot),
        node_infos=() if tenant else node_infos(snapshot),
        queues=tuple(describe(queue) for queue in queues),
        pods=dict(Counter(one.stage.value for one in explanations)),
        unwell=tuple(
            one for one in explanations if one.findings or one.stage not in (PodStage.RUNNING, PodStage.SUCCEEDED)
        ),
        reasons=grouped(snapshot, explanations),
    )


def _incomplete(snapshot: ClusterSnapshot) -> list[Obj]:
    """Return top-level workloads that have fewer pods than they want and are not paused."""
    objs = [{**obj, "kind": kind} for kind in WORKLOADS for obj in snapshot.of(kind)]
    views = [(obj, WorkloadView.of(obj)) for obj in objs]
    return [
        obj
        for obj, view in views
        if not view.owner
        and not view.paused
        and view.have < view.want
        and snapshot.pod(view.name, view.namespace) is None
    ]

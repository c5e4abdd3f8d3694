"""A whole cluster at a glance: components, nodes and their GPUs, queues, and every pod that is not well."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lab.explain.diagnosis import explain
from lab.explain.explanation import Explanation, PodStage
from lab.explain.installation import KaiInstallation, installation
from lab.explain.lookup import LabSnapshot
from lab.explain.rules.queues import describe
from lab.objects.synced import MANAGED_BY_LABEL
from lab.objects.workload import WORKLOADS, WorkloadView
from lab.snapshot.cluster_snapshot import ClusterSnapshot
from lab.snapshot.node_info import NodeInfo, node_infos

_WELL = (PodStage.RUNNING, PodStage.SUCCEEDED)


@dataclass(frozen=True)
class ClusterOverview:
    """One cluster of the picture."""

    side: str
    """``host``, ``tenant NAME``, or empty for a cluster without tenants."""
    kai: KaiInstallation | None
    node_infos: tuple[NodeInfo, ...]
    queues: tuple[str, ...]
    """Each with its use against quota and limit, parents first."""
    pods: Mapping[str, int]
    """Stage → number of pods."""
    unwell: tuple[Explanation, ...]
    """Pods and workloads that are not well, and those with a finding although they run."""

    @property
    def troubles(self) -> tuple[str, ...]:
        """What is wrong with KAI's components and with nodes."""
        lines = [line for c in (self.kai.components.values() if self.kai else ()) if not c.up for line in c.state()]
        for info in self.node_infos:
            if not info.node.ready:
                lines.append(f"node {info.node.name} is not Ready")
            if info.capacity_gpus > info.node.gpus:
                lines.append(f"node {info.node.name}: {info.node.gpus} of {info.capacity_gpus} GPUs allocatable")
        return tuple(lines)

    def as_json(self) -> dict[str, Any]:
        components = self.kai.components.values() if self.kai else ()
        return {
            "side": self.side,
            "kai": None
            if self.kai is None
            else {
                "version": self.kai.version,
                "components": {c.deployment: {"available": c.have, "wanted": c.want} for c in components},
            },
            "nodes": [
                {
                    "name": info.node.name,
                    "ready": info.node.ready,
                    "cordoned": info.node.unschedulable,
                    "gpus": info.node.gpus,
                    "gpusFree": info.gpus_free,
                    "shared": [{"gpu": g.name, "free": g.free, "pods": list(g.pod_keys)} for g in info.shared],
                }
                for info in self.node_infos
            ],
            "queues": list(self.queues),
            "pods": dict(self.pods),
            "troubles": list(self.troubles),
            "unwell": [one.as_json() for one in self.unwell],
        }


@dataclass(frozen=True)
class Overview:
    """All sides."""

    sides: tuple[ClusterOverview, ...]

    @property
    def well(self) -> bool:
        return not any(side.unwell or side.troubles for side in self.sides)

    def as_json(self) -> dict[str, Any]:
        return {"well": self.well, "sides": [side.as_json() for side in self.sides]}


def overview_of(worlds: LabSnapshot) -> Overview:
    """The picture of a host and its tenants. Pods of tenants are told in their tenant, not on the host again."""
    read = {tenant.name for tenant in worlds.tenants}
    own = [pod for pod in worlds.host.pods if pod.labels.get(MANAGED_BY_LABEL) not in read]
    sides = [_side(worlds, worlds.host, "", [(pod.namespace, pod.name) for pod in own])]
    for tenant in worlds.tenants:
        names = [(pod.namespace, pod.name) for pod in tenant.world.pods]
        sides.append(_side(worlds, tenant.world, tenant.name, names))
    return Overview(tuple(sides))


def _side(worlds: LabSnapshot, world: ClusterSnapshot, tenant: str, names: list[tuple[str, str]]) -> ClusterOverview:
    told = [explain(*worlds.cases(name, space, tenant)) for space, name in names]
    told += [explain(*worlds.cases(view.name, view.namespace, tenant)) for view in _lacking(world)]
    counts: dict[str, int] = {}
    for one in told:
        counts[one.stage.value] = counts.get(one.stage.value, 0) + 1
    ordered = sorted(world.queues, key=lambda queue: (_depth(world, queue.name), queue.name))
    return ClusterOverview(
        side=f"tenant {tenant}" if tenant else ("host" if worlds.tenants else ""),
        kai=installation(world),
        node_infos=() if tenant else node_infos(world),
        queues=tuple(describe(queue) for queue in ordered),
        pods=counts,
        unwell=tuple(one for one in told if one.findings or one.stage not in _WELL),
    )


def _lacking(world: ClusterSnapshot) -> list[WorkloadView]:
    """Workloads on top that have fewer pods than they want, and are not paused."""
    views = [WorkloadView.of({**obj, "kind": kind}) for kind in WORKLOADS for obj in world.of(kind)]
    pods = {(pod.namespace, pod.name) for pod in world.pods}
    return [v for v in views if not v.owner and not v.paused and v.have < v.want and (v.namespace, v.name) not in pods]


def _depth(world: ClusterSnapshot, name: str) -> int:
    depth, seen = 0, set[str]()
    queues = {queue.name: queue for queue in world.queues}
    while (queue := queues.get(name)) is not None and queue.parent and queue.name not in seen:
        seen.add(queue.name)
        name, depth = queue.parent, depth + 1
    return depth

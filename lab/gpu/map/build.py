"""Builds the GPU map from objects of the API and reports of the nodes. Pure.

The GPU of a pod comes from the reservation pod of its GPU group (shared GPUs), else from the kubelet's record, else
from the pod's own status. Without these, as in an existing cluster, whole-GPU pods are placed on GPUs without a UUID,
so that the counts are right: kailab never guesses a UUID.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC

from lab.gpu.map.model import GpuMap, WaitingPod
from lab.gpu.map.node_builder import NodeDraft
from lab.gpu.map.node_query import NodeEvidence
from lab.kai.names import MIG_PREFIX
from lab.objects.fields import Obj
from lab.snapshot.cluster_snapshot import ClusterSnapshot
from lab.snapshot.gpu_allocation import GpuAllocation
from lab.snapshot.pod_info import GpuRole, PodInfo

KINDS = ("Pod", "Node")
"""Kinds that the map needs."""


def map_of(
    snapshot: ClusterSnapshot,
    evidence: Mapping[str, NodeEvidence] | None = None,
    inside: Mapping[str, Sequence[Obj] | None] | None = None,
) -> GpuMap:
    """Build the map of a cluster, without MIG devices.

    ``evidence`` has the reports of nodes by name; other nodes are known from the API only. ``inside`` has the pods of
    tenants with their own KAI from the tenants' APIs, as pods without a node are not on the host; None for a tenant
    that does not answer.
    """
    reports = evidence or {}
    allocation = GpuAllocation.of(snapshot)
    drafts = {node.name: NodeDraft.of(node, reports.get(node.name, NodeEvidence())) for node in snapshot.nodes}
    notes = [f"{name} did not report which pod has which GPU: {one.why}" for name, one in reports.items() if one.why]
    mig = [node.name for node in snapshot.nodes if any(name.startswith(MIG_PREFIX) for name in node.capacity)]
    notes += [f"{name} has MIG devices, which are not on this map" for name in sorted(mig)]
    notes += _place(drafts, allocation)
    tenants = inside or {}
    notes += [
        f"tenant {name} does not answer: its pods that wait for GPUs are not on this map"
        for name, found in tenants.items()
        if found is None
    ]
    waits = [WaitingPod.of(pod) for pod in allocation.by_role(GpuRole.WAITING)]
    waits += [pod for name, found in tenants.items() for pod in waiting_inside(name, found or ())]
    nodes = [drafts[name].done() for name in sorted(drafts, key=_by_number)]
    with_gpus = tuple(node for node in nodes if node.gpus or node.unplaced)
    return GpuMap(
        at=snapshot.at.astimezone(UTC).isoformat(timespec="seconds"),
        nodes=with_gpus,
        waiting=tuple(waits),
        others=len(nodes) - len(with_gpus),
        notes=tuple(notes),
    )


def waiting_inside(tenant: str, pods: Iterable[Obj]) -> tuple[WaitingPod, ...]:
    """Return the pods that wait for GPUs inside a tenant with its own scheduler, from the tenant's API.

    vCluster copies them to the host only once they have a node (0.36.1, pkg/controllers/resources/pods/syncer.go).
    """
    found = [pod for pod in map(PodInfo.of, pods) if pod.gpu_role is GpuRole.WAITING]
    return tuple(WaitingPod.of(pod, tenant) for pod in sorted(found, key=lambda pod: pod.key))


def _by_number(name: str) -> list[tuple[int, str]]:
    """Sorts worker2 before worker10."""
    return [(int(word), "") if word.isdecimal() else (-1, word) for word in re.split(r"(\d+)", name)]


def _place(drafts: Mapping[str, NodeDraft], allocation: GpuAllocation) -> list[str]:
    """Place all pods, except those on nodes that no longer exist; returns contradictions."""
    notes = []
    for pod in allocation.by_role(GpuRole.FAILED_RESERVATION):
        fix = f"delete pod {pod.synced.title} inside tenant {pod.tenant}" if pod.tenant else "'kailab up' deletes it"
        notes.append(f"reservation pod {pod.key} has failed, so nothing holds its GPU: {fix}")
    reserved: dict[str, dict[tuple[str, str], int]] = {name: {} for name in drafts}
    for pod in allocation.by_role(GpuRole.RESERVATION):
        if (draft := drafts.get(pod.view.node)) is None:
            continue
        recorded = draft.uuids_of(pod)
        uuid = pod.view.reserved_gpu or next(iter(recorded), "")
        if recorded and uuid not in recorded:
            notes.append(
                f"reservation pod {pod.key} reports GPU {uuid}, but the kubelet of {draft.view.name} gave it"
                f" {', '.join(recorded)}"
            )
        place = draft.place_of(uuid) if uuid else draft.unnamed()
        if place is None:
            notes.append(f"reservation pod {pod.key} has not found its GPU yet")
            continue
        draft.reserve(place, pod)
        reserved[draft.view.name].update({(pod.tenant, group): place for group in pod.view.gpu_groups})
    for pod in allocation.by_role(GpuRole.WHOLE):
        if pod.view.node in drafts:
            drafts[pod.view.node].place_whole(pod)
    for pod in allocation.by_role(GpuRole.SHARED):
        if pod.view.node in drafts:
            drafts[pod.view.node].place_sharing(pod, reserved[pod.view.node])
    return notes

"""Makes the map of GPUs from what the API and the nodes say. Pure.

Which GPU a pod is on comes from the reservation pod of its GPU group (shared GPUs), else from the kubelet's
record, else from the pod's own status. Where none of them knows, as in an existing cluster, whole-GPU pods are
put on GPUs without a UUID, so that the counts are right: a UUID is never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC

from lab.gpu.map.model import GpuMap
from lab.gpu.map.node_builder import NodeDraft
from lab.gpu.map.node_query import NodeEvidence
from lab.gpu.map.pods import waiting, waiting_inside
from lab.kai.names import MIG_PREFIX
from lab.objects.fields import Obj
from lab.snapshot.cluster_snapshot import ClusterSnapshot
from lab.snapshot.gpu_allocation import GpuAllocation
from lab.snapshot.pod_info import GpuRole, PodInfo

KINDS = ("Pod", "Node")
"""What of a World the map is made of."""


def map_of(
    world: ClusterSnapshot,
    evidence: Mapping[str, NodeEvidence] | None = None,
    inside: Mapping[str, Sequence[Obj] | None] | None = None,
) -> GpuMap:
    """The map of a cluster. MIG devices are not in it.

    Args:
        world: at least its Pods and Nodes (``KINDS``).
        evidence: what nodes said of themselves, by name; of the others only the API is known.
        inside: the pods of tenants with a KAI of their own by the tenants' APIs, for those that have no node and are
            not on the host; None for a tenant that does not answer.
    """
    said = evidence or {}
    allocation = GpuAllocation.of(world)
    drafts = {draft.view.name: draft for draft in (NodeDraft.of(node, said) for node in world.nodes)}
    notes = [f"{name} could not be asked which GPU is whose: {words.why}" for name, words in said.items() if words.why]
    notes += [f"{name} has MIG devices, which are not on this map" for name in sorted(_sliced(world))]
    notes += _place(drafts, allocation)
    tenants = inside or {}
    notes += [
        f"tenant {name} does not answer: which of its pods wait for GPUs is not known"
        for name, found in tenants.items()
        if found is None
    ]
    waits = [waiting(pod) for pod in allocation.by_role(GpuRole.WAITING)]
    waits += [pod for name, found in tenants.items() for pod in waiting_inside(name, found or ())]
    nodes = [drafts[name].done() for name in sorted(drafts, key=_by_number)]
    with_gpus = tuple(node for node in nodes if node.gpus or node.unplaced)
    return GpuMap(
        at=world.at.astimezone(UTC).isoformat(timespec="seconds"),
        nodes=with_gpus,
        waiting=tuple(waits),
        others=len(nodes) - len(with_gpus),
        notes=tuple(notes),
    )


def _sliced(world: ClusterSnapshot) -> set[str]:
    """Nodes that offer slices of GPUs (MIG)."""
    return {node.name for node in world.nodes if any(name.startswith(MIG_PREFIX) for name in node.capacity)}


def _by_number(name: str) -> list[tuple[int, str]]:
    """Sorts worker2 before worker10."""
    return [(int(word), "") if word.isdecimal() else (-1, word) for word in re.split(r"(\d+)", name)]


def _place(drafts: Mapping[str, NodeDraft], allocation: GpuAllocation) -> list[str]:
    """Put all pods where they are; returns what contradicts itself. Pods of nodes that are gone are left out."""
    notes = [
        f"reservation pod {pod.key} has failed, so nothing holds its GPU: {_after_failure(pod)}"
        for pod in allocation.by_role(GpuRole.FAILED_RESERVATION)
    ]
    reserved: dict[str, dict[tuple[str, str], int]] = {name: {} for name in drafts}
    for pod in allocation.by_role(GpuRole.RESERVATION):
        if (draft := drafts.get(pod.view.node)) is None:
            continue
        recorded = draft.told(pod)
        uuid = pod.view.reserved_gpu or next(iter(recorded), "")
        if recorded and uuid not in recorded:
            notes.append(
                f"reservation pod {pod.key} says it holds {uuid}, but the kubelet of {draft.view.name} gave it"
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


def _after_failure(pod: PodInfo) -> str:
    if not pod.tenant:
        return "'lab up' deletes it"
    return f"delete pod {pod.synced.title} inside tenant {pod.tenant}"

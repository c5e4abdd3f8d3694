"""Figures of one run from what was recorded. Pure.

Times come from the tenant's own pods: what whoever submits the workload sees, in every mode alike. Devices come from
the map of GPUs, read when the run had come to rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from lab.compare.model import ComparedGpu, Fairness, Letter, Packing, PodRun, Run
from lab.compare.recording import HOST, TENANT, EvictSeen, PodSeen, Recording
from lab.compare.workload import Planned
from lab.gpu.map.model import Gpu, GpuMap, Holder, asked
from lab.objects.views import PodView

_HASH_LABEL = "pod-template-hash"
"""On the pods of a Deployment: the end of their ReplicaSet's name."""


@dataclass(frozen=True)
class Round:
    """What a run was."""

    letter: Letter
    number: int
    order: int
    tenant: str
    namespace: str
    """In the tenant."""


def measure(
    what: Round,
    recording: Recording,
    planned: Sequence[Planned],
    gpus: GpuMap,
    why: Mapping[str, tuple[str, ...]],
    memory: Mapping[str, int],
    notes: Iterable[str] = (),
) -> Run:
    """The figures of a run.

    Args:
        what: which run.
        recording: what was seen.
        planned: what was created.
        gpus: the map of GPUs when the run had come to rest.
        why: by the name of a pending pod, why it is pending.
        memory: MiB of one GPU by node, for pods that ask for GPU memory.
        notes: what else is to be known.
    """
    lives = histories(recording)
    lanes = lanes_of(lives)
    mine = [
        (holder, gpu)
        for holder, gpu in gpus.holders
        if (holder.tenant, holder.namespace) == (what.tenant, what.namespace)
    ]
    pods = [_pod(lanes[uid], seen, recording, planned, memory) for uid, seen in lives.items()]
    pods = [
        replace(
            pod,
            devices=tuple(gpu.title for holder, gpu in mine if gpu is not None and holder.name == pod.name)
            if pod.state in ("running", "starting")
            else (),
            why=why.get(pod.name, ()) if pod.state == "pending" else (),
        )
        for pod in pods
    ]
    lane_by_name = {pod.name: pod.lane for pod in pods}
    return Run(
        letter=what.letter,
        number=what.number,
        order=what.order,
        seconds=round(recording.seconds, 3),
        settled=recording.settled,
        pods=tuple(sorted(pods, key=lambda pod: (pod.created, pod.lane))),
        packing=packing(mine, lane_by_name),
        fairness=fairness(pods, recording.seconds),
        notes=(*recording.troubles, *notes),
    )


def histories(recording: Recording) -> dict[str, list[PodSeen]]:
    """The sightings of each of the tenant's pods, in the order in which the pods were seen first; by UID."""
    found: dict[str, list[PodSeen]] = {}
    for seen in recording.pods:
        if seen.side == TENANT:
            found.setdefault(seen.uid, []).append(seen)
    return found


def lanes_of(lives: Mapping[str, Sequence[PodSeen]]) -> dict[str, str]:
    """What pairs pods of two runs, by UID: a bare pod's name, else the workload's and a number in order of creation."""
    counts: dict[str, int] = {}
    lanes: dict[str, str] = {}
    for uid, seen in lives.items():
        view = seen[0].pod.view
        workload = workload_of(view)
        counts[workload] = counts.get(workload, 0) + 1
        name = workload.partition("/")[2]
        bare = not view.owner and counts[workload] == 1
        lanes[uid] = name if bare else f"{name} {counts[workload]}"
    return lanes


def workload_of(view: PodView) -> str:
    """``Kind/name`` of what was created for a pod: itself, or its owner; of a Deployment not its ReplicaSet."""
    kind, _, name = (view.owner or f"Pod/{view.name}").partition("/")
    digest = view.labels.get(_HASH_LABEL, "")
    if kind == "ReplicaSet" and digest and name.endswith(f"-{digest}"):
        return f"Deployment/{name.removesuffix(f'-{digest}')}"
    return f"{kind}/{name}"


def fairness(pods: Sequence[PodRun], end: float) -> Fairness:
    """Jain's index of GPU-seconds per queue over the run: (Σx)² / (n·Σx²).

    x is what a queue's pods held: GPUs times seconds from the node they got until they were taken away, had ended, or
    the run ended. n counts the queues that the workload names for pods with GPUs, also those that got nothing. 1: all
    queues had the same; 1/n: one queue had everything. Quotas and weights are not in it: two equal queues should come
    off equal.
    """
    held: dict[str, float] = {pod.queue: 0.0 for pod in pods if pod.queue and pod.gpus}
    for pod in pods:
        if pod.queue in held and pod.scheduled is not None:
            until = end if pod.gone is None else pod.gone
            held[pod.queue] += pod.gpus * max(0.0, until - pod.scheduled)
    squares = sum(x * x for x in held.values())
    jain = round(sum(held.values()) ** 2 / (len(held) * squares), 4) if squares else None
    return Fairness(tuple((queue, round(x, 3)) for queue, x in sorted(held.items())), jain)


def packing(mine: Sequence[tuple[Holder, Gpu | None]], lanes: Mapping[str, str]) -> Packing:
    """How pods lie on GPUs.

    Args:
        mine: the workload's pods with each GPU they are on; None where nobody told.
        lanes: lane by a pod's name in the tenant.
    """
    gpus: dict[tuple[str, str, int | None], Gpu] = {}
    names = {(holder.uid) for holder, _ in mine}
    for _, gpu in mine:
        if gpu is not None:
            gpus[gpu.node, gpu.uuid, gpu.index if gpu.uuid else id(gpu)] = gpu
    devices = []
    for gpu in gpus.values():
        own = [holder for holder in gpu.holders if holder.uid in names]
        fill = round(sum(holder.share or 0.0 for holder in own), 6)
        pods = tuple(sorted(lanes.get(holder.name, holder.name) for holder in own))
        devices.append(ComparedGpu(gpu.node, gpu.title, gpu.uuid, fill, max(0.0, round(gpu.used - fill, 6)), pods))
    devices.sort(key=lambda device: device.title)
    unplaced = sum(gpu is None for _, gpu in mine)
    return Packing(tuple(devices), round(sum(device.fill for device in devices), 6), unplaced)


def _pod(
    lane: str, seen: Sequence[PodSeen], recording: Recording, planned: Sequence[Planned], memory: Mapping[str, int]
) -> PodRun:
    first, last = seen[0], seen[-1]
    view = last.pod.view
    workload = workload_of(first.pod.view)
    sent = next((one.at for one in recording.created if one.workload == workload), first.at)
    left = next((one.at for one in seen if one.gone or one.pod.view.deleting or one.pod.view.ended), None)
    running = _first(seen, lambda one: one.phase in ("Running", "Succeeded"))
    return PodRun(
        lane=lane,
        workload=workload,
        name=view.name,
        queue=next((one.queue for one in planned if one.workload == workload), ""),
        asked=asked(last.pod) if last.pod.requests.wants_gpu else "no GPU",
        gpus=round(last.pod.gpus(memory.get(view.node)), 6),
        created=round(min(sent, first.at) if not first.pod.view.owner else first.at, 3),
        scheduled=_first(seen, lambda one: bool(one.node)),
        running=running,
        gone=None if left is None else round(left, 3),
        node=view.node,
        devices=(),
        state=_state(last, running),
        evicted=_evicted(seen, recording),
    )


def _first(seen: Sequence[PodSeen], holds: Callable[[PodView], bool]) -> float | None:
    at = next((one.at for one in seen if not one.gone and holds(one.pod.view)), None)
    return None if at is None else round(at, 3)


def _state(last: PodSeen, running: float | None) -> str:
    view = last.pod.view
    if view.phase == "Succeeded":
        return "succeeded"
    if last.gone or view.deleting:
        return "evicted"
    if view.phase == "Failed":
        return "failed"
    if not view.node:
        return "pending"
    return "running" if running is not None else "starting"


def _evicted(seen: Sequence[PodSeen], recording: Recording) -> str:
    """By what a pod was taken away before the end; nobody but KAI and kube-scheduler deletes pods of the workload."""
    taken = next((one for one in seen if one.gone or one.pod.view.deleting), None)
    if taken is None or taken.pod.view.phase == "Succeeded":
        return ""
    uid = seen[0].uid
    groups = {one.pod.view.pod_group for one in recording.pods if one.uid == uid} - {""}
    told: list[EvictSeen] = [one for one in recording.evictions if one.group in groups and one.action]
    return min(told, key=lambda one: abs(one.at - taken.at)).action if told else "deleted"


def reservations_of(recording: Recording) -> frozenset[str]:
    """The GPU groups that pods of the run were in, as seen from either side."""
    return frozenset(group for one in recording.pods if one.side in (TENANT, HOST) for group in one.pod.view.gpu_groups)

"""Figures of one run from its recording. Pure.

Times come from the tenant's own pods, so they mean the same in every tenant mode. GPUs come from the GPU map, read when
the run had settled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from lab.compare.model import ComparedGpu, Fairness, Letter, Packing, PodRun, Run
from lab.compare.recording import TENANT, PodSeen, Recording
from lab.compare.workload import Planned
from lab.gpu.map.model import Gpu, GpuMap, Holder, asked
from lab.objects.views import PodView

_HASH_LABEL = "pod-template-hash"
"""On the pods of a Deployment: the end of their ReplicaSet's name."""


@dataclass(frozen=True)
class Round:
    """Identifies a run; ``namespace`` is the one in the tenant."""

    letter: Letter
    number: int
    order: int
    tenant: str
    namespace: str


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

    ``gpus`` is the map when the run had settled, ``why`` explains pending pods by name, ``memory`` is MiB per GPU by
    node, for pods that request GPU memory.
    """
    lives = histories(recording)
    lanes = lanes_of(lives)
    own = (what.tenant, what.namespace)
    mine = [(holder, gpu) for holder, gpu in gpus.holders if (holder.tenant, holder.namespace) == own]
    on: dict[str, list[str]] = {}
    for holder, gpu in mine:
        if gpu is not None:
            on.setdefault(holder.name, []).append(gpu.title)
    pods = [_pod(lanes[uid], seen, recording, planned, memory, on, why) for uid, seen in lives.items()]
    return Run(
        letter=what.letter,
        number=what.number,
        order=what.order,
        seconds=round(recording.seconds, 3),
        settled=recording.settled,
        pods=tuple(sorted(pods, key=lambda pod: (pod.created, pod.lane))),
        packing=packing(mine, {pod.name: pod.lane for pod in pods}),
        fairness=fairness(pods, recording.seconds),
        notes=(*recording.troubles, *notes),
    )


def histories(recording: Recording) -> dict[str, list[PodSeen]]:
    """The recorded states of each of the tenant's pods by UID, in the order in which the pods were seen first."""
    found: dict[str, list[PodSeen]] = {}
    for seen in recording.pods:
        if seen.side == TENANT:
            found.setdefault(seen.uid, []).append(seen)
    return found


def lanes_of(lives: Mapping[str, Sequence[PodSeen]]) -> dict[str, str]:
    """Names that pair pods of two runs, by UID: a bare pod's name, else the workload's and a number by creation."""
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
    """``Kind/name`` of the object that was created for a pod: itself, or its owner; not a Deployment's ReplicaSet."""
    kind, _, name = (view.owner or f"Pod/{view.name}").partition("/")
    digest = view.labels.get(_HASH_LABEL, "")
    if kind == "ReplicaSet" and digest and name.endswith(f"-{digest}"):
        return f"Deployment/{name.removesuffix(f'-{digest}')}"
    return f"{kind}/{name}"


def fairness(pods: Sequence[PodRun], end: float) -> Fairness:
    """Jain's index of GPU-seconds per queue over the run: (Σx)² / (n·Σx²).

    x is the GPU time of a queue's pods: GPUs times seconds from their node until they were evicted, had ended, or the
    run ended. n counts the queues that the workload names for pods with GPUs, also those without any GPU time. 1: all
    queues had the same; 1/n: one queue had everything. It ignores quotas and weights: use equal queues.
    """
    held: dict[str, float] = {pod.queue: 0.0 for pod in pods if pod.queue and pod.gpus}
    for pod in pods:
        if pod.queue in held and pod.scheduled is not None:
            until = end if pod.gone is None else pod.gone
            held[pod.queue] += pod.gpus * max(0.0, until - pod.scheduled)
    squares = sum(x * x for x in held.values())
    jain = round(sum(held.values()) ** 2 / (len(held) * squares), 4) if squares else None
    return Fairness({queue: round(x, 3) for queue, x in sorted(held.items())}, jain)


def packing(mine: Sequence[tuple[Holder, Gpu | None]], lanes: Mapping[str, str]) -> Packing:
    """Placement of the workload's pods on GPUs.

    ``mine`` has each pod with each of its GPUs, None if unknown; ``lanes`` the lane by a pod's name in the tenant.
    """
    gpus: dict[tuple[str, str, int | None], Gpu] = {}
    names = {holder.uid for holder, _ in mine}
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
    lane: str,
    seen: Sequence[PodSeen],
    recording: Recording,
    planned: Sequence[Planned],
    memory: Mapping[str, int],
    on: Mapping[str, Sequence[str]],
    why: Mapping[str, tuple[str, ...]],
) -> PodRun:
    first, last = seen[0], seen[-1]
    view = last.pod.view
    workload = workload_of(first.pod.view)
    sent = next((one.at for one in recording.created if one.workload == workload), first.at)
    left = next((one.at for one in seen if one.gone or one.pod.view.deleting or one.pod.view.ended), None)
    running = _first(seen, lambda one: one.phase in ("Running", "Succeeded"))
    state = _state(last, running)
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
        devices=tuple(on.get(view.name, ())) if state in ("running", "starting") else (),
        state=state,
        evicted=_evicted(seen, recording),
        why=why.get(view.name, ()) if state == "pending" else (),
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
    """KAI's action that evicted a pod; ``deleted`` without an event, as only KAI and kube-scheduler delete its pods."""
    deleted = next((one for one in seen if one.gone or one.pod.view.deleting), None)
    if deleted is None or deleted.pod.view.phase == "Succeeded":
        return ""
    uid = seen[0].uid
    groups = {one.pod.view.pod_group for one in recording.pods if one.uid == uid} - {""}
    events = [one for one in recording.evictions if one.group in groups and one.action]
    return min(events, key=lambda one: abs(one.at - deleted.at)).action if events else "deleted"


def reservations_of(recording: Recording) -> frozenset[str]:
    """The GPU groups of the run's pods, as seen from either side."""
    return frozenset(group for one in recording.pods for group in one.pod.view.gpu_groups)

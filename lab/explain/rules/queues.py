"""The queue tree: queues that do not exist, take no workload, or have no share left."""

from __future__ import annotations

import re

from lab.explain.pod_context import PodContext
from lab.explain.rule import UNBOUND, rule
from lab.findings import Certainty, Finding
from lab.objects.fields import parts
from lab.objects.kai import QueueShare, QueueView
from lab.text import nearest

_LIMIT = re.compile(r"(?P<queue>\S+) quota has reached the allowable limit of (?P<what>GPUs|CPU cores|memory)")
_QUOTA = re.compile(
    r"Workload requested (?P<asked>\S+) (?P<what>GPUs|CPU cores|GB memory), but (?P<queue>\S+) quota is (?P<quota>\S+)"
)
_FIELD = {"GPUs": "gpu", "CPU cores": "cpu", "memory": "memory", "GB memory": "memory"}
_UNITS = {"gpu": "GPUs", "cpu": "m cpu", "memory": "MB memory"}
_DEFAULT = "default-queue"
_DROPPED = "pkg/scheduler/cache/cluster_info/queue.go"


def _waits(case: PodContext) -> bool:
    """KAI of this cluster is to place it and has not."""
    return case.by_kai and case.request is None and case.world.has("Queue")


def describe(queue: QueueView) -> str:
    """A queue with its use against quota and limit; resources that are neither used nor bounded are left out."""
    words = []
    for name, unit in _UNITS.items():
        share: QueueShare = getattr(queue, name)
        used, firm = getattr(queue.allocated, name), getattr(queue.allocated_non_preemptible, name)
        bounds = [
            f"{what} {value:g}" for what, value in (("quota", share.quota), ("limit", share.limit)) if value != -1
        ]
        if used or bounds:
            kept = f" ({firm:g} of it not preemptible)" if firm else ""
            words.append(", ".join([f"{used:g} {unit} used{kept}", *bounds]))
    return f"queue {queue.name}: {'; '.join(words) or 'nothing used, no bounds'}"


@rule(
    "queue.unknown",
    "The queue does not exist",
    UNBOUND,
    "cluster_info.go, validatePodgroupQueue; up to 0.12 without any event (#612, #621)",
)
def unknown(case: PodContext) -> Finding | None:
    """Case matters: the label is the Queue's name."""
    name = case.queue_name
    if not _waits(case) or case.queue is not None or name == _DEFAULT:
        return None
    if case.twin is not None and case.twin.world.get("Queue", name) is not None:
        return None  # tenant.queue-… says on which side it is
    names = [queue.name for queue in case.world.queues]
    near = nearest(name, names)
    told = [saying.line for saying in case.verdicts if "does not exist" in saying.text]
    hint = f"; do you mean {near}?" if near else ""
    return Finding(
        f"queue {name} does not exist{hint}",
        f"label the workload with one of: {', '.join(_leaves(case)) or 'none exist, make one'}",
        tuple(told or [f"queues: {', '.join(names) or 'none'}"]),
    )


@rule(
    "queue.no-default",
    "No queue named, and no default-queue",
    UNBOUND,
    "default_grouper.go; the chart makes default-queue from 0.10 on",
)
def no_default(case: PodContext) -> Finding | None:
    """A pod without the label goes to default-queue, wherever that exists."""
    if not _waits(case) or case.queue is not None or case.queue_name != _DEFAULT:
        return None
    return Finding(
        f"{case.title} names no queue, and the default for that, {_DEFAULT}, does not exist",
        f"label it with one of: {', '.join(_leaves(case)) or 'none exist, make one'}",
        (f"queues: {', '.join(queue.name for queue in case.world.queues) or 'none'}",),
    )


@rule(
    "queue.orphan",
    "A parent of the queue does not exist",
    UNBOUND,
    f"{_DROPPED}, cleanQueueOrphans: it is dropped with all children",
)
def orphan(case: PodContext) -> Finding | None:
    """The scheduler drops such a queue, and tells that it does not exist."""
    if not _waits(case) or not case.chain:
        return None
    top = case.chain[-1]
    if not top.parent or case.world.get("Queue", top.parent) is not None:
        return None
    return Finding(
        f"the parent {top.parent} of queue {top.name} does not exist, so KAI drops {top.name} and everything below it",
        f"make queue {top.parent}, or give {top.name} a parent that exists",
        tuple(f"queue {q.name}: parent {q.parent or '-'}" for q in case.chain),
    )


@rule(
    "queue.not-leaf",
    "The queue is a parent",
    UNBOUND,
    "pkg/scheduler/actions/utils/input_jobs.go: only leaf queues are looked at",
)
def not_leaf(case: PodContext) -> Finding | None:
    """In no version does a queue with children take workloads; the event says no more than Unable to schedule."""
    if not _waits(case) or case.queue is None:
        return None
    children = sorted({*case.queue.children, *(q.name for q in case.world.queues if q.parent == case.queue.name)})
    if not children:
        return None
    return Finding(
        f"queue {case.queue.name} has children, so it takes no workload itself",
        f"label the workload with one of its leaves: {', '.join(children)}",
        tuple(saying.line for saying in case.verdicts[:1]),
    )


@rule(
    "queue.levels", "The queue tree has not two levels", UNBOUND, "KAI up to 0.12 wants exactly two levels (#612, #621)"
)
def levels(case: PodContext) -> Finding | None:
    """A leaf without a parent, or one at the third level, never gets anything."""
    wanted = case.kai.line.queue_levels if case.kai else 0
    if not _waits(case) or not wanted or not case.chain or case.chain[-1].parent or len(case.chain) == wanted:
        return None
    return Finding(
        f"queue {case.queue_name} is at level {len(case.chain)}, and this KAI looks only at queues of level {wanted}",
        "make it the child of a queue without a parent, or use KAI 0.13 or later",
        tuple(f"queue {q.name}: parent {q.parent or '-'}" for q in case.chain),
    )


@rule(
    "queue.limit-zero",
    "The queue's limit is 0, mostly because it was left out",
    UNBOUND,
    "Queue v2: a limit that is left out is 0, -1 is unlimited; max_allowed_check.go",
)
def limit_zero(case: PodContext) -> Finding | None:
    """Nothing that asks for that resource ever runs in such a queue."""
    if not _waits(case):
        return None
    for queue in case.chain:
        for name, asked in _asked(case).items():
            if asked and getattr(queue, name).limit == 0:
                given = (parts(case.world.get("Queue", queue.name) or {})[1].get("resources") or {}).get(name) or {}
                how = "is 0" if "limit" in given else "was left out, which means 0"
                return Finding(
                    f"the {name} limit of queue {queue.name} {how}: nothing that asks for {name} runs in it",
                    f"set spec.resources.{name}.limit to -1 (unlimited) or to a number",
                    (describe(queue), *(saying.line for saying in case.verdicts[:1])),
                )
    return None


@rule(
    "queue.over-limit",
    "The queue is at its limit",
    UNBOUND,
    "pkg/scheduler/plugins/proportion/capacity_policy/max_allowed_check.go",
)
def over_limit(case: PodContext) -> Finding | None:
    """The queue itself or a parent has all that it may have."""
    if not _waits(case):
        return None
    for saying in case.verdicts:
        match = _LIMIT.search(saying.text)
        queue = next((q for q in case.chain if match and q.name == match["queue"]), None)
        if match and queue and getattr(queue, _FIELD[match["what"]]).limit != 0:
            return _limit(case, queue, _FIELD[match["what"]], (saying.line,), Certainty.CERTAIN)
    if case.verdicts:
        return None
    for queue in case.chain:
        for name, asked in _asked(case).items():
            limit, used = getattr(queue, name).limit, getattr(queue.allocated, name)
            if asked and limit > 0 and used + asked > limit:
                return _limit(case, queue, name, (), Certainty.LIKELY)
    return None


def _limit(case: PodContext, queue: QueueView, name: str, told: tuple[str, ...], certainty: Certainty) -> Finding:
    up = "" if queue.name == case.queue_name else f", a parent of {case.queue_name},"
    return Finding(
        f"queue {queue.name}{up} may have {getattr(queue, name).limit:g} {_UNITS[name]}; with {case.title} it has more",
        f"raise spec.resources.{name}.limit of queue {queue.name}, or wait until its pods end",
        (*told, *(describe(q) for q in case.chain), f"asks for {case.needs.in_words()}", *_users(case, queue)),
        certainty,
    )


@rule(
    "queue.default-queue-quota",
    "default-queue guarantees nothing to workloads that may not be preempted",
    UNBOUND,
    "chart: default-queue has quota 0; NVIDIA/aicr PR #720",
)
def default_queue_quota(case: PodContext) -> Finding | None:
    """Deployments get priority class inference (125), are not preemptible, and so need quota; Jobs are."""
    if not _waits(case) or case.queue_name != _DEFAULT or not _over_quota(case):
        return None
    return Finding(
        f"{case.title} may not be preempted (priority class {_class(case)}), and {_DEFAULT} has no quota for such",
        "give it a queue with quota, or make it preemptible: label priorityClassName=train on the workload",
        (*_over_quota(case), *(describe(q) for q in case.chain)),
    )


@rule(
    "queue.over-quota",
    "Not preemptible, and over the queue's quota",
    UNBOUND,
    "pkg/scheduler/plugins/proportion/capacity_policy/quota_check.go",
)
def over_quota(case: PodContext) -> Finding | None:
    """Only what may be preempted runs above the quota; from priority 100 on a workload may not."""
    told = _over_quota(case) if _waits(case) else ()
    if not told or case.queue_name == _DEFAULT:
        return None
    match = next((m for line in told if (m := _QUOTA.search(line))), None)
    queue = match["queue"] if match else case.queue_name
    name = _FIELD[match["what"]] if match else "gpu"
    return Finding(
        f"{case.title} may not be preempted (priority class {_class(case)}) and is above the quota of queue {queue}",
        f"raise spec.resources.{name}.quota of queue {queue}, or label the workload priorityClassName=train",
        (*told, *(describe(q) for q in case.chain)),
    )


def _over_quota(case: PodContext) -> tuple[str, ...]:
    return tuple(s.line for s in case.verdicts if "Non-preemptible workload is over quota" in s.text)[:1]


def _class(case: PodContext) -> str:
    return (case.group.priority_class if case.group else "") or "unknown"


def _asked(case: PodContext) -> dict[str, float]:
    """What one pod asks for, in the units of queues."""
    return {"gpu": case.needs.gpu_total, "cpu": case.needs.cpu, "memory": case.needs.memory / 1e6}


def _leaves(case: PodContext) -> list[str]:
    above = {queue.parent for queue in case.world.queues}
    return sorted(queue.name for queue in case.world.queues if queue.name not in above)


def _users(case: PodContext, queue: QueueView) -> list[str]:
    """PodGroups that hold GPUs of the queue."""
    below = {queue.name}
    for _ in case.world.queues:
        below |= {q.name for q in case.world.queues if q.parent in below}
    holding = [group for group in case.world.pod_groups if group.queue in below and group.gpus_allocated]
    return [f"PodGroup {g.namespace}/{g.name}: {g.gpus_allocated:g} GPUs" for g in holding[:5]]

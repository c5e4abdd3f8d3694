"""Rules about the queue tree: queues that do not exist, accept no workload, or have no share left."""

from __future__ import annotations

import re

from lab.explain.pod_context import PodContext
from lab.explain.rule import UNBOUND, rule
from lab.findings import Certainty, Finding
from lab.objects.fields import parts
from lab.objects.kai import QueueShare, QueueView
from lab.text import count, nearest

_LIMIT = re.compile(r"(?P<queue>\S+) quota has reached the allowable limit of (?P<what>GPUs|CPU cores|memory)")
_QUOTA = re.compile(
    r"Workload requested (?P<asked>\S+) (?P<what>GPUs|CPU cores|GB memory), but (?P<queue>\S+) quota is (?P<quota>\S+)"
)
_FIELD = {"GPUs": "gpu", "CPU cores": "cpu", "memory": "memory", "GB memory": "memory"}
_UNITS = {"gpu": "GPUs", "cpu": "m cpu", "memory": "MB memory"}
_DEFAULT = "default-queue"


def _waits(ctx: PodContext) -> bool:
    """Whether KAI of this cluster has not placed the pod yet."""
    return ctx.by_kai and ctx.bind_request is None and ctx.snapshot.has("Queue")


def describe(queue: QueueView) -> str:
    """Return a queue with its use, quota and limit, without resources that are neither used nor bounded."""
    words = []
    for name, unit in _UNITS.items():
        share: QueueShare = getattr(queue, name)
        used, firm = getattr(queue.allocated, name), getattr(queue.allocated_non_preemptible, name)
        bounds = [f"{what} {value:g}" for what in ("quota", "limit") if (value := getattr(share, what)) != -1]
        if used or bounds:
            kept = f" ({firm:g} of it not preemptible)" if firm else ""
            held = count(used, "GPU") if name == "gpu" else f"{used:g} {unit}"
            words.append(", ".join([f"{held} used{kept}", *bounds]))
    return f"queue {queue.name}: {'; '.join(words) or 'nothing used, no bounds'}"


def _queues(ctx: PodContext) -> str:
    return f"queues: {', '.join(queue.name for queue in ctx.snapshot.queues) or 'none'}"


def _leaves(ctx: PodContext) -> str:
    parents = {queue.parent for queue in ctx.snapshot.queues}
    names = sorted(queue.name for queue in ctx.snapshot.queues if queue.name not in parents)
    return ", ".join(names) or "none exist, create one"


def _parents(ctx: PodContext) -> tuple[str, ...]:
    return tuple(f"queue {q.name}: parent {q.parent or '-'}" for q in ctx.chain)


@rule("queue.unknown", UNBOUND, "cluster_info.go, validatePodgroupQueue; up to 0.12 without any event (#612, #621)")
def unknown(ctx: PodContext) -> Finding | None:
    """The queue does not exist. The label is the Queue's name, and its case matters."""
    name = ctx.queue_name
    if not _waits(ctx) or ctx.queue is not None or name == _DEFAULT:
        return None
    if ctx.counterpart is not None and ctx.counterpart.snapshot.get("Queue", name) is not None:
        return None  # tenant.queue-… names the side on which it exists
    near = nearest(name, [queue.name for queue in ctx.snapshot.queues])
    messages = tuple(message.line for message in ctx.verdicts if "does not exist" in message.text)
    return Finding(
        f"queue {name} does not exist{f'; do you mean {near}?' if near else ''}",
        f"label the workload with one of: {_leaves(ctx)}",
        messages or (_queues(ctx),),
    )


@rule("queue.no-default", UNBOUND, "default_grouper.go; the chart creates default-queue from 0.10 on")
def no_default(ctx: PodContext) -> Finding | None:
    """No default-queue exists, and the pod names it or names no queue."""
    if not _waits(ctx) or ctx.queue is not None or ctx.queue_name != _DEFAULT:
        return None
    names = f"names queue {_DEFAULT}, which" if _DEFAULT in ctx.queue_labels else f"names no queue, and {_DEFAULT}"
    return Finding(f"{ctx.title} {names} does not exist", f"label it with one of: {_leaves(ctx)}", (_queues(ctx),))


@rule(
    "queue.orphan",
    UNBOUND,
    "pkg/scheduler/cache/cluster_info/queue.go, cleanQueueOrphans: it is dropped with all children",
)
def orphan(ctx: PodContext) -> Finding | None:
    """A parent of the queue does not exist; the scheduler then reports that the queue does not exist."""
    if not _waits(ctx) or not ctx.chain:
        return None
    top = ctx.chain[-1]
    if not top.parent or ctx.snapshot.get("Queue", top.parent) is not None:
        return None
    return Finding(
        f"the parent {top.parent} of queue {top.name} does not exist, so KAI drops {top.name} and everything below it",
        f"create queue {top.parent}, or give {top.name} a parent that exists",
        _parents(ctx),
    )


@rule("queue.not-leaf", UNBOUND, "pkg/scheduler/actions/utils/input_jobs.go: only leaf queues are scheduled")
def not_leaf(ctx: PodContext) -> Finding | None:
    """The queue is a parent, which accepts no workload in any version. The event is only Unable to schedule."""
    if not _waits(ctx) or ctx.queue is None:
        return None
    children = {*ctx.queue.children, *(q.name for q in ctx.snapshot.queues if q.parent == ctx.queue.name)}
    if not children:
        return None
    return Finding(
        f"queue {ctx.queue.name} has children, so it accepts no workload itself",
        f"label the workload with one of its leaves: {', '.join(sorted(children))}",
        tuple(message.line for message in ctx.verdicts[:1]),
    )


@rule("queue.levels", UNBOUND, "KAI up to 0.12 requires exactly two levels (#612, #621)")
def levels(ctx: PodContext) -> Finding | None:
    """The queue tree does not have two levels."""
    wanted = ctx.kai.line.queue_levels if ctx.kai else 0
    if not _waits(ctx) or not wanted or not ctx.chain or ctx.chain[-1].parent or len(ctx.chain) == wanted:
        return None
    return Finding(
        f"queue {ctx.queue_name} is at level {len(ctx.chain)}, and this KAI schedules only queues of level {wanted}",
        "make it the child of a queue without a parent, or use KAI 0.13 or later",
        _parents(ctx),
    )


@rule("queue.limit-zero", UNBOUND, "Queue v2: an omitted limit is 0, -1 is unlimited; max_allowed_check.go")
def limit_zero(ctx: PodContext) -> Finding | None:
    """The queue's limit is 0, usually because it was omitted."""
    if not _waits(ctx):
        return None
    for queue in ctx.chain:
        for name, asked in _asked(ctx).items():
            if asked and getattr(queue, name).limit == 0:
                resources = parts(ctx.snapshot.get("Queue", queue.name) or {})[1].get("resources") or {}
                how = "is 0" if "limit" in (resources.get(name) or {}) else "is not set, which means 0"
                return Finding(
                    f"the {name} limit of queue {queue.name} {how}: no pod that asks for {name} runs in it",
                    f"set spec.resources.{name}.limit to -1 (unlimited) or to a number",
                    (describe(queue), *(message.line for message in ctx.verdicts[:1])),
                )
    return None


@rule("queue.over-limit", UNBOUND, "pkg/scheduler/plugins/proportion/capacity_policy/max_allowed_check.go")
def over_limit(ctx: PodContext) -> Finding | None:
    """The queue or a parent is at its limit."""
    if not _waits(ctx):
        return None
    for message in ctx.verdicts:
        match = _LIMIT.search(message.text)
        queue = next((q for q in ctx.chain if match and q.name == match["queue"]), None)
        if match and queue and getattr(queue, _FIELD[match["what"]]).limit != 0:
            return _limit(ctx, queue, _FIELD[match["what"]], (message.line,), Certainty.CERTAIN)
    if ctx.verdicts:
        return None
    for queue in ctx.chain:
        for name, asked in _asked(ctx).items():
            limit, used = getattr(queue, name).limit, getattr(queue.allocated, name)
            if asked and limit > 0 and used + asked > limit:
                return _limit(ctx, queue, name, (), Certainty.LIKELY)
    return None


def _limit(ctx: PodContext, queue: QueueView, name: str, messages: tuple[str, ...], certainty: Certainty) -> Finding:
    parent = "" if queue.name == ctx.queue_name else f", a parent of {ctx.queue_name},"
    limit = f"{getattr(queue, name).limit:g} {_UNITS[name]}"
    return Finding(
        f"queue {queue.name}{parent} is limited to {limit}, and {ctx.title} would exceed the limit",
        f"raise spec.resources.{name}.limit of queue {queue.name}, or wait until its pods end",
        (*messages, *map(describe, ctx.chain), f"asks for {ctx.requests.in_words()}", *_users(ctx, queue)),
        certainty,
    )


@rule("queue.default-queue-quota", UNBOUND, "chart: default-queue has quota 0; NVIDIA/aicr PR #720")
def default_queue_quota(ctx: PodContext) -> Finding | None:
    """The default-queue has no quota for non-preemptible workloads.

    Deployments get priority class inference (125), are not preemptible, and so need quota; Jobs are preemptible.
    """
    messages = _over_quota(ctx)
    if not messages or ctx.queue_name != _DEFAULT:
        return None
    return Finding(
        f"{ctx.title} is not preemptible (priority class {_class(ctx)}), and {_DEFAULT} has no quota for such pods",
        "give it a queue with quota, or make it preemptible: label priorityClassName=train on the workload",
        (*messages, *map(describe, ctx.chain)),
    )


@rule("queue.over-quota", UNBOUND, "pkg/scheduler/plugins/proportion/capacity_policy/quota_check.go")
def over_quota(ctx: PodContext) -> Finding | None:
    """A non-preemptible workload exceeds the queue's quota. Workloads of priority 100 and above are not preemptible."""
    messages = _over_quota(ctx)
    if not messages or ctx.queue_name == _DEFAULT:
        return None
    match = next((m for line in messages if (m := _QUOTA.search(line))), None)
    queue = match["queue"] if match else ctx.queue_name
    name = _FIELD[match["what"]] if match else "gpu"
    return Finding(
        f"{ctx.title} is not preemptible (priority class {_class(ctx)}) and exceeds the quota of queue {queue}",
        f"raise spec.resources.{name}.quota of queue {queue}, or label the workload priorityClassName=train",
        (*messages, *map(describe, ctx.chain)),
    )


def _over_quota(ctx: PodContext) -> tuple[str, ...]:
    messages = ctx.verdicts if _waits(ctx) else ()
    return tuple(m.line for m in messages if "Non-preemptible workload is over quota" in m.text)[:1]


def _class(ctx: PodContext) -> str:
    return (ctx.group.priority_class if ctx.group else "") or "unknown"


def _asked(ctx: PodContext) -> dict[str, float]:
    """Return the requests of one pod in the units of queues."""
    return {"gpu": ctx.requests.gpu_total, "cpu": ctx.requests.cpu, "memory": ctx.requests.memory / 1e6}


def _users(ctx: PodContext, queue: QueueView) -> list[str]:
    """Return PodGroups that hold GPUs of the queue."""
    below = {queue.name}
    for _ in ctx.snapshot.queues:
        below |= {q.name for q in ctx.snapshot.queues if q.parent in below}
    holders = [group for group in ctx.snapshot.pod_groups if group.queue in below and group.gpus_allocated]
    return [f"PodGroup {g.namespace}/{g.name}: {count(g.gpus_allocated, 'GPU')}" for g in holders[:5]]

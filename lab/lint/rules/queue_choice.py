"""Rules about the queue that a workload names, and whether it can run there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lab.findings import Finding, Severity
from lab.lint.document import Loc
from lab.lint.model import LintContext, Manifest, finding, rule
from lab.lint.queues import ancestry, default_queues
from lab.objects.pod_requests import PodRequests
from lab.text import nearest

DEFAULT_QUEUES = ("default-queue", "default-parent-queue")
"""Queues that KAI's chart creates from 0.10 on."""

_UNITS = {"cpu": "cpu", "memory": "memory", "gpu": "GPUs"}


def _named(manifest: Manifest, ctx: LintContext) -> tuple[Loc, str] | None:
    """Return location and name of the queue of a KAI workload; None for other objects, or without a queue."""
    pod = manifest.pod
    if manifest.kind == "PodGroup":
        return (("spec", "queue"), str(manifest.spec["queue"])) if manifest.spec.get("queue") else None
    if pod is None or not pod.scheduled_by(ctx.line.scheduler_name):
        return None
    return manifest.label(ctx.line.keys.queue)


@rule("queue-missing", "KAI: default-queue exists from 0.10; before, such pods wait without an event")
def missing(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """A KAI workload without a queue."""
    pod, line = manifest.pod, ctx.line
    if pod is None or pod.scheduler != line.scheduler_name or manifest.label(line.keys.queue):
        return
    if manifest.has_own_group(line):
        return
    default = line.default_queues[-1] if line.default_queues else ""
    severity: Severity = "error"
    if not default:
        what = f"the pod names no queue, and KAI {line.version} has no default queue: it stays Pending without an event"
    elif ctx.all_queues and default not in (ctx.queues or {}):
        what = f"the pod names no queue and gets {default}, which does not exist"
    else:
        what, severity = f"the pod names no queue and gets {default}", "note"
    yield finding((*pod.meta_at, "labels"), what, f"label it {line.keys.queue}: QUEUE", severity)


@rule("queue-unknown", "KAI #612, #621; PodGroup condition QueueDoesNotExist from 0.13")
def unknown(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """A queue that does not exist."""
    named, line = _named(manifest, ctx), ctx.line
    if named is None or named[1] in (ctx.queues or line.default_queues):
        return
    if not ctx.all_queues:
        if named[1] in DEFAULT_QUEUES:
            what = f"KAI {line.version} does not create {named[1]}"
            yield finding(named[0], what, "create it, or name a queue that exists", "warning")
        elif near := nearest(named[1], ctx.queues or {}, 0.85):
            what = f"queue {named[1]!r} is not among the queues of these files"
            yield finding(named[0], what, f"perhaps you meant {near}", "warning")
        return
    near = nearest(named[1], ctx.queues or {})
    event = "with the event that it does not exist" if ctx.line.unknown_queue_event else "without an event"
    yield finding(
        named[0],
        f"queue {named[1]!r} does not exist: the pod stays Pending, {event}",
        f"perhaps you meant {near}" if near else f"name one of: {', '.join(sorted(ctx.queues or ())) or 'none exist'}",
    )


@rule("queue-is-parent", "KAI: only leaf queues are scheduled, in every version")
def parent(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """A queue that has children."""
    named = _named(manifest, ctx)
    children = sorted(q.name for q in (ctx.queues or {}).values() if named and q.parent == named[1])
    if named and children:
        yield finding(
            named[0],
            f"queue {named[1]} is a parent: workloads in it stay Pending",
            f"use one of its children: {', '.join(children)}",
        )


@rule("over-limit-for-ever", "pkg/scheduler/plugins/proportion/capacity_policy")
def over_limit(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """More than the limit of the queue or of a parent."""
    named = _named(manifest, ctx)
    if named is None or not ctx.queues:
        return
    for name in ancestry(named[1], ctx.queues):
        for resource, amount in _requests(manifest).items():
            limit = ctx.queues[name].limit.get(resource, 0.0)
            if amount > 0 and 0 <= limit < amount:
                yield finding(
                    named[0],
                    f"a pod asks for {amount:g} {_UNITS[resource]}, and queue {name} is limited to {limit:g}"
                    " (an omitted limit is 0): it stays Pending",
                    f"raise spec.resources.{resource}.limit of queue {name}; -1 is unlimited",
                )
                return


@rule(
    "quota-zero-not-preemptible", "NVIDIA/aicr PR #720; pkg/scheduler/plugins/proportion/capacity_policy/quota_check.go"
)
def zero_quota(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """A non-preemptible workload in a queue with quota 0.

    Deployments have the class inference (125), which may not exceed the quota; default-queue has quota 0.
    """
    named, pod, line = _named(manifest, ctx), manifest.pod, ctx.line
    if pod is None or pod.scheduler != line.scheduler_name or manifest.has_own_group(line):
        return
    if named is None and line.default_queues:
        named = ((*pod.meta_at, "labels"), line.default_queues[-1])
    queues = ctx.queues or default_queues(line)
    if named is None or named[1] not in queues or _preemptible(manifest, ctx):
        return
    unless = " in KAI's chart" if not ctx.all_queues and named[1] in line.default_queues else ""
    for resource, amount in _requests(manifest).items():
        quota = queues[named[1]].quota.get(resource, 0.0)
        if amount > 0 and 0 <= quota < amount:
            yield finding(
                named[0],
                f"this {manifest.kind} is not preemptible and cannot exceed its queue's quota: {named[1]} has"
                f" {quota:g} {_UNITS[resource]}{unless}, a pod asks for {amount:g}",
                f"raise the quota of {named[1]}, or label the {manifest.kind} {line.keys.priority_class}: train",
                "warning" if unless else "error",
            )
            return


@rule("priority-class-unknown", "KAI: train 50, build-preemptible 75, build 100, inference 125")
def priority_class(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """A PriorityClass that neither KAI nor Kubernetes has: the default of the workload's kind applies."""
    key, known, pod = ctx.line.keys.priority_class, ctx.line.priority_classes, manifest.pod
    at, value = manifest.label(key) or ((), "")
    near = nearest(value, known)
    if value and value not in known and pod is not None:
        yield finding(
            at,
            f"{key}: {value} is not one of KAI's classes ({', '.join(known)}); unless you created it, the default of"
            f" a {manifest.kind} applies",
            f"perhaps you meant {near}" if near else "create the PriorityClass, or use one of these",
            "note",
        )


def _requests(manifest: Manifest) -> Mapping[str, float]:
    """Return the requests of one pod in the units of queues: millicores, MB, GPUs."""
    pod = manifest.pod
    if pod is None:
        return {}
    requests = PodRequests.of({"metadata": dict(pod.meta), "spec": dict(pod.spec)})
    return {"cpu": requests.cpu, "memory": requests.memory / 1e6, "gpu": requests.gpu_total}


def _preemptible(manifest: Manifest, ctx: LintContext) -> bool:
    line, pod = ctx.line, manifest.pod
    declared = manifest.label(line.keys.preemptibility) if line.keys.preemptibility else None
    if declared and declared[1]:
        return declared[1].lower() != "non-preemptible"
    named = manifest.label(line.keys.priority_class)
    own = named[1] if named else str((pod.spec if pod else {}).get("priorityClassName") or "")
    usual = manifest.workload.priority if manifest.workload else "train"
    return line.priority_classes.get(own or usual, 50) < line.priority_classes.get("build", 100)

"""The queue that a workload names, and whether it may run there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lab.findings import Finding
from lab.lint.document import Loc
from lab.lint.model import LintContext, Manifest, found, rule
from lab.lint.queues import ancestry, parents
from lab.objects.pod_requests import PodRequests
from lab.text import nearest

_UNITS = {"cpu": "cpu", "memory": "memory", "gpu": "GPUs"}


def _named(manifest: Manifest, setting: LintContext) -> tuple[Loc, str] | None:
    """Place and name of the queue that KAI takes for a workload of its own; None when there is no such workload."""
    pod = manifest.pod
    if manifest.kind == "PodGroup":
        return (("spec", "queue"), str(manifest.spec["queue"])) if manifest.spec.get("queue") else None
    if pod is None or pod.scheduler != setting.line.scheduler_name:
        return None
    return manifest.queue(setting.line.keys.queue)


@rule(
    "queue-missing",
    "a KAI workload without a queue",
    "KAI: default-queue exists from 0.10; before, such pods hang in silence",
)
def missing(manifest: Manifest, setting: LintContext) -> Iterator[Finding]:
    """Which queue it gets depends on the version."""
    pod, line = manifest.pod, setting.line
    if pod is None or pod.scheduler != line.scheduler_name or manifest.queue(line.keys.queue):
        return
    at = (*pod.at, "metadata", "labels")
    if not line.default_queues:
        yield found(
            at,
            f"no queue: KAI {line.version} makes no default queue, and the pod stays Pending in silence",
            f"label it {line.keys.queue}: QUEUE",
        )
    elif setting.queues is not None and line.default_queues[-1] not in setting.queues:
        yield found(
            at,
            f"no queue: it goes to {line.default_queues[-1]}, which does not exist here",
            f"label it {line.keys.queue}",
        )
    else:
        yield found(at, f"no queue: it goes to {line.default_queues[-1]}", f"label it {line.keys.queue}: QUEUE", "note")


@rule("queue-unknown", "a queue that does not exist", "KAI #612, #621; PodGroup condition QueueDoesNotExist from 0.13")
def unknown(manifest: Manifest, setting: LintContext) -> Iterator[Finding]:
    """The pod stays Pending; before 0.13 nothing says why."""
    named = _named(manifest, setting)
    if named is None or setting.queues is None or named[1] in setting.queues:
        return
    at, name = named
    near = nearest(name, setting.queues)
    told = "with the event that it does not exist" if setting.line.unknown_queue_event else "without an event"
    yield found(
        at,
        f"queue {name!r} does not exist: the pod stays Pending, {told}",
        f"perhaps you meant {near}" if near else f"there are: {', '.join(sorted(setting.queues)) or 'none'}",
    )


@rule("queue-is-parent", "a queue that has children", "KAI: only leaf queues are scheduled, in every version")
def parent(manifest: Manifest, setting: LintContext) -> Iterator[Finding]:
    """Nothing is ever scheduled from a parent queue."""
    named = _named(manifest, setting)
    if named is None or not setting.queues or named[1] not in parents(setting.queues):
        return
    children = sorted(queue.name for queue in setting.queues.values() if queue.parent == named[1])
    yield found(
        named[0],
        f"queue {named[1]} is a parent: workloads in it stay Pending",
        f"take one of its children: {', '.join(children)}",
    )


@rule("over-limit-for-ever", "more than the queue's limit", "pkg/scheduler/plugins/proportion/capacity_policy")
def over_limit(manifest: Manifest, setting: LintContext) -> Iterator[Finding]:
    """One pod asks for more than its queue, or a queue above it, may ever have; an omitted limit is 0."""
    named, pod = _named(manifest, setting), manifest.pod
    if named is None or pod is None or not setting.queues or named[1] not in setting.queues:
        return
    asks = _asks(manifest)
    for name in ancestry(named[1], setting.queues):
        queue = setting.queues[name]
        for resource, amount in asks.items():
            limit = queue.limit.get(resource, 0.0)
            if amount > 0 and 0 <= limit < amount:
                yield found(
                    named[0],
                    f"it asks for {amount:g} {_UNITS[resource]}, and queue {name} is limited to {limit:g}"
                    " (what is left out counts as 0): Pending for ever",
                    f"raise spec.resources.{resource}.limit of queue {name}; -1 is no limit",
                )
                return


@rule(
    "quota-zero-not-preemptible",
    "a workload that may not be preempted, in a queue with quota 0",
    "NVIDIA/aicr PR #720; pkg/scheduler/plugins/proportion/capacity_policy/quota_check.go",
)
def zero_quota(manifest: Manifest, setting: LintContext) -> Iterator[Finding]:
    """Deployments have the class inference (125), which may not go over quota; default-queue has quota 0."""
    named, pod, line = _named(manifest, setting), manifest.pod, setting.line
    if pod is None or pod.scheduler != line.scheduler_name:
        return
    if named is None and line.default_queues:
        named = ((*pod.at, "metadata", "labels"), line.default_queues[-1])
    queues = setting.queues or {}
    if named is None or named[1] not in queues or _preemptible(manifest, setting):
        return
    for resource, amount in _asks(manifest).items():
        quota = queues[named[1]].quota.get(resource, 0.0)
        if amount > 0 and 0 <= quota < amount:
            yield found(
                named[0],
                f"{manifest.kind}s are not preemptible and get no more than their queue's quota: {named[1]} has"
                f" {quota:g} {_UNITS[resource]}, a pod asks for {amount:g}",
                f"raise the quota of {named[1]}, or label the {manifest.kind} {line.keys.priority_class}: train",
            )
            return


@rule(
    "priority-class-unknown",
    "a PriorityClass that neither KAI nor Kubernetes brings",
    "KAI: train 50, build-preemptible 75, build 100, inference 125",
)
def priority_class(manifest: Manifest, setting: LintContext) -> Iterator[Finding]:
    """The pod-grouper falls back to the workload's own default."""
    key, known = setting.line.keys.priority_class, setting.line.priority_classes
    pod = manifest.pod
    value = manifest.labels.get(key) or (pod.labels.get(key) if pod else None)
    near = nearest(value or "", known)
    if value and value not in known and pod is not None:
        yield found(
            ("metadata", "labels", key),
            f"{key}: {value} is none of KAI's ({', '.join(known)}); unless you made it, the default of a"
            f" {manifest.kind} counts",
            f"perhaps you meant {near}" if near else "make the PriorityClass, or take one of these",
            "note",
        )


def _asks(manifest: Manifest) -> Mapping[str, float]:
    """What one pod asks for, in a queue's units: millicores, MB, GPUs."""
    pod = manifest.pod
    if pod is None:
        return {}
    needs = PodRequests.of({"metadata": dict(pod.meta), "spec": dict(pod.spec)})
    return {"cpu": needs.cpu, "memory": needs.memory / 1e6, "gpu": needs.gpu_total}


def _preemptible(manifest: Manifest, setting: LintContext) -> bool:
    line, pod = setting.line, manifest.pod
    labels = {**(pod.labels if pod else {}), **manifest.labels}
    if line.keys.preemptibility and labels.get(line.keys.preemptibility):
        return labels[line.keys.preemptibility].lower() != "non-preemptible"
    own = labels.get(line.keys.priority_class) or str((pod.spec if pod else {}).get("priorityClassName") or "")
    usual = "inference" if manifest.kind == "Deployment" else "train"
    return line.priority_classes.get(own or usual, 50) < line.priority_classes.get("build", 100)

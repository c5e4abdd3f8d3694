"""Decisions of schedulers about pods, read from conditions and events; no function here relies on elapsed time.

A refusal is the pod's condition PodScheduled=False, which KAI writes at the end of a cycle in which it tried all of its
actions (framework/session.go, closeSession), and kube-scheduler after it tried every node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from lab.objects.synced import selector
from lab.objects.views import EventView, PodView
from lab.workloads.namespace import WorkloadNamespace

WAIT = 150.0
"""Seconds that a decision may take on a busy machine; waits are watches and end with the decision."""

CLOSED = "Limit is 0 GPUs"
"""Part of a refusal: the queue, or a parent, has a limit of 0 GPUs."""

NO_QUEUE = "does not exist"
"""Part of a refusal: KAI's scheduler does not know the queue, or not yet; 0.13 and newer."""

OVER_LIMIT = "has reached the allowable limit"
"""Part of a refusal: the named queue, or a parent, would exceed its limit."""


def bound(pod: PodView) -> bool:
    """Whether the pod has a node."""
    return bool(pod.node)


def refusal(pod: PodView) -> str:
    """Return the scheduler's message why the pod has no node; empty before a decision and for a bound pod."""
    if pod.node:
        return ""
    conditions = ((c.type, c.status, c.reason, c.message) for c in pod.conditions)
    return next((text for *what, text in conditions if what == ["PodScheduled", "False", "Unschedulable"]), "")


def refused(pod: PodView) -> bool:
    """Whether the pod was refused; a message about an unknown queue does not count: the queue may be new."""
    return bool(refusal(pod)) and NO_QUEUE not in refusal(pod)


def decided(pod: PodView) -> bool:
    """Whether the pod has a node, or was refused."""
    return bound(pod) or refused(pod)


def wait_for_all(workloads: WorkloadNamespace, until: Callable[[list[PodView]], bool], what: str) -> list[PodView]:
    """Wait until ``until`` is true of all pods of a workload namespace, as on the host; for generated names.

    Raises:
        WaitTimeout: ``until`` does not become true in time.
    """
    objects = workloads.host.wait(
        "Pod",
        lambda objects: until([PodView.of(obj) for obj in objects]),
        namespace=None if workloads.tenant else workloads.namespace,
        labels=selector(workloads.tenant, workloads.namespace) if workloads.tenant else None,
        timeout=WAIT,
        what=what,
    )
    return [PodView.of(obj) for obj in objects]


def surviving(workloads: WorkloadNamespace, pods: Iterable[PodView]) -> list[PodView]:
    """Return the current state of those of ``pods`` that still exist and are not being deleted."""
    before = {pod.uid for pod in pods}
    return [pod for pod in workloads.host_pods() if pod.uid in before and not pod.deleting]


def evictions(workloads: WorkloadNamespace, *victims: PodView) -> list[str]:
    """Wait for an eviction of pods of these groups; return the KAI action of each eviction, in a word.

    The words are in the annotation ``evictor-action-type`` of the events (default_status_updater.go, KAI 0.9 to 0.17):
    reclaim, preempt, consolidation.

    Raises:
        WaitTimeout: no pod was evicted.
    """
    groups = {pod.pod_group for pod in victims}

    def action_types(events: list[dict[str, Any]]) -> list[str]:
        mine = [event for event in events if EventView.of(event).name in groups]
        return [event["metadata"].get("annotations", {}).get("evictor-action-type", "") for event in mine]

    events = workloads.host.wait(
        "Event",
        lambda events: bool(action_types(events)),
        namespace=victims[0].namespace,
        fields="reason=Evict,involvedObject.kind=PodGroup",
        timeout=WAIT,
        what=f"KAI reports that it evicted a pod of {', '.join(sorted(groups))}",
    )
    return action_types(events)

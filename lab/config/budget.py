"""The queue above a lab's queues in a cluster that others use. Pure."""

from __future__ import annotations

from typing import TypeVar

from lab.config.queue import QueueResource, QueueSpec
from lab.config.sections import LabFields

Spec = TypeVar("Spec", bound=LabFields)


def with_budget(spec: Spec) -> Spec:
    """The spec with its queues under one of the lab's name, whose limit is what tenants leave of the budget's GPUs.

    Unchanged without a budget or without KAI. Where that queue is there already, it gets another limit if the tenants
    have changed.

    That queue has no quota unless the cluster is the lab's alone: with one, KAI would evict pods of others for the
    lab's. So the lab's pods run on GPUs that nobody else claims, and only preemptible ones do.
    """
    name, top = spec.name, budget_queue(spec)
    if top is None:
        return spec
    if any(queue.name == name for queue in spec.queues):
        return spec.model_copy(update={"queues": tuple(top if q.name == name else q for q in spec.queues)})
    own = spec.queues or (QueueSpec(name=f"{name}-default"),)
    below = (queue if queue.parent else queue.model_copy(update={"parent": name}) for queue in own)
    return spec.model_copy(update={"queues": (top, *below)})


def budget_queue(spec: LabFields) -> QueueSpec | None:
    """The queue of the lab's name that ``with_budget`` puts above the others; None: it puts none."""
    gpus = queues_budget(spec)
    if gpus is None or not spec.wants_kai or spec.cluster.own:
        return None
    quota = gpus if spec.cluster.exclusive else 0
    return QueueSpec(name=spec.name, gpu=QueueResource(quota=quota, limit=gpus))


def queues_budget(spec: LabFields) -> float | None:
    """GPUs of the budget for the lab's queues and its suites, without what tenants outside may have; None: no budget.

    A rule of the lab file refuses tenants that leave nothing for the queues.
    """
    gpus = spec.budget.gpus
    return None if gpus is None else max(0.0, gpus - spec.gpus_outside_queues)


def leaves_nothing(spec: LabFields) -> bool:
    """Whether tenants outside the lab's queues may have the whole budget, so that no pod with a GPU runs in these."""
    return spec.wants_kai and spec.gpus_outside_queues > 0 and queues_budget(spec) == 0


def top_queue(spec: LabFields) -> str:
    """The queue above the lab's queues, with its budget; empty without one."""
    limited = not spec.cluster.own and spec.budget.gpus is not None
    return spec.name if limited and any(queue.name == spec.name for queue in spec.queues) else ""


def quota_lacks(spec: LabFields) -> str:
    """Reason why the lab's queues have no quota of GPUs for pods that are not preemptible; empty if they have."""
    if not top_queue(spec) or spec.cluster.exclusive:
        return ""
    return f"needs quota: pods that are not preemptible; the budget of lab {spec.name} has none (cluster.exclusive)"

"""The queue above a lab's queues in a cluster that others use. Pure."""

from __future__ import annotations

from typing import TypeVar

from lab.config.queue import QueueResource, QueueSpec
from lab.config.sections import LabFields

Spec = TypeVar("Spec", bound=LabFields)


def with_budget(spec: Spec) -> Spec:
    """The spec with its queues under one of the lab's name, which limits their GPUs.

    Unchanged without a budget or without KAI.

    That queue has no quota unless the cluster is the lab's alone: with one, KAI would evict pods of others for the
    lab's. So the lab's pods run on GPUs that nobody else claims, and only preemptible ones do.
    """
    gpus, name = spec.budget.gpus, spec.name
    without_kai = spec.scheduler == "default" or spec.kai.manage == "none"
    if gpus is None or without_kai or spec.cluster.own or any(queue.name == name for queue in spec.queues):
        return spec
    quota = gpus if spec.cluster.exclusive else 0
    top = QueueSpec(name=name, gpu=QueueResource(quota=quota, limit=gpus))
    own = spec.queues or (QueueSpec(name=f"{name}-default"),)
    below = (queue if queue.parent else queue.model_copy(update={"parent": name}) for queue in own)
    return spec.model_copy(update={"queues": (top, *below)})

"""Frozen views of API objects: what suites and predicates read. Every view has ``of(object)``.

The constants are the labels and annotations that KAI 0.7.11 to 0.17.0 read and write.
"""

from __future__ import annotations

from lab.objects.fields import GPU_RESOURCE, Condition
from lab.objects.kai import (
    RESERVED_GPU_ANNOTATION,
    PodGroupView,
    QueueShare,
    QueueView,
    Refusal,
    ReservationView,
    quantity,
)
from lab.objects.node import GPU_MEMORY_LABEL, GPU_PRODUCT_LABEL, EventView, NodeView
from lab.objects.pod import (
    FRACTION_ANNOTATION,
    GPU_GROUP_LABEL,
    MEMORY_ANNOTATION,
    POD_GROUP_ANNOTATION,
    QUEUE_LABEL,
    RECEIVED_ANNOTATION,
    PodView,
    Waiting,
)

__all__ = [
    "FRACTION_ANNOTATION",
    "GPU_GROUP_LABEL",
    "GPU_MEMORY_LABEL",
    "GPU_PRODUCT_LABEL",
    "GPU_RESOURCE",
    "MEMORY_ANNOTATION",
    "POD_GROUP_ANNOTATION",
    "QUEUE_LABEL",
    "RECEIVED_ANNOTATION",
    "RESERVED_GPU_ANNOTATION",
    "Condition",
    "EventView",
    "NodeView",
    "PodGroupView",
    "PodView",
    "QueueShare",
    "QueueView",
    "Refusal",
    "ReservationView",
    "Waiting",
    "quantity",
]

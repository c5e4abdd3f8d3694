"""Frozen views of API objects: what suites and predicates read. Every view has ``of(object)``."""

from __future__ import annotations

from lab.objects.fields import Condition
from lab.objects.kai import PodGroupView, QueueShare, QueueView, Refusal, quantity
from lab.objects.node import EventView, NodeView
from lab.objects.pod import PodView, Waiting

__all__ = [
    "Condition",
    "EventView",
    "NodeView",
    "PodGroupView",
    "PodView",
    "QueueShare",
    "QueueView",
    "Refusal",
    "Waiting",
    "quantity",
]

"""Frozen views of API objects: what suites and predicates read. Every view has ``of(object)``."""

from __future__ import annotations

from lab.kube.coreviews import Condition, EventView, NodeView, PodView, Waiting
from lab.kube.kaiviews import PodGroupView, QueueView, Refusal, ReservationView, Share, quantity

__all__ = [
    "Condition",
    "EventView",
    "NodeView",
    "PodGroupView",
    "PodView",
    "QueueView",
    "Refusal",
    "ReservationView",
    "Share",
    "Waiting",
    "quantity",
]

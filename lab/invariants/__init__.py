"""Invariants of every cluster with KAI: GPU shares, reservation pods, queues, gangs and tenants.

``Watcher`` evaluates them on watch events, so that it also sees violations between two polls.
"""

from __future__ import annotations

from lab.invariants.catalogue import ALL, known
from lab.invariants.cluster_state import ClusterState
from lab.invariants.model import Invariant, Violation
from lab.invariants.report import InvariantReport, InvariantResult, broken
from lab.invariants.scope import Scope, scopes_of
from lab.invariants.watcher import Watcher

__all__ = [
    "ALL",
    "ClusterState",
    "Invariant",
    "InvariantReport",
    "InvariantResult",
    "Scope",
    "Violation",
    "Watcher",
    "broken",
    "known",
    "scopes_of",
]

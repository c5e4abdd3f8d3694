"""Evaluate the invariants of one cluster: without a grace period in every state, others a few times a second."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from lab.invariants.catalogue import ALL
from lab.invariants.cluster_state import ClusterState, tenants_with_kai
from lab.invariants.cluster_store import ClusterStore
from lab.invariants.grace_tracker import GraceTracker
from lab.invariants.model import Invariant, Violation
from lab.invariants.report import NO_TENANTS
from lab.invariants.scope import Scope, known_defects_of
from lab.kube.informers import InformerEvent, InformerSource
from lab.snapshot.cluster_snapshot import ClusterSnapshot

LOOK_SECONDS = 0.2
"""Minimum interval between two evaluations of the rules with a grace period: a hundred pods make a thousand changes."""

_GAPS = 1000
"""Gaps that are kept, the newest: a watch may run for months."""

_BACKGROUND_KINDS = ("Node",)
"""Kinds that always change: the kubelet updates its Node every few seconds."""


class Evaluator:
    """The state of one scope with its tenants, and its breaches. Not thread-safe.

    ``zero`` is the time of day (UTC) at second 0 of the clock that ``now`` comes from.
    """

    def __init__(self, scope: Scope, zero: datetime, invariants: Iterable[Invariant] = ALL) -> None:
        self.scope = scope
        self.invariants = tuple(invariants)
        self.tracker = GraceTracker(zero, scope.side, self._notes())
        self.changed_at = float("-inf")
        """Time of the last change that is not a background update, in seconds of the clock."""
        self.looked = float("-inf")
        """Time of the last evaluation of all rules that were due, in seconds of the clock."""
        self.look_seconds = 0.0
        """Its duration."""
        self.gaps: deque[str] = deque(maxlen=_GAPS)
        """Broken watches: the changes of such a time were seen as one step."""
        self._kinds = _union(invariant.needs for invariant in self.invariants)
        self._tenant_kinds = _union(invariant.tenant_needs for invariant in self.invariants)
        self._host = ClusterStore(self._kinds)
        self._tenants = {name: ClusterStore(self._tenant_kinds) for name in scope.tenants}
        self._own_kai = scope.own_kai
        self._detects_kai = not scope.kai_version
        self._zero = zero
        self._dirty: set[tuple[bool, str]] = set()
        self._evaluated: set[str] = set()

    def sources(self) -> tuple[InformerSource, ...]:
        name = self.scope.name
        host = InformerSource(f"{name}/", self.scope.cluster, self._kinds)
        tenants = self.scope.tenants.items() if self._tenant_kinds else ()
        return (host, *(InformerSource(f"{name}/{tenant}", c, self._tenant_kinds) for tenant, c in tenants))

    @property
    def synced(self) -> bool:
        """Whether every API server has answered for every kind."""
        return self._host.synced and all(store.synced for store in self._tenants.values())

    def handle(self, tenant: str, event: InformerEvent, now: float) -> list[Violation]:
        """Apply an event of a tenant (empty: of the cluster itself), and evaluate the rules without a grace period."""
        changed = (self._tenants[tenant] if tenant else self._host).apply(event)
        if event.trouble and self.synced:
            self.gaps.append(f"{self._at(now):%H:%M:%S} {tenant or 'cluster'} {event.kind}: {event.trouble}")
        if not (event.trouble or event.refused):
            self._dirty.add((bool(tenant), event.kind))
        if event.changes and event.kind not in _BACKGROUND_KINDS:
            self.changed_at = now
        if tenant:
            return []
        if (seen := self._host.kai_version) and self._detects_kai and seen != self.scope.kai_version:
            self.scope = replace(self.scope, kai_version=seen)
            self.tracker.notes = self._notes()
        # Permanent: while a tenant's KAI is upgraded, the tenant's pods are still its own.
        self._own_kai |= tenants_with_kai(changed)
        pods = self._host.related(changed)
        if not pods:
            return []
        state = ClusterState(
            ClusterSnapshot(at=self._at(now)),
            pods,
            self._host.nodes,
            own_kai=self._own_kai,
            inside=bool(self.scope.name),
        )
        for invariant in self.invariants:
            if not invariant.grace and not self.unknown(invariant):
                self.tracker.add(invariant, invariant.apply(state), now)
        return self.tracker.expired(now)

    def look(self, now: float) -> list[Violation]:
        """Evaluate all rules whose objects changed since the last call; returns breaches beyond their grace period."""
        if self._dirty:
            began = time.perf_counter()
            state = self._state(self._at(now))
            for invariant in self.invariants:
                if self.unknown(invariant):
                    self.tracker.replace(invariant, (), now)
                elif self._affected(invariant):
                    self._evaluated.add(invariant.id)
                    self.tracker.replace(invariant, invariant.apply(state), now)
            self._dirty.clear()
            self.look_seconds = time.perf_counter() - began
        self.looked = now
        return self.tracker.expired(now)

    def next_look(self) -> float:
        """Time of the next ``look``, in seconds of the clock; infinity while nothing changes."""
        due = self.tracker.next_due()
        soon = self.looked + LOOK_SECONDS if self._dirty else float("inf")
        return soon if due is None else min(soon, max(due, self.looked) + 0.001)

    def not_evaluated(self, invariant: Invariant) -> str:
        """The reason why an invariant was never evaluated; empty if it was."""
        return "" if invariant.id in self._evaluated else self.unknown(invariant) or "nothing was read"

    def counts(self) -> dict[str, int]:
        """Kind → number of its objects in the cluster itself, for the kinds that are known and up to date."""
        return {kind: len(self._host.objects(kind)) for kind in self._kinds if not self._host.doubt(kind)}

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds that are read in the cluster itself."""
        return self._kinds

    def leaf_queues(self) -> tuple[str, ...]:
        """Queues without children, by name."""
        queues = self._host.objects("Queue")
        parents = {(queue.get("spec") or {}).get("parentQueue") for queue in queues}
        return tuple(sorted(name for queue in queues if (name := queue["metadata"]["name"]) not in parents))

    def not_evaluated_now(self, invariant: Invariant) -> str:
        """The reason why an invariant is not evaluated now, although it may have been; empty if it is."""
        return self.unknown(invariant) or self.not_evaluated(invariant)

    def unknown(self, invariant: Invariant) -> str:
        """The reason why an invariant cannot be evaluated now; empty if it can."""
        for kind in invariant.needs:
            if doubt := self._host.doubt(kind):
                return f"{kind}: {doubt}"
        if not invariant.tenant_needs:
            return ""
        if not self._tenants:
            return NO_TENANTS
        # CRDs of KAI may be missing in a tenant; its pods may not.
        return next((f"tenant {t}: Pod: {d}" for t, store in self._tenants.items() if (d := store.doubt("Pod"))), "")

    def _notes(self) -> dict[str, str]:
        """Lines for the evidence of violations: the known defects of the KAI version that break an invariant."""
        faults = known_defects_of(self.scope.kai_version)
        return {
            invariant.id: "; ".join(faults[name] for name in invariant.defects if name in faults)
            for invariant in self.invariants
        }

    def _affected(self, invariant: Invariant) -> bool:
        if invariant.id not in self._evaluated:
            return True
        return any(kind in (invariant.tenant_needs if tenant else invariant.needs) for tenant, kind in self._dirty)

    def _state(self, at: datetime) -> ClusterState:
        tenants = {name: ClusterState(store.snapshot(at), tuple(store.pods)) for name, store in self._tenants.items()}
        pods, nodes = tuple(self._host.pods), dict(self._host.nodes)
        return ClusterState(self._host.snapshot(at), pods, nodes, tenants, self._own_kai, inside=bool(self.scope.name))

    def _at(self, now: float) -> datetime:
        """The time of day of a second of the clock."""
        return self._zero + timedelta(seconds=now)


def _union(groups: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(kind for group in groups for kind in group))

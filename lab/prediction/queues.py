"""Queues during a scheduling cycle: allocation against quota, limit and fair share, their order, and reclaim rules.

Source: pkg/scheduler/plugins/proportion (capacity_policy, queue_order, reclaimable), KAI 0.16.8. Amounts are vectors of
millicores, bytes and GPUs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lab.fair_share import RESOURCES, UNLIMITED, QueueClaim, fair_shares

Vector = tuple[float, float, float]
"""Millicores, bytes, GPUs, in the order of RESOURCES."""

ZERO: Vector = (0.0, 0.0, 0.0)
_BYTES = 1e6


def add(one: Vector, other: Vector, sign: int = 1) -> Vector:
    """Return the sum of two vectors, or their difference with sign -1."""
    return one[0] + sign * other[0], one[1] + sign * other[1], one[2] + sign * other[2]


def at_most(one: Vector, other: Vector) -> bool:
    """Whether no amount exceeds the other's; UNLIMITED exceeds every number."""
    return all(b == UNLIMITED or (a != UNLIMITED and a <= b) for a, b in zip(one, other, strict=True))


@dataclass
class QueueState:
    """A queue with its bounds and what its jobs hold."""

    name: str
    parent: str
    priority: int
    created: str
    quota: Vector
    limit: Vector
    fair: Vector
    leaf: bool
    allocated: Vector = ZERO
    firm: Vector = ZERO
    """Held by jobs that are not preemptible."""

    @property
    def allocatable(self) -> Vector:
        """What it may hold before it is over its share, per resource."""

        def one(quota: float, fair: float, limit: float) -> float:
            if quota == UNLIMITED:
                return limit
            return max(quota, fair) if limit == UNLIMITED else min(limit, max(quota, fair))

        return (
            one(self.quota[0], self.fair[0], self.limit[0]),
            one(self.quota[1], self.fair[1], self.limit[1]),
            one(self.quota[2], self.fair[2], self.limit[2]),
        )

    def dominant(self, total: Vector, change: Vector) -> float:
        """Return its largest part of what it may hold if ``change`` were added (dominant resource share)."""
        parts = [0.0]
        for used, more, bound, all_ in zip(self.allocated, change, self.allocatable, total, strict=True):
            bound = all_ if bound == UNLIMITED else bound
            parts.append((used + more) * 1000 if bound == 0 else (used + more) / bound)
        return max(parts)


@dataclass(frozen=True)
class Bound:
    """A bound that keeps a job from running."""

    queue: str
    what: str
    """quota or limit."""
    resource: str
    value: float
    """In the units of queues: millicores, MB, GPUs."""
    used: float
    asked: float

    @property
    def text(self) -> str:
        unit = {"cpu": "m cpu", "memory": " MB memory", "gpu": " GPUs"}[self.resource]
        kept = "held by pods that cannot be preempted" if self.what == "quota" else "used"
        return (
            f"queue {self.queue} has a {self.what} of {self.value:g}{unit}, {self.used:g} are {kept},"
            f" and the workload needs {self.asked:g}"
        )


class QueueStates:
    """The tree of queues."""

    def __init__(self, claims: Iterable[QueueClaim], total: Mapping[str, float], k_value: float = 1.0) -> None:
        rows = tuple(claims)
        shares = fair_shares(rows, total, k_value)
        parents = {claim.parent for claim in rows}
        self.total = _bytes((total.get("cpu", 0.0), total.get("memory", 0.0), total.get("gpu", 0.0)))
        self.states = {
            claim.name: QueueState(
                claim.name,
                claim.parent,
                claim.priority,
                claim.created,
                _bytes(tuple(claim.shares[name].quota for name in RESOURCES)),
                _bytes(tuple(claim.shares[name].limit for name in RESOURCES)),
                _bytes(tuple(shares[claim.name][name].fair for name in RESOURCES)),
                claim.name not in parents,
            )
            for claim in rows
            if claim.name in shares
        }

    def path(self, name: str) -> list[QueueState]:
        """Return a queue and its ancestors, nearest first."""
        found = []
        while name in self.states:
            found.append(self.states[name])
            name = self.states[name].parent
        return found

    def hold(self, name: str, amounts: Vector, *, preemptible: bool, sign: int = 1) -> None:
        for queue in self.path(name):
            queue.allocated = add(queue.allocated, amounts, sign)
            if not preemptible:
                queue.firm = add(queue.firm, amounts, sign)

    def bound(self, name: str, amounts: Vector, *, preemptible: bool, limits: bool = True) -> Bound | None:
        """Return the first limit, or quota of a job that is not preemptible, which these amounts would exceed."""
        path = self.path(name)
        for queue in path if limits else ():
            if (at := _exceeded(queue.limit, queue.allocated, amounts)) is not None:
                return _bound(queue, "limit", at, queue.limit, queue.allocated, amounts)
        for queue in path if not preemptible else ():
            if (at := _exceeded(queue.quota, queue.firm, amounts)) is not None:
                return _bound(queue, "quota", at, queue.quota, queue.firm, amounts)
        return None

    def compare(
        self, left: str, right: str, change_left: tuple[Vector, Vector], change_right: tuple[Vector, Vector]
    ) -> int:
        """Return -1 if ``left`` comes first, else 1.

        Each change is what the queue's next job would add, and what its victims so far would return.
        """
        one, other = self.states[left], self.states[right]
        for mine, theirs in (
            (_over(one), _over(other)),
            (not _starved(one, change_left[0]), not _starved(other, change_right[0])),
            (-one.priority, -other.priority),
            (_without_share(one, change_left[0]), _without_share(other, change_right[0])),
            (
                one.dominant(self.total, add(change_left[0], change_left[1], -1)),
                other.dominant(self.total, add(change_right[0], change_right[1], -1)),
            ),
            (one.dominant(self.total, ZERO), other.dominant(self.total, ZERO)),
        ):
            if mine != theirs:
                return -1 if mine < theirs else 1
        if one.allocatable != other.allocatable:
            if at_most(one.allocatable, other.allocatable):
                return -1
            if at_most(other.allocatable, one.allocatable):
                return 1
        return -1 if (one.created, one.name) < (other.created, other.name) else 1

    # Reclaim

    def can_reclaim(self, name: str, asked: Vector, *, preemptible: bool) -> bool:
        """Whether the queue would stay within its fair share, and within its quota with a non-preemptible job."""
        queue = self.states[name]
        if not at_most(add(queue.allocated, asked), queue.fair):
            return False
        return preemptible or at_most(add(queue.firm, asked), queue.quota)

    def may_lose(self, reclaimer: str, asked: Vector, victim: str) -> bool:
        """Whether jobs of the queue ``victim`` are candidates (FilterVictim)."""
        mine, theirs = self.level(reclaimer, victim)
        if not at_most(add(mine.allocated, asked), mine.quota):
            return not at_most(theirs.allocated, theirs.allocatable)
        under = False
        for used, quota, need in zip(theirs.allocated, theirs.quota, asked, strict=True):
            if need <= 0 or quota == UNLIMITED:
                continue
            if used > quota:
                return True
            under = under or used < quota
        return not under

    def level(self, one: str, other: str) -> tuple[QueueState, QueueState]:
        """Return the ancestors (or the queues) at the level where the two paths part."""
        pairs = list(zip(reversed(self.path(one)), reversed(self.path(other)), strict=False))
        return next((pair for pair in pairs if pair[0].name != pair[1].name), pairs[-1])

    def reclaimable(
        self, reclaimer: str, asked: Vector, victims: Mapping[str, list[Vector]], *, preemptible: bool
    ) -> bool:
        """Whether reclaim may take these amounts (queue → groups of tasks) with the tree as it is now."""
        remaining: dict[str, Vector] = {}
        involved: dict[str, set[int]] = {}
        for name, groups in victims.items():
            mine, theirs = self.level(reclaimer, name)
            kinds = {at for group in groups for at in range(3) if group[at] > 0}
            involved[name] = involved.get(name, set()) | kinds
            remaining.setdefault(theirs.name, theirs.allocated)
            for group in groups:
                left = remaining[theirs.name]
                starved = at_most(add(mine.allocated, asked), mine.quota) and not at_most(left, theirs.quota)
                if at_most(left, theirs.allocatable) and not starved:
                    return False
                for queue in self.path(name):
                    remaining[queue.name] = add(remaining.get(queue.name, queue.allocated), group, -1)
                    involved[queue.name] = involved.get(queue.name, set()) | kinds
        own = {at for at in range(3) if asked[at] > 0}
        for queue in self.path(reclaimer):
            remaining_here = add(remaining.get(queue.name, queue.allocated), asked)
            for name, left in remaining.items():
                sibling = self.states[name]
                if sibling.parent != queue.parent or sibling.name == queue.name:
                    continue
                kinds = involved.get(name, set()) | own
                if any(_unfair(remaining_here[at], queue.fair[at], left[at], sibling.fair[at]) for at in kinds):
                    return False
            if queue.name in remaining:
                remaining[queue.name] = remaining_here
            if not preemptible and not at_most(add(queue.firm, asked), queue.quota):
                return False
        return True


def _unfair(mine: float, fair: float, theirs: float, their_fair: float) -> bool:
    """Whether the reclaiming queue would be over its share, and at least as far as its sibling."""
    ratio = _ratio(mine, fair)
    return ratio > 1 and their_fair > 0 and ratio >= _ratio(theirs, their_fair)


def _ratio(allocated: float, fair: float) -> float:
    if fair == 0:
        return float("inf") if allocated > 0 else 0.0
    return allocated / fair


def _over(queue: QueueState) -> bool:
    return all(fair < used for fair, used in zip(queue.fair, queue.allocated, strict=True))


def _starved(queue: QueueState, more: Vector) -> bool:
    return at_most(add(queue.allocated, more), queue.quota)


def _without_share(queue: QueueState, more: Vector) -> bool:
    return any(
        bound == 0 and used > 0 for bound, used in zip(queue.allocatable, add(queue.allocated, more), strict=True)
    )


def _exceeded(bounds: Vector, used: Vector, asked: Vector) -> int | None:
    rows = enumerate(zip(bounds, used, asked, strict=True))
    return next((at for at, (bound, held, more) in rows if bound != UNLIMITED and more and bound < held + more), None)


def _bound(queue: QueueState, what: str, at: int, bounds: Vector, used: Vector, asked: Vector) -> Bound:
    factor = _BYTES if RESOURCES[at] == "memory" else 1.0
    return Bound(
        queue.name, what, RESOURCES[at], bounds[at] / factor, round(used[at] / factor, 3), round(asked[at] / factor, 3)
    )


def _bytes(amounts: tuple[float, ...]) -> Vector:
    """Convert MB to bytes; UNLIMITED stays."""
    cpu, memory, gpu = amounts
    return cpu, memory if memory == UNLIMITED else memory * _BYTES, gpu

"""Fair shares of a whole queue tree, from the root down.

Source: pkg/scheduler/plugins/proportion/proportion.go, setFairShareForQueues, KAI 0.16.8: the children of a queue
divide its fair share as the top queues divide the cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lab.fair_share.division import Claim, Share, divide
from lab.objects.kai import QueueShare

RESOURCES = ("cpu", "memory", "gpu")
"""The resources that KAI divides: millicores, MB (10^6 bytes), GPUs.

KAI counts bytes of memory and rounds shares down to bytes; ``fair_shares`` converts for that.
"""

_BYTES_PER_MB = 1e6

Amounts = Mapping[str, float]
"""Resource → amount; a missing resource is 0."""


@dataclass(frozen=True)
class QueueClaim:
    """A queue with what it may claim and what it requests, in the units of RESOURCES."""

    name: str
    parent: str = ""
    """Empty for a top queue."""
    priority: int = 100
    created: str = ""
    """Creation time as a sortable text."""
    shares: Mapping[str, QueueShare] = field(default_factory=dict)
    """Resource → quota, limit and weight; -1 is unlimited."""
    request: Amounts = field(default_factory=dict)
    """Of its allocated and pending pods, and those of its descendants."""
    usage: Amounts = field(default_factory=dict)
    """Past use as parts of the cluster's capacity."""

    def claim(self, resource: str) -> Claim:
        """Its claim on one resource; memory in bytes."""
        share, factor = self.shares.get(resource, QueueShare()), _factor(resource)
        return Claim(
            name=self.name,
            quota=max(-1.0, share.quota * factor),
            limit=max(-1.0, share.limit * factor),
            weight=share.weight,
            request=self.request.get(resource, 0.0) * factor,
            usage=self.usage.get(resource, 0.0),
            priority=self.priority,
            created=self.created,
        )


def fair_shares(queues: Iterable[QueueClaim], total: Amounts, k_value: float = 1.0) -> dict[str, dict[str, Share]]:
    """Return queue → resource → share for all queues that have a path to a top queue.

    Args:
        queues: the tree, each name once, in any order; a queue whose parent is missing is left out, as KAI drops it.
        total: the cluster's allocatable amounts.
        k_value: see ``divide``.
    """
    children: dict[str, list[QueueClaim]] = {}
    for queue in queues:
        children.setdefault(queue.parent, []).append(queue)
    found: dict[str, dict[str, Share]] = {}

    def descend(parent: str, amounts: Amounts) -> None:
        siblings = children.get(parent, [])
        for resource in RESOURCES:
            factor = _factor(resource)
            claims = [queue.claim(resource) for queue in siblings]
            shares = divide(amounts.get(resource, 0.0) * factor, claims, k_value)
            for name, share in shares.items():
                found.setdefault(name, {})[resource] = _scaled(share, factor)
        for queue in siblings:
            descend(queue.name, {resource: share.fair for resource, share in found[queue.name].items()})

    descend("", total)
    return found


def _factor(resource: str) -> float:
    return _BYTES_PER_MB if resource == "memory" else 1.0


def _scaled(share: Share, factor: float) -> Share:
    if factor == 1.0:
        return share
    return Share(share.fair / factor, share.deserved / factor, share.over_quota / factor, share.remainder / factor)

"""KAI's division of one resource among sibling queues.

Source: pkg/scheduler/plugins/proportion/resource_division/resource_division.go, whose arithmetic is the same in KAI
0.9.8, 0.9.20, 0.12.23, 0.14.7, 0.16.8 and 0.17.0; see
docs/reference/fair-share.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

UNLIMITED = -1.0
"""A quota or limit without bound."""


@dataclass(frozen=True)
class Claim:
    """What one queue may claim of one resource; all amounts are in the same unit."""

    name: str
    quota: float = 0.0
    """Deserved amount; UNLIMITED is the whole total."""
    limit: float = 0.0
    """Maximum; UNLIMITED removes it, and 0 allows nothing."""
    weight: float = 0.0
    """Over-quota weight among siblings of equal priority."""
    request: float = 0.0
    """Requested by its allocated and its pending pods."""
    usage: float = 0.0
    """Past use as a part of the cluster's capacity (time-based fair share); 0 without a usage database."""
    priority: int = 100
    """Higher priorities get over-quota resources first."""
    created: str = ""
    """Creation time as a sortable text; the older queue wins a tie, then the name that comes first."""

    @property
    def wanted(self) -> float:
        """The request up to the limit."""
        return self.request if self.limit == UNLIMITED else min(self.limit, self.request)


@dataclass(frozen=True)
class Share:
    """A queue's fair share of one resource and its parts."""

    fair: float
    """The fair share: the sum of the parts."""
    deserved: float
    """From the quota."""
    over_quota: float
    """By priority and weight, in whole units unless it satisfies the request."""
    remainder: float
    """Left by rounding, at most one unit for each queue."""


class _Account:
    """A queue's share while it grows."""

    def __init__(self, claim: Claim, total: float) -> None:
        self.claim = claim
        self.deserved = min(total if claim.quota == UNLIMITED else claim.quota, claim.wanted)
        self.fair = self.deserved
        self.over_quota = self.remainder = 0.0

    @property
    def missing(self) -> float:
        return max(0.0, self.claim.wanted - self.fair)

    @property
    def satisfied(self) -> bool:
        claim = self.claim
        return claim.request <= self.fair or (claim.limit != UNLIMITED and claim.limit <= self.fair)

    def weight(self, total: float, k_value: float) -> float:
        """Its weight among unsatisfied siblings, lowered by past use; never negative."""
        part = self.claim.weight / total
        return max(0.0, part + k_value * (part - self.claim.usage))


def divide(total: float, claims: Iterable[Claim], k_value: float = 1.0) -> dict[str, Share]:
    """Return the share of each sibling by name.

    Every queue first gets its quota as far as it requests it, even if the quotas exceed the total. The rest goes to
    priorities in descending order, in rounds by weight and rounded down to whole units. What rounding leaves goes to
    the queues with the largest lost parts, one unit each.

    Args:
        total: the amount to divide.
        claims: the siblings, each name once.
        k_value: how strongly past use lowers a weight (plugin argument kValue, 1 by default).
    """
    accounts = [_Account(claim, total) for claim in claims]
    rest = total
    for account in accounts:
        rest -= account.deserved
    if rest > 0:
        _over_quota(rest, accounts, max(0.0, k_value))
    return {one.claim.name: Share(one.fair, one.deserved, round(one.over_quota, 9), one.remainder) for one in accounts}


def _over_quota(rest: float, accounts: list[_Account], k_value: float) -> None:
    lost: dict[int, Mapping[str, tuple[float, _Account]]] = {}
    priorities = sorted({account.claim.priority for account in accounts}, reverse=True)
    for priority in priorities:
        peers = [account for account in accounts if account.claim.priority == priority]
        rest, lost[priority] = _rounds(rest, peers, k_value)
    for priority in priorities:
        if rest <= 0:
            return
        # KAI compares the lost parts exactly; equal ones go by age and then by name.
        ordered = sorted(lost[priority].values(), key=lambda row: (-row[0], row[1].claim.created, row[1].claim.name))
        for _, account in ordered:
            given = min(1.0, rest)
            if given == 0:
                return
            account.fair += given
            account.remainder += given
            rest -= given


def _rounds(
    rest: float, accounts: list[_Account], k_value: float
) -> tuple[float, Mapping[str, tuple[float, _Account]]]:
    """Divide by weight until all are satisfied or only parts of units are left; return the rest and the lost parts."""
    lost: dict[str, tuple[float, _Account]] = {}
    while True:
        amount, again = rest, False
        total = sum(account.claim.weight for account in accounts if account.missing > 0)
        open_ = [account for account in accounts if not account.satisfied] if total else []
        weights = {account.claim.name: account.weight(total, k_value) for account in open_}
        weight_sum = sum(weights.values())
        if weight_sum == 0:
            return rest, lost
        for account in open_:
            if rest == 0:
                break
            name, missing = account.claim.name, account.missing
            if account.claim.weight == 0:
                continue
            fair = amount * (weights[name] / weight_sum)
            if missing <= fair:
                given = missing
                lost.pop(name, None)
            else:
                given = max(0.0, float(math.floor(fair)))
                if fair - given > 0:
                    lost[name] = (fair - given, account)
            if given == 0:
                continue
            account.fair += given
            account.over_quota += given
            rest -= given
            again = again or missing < fair
        if not again or rest == 0:
            return rest, lost

"""The division of one resource among siblings, by cases whose results follow from KAI's rules."""

from __future__ import annotations

import pytest

from lab.fair_share import UNLIMITED, Claim, divide


def fair(total: float, *claims: Claim, k: float = 1.0) -> dict[str, float]:
    return {name: share.fair for name, share in divide(total, claims, k).items()}


def open_(name: str, request: float = 100, **values: float | str) -> Claim:
    return Claim(name, limit=UNLIMITED, request=request, **{"weight": 1.0, **values})  # type: ignore[arg-type]


def test_quota_comes_first_and_is_given_even_beyond_the_total() -> None:
    assert fair(4, open_("a", quota=3), open_("b", quota=3)) == {"a": 3, "b": 3}


def test_quota_is_given_as_far_as_it_is_requested_within_the_limit() -> None:
    assert fair(8, Claim("a", quota=6, limit=2, request=5), Claim("b", quota=6, limit=-1, request=1)) == {
        "a": 2,
        "b": 1,
    }


def test_unlimited_quota_claims_the_whole_total() -> None:
    assert fair(8, open_("a", request=20, quota=UNLIMITED)) == {"a": 8}


def test_rest_follows_weights_in_whole_units_and_rounding_goes_to_the_largest_lost_part() -> None:
    shares = divide(8, [open_("a", weight=2.0), open_("b", weight=1.0)])
    assert (shares["a"].over_quota, shares["a"].remainder) == (5, 0)
    assert (shares["b"].over_quota, shares["b"].remainder) == (2, 1)  # 2.67: the larger lost part


def test_equal_lost_parts_go_to_the_older_queue_then_by_name() -> None:
    assert fair(3, open_("a", created="2"), open_("b", created="1")) == {"a": 1, "b": 2}
    assert fair(3, open_("b", created="1"), open_("a", created="1")) == {"a": 2, "b": 1}


def test_what_a_satisfied_queue_leaves_is_divided_again() -> None:
    assert fair(8, open_("a", request=1), open_("b"), open_("c")) == {"a": 1, "b": 4, "c": 3}


def test_higher_priority_is_satisfied_first() -> None:
    assert fair(8, open_("a", request=6, priority=200), open_("b")) == {"a": 6, "b": 2}


def test_weight_zero_gets_nothing_over_quota() -> None:
    assert fair(8, open_("a", weight=0.0, quota=1), open_("b")) == {"a": 1, "b": 7}


def test_past_use_lowers_a_weight_by_the_k_value() -> None:
    used = [open_("a", usage=0.5), open_("b")]
    assert fair(8, *used, k=0.0) == {"a": 4, "b": 4}
    assert fair(9, *used, k=1.0) == {"a": 3, "b": 6}


@pytest.mark.parametrize("total", [0, 0.5, 7, 8.25])
def test_parts_add_up_and_exceed_the_total_only_by_quotas(total: float) -> None:
    shares = divide(total, [open_("a", quota=1, request=5), open_("b", request=0.5), open_("c", weight=3.0)])
    for share in shares.values():
        assert share.fair == pytest.approx(share.deserved + share.over_quota + share.remainder)
    assert sum(share.fair for share in shares.values()) <= max(total, 1) + 1e-9

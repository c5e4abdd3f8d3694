"""Text of durations, counts and suggestions."""

from __future__ import annotations

import pytest

from lab.text import count, nearest, perhaps, seconds, whole_seconds


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0.0 s"),
        (-1, "0.0 s"),
        (12.34, "12.3 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min 00 s"),
        (125, "2 min 05 s"),
        (3599.4, "59 min 59 s"),
        (3725, "1 h 02 min"),
    ],
)
def test_seconds(value: float, text: str) -> None:
    assert seconds(value) == text


@pytest.mark.parametrize(("value", "text"), [(0.4, "0 s"), (59.6, "1 min 00 s"), (12.34, "12 s"), (-3, "0 s")])
def test_whole_seconds(value: float, text: str) -> None:
    assert whole_seconds(value) == text


def test_count() -> None:
    assert (count(0, "step"), count(1, "step"), count(2, "step")) == ("0 steps", "1 step", "2 steps")


@pytest.mark.parametrize(
    ("word", "near"), [("gpuu", "gpu"), ("GPU", "gpu"), ("quue", "Queue"), ("xyz", ""), ("", ""), ("gp", "gpu")]
)
def test_nearest(word: str, near: str) -> None:
    assert nearest(word, ["gpu", "Queue", "pool"]) == near


def test_perhaps() -> None:
    assert perhaps("gpuu", {"gpu": 1}) == "; perhaps you meant 'gpu'?"
    assert perhaps("gpuu", []) == ""


def test_digits_below_a_minute() -> None:
    assert (seconds(0.123, 2), seconds(61.5, 2)) == ("0.12 s", "1 min 02 s")

"""The model's decisions against those of KAI's scheduler code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.prediction_cases import decisions

DATA = Path(__file__).parents[2] / "data"

CASES = json.loads((DATA / "prediction_cases.json").read_text())["cases"]
"""Random situations, with what the actions of KAI 0.16.8 decided."""

SEEN = json.loads((DATA / "prediction_seen.json").read_text())["cases"]
"""Situations on a cluster, with what KAI 0.16.8 was seen to do (scripts/can_run_cases.py, seeds 18 and 3)."""


@pytest.mark.parametrize(
    "case", CASES, ids=lambda case: ",".join(filter(None, case["kai"]["outcomes"].values())) or "no"
)
def test_decision_equals_that_of_kai(case: dict[str, Any]) -> None:
    assert decisions(case) == case["kai"]


@pytest.mark.parametrize("case", SEEN, ids=lambda case: case["name"])
def test_decision_is_the_one_that_was_seen(case: dict[str, Any]) -> None:
    assert decisions(case) == case["kai"]

"""The model's decisions against those of KAI's scheduler code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.prediction_cases import decisions

CASES = json.loads((Path(__file__).parents[2] / "data" / "prediction_cases.json").read_text())["cases"]
"""Random situations, with what the actions of KAI 0.16.8 decided."""


@pytest.mark.parametrize(
    "case", CASES, ids=lambda case: ",".join(filter(None, case["kai"]["outcomes"].values())) or "no"
)
def test_decision_equals_that_of_kai(case: dict[str, Any]) -> None:
    assert decisions(case) == case["kai"]

"""Records of earlier runs."""

from __future__ import annotations

import json
from pathlib import Path

from lab.session.run_history import step_seconds


def test_estimates_are_from_the_newest_runs_whatever_their_labs_are_called(tmp_path: Path) -> None:
    def save(lab: str, at: int, seconds: float) -> None:
        step = {"step": "kai", "outcome": "changed", "seconds": seconds}
        (tmp_path / lab).mkdir(exist_ok=True)
        (tmp_path / lab / f"20261128T{at:06}-up.json").write_text(json.dumps({"steps": [step]}))

    for number in range(60):
        save("zoo", number, 10.0)
    for number in range(100, 160):
        save("alpha", number, 30.0)
    assert step_seconds(tmp_path) == {"kai": 30.0}

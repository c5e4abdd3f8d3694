"""A comparison of two tenants as one HTML file: no network, no script, light and dark."""

from __future__ import annotations

import functools
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from lab.compare.model import Comparison
from lab.compare.text import figures, moment, order_of_starts, pairs, state, where
from lab.report.compare_chart import LABEL, LANE, WIDTH, WORDS, round_pictures

if TYPE_CHECKING:
    from jinja2 import Environment

_HERE = Path(__file__).parent


def compare_page(comparison: Comparison) -> str:
    """The page: the figures, a picture of every round, its pods, what was written differently, and why pods wait."""
    return (
        _environment()
        .get_template("compare.html.j2")
        .render(
            comparison=comparison,
            made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
            figures=figures(comparison),
            rounds=[
                {
                    "number": number,
                    "starts": order_of_starts(comparison, number),
                    "sides": round_pictures(comparison, number),
                    "pairs": pairs(comparison, number),
                }
                for number in range(1, comparison.rounds + 1)
            ],
            pending=[(run, pod) for run in comparison.runs for pod in run.pending],
            notes=[(run, note) for run in comparison.runs for note in run.notes],
            measures={"width": WIDTH, "label": LABEL, "lane": LANE, "track": WIDTH - LABEL - WORDS},
            style=(_HERE / "page.css").read_text(encoding="utf-8")
            + (_HERE / "compare.css").read_text(encoding="utf-8"),
        )
    )


@functools.cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(moment=moment, state=state, where=where)
    return environment

"""What ``lab verify`` found, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.findings import Severity
from lab.invariants import InvariantReport, InvariantResult
from lab.text import seconds
from lab.ui.findings import sign
from lab.ui.text_writer import TextWriter

if TYPE_CHECKING:
    from rich.console import Console

SHOWN = 5
"""Violations of one invariant that are told in full."""

_SEVERITIES: dict[str, Severity] = {"held": "ok", "broken": "error", "not judged": "skipped"}


def render_verify(report: InvariantReport, title: str, console: Console | None = None) -> None:
    """Each invariant, held, broken or not judged; the evidence under those that are broken."""
    page = TextWriter(console)
    verdict = ("all that was judged holds", "bold green") if report.ok else ("broken", "bold red")
    page.line((f"{title}: ", "bold"), verdict, f"  watched for {seconds(report.seconds)}")
    names = [_name(one) for one in report.results]
    width = max(map(len, names), default=0)
    for name, one in zip(names, report.results, strict=True):
        glyph, style = sign(page, _SEVERITIES[one.state])
        page.columns([[(glyph, style), f"{name:<{width}}", (f"{one.state:<10}", style), _detail(one)]])
        for violation in one.violations[:SHOWN]:
            head, *evidence = violation.lines()
            page.line((head, "red"), indent=5)
            for line in evidence:
                page.line((line, ""), indent=5)
        if len(one.violations) > SHOWN:
            page.line((f"and {len(one.violations) - SHOWN} more", "dim"), indent=5)
        for breach in one.waiting:
            page.line((f"wrong for less than {one.invariant.grace:g} s: {breach.what}", "yellow"), indent=5)
    page.blank()
    counts = {state: sum(one.state == state for one in report.results) for state in _SEVERITIES}
    page.line(", ".join(f"{count} {state}" for state, count in counts.items() if count))
    for gap in report.gaps:
        page.line((f"{page.words.glyph('warn')} not seen without a break: {gap}", "yellow"))


def _name(result: InvariantResult) -> str:
    return result.invariant.id + (f" ({result.side.removeprefix('tenant ')})" if result.side else "")


def _detail(result: InvariantResult) -> tuple[str, str]:
    if result.state == "not judged":
        return result.why, "dim"
    return result.invariant.title, "" if result.state == "broken" else "dim"

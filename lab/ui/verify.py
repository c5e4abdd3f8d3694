"""The result of ``kailab verify`` as text."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from lab.invariants import InvariantReport, InvariantResult
from lab.text import count, seconds
from lab.ui.findings import write_more
from lab.ui.text_writer import TextWriter

if TYPE_CHECKING:
    from rich.console import Console

SHOWN = 5
"""Violations of one invariant that are listed with their evidence."""

_SIGNS = {"held": "ok", "broken": "fail", "not judged": "skip"}


def render_verify(report: InvariantReport, title: str, console: Console | None = None) -> None:
    """The state of each invariant, with the evidence of violations."""
    page = TextWriter(console)
    verdict = ("all checked invariants hold", "bold green") if report.ok else ("broken", "bold red")
    if report.ok and report.unread:
        verdict = (f"not proven: {count(len(report.unread), 'invariant')} could not be evaluated", "bold yellow")
    page.line((f"{title}: ", "bold"), verdict, f"  watched for {seconds(report.seconds)}")
    names = [
        one.invariant.id + (f" ({one.side.removeprefix('tenant ')})" if one.side else "") for one in report.results
    ]
    width = max(map(len, names), default=0)
    for name, one in zip(names, report.results, strict=True):
        glyph, style = page.sign(_SIGNS[one.state])
        page.columns([[(glyph, style), f"{name:<{width}}", (f"{one.state:<10}", style), _detail(one)]])
        for violation in one.violations[:SHOWN]:
            head, *evidence = violation.lines()
            page.line((head, "red"), indent=5)
            for line in evidence:
                page.line(line, indent=5)
        if len(one.violations) > SHOWN:
            page.line((f"and {len(one.violations) - SHOWN} more", "dim"), indent=5)
        for breach in one.waiting:
            page.line(
                (f"breach within its grace period of {one.invariant.grace:g} s: {breach.what}", "yellow"), indent=5
            )
    page.blank()
    counts: Counter[str] = Counter(one.state for one in report.results)
    page.line(", ".join(f"{counts[state]} {state}" for state in _SIGNS if counts[state]))
    write_more(page, [violation for one in report.results for violation in one.violations])
    for gap in report.gaps:
        page.line((f"{page.terminal.glyph('warn')} gap in the watch: {gap}", "yellow"))


def _detail(result: InvariantResult) -> tuple[str, str]:
    if result.state == "not judged":
        return result.why, "dim"
    return result.invariant.title, "" if result.state == "broken" else "dim"

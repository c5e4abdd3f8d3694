"""What lint found, for people: by file, with the fix under each finding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lab.lint import Finding
from lab.text import count
from lab.ui.text_writer import TextWriter

if TYPE_CHECKING:
    from rich.console import Console

_STYLE = {"error": "bold red", "warning": "yellow", "note": "dim"}


def render_findings(findings: Sequence[Finding], version: str, console: Console | None = None) -> None:
    """All findings on stdout, and how many there are of each level."""
    page = TextWriter(console)
    for file in dict.fromkeys(one.file for one in findings):
        page.heading(file)
        for one in (one for one in findings if one.file == file):
            page.line(
                (f"{one.line:>5}  ", "bold"),
                (f"{one.level:<8}", _STYLE[one.level]),
                one.object,
                (f"  [{one.rule}]", "dim"),
            )
            page.line(one.what, indent=15)
            page.line(("next: ", "dim"), one.fix, indent=15)
            page.line((f"source: {one.source}", "dim"), indent=15)
    counts = {level: sum(one.level == level for one in findings) for level in _STYLE}
    said = ", ".join(count(number, level) for level, number in counts.items() if number)
    page.line((f"KAI {version}: {said or 'nothing found'}", "bold" if findings else "green"))


def render_rules(rules: Sequence[Mapping[str, str]], console: Console | None = None) -> None:
    """The rules, a line each."""
    page = TextWriter(console)
    page.columns([[(rule["id"], "bold"), rule["title"], (rule["source"], "dim")] for rule in rules])

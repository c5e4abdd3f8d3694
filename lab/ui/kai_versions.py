"""KAI's version lines: releases, support, features, known defects."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from lab.kai import VersionLine, known_defects
from lab.kai.model import Defect, Support
from lab.ui.text_writer import Cell, TextWriter

_HEADINGS = ("line", "releases", "facts of", "support", "Kubernetes")


def render_kai_versions(lines: Sequence[VersionLine], console: Console | None = None) -> None:
    """The version lines on stdout, oldest first."""
    page = TextWriter(console)
    page.line(("KAI versions that kailab knows", "bold"))
    page.table(_HEADINGS, [_about(line) for line in lines])
    page.heading("Features", "explained in lab/kai/lines/every.toml")
    page.columns(_features(lines))
    page.heading("Known defects", "issues are of kai-scheduler/KAI-Scheduler")
    for defect in known_defects():
        write_defect(page, defect)


def write_defect(page: TextWriter, defect: Defect) -> None:
    """Write a known defect: what happens, and in which releases."""
    page.marked("warn", (defect.id, "bold"), indent=1)
    page.prose(f"{defect.what} ({defect.issue})", indent=3)
    releases = defect.releases.replace(" ", ", ").replace("-", " to ")
    page.prose((f"in {releases}; {defect.proof}", "dim"), indent=3)


def _about(line: VersionLine) -> list[Cell]:
    return [
        (line.name, "bold"),
        f"{line.first} to {line.last}" if line.first != line.last else line.first,
        line.version,
        supported(line.support),
        kubernetes(line.support),
    ]


def _features(lines: Sequence[VersionLine]) -> list[list[Cell]]:
    """Each feature with the lines that have it."""
    rows: list[list[Cell]] = []
    for name in dict.fromkeys(name for line in lines for name in sorted(line.features)):
        having = [line.name for line in lines if name in line.features]
        newest = [line.name for line in lines[-len(having) :]]
        some = f"{having[0]} and newer" if having == newest and len(having) > 1 else ", ".join(having)
        rows.append([name, ("all lines" if len(having) == len(lines) else some, "dim")])
    return rows


def supported(support: Support) -> str:
    """A line's support as SUPPORT.md states it."""
    until = f"until {support.until.removeprefix('Until ')}" if support.until else ""
    return " ".join(word for word in (support.kind, until) if word) or "not stated"


def kubernetes(support: Support) -> str:
    """The Kubernetes versions with which upstream validates a line."""
    validated = support.kubernetes
    return f"{validated[0]} to {validated[-1]}" if validated else "not stated"

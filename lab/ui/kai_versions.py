"""KAI's version lines side by side: releases, support, features, known defects."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from lab.kai import VersionLine, facts, line_of, release
from lab.kai.model import Support
from lab.ui.text_writer import Cell, TextWriter

_HEADINGS = ("line", "releases", "tested", "support", "Kubernetes", "queue levels", "pod of an unknown queue")


def render_kai_versions(lines: Sequence[VersionLine], console: Console | None = None) -> None:
    """The version lines on stdout, oldest first."""
    page = TextWriter(console)
    newest = [line_of(line.last) for line in lines]
    names = [line.name for line in lines]
    page.line(("KAI versions that kailab knows", "bold"))
    page.table(_HEADINGS, [_about(line) for line in lines])
    page.heading("Features", "explained in lab/kai/lines/every.toml")
    page.table(["", *names], _features(page, newest))
    page.heading("Known defects", "in all releases of the line, or in the given ones")
    page.table(["", *names, "issues are of kai-scheduler/KAI-Scheduler"], _defects(page, lines))


def _about(line: VersionLine) -> list[Cell]:
    return [
        (line.name, "bold"),
        f"{line.first} to {line.last}" if line.first != line.last else line.first,
        line.version,
        supported(line.support),
        kubernetes(line),
        f"exactly {line.queue_levels}" if line.queue_levels else "any",
        "gets an event" if line.unknown_queue_event else "stays Pending without an event",
    ]


def _features(page: TextWriter, lines: Sequence[VersionLine]) -> list[list[Cell]]:
    names = list(dict.fromkeys(name for line in lines for name in sorted(line.features)))
    yes, no = page.sign("ok"), (page.terminal.dot, "dim")
    return [[name, *(yes if name in line.features else no for line in lines)] for name in names]


def supported(support: Support) -> str:
    """A line's support as SUPPORT.md states it."""
    until = f"until {support.until.removeprefix('Until ')}" if support.until else ""
    return " ".join(word for word in (support.kind, until) if word) or "not stated"


def kubernetes(line: VersionLine) -> str:
    """The Kubernetes versions with which upstream validates a line."""
    validated = line.support.kubernetes
    return f"{validated[0]} to {validated[-1]}" if validated else "not stated"


def _defects(page: TextWriter, lines: Sequence[VersionLine]) -> list[list[Cell]]:
    releases = {line.name: _releases(line) for line in lines}
    known = {defect.id: defect for each in releases.values() for one in each for defect in line_of(one).defects}
    rows: list[list[Cell]] = []
    for name, defect in known.items():
        cells: list[Cell] = []
        for line in lines:
            having = [one for one in releases[line.name] if facts.within(one, defect.releases)]
            text = "all" if having == releases[line.name] else facts.as_ranges(having, facts.releases())
            cells.append((text, "yellow") if having else (page.terminal.dot, "dim"))
        rows.append([name, *cells, f"{defect.what} ({defect.issue})"])
    return rows


def _releases(line: VersionLine) -> list[str]:
    first, last = release(line.first), release(line.last)
    return [one for one in facts.releases() if first <= release(one) <= last]

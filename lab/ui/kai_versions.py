"""KAI's version lines side by side: releases, features, known defects."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from lab.kai import VersionLine, line_of
from lab.ui.text_writer import Cell, TextWriter

_HEADINGS = ("line", "releases", "tested", "Kubernetes", "queue levels", "pod of an unknown queue")


def render_kai_versions(lines: Sequence[VersionLine], console: Console | None = None) -> None:
    """The version lines on stdout, oldest first."""
    page = TextWriter(console)
    newest = [line_of(line.last) for line in lines]
    names = [line.name for line in lines]
    page.line(("KAI versions that kailab knows", "bold"))
    page.table(_HEADINGS, [_about(line) for line in lines])
    page.heading("Features", "explained in lab/kai/lines/every.toml")
    page.table(["", *names], _features(page, newest))
    page.heading("Known defects", "in all releases of the line, or in those before the given one")
    page.table(["", *names, "issues are of kai-scheduler/KAI-Scheduler"], _defects(page, newest))


def _about(line: VersionLine) -> list[Cell]:
    return [
        (line.name, "bold"),
        f"{line.first} to {line.last}" if line.first != line.last else line.first,
        line.version,
        f"up to {line.kubernetes_max}" if line.kubernetes_max else "no known limit",
        f"exactly {line.queue_levels}" if line.queue_levels else "any",
        "gets an event" if line.unknown_queue_event else "stays Pending without an event",
    ]


def _features(page: TextWriter, lines: Sequence[VersionLine]) -> list[list[Cell]]:
    names = list(dict.fromkeys(name for line in lines for name in sorted(line.features)))
    yes, no = page.sign("ok"), (page.terminal.dot, "dim")
    return [[name, *(yes if name in line.features else no for line in lines)] for name in names]


def _defects(page: TextWriter, lines: Sequence[VersionLine]) -> list[list[Cell]]:
    known = {defect.id: defect for line in lines for defect in line.defects}
    rows: list[list[Cell]] = []
    for name, defect in known.items():
        row: list[Cell] = [name]
        for line in lines:
            found = [one.fixed_in for one in line.defects if one.id == name]
            row.append((f"< {found[0]}" if found[0] else "all", "yellow") if found else (page.terminal.dot, "dim"))
        rows.append([*row, f"{defect.what} ({defect.issue})"])
    return rows

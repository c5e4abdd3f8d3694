"""The report as one HTML file: no network, light and dark, for a wide screen and a telephone.

The templates beside this file draw; everything they show is computed here and in the modules next to it.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from lab import text
from lab.errors import LabError
from lab.files import write_atomic
from lab.report.gpu_cards import GpuCards, Tones, picture_of
from lab.report.lab_report import LabReport
from lab.report.suite_run import OUTCOMES, CaseRun, SuiteRun
from lab.report.timing_chart import TimingChart, step_chart, suite_chart

if TYPE_CHECKING:
    from jinja2 import Environment

SIGNS = {"passed": "✓", "failed": "✗", "error": "✗", "skipped": "–", "xfailed": "~", "xpassed": "!"}

_FILES = 40
"""Artifacts of one test that get a link of their own."""

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Link:
    """A file of a test's artifacts."""

    title: str
    href: str


@dataclass(frozen=True)
class ReportRow:
    """One test in the table."""

    case: CaseRun
    file: str
    name: str
    sign: str
    share: float
    """Its time in percent of the slowest test's."""
    links: tuple[Link, ...]
    folder: str
    """Its folder, where it cannot be linked (it is gone)."""


def render_page(now: LabReport, folder: Path) -> str:
    """The page of a lab and of the last run of its suites.

    Args:
        now: what is told.
        folder: where the page will lie; artifacts are linked from there.
    """
    suite = now.suite
    maps = [*((suite.before, suite.after) if suite else ()), now.gpus]
    tones = Tones.over(gpus for gpus in maps if gpus is not None)
    rows = _rows(suite, folder) if suite else []
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            lab=now.lab,
            made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
            facts=_facts({**now.facts, **(suite.facts if suite else {})}),
            warning=(suite.facts if suite else now.facts).get("no_kai", ""),
            simulated=(suite.facts if suite else now.facts).get("gpu_mode") == "simulated",
            suite=suite,
            outcomes=[(SIGNS[name], name, suite.count(name)) for name in OUTCOMES if suite.count(name)]
            if suite
            else [],
            notes=(*now.notes, *(suite.notes if suite else ())),
            pictures=list(_pictures(now, tones)),
            steps=step_chart(now.record) if now.record else TimingChart(0.0, ()),
            tests=suite_chart(suite.tests) if suite else TimingChart(0.0, ()),
            rows=rows,
            failed=[row for row in rows if row.case.bad],
            style=(_HERE / "page.css").read_text(encoding="utf-8"),
            script=(_HERE / "page.js").read_text(encoding="utf-8"),
        )
    )


def write_page(path: Path, now: LabReport) -> Path:
    """Write the page, whole or not at all; returns its absolute path.

    Raises:
        LabError: it cannot be written.
    """
    path = path.expanduser().absolute()
    try:
        write_atomic(path, render_page(now, path.parent))
    except OSError as error:
        raise LabError(f"{path} cannot be written: {error.strerror}", fix="name another file with --out") from error
    return path


def seconds(value: float) -> str:
    """A time as people say it: ``0.12 s``, ``12.3 s``, ``2 min 05 s``."""
    return text.seconds(value, 2 if value < 1 else 1)


def _pictures(now: LabReport, tones: Tones) -> Iterator[GpuCards]:
    suite = now.suite
    if suite and suite.before:
        yield picture_of(suite.before, "Before the run", tones)
    if suite and suite.after:
        yield picture_of(suite.after, "After the run", tones, suite.before)
    if now.gpus:
        yield picture_of(now.gpus, "Now", tones)


def _facts(facts: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(key.replace("_", " "), value) for key, value in facts.items() if value]


def _rows(suite: SuiteRun, folder: Path) -> list[ReportRow]:
    """Failures first, then in the order of files and names."""
    slowest = max((case.seconds for case in suite.tests), default=0.0) or 1.0
    order = {name: number for number, name in enumerate(OUTCOMES)}
    cases = sorted(suite.tests, key=lambda case: (not case.bad, order[case.outcome] if case.bad else 0, case.id))
    return [_row(case, slowest, folder) for case in cases]


def _row(case: CaseRun, slowest: float, folder: Path) -> ReportRow:
    file, _, name = case.id.partition("::")
    links = _links(Path(case.artifacts), folder) if case.artifacts else ()
    return ReportRow(
        case=case,
        file=file,
        name=name or file,
        sign=SIGNS[case.outcome],
        share=round(100 * case.seconds / slowest, 1),
        links=links,
        folder="" if links else case.artifacts,
    )


def _links(artifacts: Path, folder: Path) -> tuple[Link, ...]:
    """Links to the files of a test, relative to where the page lies."""
    if not artifacts.is_dir():
        return ()
    files = sorted(path for path in artifacts.rglob("*") if path.is_file())
    files.sort(key=lambda path: (len(path.relative_to(artifacts).parts) > 1, path))
    found = [Link(str(path.relative_to(artifacts)), _href(path, folder)) for path in files[:_FILES]]
    all_of_them = f"all {len(files)} files" if len(files) > _FILES else "the folder"
    return (*found, Link(all_of_them, _href(artifacts, folder) + "/"))


def _href(path: Path, folder: Path) -> str:
    return quote(Path(os.path.relpath(path, folder)).as_posix())


@functools.cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["seconds"] = seconds
    return environment

"""The report as one HTML file: no network, light and dark, for a wide screen and a phone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from lab.errors import LabError
from lab.files import write_atomic
from lab.report.gpu_picture import GpuPicture, changed, tones_of
from lab.report.lab_report import LabReport
from lab.report.suite_run import OUTCOMES, CaseRun
from lab.report.templates import read, render
from lab.report.timing_chart import TimingChart, step_chart, suite_chart

SIGNS = {"passed": "✓", "failed": "✗", "error": "✗", "skipped": "–", "xfailed": "~", "xpassed": "!"}

_FILES = 40
"""Number of a test's artifacts that get a link of their own."""


def render_page(report: LabReport, folder: Path) -> str:
    """The page of a lab and of the last run of its suites, to be saved in ``folder``: links are relative to it."""
    suite = report.suite
    facts = suite.facts if suite else report.facts
    cases = sorted(suite.tests, key=_ordered) if suite else []
    return render(
        "page.html.j2",
        lab=report.lab,
        facts=[(key.replace("_", " "), value) for key, value in {**report.facts, **facts}.items() if value],
        warning=facts.get("no_kai", ""),
        simulated=facts.get("gpu_mode") == "simulated",
        suite=suite,
        outcomes=[(SIGNS[name], name, suite.count(name)) for name in OUTCOMES if suite.count(name)] if suite else [],
        notes=(*report.notes, *(suite.notes if suite else ())),
        pictures=list(_pictures(report)),
        steps=step_chart(report.record) if report.record else TimingChart(0.0, ()),
        tests=suite_chart(suite.tests) if suite else TimingChart(0.0, ()),
        cases=cases,
        links={case.id: links(case, folder) for case in cases},
        slowest=max((case.seconds for case in cases), default=0.0) or 1.0,
        signs=SIGNS,
        script=read("page.js"),
    )


def write_page(path: Path, report: LabReport) -> Path:
    """Write the page atomically; returns its absolute path. Raises LabError."""
    path = path.expanduser().absolute()
    try:
        write_atomic(path, render_page(report, path.parent))
    except OSError as error:
        raise LabError(f"{path} cannot be written: {error.strerror}", fix="name another file with --out") from error
    return path


def _pictures(report: LabReport) -> Iterator[GpuPicture]:
    before, after = (report.suite.before, report.suite.after) if report.suite else (None, None)
    tones = tones_of(gpus for gpus in (before, after, report.gpus) if gpus)
    if before:
        yield GpuPicture("Before the run", before, tones)
    if after:
        yield GpuPicture("After the run", after, tones, changed(before, after) if before else frozenset())
    if report.gpus:
        yield GpuPicture("Now", report.gpus, tones)


def _ordered(case: CaseRun) -> tuple[bool, int, str]:
    """Sort failures first, then by file and name."""
    return not case.bad, OUTCOMES.index(case.outcome) * case.bad, case.id


def links(case: CaseRun, folder: Path) -> list[tuple[str, str]]:
    """Title and relative URL of a test's artifacts; empty if they no longer exist."""
    artifacts = Path(case.artifacts)
    if not case.artifacts or not artifacts.is_dir():
        return []
    files = sorted(path for path in artifacts.rglob("*") if path.is_file())
    files.sort(key=lambda path: (len(path.relative_to(artifacts).parts) > 1, path))
    found = [(str(path.relative_to(artifacts)), _href(path, folder)) for path in files[:_FILES]]
    all_of_them = f"all {len(files)} files" if len(files) > _FILES else "the folder"
    return [*found, (all_of_them, _href(artifacts, folder) + "/")]


def _href(path: Path, folder: Path) -> str:
    return quote(Path(os.path.relpath(path, folder)).as_posix())

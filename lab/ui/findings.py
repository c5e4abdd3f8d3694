"""Findings as text: the machine and the way of each GPU, known failures, reasons of a pod, and what lint found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from lab.findings import Finding, Severity
from lab.gpu.diagnosis.diagnose import Diagnosis
from lab.ui.text_writer import Cell, TextWriter

if TYPE_CHECKING:
    from rich.console import Console

_SIGNS: Mapping[Severity, tuple[str, str]] = MappingProxyType(
    {
        "ok": ("ok", "green"),
        "warning": ("warn", "yellow"),
        "error": ("fail", "bold red"),
        "skipped": ("skip", "dim"),
        "note": ("waiting", "dim"),
    }
)
_LEVELS = {"error": "bold red", "warning": "yellow", "note": "dim"}


def sign(page: TextWriter, severity: Severity) -> tuple[str, str]:
    """The glyph of a severity and its style."""
    glyph, style = _SIGNS[severity]
    return page.words.glyph(glyph), style


def write_finding(page: TextWriter, finding: Finding, *, symptom: bool = False) -> None:
    """One finding with its rule, evidence and next action; of a symptom also what it means, and the source."""
    sure = "" if finding.certainty.value == "certain" else f" ({finding.certainty.value})"
    side = f", {finding.side}" if finding.side else ""
    page.sentence(sign(page, finding.severity), (finding.title if symptom else finding.what, "bold"))
    page.line((f"{finding.rule}{sure}{side}", "dim"), indent=2)
    for line in finding.evidence:
        page.sentence(("|", "dim"), line, indent=2)
    if symptom:
        page.sentence((" ", ""), finding.what, indent=2)
    page.sentence((page.words.glyph("next"), "cyan"), ("next: " + finding.next, "cyan"), indent=2)
    if symptom:
        page.sentence((" ", ""), (finding.source, "dim"), indent=2)


def _write_checks(page: TextWriter, findings: Sequence[Finding]) -> None:
    """A line each, and the next action under those that are not good."""
    width = max((len(finding.title) for finding in findings), default=0)
    for finding in findings:
        what = (finding.what, "dim" if finding.severity == "skipped" else "")
        page.columns([[sign(page, finding.severity), f"{finding.title:<{width}}", what]])
        if finding.severity in ("ok", "skipped"):
            continue
        for number, line in enumerate(finding.next.splitlines()):
            glyph = page.words.glyph("next") if number == 0 else " " * len(page.words.glyph("next"))
            page.line((f"{glyph} {line}", "cyan"), indent=width + 5)


def render_machine(findings: Sequence[Finding], console: Console | None = None) -> None:
    """All that the doctor says of this machine, and how many there are of each severity."""
    page = TextWriter(console)
    _write_checks(page, findings)
    names = {"ok": "good", "warning": "to look at", "error": "failed", "skipped": "not asked"}
    counts = {name: sum(finding.severity == severity for finding in findings) for severity, name in names.items()}
    page.blank()
    page.line(", ".join(f"{count} {name}" for name, count in counts.items() if count))
    if any(finding.fix_id for finding in findings):
        page.line((f"{page.words.glyph('next')} lab up --yes makes the changes that it knows", "cyan"))


def render_diagnosis(seen: Diagnosis, console: Console | None = None) -> None:
    """Each stage of the way of the lab's GPUs."""
    page = TextWriter(console)
    page.heading(f"GPUs of lab {seen.lab}")
    _write_checks(page, seen.path)
    for missing in seen.unread:
        page.sentence((page.words.glyph("warn"), "yellow"), f"not read: {missing}", indent=1)


def render_symptoms(found: Sequence[Finding], console: Console | None = None, *, nothing: str = "") -> None:
    """The known failures that show, causes first; ``nothing`` is said where there are none."""
    page = TextWriter(console)
    if not found:
        if nothing:
            page.sentence((page.words.glyph("skip"), "dim"), nothing)
        return
    page.heading("Known failures", "causes first")
    for number, finding in enumerate(found):
        if number:
            page.blank()
        write_finding(page, finding, symptom=True)


def render_by_file(findings: Sequence[Finding], version: str, console: Console | None = None) -> None:
    """Lint's findings by file and line, and how many there are of each severity."""
    page = TextWriter(console)
    for file in dict.fromkeys(one.file for one in findings):
        page.heading(file)
        for one in (one for one in findings if one.file == file):
            level = (f"{one.severity:<8}", _LEVELS[one.severity])
            page.line((f"{one.line:>5}  ", "bold"), level, one.subject, (f"  [{one.rule}]", "dim"))
            page.line(one.what, indent=15)
            page.line(("next: ", "dim"), one.next, indent=15)
            page.line((f"source: {one.source}", "dim"), indent=15)
    counts = {level: sum(one.severity == level for one in findings) for level in _LEVELS}
    said = ", ".join(f"{count} {level}{'s' if count != 1 else ''}" for level, count in counts.items() if count)
    page.line((f"KAI {version}: {said or 'nothing found'}", "bold" if findings else "green"))


def render_rules(
    rows: Sequence[Sequence[Cell]],
    headings: Sequence[str] = (),
    title: str = "",
    note: str = "",
    console: Console | None = None,
) -> None:
    """A table of rules, a line each."""
    page = TextWriter(console)
    if title:
        page.line((title, "bold"), (f"  {note}" if note else "", "dim"))
    page.columns([*([[(heading, "dim") for heading in headings]] if headings else []), *rows])

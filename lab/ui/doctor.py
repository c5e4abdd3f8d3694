"""What ``lab doctor`` found, as text: the machine, the way of each GPU of the lab, and the known failures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lab.gpu.diagnosis.diagnose import Diagnosis
from lab.gpu.diagnosis.symptoms import Symptom, SymptomMatch
from lab.host import Verdict
from lab.ui.lab import LEVELS, render_doctor
from lab.ui.text_writer import Cell, TextWriter

if TYPE_CHECKING:
    from rich.console import Console


def render_machine(verdicts: Sequence[Verdict], console: Console | None = None) -> None:
    """Every verdict about the machine."""
    render_doctor(verdicts, console)


def render_diagnosis(seen: Diagnosis, console: Console | None = None) -> None:
    """Each stage of the way of the lab's GPUs, the fix under each that is not good."""
    page = TextWriter(console)
    page.heading(f"GPUs of lab {seen.lab}")
    width = max((len(verdict.title) for verdict in seen.path), default=0)
    for verdict in seen.path:
        what = (verdict.what, "dim" if verdict.level == "skip" else "")
        page.columns([[(page.words.glyph(verdict.level), LEVELS[verdict.level]), f"{verdict.title:<{width}}", what]])
        if verdict.fix and verdict.level in ("warn", "fail"):
            page.sentence((page.words.glyph("next"), "cyan"), (verdict.fix, "cyan"), indent=width + 5)
    for missing in seen.unread:
        page.sentence((page.words.glyph("warn"), "yellow"), f"not read: {missing}", indent=1)


def render_symptoms(found: Sequence[SymptomMatch], console: Console | None = None, *, nothing: str = "") -> None:
    """The known failures that show, causes first; ``nothing`` is said where there are none."""
    page = TextWriter(console)
    if not found:
        if nothing:
            page.sentence((page.words.glyph("skip"), "dim"), nothing)
        return
    page.heading("Known failures", "causes first")
    for number, one in enumerate(found):
        if number:
            page.blank()
        page.sentence((page.words.glyph("fail"), "bold red"), (one.symptom.sees, "bold"))
        page.line((one.symptom.id, "dim"), indent=2)
        for line in one.lines():
            page.sentence(("|", "dim"), line, indent=2)
        page.sentence((" ", ""), one.means, indent=2)
        page.sentence((page.words.glyph("next"), "cyan"), ("next: " + one.fix, "cyan"), indent=2)
        page.sentence((" ", ""), (one.symptom.source, "dim"), indent=2)


def render_known(rows: Sequence[Symptom], console: Console | None = None) -> None:
    """All symptoms: id, what one sees, where it shows, and the fix."""
    page = TextWriter(console)
    page.line((f"{len(rows)} known failures of the way to a GPU", "bold"))
    cells: list[list[Cell]] = [[(heading, "dim") for heading in ("symptom", "what one sees", "fix")]]
    cells += [[row.id, row.sees, row.fix.replace("{where}", "NODE")] for row in rows]
    page.columns(cells)

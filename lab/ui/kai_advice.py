"""Advice about the KAI that runs: its support, and its known defects with their cures."""

from __future__ import annotations

from rich.console import Console

from lab.operations.kai.advise import KaiAdvice
from lab.ui.kai_versions import kubernetes, supported, write_defect
from lab.ui.text_writer import TextWriter


def render_kai_advice(advice: KaiAdvice, console: Console | None = None) -> None:
    """The advice on stdout."""
    page = TextWriter(console)
    on = f" on Kubernetes {advice.kubernetes}" if advice.kubernetes else ""
    page.line((f"KAI {advice.version}{on}, line {advice.line}", "bold"))
    window = kubernetes(advice.support)
    page.prose(f"support: {supported(advice.support)}; validated with Kubernetes {window}", indent=1)
    for warning in advice.warnings:
        page.marked("warn", warning, indent=1)
    page.heading(f"Known defects: {len(advice.defects)}", "issues are of kai-scheduler/KAI-Scheduler")
    for defect in advice.defects:
        write_defect(page, defect)
        page.next(defect.next, 3)

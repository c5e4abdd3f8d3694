"""A plan as text: the steps, what changes on this machine, where everything comes from, what cannot be had."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lab.engine.step import Effect
from lab.operations.results import PlanReport
from lab.text import count, whole_seconds
from lab.ui.findings import sign
from lab.ui.text_writer import Cell, TextWriter

if TYPE_CHECKING:
    from rich.console import Console

STATES = {"absent": "green", "drifted": "yellow", "ready": "dim"}
SOURCES = {"present": "here", "bundle": "bundle", "registry": "download", "build": "build", "none": "missing"}


def render_plan(report: PlanReport, console: Console | None = None) -> None:
    """What ``lab up`` would do, in the order it would be looked at."""
    page = TextWriter(console)
    plan = report.plan
    page.line((f"Plan for lab {plan.spec.name}", "bold"))
    told_notices(page, plan.notices)
    page.columns(fact_rows(plan.facts), indent=2)
    _steps(page, report)
    if plan.host_effects:
        page.heading("Changes of this machine", "lab up asks first, or --yes")
        told_effects(page, plan.host_effects)
    _doctor(page, report)
    _supply(page, report)
    page.blank()
    todo = sum(_state(report, step.id) != "ready" for step in plan.steps)
    about = f", about {whole_seconds(report.estimate)} by earlier runs" if report.estimate and todo else ""
    page.line((f"{count(todo, 'step')} of {len(plan.steps)} to do{about}. Nothing was changed.", "bold"))


def told_notices(page: TextWriter, notices: Sequence[str]) -> None:
    """What must not be overlooked."""
    for text in notices:
        page.sentence((page.words.glyph("warn"), "bold yellow"), (text, "bold yellow"), indent=2)


def told_effects(page: TextWriter, effects: Sequence[Effect]) -> None:
    """Changes and, under each, what undoes it."""
    for effect in effects:
        page.sentence((page.words.glyph("warn"), "yellow"), effect.what, indent=2)
        if effect.undo:
            page.line((f"undone by: {effect.undo}", "dim"), indent=4)


def fact_rows(facts: Mapping[str, str]) -> list[list[Cell]]:
    """A lab's facts as rows of a title and a sentence."""
    nodes = facts.get("nodes", "")
    cluster = [
        facts.get("provider", ""),
        f"Kubernetes {facts['kubernetes']}" if facts.get("kubernetes") else "",
        f"{nodes} node{'' if nodes == '1' else 's'}" if nodes else "",
        facts.get("engine", ""),
    ]
    gpus = facts.get("gpu_mode", "")
    if gpus not in ("", "none"):
        gpus = f"{gpus}: {facts.get('gpus', '?')}"
    scheduler = facts.get("scheduler", "")
    if facts.get("kai_version"):
        scheduler = f"KAI {facts['kai_version']}"
    elif facts.get("no_kai"):
        scheduler = f"the default one; {facts['no_kai']}"
    rows = {
        "cluster": ", ".join(part for part in cluster if part),
        "GPUs": gpus,
        "scheduler": scheduler,
        "tenants": facts.get("tenants", ""),
    }
    return [[(title, "dim"), text] for title, text in rows.items() if text]


def _state(report: PlanReport, step: str) -> str:
    seen = report.seen.get(step)
    return seen.state.value if seen else "absent"


def _steps(page: TextWriter, report: PlanReport) -> None:
    page.heading("Steps", "+ to make  ~ to mend  = as planned")
    width = max((len(step.title) for step in report.plan.steps), default=0)
    for step in report.plan.steps:
        state, seen = _state(report, step.id), report.seen.get(step.id)
        detail = seen.detail if seen and state != "absent" else ""
        title = (f"{step.title:<{width}}", "dim" if state == "ready" else "bold")
        page.columns([[(page.words.glyph(state), STATES[state]), title, (detail, "dim")]])
        for line in seen.diff if seen else ():
            page.line((line, "yellow"), indent=6)
        if state != "ready":
            effects = [effect for effect in step.effects() if effect.where != "host"]
            page.columns([[(effect.where, "dim"), effect.what] for effect in effects], indent=6)


def _doctor(page: TextWriter, report: PlanReport) -> None:
    bad = [finding for finding in report.findings if finding.severity not in ("ok", "skipped")]
    if not bad:
        return
    page.heading("This machine", "lab doctor shows the fixes")
    page.columns([[sign(page, finding.severity), finding.title, finding.what] for finding in bad])


def _supply(page: TextWriter, report: PlanReport) -> None:
    choices = [choice for choice in report.plan.choices if choice.available]
    counts = Counter(SOURCES[choice.source] for choice in choices)
    page.heading("Supply", ", ".join(f"{count} {source}" for source, count in counts.items()))
    names = [f"{choice.item.name} {choice.item.version}".strip() for choice in choices]
    page.columns(
        [
            [c.item.kind, name, (SOURCES[c.source], "cyan"), (c.where, "dim")]
            for c, name in zip(choices, names, strict=True)
        ]
    )
    if not report.plan.missing:
        return
    page.heading("Cannot be had")
    for choice in report.plan.missing:
        page.line((f"{page.words.glyph('fail')} ", "bold red"), str(choice.item), indent=1)
        for why in choice.why:
            page.line((why, "dim"), indent=5)
    for fix in dict.fromkeys(choice.fix for choice in report.plan.missing if choice.fix):
        page.sentence((page.words.glyph("next"), "cyan"), (fix, "cyan"), indent=1)

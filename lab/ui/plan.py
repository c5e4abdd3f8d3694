"""A plan as text: the steps, host changes, the source of each item, missing items."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lab.engine.step import Effect
from lab.operations.preview import Preview
from lab.operations.results import PlanReport
from lab.text import count, mebibytes, whole_seconds
from lab.ui.findings import sign
from lab.ui.inventory import write_inventory
from lab.ui.text_writer import Cell, TextWriter

if TYPE_CHECKING:
    from rich.console import Console

STATES = {"absent": "green", "drifted": "yellow", "ready": "dim"}
SOURCES = {"present": "here", "bundle": "bundle", "registry": "download", "build": "build", "none": "missing"}


def render_plan(report: PlanReport, console: Console | None = None) -> None:
    """A plan: the changes that ``kailab up`` would make."""
    page = TextWriter(console)
    plan = report.plan
    page.line((f"Plan for lab {plan.spec.name}", "bold"))
    write_notices(page, plan.notices)
    page.columns(fact_rows(plan.facts), indent=2)
    _steps(page, report)
    if plan.host_effects:
        page.heading("Host changes", "kailab up asks first; --yes approves them")
        write_effects(page, plan.host_effects)
    if bad := [finding for finding in report.findings if finding.severity not in ("ok", "skipped")]:
        page.heading("Host checks", "kailab doctor shows the fixes")
        page.columns([[sign(page, finding.severity), finding.title, finding.what] for finding in bad])
    if report.preview is not None:
        _existing(page, report.preview)
    _supply(page, report)
    page.blank()
    todo = sum(_state(report, step.id) != "ready" for step in plan.steps)
    about = f", about {whole_seconds(report.estimate)} according to earlier runs" if report.estimate and todo else ""
    page.prose((f"{count(todo, 'step')} of {len(plan.steps)} to do{about}. Nothing was changed.", "bold"))


def _existing(page: TextWriter, found: Preview) -> None:
    page.heading("There", "what the cluster has")
    write_inventory(page, found.inventory)
    page.heading("Objects to create", f"{count(len(found.objects), 'object')}; kailab down removes them")
    page.prose(", ".join(found.objects), indent=2)
    if found.unread:
        charts = f"the charts {' and '.join(found.unread)} are not on this machine; kailab up reads them first"
        page.marked("warn", f"their objects are not known yet: {charts}", indent=2)
    for where in ("missing", "unknown"):
        if names := [image for image, seen in found.images.items() if seen == where]:
            why = "in no registry" if where == "missing" else "not on the nodes; its registry does not say"
            page.marked("fail" if where == "missing" else "warn", f"{', '.join(names)}: {why}", indent=2)
    for image, seen in found.suites_image.items():
        if seen in ("missing", "unknown"):
            page.marked("warn", f"{image}, the image of the suites' pods: not on the nodes, in no registry", indent=2)
    if found.production:
        page.marked("warn", f"looks like production: {found.production}; kailab up needs --yes-i-mean", indent=2)
    if found.missing:
        page.heading("Not permitted", "kailab plan --role prints a Role for an administrator to apply")
        for one in found.missing:
            page.marked("fail", str(one), indent=2)
    if found.missing_for_suites:
        page.heading("Not permitted to the suites", "the lab comes up without; kailab plan --role has these, too")
        page.prose(", ".join(map(str, found.missing_for_suites)), indent=2)
    for line in found.dry_run.problems:
        page.marked("fail", f"refused in a dry run: {line}", indent=2)
    if found.dry_run.not_tried:
        lines = count(len(found.dry_run.not_tried), "object")
        page.line((f"{lines} could not be tried: namespace or kind do not exist yet", "dim"), indent=2)


def write_notices(page: TextWriter, notices: Sequence[str]) -> None:
    """Write warnings about a lab."""
    for text in notices:
        page.marked("warn", (text, "bold yellow"), indent=2)


def write_effects(page: TextWriter, effects: Sequence[Effect]) -> None:
    """Write changes and, under each, how to undo it."""
    for effect in effects:
        page.marked("warn", effect.what, indent=2)
        if effect.undo:
            page.line((f"undone by: {effect.undo}", "dim"), indent=4)


def fact_rows(facts: Mapping[str, str]) -> list[list[Cell]]:
    """Rows of a title and a sentence from a lab's facts."""
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
        scheduler = f"the default scheduler; {facts['no_kai']}"
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
    page.heading("Steps", "+ create  ~ update  = as planned")
    width = max((len(step.title) for step in report.plan.steps), default=0)
    for step in report.plan.steps:
        state, seen = _state(report, step.id), report.seen.get(step.id)
        detail = seen.detail if seen and state != "absent" else ""
        title = (f"{step.title:<{width}}", "dim" if state == "ready" else "bold")
        page.columns([[(page.terminal.glyph(state), STATES[state]), title, (detail, "dim")]])
        for line in seen.diff if seen else ():
            page.prose((line, "yellow"), indent=6)
        if state != "ready":
            effects = [effect for effect in step.effects() if effect.where != "host"]
            rows: list[list[Cell]] = [[(one.where, "dim"), one.what, (_undo(report, one), "dim")] for one in effects]
            page.columns(rows, indent=6)


def _undo(report: PlanReport, effect: Effect) -> str:
    """By what an effect is undone, where the cluster is not the lab's and stays."""
    return f"undone by: {effect.undo}" if report.preview is not None and effect.undo else ""


def _supply(page: TextWriter, report: PlanReport) -> None:
    choices = [choice for choice in report.plan.choices if choice.available]
    counts = Counter(SOURCES[choice.source] for choice in choices)
    page.heading("Supply", ", ".join(f"{count} {source}" for source, count in counts.items()))
    if report.ways.downloads:
        page.line((f"downloads: {report.ways.download}", "bold"), indent=1)
    if report.ways.builds:
        page.line((f"builds: {report.ways.build}", "bold"), indent=1)
    rows: list[list[Cell]] = []
    for choice in choices:
        name = f"{choice.item.name} {choice.item.version}".strip()
        notes = ", ".join(filter(None, [mebibytes(choice.size) if choice.size else "", choice.verified]))
        where = "" if choice.source == "present" else choice.where
        where = f"{where} ({notes})".strip() if notes else where
        rows.append([choice.item.kind, name, (SOURCES[choice.source], "cyan"), (where, "dim")])
    page.columns(rows)
    if not report.plan.missing:
        return
    page.heading("Not available")
    for choice in report.plan.missing:
        page.line((f"{page.terminal.glyph('fail')} ", "bold red"), str(choice.item), indent=1)
        for why in choice.why:
            page.line((why, "dim"), indent=5)
    for fix in dict.fromkeys(choice.fix for choice in report.plan.missing if choice.fix):
        page.marked("next", (fix, "cyan"), indent=1)

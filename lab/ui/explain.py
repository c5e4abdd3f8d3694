"""Explanations as text: a pod's reasons, and a whole lab's picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.explain import Explanation, Overview
from lab.explain.overview import ClusterOverview
from lab.ui.findings import write_finding
from lab.ui.text_writer import Cell, TextWriter

if TYPE_CHECKING:
    from rich.console import Console

_STAGES = {
    "running": "green",
    "succeeded": "green",
    "unbound": "yellow",
    "bound": "yellow",
    "missing": "red",
    "failed": "bold red",
    "deleting": "yellow",
}


def render_explained(told: Explanation, console: Console | None = None) -> None:
    """Where a pod stands, and every reason with its evidence and next action."""
    page = TextWriter(console)
    where = f"  {told.side}" if told.side else ""
    page.line(
        (f"{told.kind} {told.namespace}/{told.name}", "bold"),
        ("  " + told.summary, _STAGES[told.stage.value]),
        (where, "dim"),
    )
    page.columns([[(title, "dim"), text] for title, text in (told.facts or {}).items()], indent=2)
    for finding in told.findings:
        page.blank()
        write_finding(page, finding)
    if not told.findings:
        page.blank()
        page.sentence(*_nothing(page, told))
    for kinds in told.unread:
        page.sentence((page.words.glyph("warn"), "yellow"), f"not read: {kinds}; rules that need it said nothing")


def _nothing(page: TextWriter, told: Explanation) -> tuple[tuple[str, str], str]:
    if told.settled:
        return (page.words.glyph("ok"), "green"), "nothing is wrong with it"
    return (page.words.glyph("warn"), "yellow"), "no rule knows why: lab logs collects events, objects and logs"


def render_picture(seen: Overview, console: Console | None = None) -> None:
    """Every side: components, nodes and GPUs, queues, and all pods that are not well."""
    page = TextWriter(console)
    for number, side in enumerate(seen.sides):
        if number:
            page.blank()
        _side(page, side)
    page.blank()
    count = sum(len(side.unwell) for side in seen.sides)
    if seen.well:
        page.line((f"{page.words.glyph('ok')} ", "green"), "nothing is wrong")
    else:
        page.line((f"{count} pods or workloads are not well; lab explain NAMESPACE/POD tells all of one", "bold"))


def _side(page: TextWriter, side: ClusterOverview) -> None:
    counts = ", ".join(f"{count} {stage}" for stage, count in sorted(side.pods.items()))
    page.line((side.side or "cluster", "bold"), ("  " + (counts or "no pods"), "dim"))
    if side.kai is not None:
        down = [component.deployment for component in side.kai.components.values() if not component.up]
        words = f"down: {', '.join(down)}" if down else f"all {len(side.kai.components)} components are up"
        page.columns([[("KAI", "dim"), f"{side.kai.version or 'of an unknown version'}, {words}"]], indent=2)
    rows: list[list[Cell]] = []
    for info in side.node_infos:
        state = [] if info.node.ready else ["not Ready"]
        state += ["cordoned"] if info.node.unschedulable else []
        gpus = f"{info.gpus_free} of {info.node.gpus} GPUs free" if info.node.gpus else "no GPUs"
        parts = [f"{gpu.free:g} left of {gpu.name}" for gpu in info.shared]
        rows.append([("node", "dim"), info.node.name, "; ".join([*state, gpus, *parts])])
    page.columns(rows, indent=2)
    for line in side.queues:
        page.sentence((" ", ""), line, indent=1)
    for line in side.troubles:
        page.sentence((page.words.glyph("fail"), "bold red"), line, indent=1)
    for told in side.unwell:
        page.sentence(
            (page.words.glyph("warn"), _STAGES[told.stage.value]),
            (f"{told.kind} {told.namespace}/{told.name}: {told.summary}", "bold"),
            indent=1,
        )
        for finding in told.findings[:2]:
            page.sentence((finding.rule, "dim"), finding.what, indent=3)
            page.sentence((page.words.glyph("next"), "cyan"), (finding.next, "cyan"), indent=5)

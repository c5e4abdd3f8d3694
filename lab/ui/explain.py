"""Explanations as text: the reasons of one pod, or an overview of a whole lab."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.explain import Explanation, Overview
from lab.explain.overview import ClusterOverview
from lab.text import count
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


def render_explained(explanation: Explanation, console: Console | None = None) -> None:
    """The state of a pod, and every reason with its evidence and next action."""
    page = TextWriter(console)
    page.line(
        (f"{explanation.kind} {explanation.namespace}/{explanation.name}", "bold"),
        ("  " + explanation.summary, _STAGES[explanation.stage.value]),
        (f"  {explanation.side}" if explanation.side else "", "dim"),
    )
    page.columns([[(title, "dim"), text] for title, text in (explanation.facts or {}).items()], indent=2)
    for finding in explanation.findings:
        page.blank()
        write_finding(page, finding)
    if not explanation.findings:
        page.blank()
        if explanation.settled:
            page.marked("ok", "no problem found")
        else:
            page.marked("warn", "no rule explains it: lab logs collects events, objects and logs")
    for kinds in explanation.unread:
        page.marked("warn", f"not read: {kinds}; rules that need it were skipped")


def render_overview(overview: Overview, console: Console | None = None) -> None:
    """Each cluster: KAI's components, nodes and GPUs, queues, and all pods with problems."""
    page = TextWriter(console)
    for number, side in enumerate(overview.sides):
        if number:
            page.blank()
        _side(page, side)
    page.blank()
    if overview.well:
        page.marked("ok", "no problem found")
    else:
        unwell = sum(len(side.unwell) for side in overview.sides)
        words = f"{count(unwell, 'pod')} or workloads with problems; lab explain NAMESPACE/POD has the details of one"
        page.line((words, "bold"))


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
        page.paragraph(" ", line, indent=1)
    for line in side.troubles:
        page.marked("fail", line, indent=1)
    for pod in side.unwell:
        title = f"{pod.kind} {pod.namespace}/{pod.name}: {pod.summary}"
        page.paragraph((page.terminal.glyph("warn"), _STAGES[pod.stage.value]), (title, "bold"), indent=1)
        for finding in pod.findings[:2]:
            page.paragraph((finding.rule, "dim"), finding.what, indent=3)
            page.marked("next", (finding.next, "cyan"), indent=5)

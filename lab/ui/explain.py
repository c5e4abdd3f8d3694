"""Explanations as text: the reasons of a pod or workload, evictions, or an overview of a whole lab."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.explain import EvictionExplanation, Explanation, Overview, WorkloadExplanation
from lab.explain.overview import ClusterOverview
from lab.explain.workload_explanation import SameReason
from lab.text import count
from lab.ui.findings import write_finding, write_more
from lab.ui.text_writer import Cell, TextWriter

if TYPE_CHECKING:
    from rich.console import Console

_REQUIRED = {
    "yes": ("required by KAI's rules", "green"),
    "no": ("not required", "bold red"),
    "unknown": ("unknown whether it was required", "yellow"),
}

_NAMES = 8
"""Names of pods in one line."""

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
    page.columns([[(title, "dim"), text] for title, text in explanation.facts.items()], indent=2)
    for finding in explanation.findings:
        page.blank()
        write_finding(page, finding)
    write_more(page, explanation.findings)
    if not explanation.findings:
        page.blank()
        if explanation.settled:
            page.marked("ok", "no problem found")
        else:
            page.marked("warn", "no rule explains it: kailab logs collects events, objects and logs")
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
        words = f"{count(unwell, 'pod')} or workloads with problems; kailab explain KIND NAMESPACE/NAME has the details"
        page.prose((words, "bold"))


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
    for same in side.reasons:
        _same(page, same, 2, indent=1)


def _same(page: TextWriter, same: SameReason, most: int, indent: int = 0) -> None:
    """Write pods with the same reasons once, and their reasons without evidence."""
    title = f"{same.title}: {same.first.summary}"
    page.paragraph((page.terminal.glyph("warn"), _STAGES[same.first.stage.value]), (title, "bold"), indent)
    for finding in same.first.findings[:most]:
        page.paragraph((finding.rule, "dim"), finding.what, indent + 2)
        page.marked("next", (finding.next, "cyan"), indent + 4)


def render_workload(workload: WorkloadExplanation, console: Console | None = None) -> None:
    """A workload's pods by stage, and the reasons of each group of pods with evidence and next action."""
    page = TextWriter(console)
    page.line(
        (f"{workload.kind} {workload.namespace}/{workload.name}", "bold"),
        ("  " + workload.summary, _STAGES[workload.stage.value]),
        (f"  {workload.side}" if workload.side else "", "dim"),
    )
    facts = {"owned by": " → ".join(reversed(workload.owners)), **workload.facts}
    page.columns([[(title, "dim"), text] for title, text in facts.items() if text], indent=2)
    for same in workload.reasons:
        page.blank()
        _same(page, same, 0)
        if len(same.pods) > 1:
            page.items([", ".join(same.pods[:_NAMES])], ("|", "dim"), 1, indent=2)
        for finding in same.first.findings:
            write_finding(page, finding)
    write_more(page, [finding for same in workload.reasons for finding in same.first.findings])
    if workload.settled and not workload.reasons:
        page.blank()
        page.marked("ok", "no problem found")
    elif not workload.settled:
        page.blank()
        page.items(workload.messages, ("|", "dim"), len(workload.messages))
        page.marked("warn", "no rule explains it: kailab logs collects events, objects and logs")
    for kinds in workload.unread:
        page.marked("warn", f"not read: {kinds}; rules that need it were skipped")


def render_evictions(explanation: EvictionExplanation, console: Console | None = None) -> None:
    """Each eviction with its evidence and whether it was required, then the scheduler's counter."""
    page = TextWriter(console)
    number = sum(one.times for one in explanation.evictions)
    words = f"{count(number, 'eviction')} by events" if number else "no event of an eviction"
    page.line((explanation.subject or "Evictions by KAI", "bold"), (f"  {words}", "dim"))
    for place, finding in enumerate(explanation.findings):
        page.blank()
        write_finding(page, finding)
        if place < len(explanation.required):
            page.line(_REQUIRED[explanation.required[place]], indent=2)
    write_more(page, explanation.findings)
    page.blank()
    for title, times in explanation.counted.items():
        page.line((f"counted since the scheduler started: {title} {times}", "dim"))
    if not explanation.metrics:
        page.marked("warn", "the scheduler's metrics could not be read: more evictions are possible than events show")
    elif not explanation.findings:
        page.marked("ok", "no eviction: the scheduler counted none, and no event exists")

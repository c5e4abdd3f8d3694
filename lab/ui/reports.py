"""Results as text on stdout: plan, up, status, down, doctor. Plain data goes in, nothing is decided here."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from lab.engine.step import Effect
    from lab.host import Verdict
    from lab.results import DownReport, PlanReport, StatusReport, UpReport

_STATE = {"ready": ("✓", "green"), "absent": ("+", "cyan"), "drifted": ("~", "yellow"), "unknown": ("?", "dim")}
_LEVEL = {"ok": ("✓", "green"), "warn": ("!", "yellow"), "fail": ("✗", "red"), "skip": ("·", "dim"), "info": ("·", "dim")}
_ASCII = {"✓": "ok", "✗": "X", "·": "-"}


def _console(stream: TextIO | None = None) -> Console:
    from rich.console import Console

    stream = stream or sys.stdout
    # a pipe gets whole lines: wrapping at 80 columns would break what reads them
    return Console(file=stream, highlight=False, soft_wrap=not stream.isatty(), emoji=False)


def _mark(console: Console, glyph: str, style: str) -> Text:
    from rich.text import Text

    utf8 = (console.encoding or "").lower().startswith("utf")
    return Text(glyph if utf8 else _ASCII.get(glyph, glyph), style=style)


def _line(console: Console, mark: tuple[str, str], *parts: tuple[str, str]) -> None:
    from rich.text import Text

    line = Text("  ") + _mark(console, *mark) + Text(" ")
    for text, style in parts:
        line.append(text, style=style)
    console.print(line)


def _head(console: Console, text: str) -> None:
    console.print(f"\n[bold]{text}[/bold]")


def _seconds(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def render_effects(effects: Iterable[Effect], stream: TextIO | None = None) -> None:
    """What will be changed on this machine and how it is undone; on stderr, before a question."""
    console = _console(stream or sys.stderr)
    _head(console, "Changes to this machine")
    for effect in effects:
        _line(console, ("!", "yellow"), (effect.what, ""))
        console.print(f"      undone by: {effect.undo}", style="dim", markup=False)


def render_plan(report: PlanReport, stream: TextIO | None = None) -> None:
    """The plan: facts, host changes, steps, where everything comes from, what cannot be had, the estimate."""
    console = _console(stream)
    plan = report.plan
    console.print(f"[bold]Plan for lab {plan.spec.name}[/bold]")
    _facts(console, plan.facts)
    _notices(console, plan.notices)
    if plan.host_effects:
        render_effects(plan.host_effects, console.file)  # type: ignore[arg-type]
    else:
        _head(console, "Changes to this machine")
        _line(console, ("✓", "green"), ("none", ""))
    _head(console, "Steps")
    for step in plan.steps:
        seen = report.seen.get(step.id)
        state = seen.state.value if seen else "unknown"
        detail = f"  {seen.detail}" if seen and seen.detail else ""
        _line(console, _STATE[state], (f"{step.id:<26}", ""), (step.title, "bold"), (detail, "dim"))
        for line in seen.diff if seen else ():
            console.print(f"        {line}", style="yellow", markup=False)
        if state != "ready":
            for effect in step.effects():
                console.print(f"        {effect.where}: {effect.what}", style="dim", markup=False)
    _head(console, "Where everything comes from")
    for choice in plan.choices:
        mark = ("✓", "green") if choice.available else ("✗", "red")
        _line(console, mark, (f"{choice.source:<9}", "cyan"), (f"{choice.item}", ""), (f"  {choice.where}", "dim"))
    if plan.missing:
        _head(console, "What cannot be had")
        for choice in plan.missing:
            _line(console, ("✗", "red"), (str(choice.item), "bold"))
            for why in choice.why:
                console.print(f"        {why}", style="dim", markup=False)
            console.print(f"        next: {choice.fix}", markup=False)
    _head(console, "Time")
    if report.estimate is None:
        console.print("  no earlier run to estimate from; a first one builds what no registry gives: up to 40 min")
    else:
        console.print(f"  about {_seconds(report.estimate)} by earlier runs on this machine")
    console.print("\nnext: lab up")


def render_up(report: UpReport, stream: TextIO | None = None) -> None:
    """The summary of ``lab up``: what changed, notices, and what to type next."""
    console = _console(stream)
    changed = report.record.changed
    what = f"{changed} step{'s' if changed != 1 else ''} changed" if changed else "nothing changed"
    console.print(f"\n[bold green]Lab {report.name} is up[/bold green]: {what}, {report.record.seconds:.1f} s")
    _facts(console, report.facts)
    _notices(console, report.notices)
    _head(console, "Use it")
    console.print(f"  kubectl --kubeconfig {report.kubeconfig} get pods -A", markup=False)
    for name in report.tenants:
        console.print(f"  kubectl --kubeconfig $(lab kubeconfig {name} --name {report.name}) get pods -A", markup=False)
    console.print("  nox -s e2e · lab status · lab down", markup=False)


def render_status(report: StatusReport, stream: TextIO | None = None) -> None:
    """How a lab stands."""
    console = _console(stream)
    verdict = "[green]ready[/green]" if report.ok else "[red]not ready[/red]"
    console.print(f"[bold]Lab {report.name}[/bold]: {verdict}")
    _facts(console, report.facts)
    _notices(console, report.notices)
    _head(console, "Steps")
    for _, title, seen in report.steps:
        _line(console, _STATE[seen.state.value], (f"{title:<30}", ""), (seen.detail, "dim"))
        for line in seen.diff:
            console.print(f"        {line}", style="yellow", markup=False)
    _head(console, "Kubeconfigs")
    console.print(f"  {'(cluster)':<20} {report.kubeconfig}", markup=False)
    for name, path in report.tenants.items():
        console.print(f"  {name:<20} {path}", markup=False)


def render_down(report: DownReport, stream: TextIO | None = None) -> None:
    """What is gone, what was kept, what else the machine still carries of kailab."""
    console = _console(stream)
    console.print(f"\n[bold green]Lab {report.name} is gone[/bold green]: {report.seconds:.1f} s")
    _line(console, ("✓", "green"), ("no container, volume, kubeconfig, state file or process of it is left", ""))
    for kept in report.kept:
        _line(console, ("·", "dim"), (f"kept: {kept}", ""), ("  (lab down --images removes it)", "dim"))
    for undone in report.host_undone:
        _line(console, ("✓", "green"), (f"undone: {undone}", ""))
    if report.host_changes:
        _line(console, ("·", "dim"), (f"{len(report.host_changes)} changes of this machine stay", ""), ("  (lab down --host undoes them)", "dim"))
        for change in report.host_changes:
            console.print(f"        {change}", style="dim", markup=False)


def render_doctor(verdicts: Sequence[Verdict], stream: TextIO | None = None) -> None:
    """All verdicts; each that is not well with its fix."""
    console = _console(stream)
    for verdict in verdicts:
        _line(console, _LEVEL[verdict.level], (f"{verdict.title:<26} ", "bold"), (verdict.what, ""))
        if verdict.fix and verdict.level in ("warn", "fail"):
            for line in verdict.fix.splitlines():
                console.print(f"        fix: {line}", style="cyan", markup=False)
    bad = sum(verdict.level == "fail" for verdict in verdicts)
    doubtful = sum(verdict.level == "warn" for verdict in verdicts)
    console.print(f"\n{len(verdicts)} checks: {bad} failed, {doubtful} to look at")


def _facts(console: Console, facts: object) -> None:
    if not isinstance(facts, dict) and not hasattr(facts, "get"):
        return
    get = facts.get
    gpus = "no GPUs"
    if get("gpu_mode") != "none":
        gpus = f"{get('gpus_per_node')} {get('gpu_mode')} GPUs per GPU node ({get('gpu_model')})"
    scheduler = f"KAI {get('kai_version')}" if get("scheduler") == "kai" else "default scheduler"
    console.print(f"  Kubernetes {get('kubernetes')} on {get('provider')}, {get('nodes')} nodes · {gpus} · {scheduler}", markup=False)
    if get("tenants"):
        console.print(f"  tenants: {get('tenants')}", markup=False)


def _notices(console: Console, notices: Iterable[str]) -> None:
    for notice in notices:
        _line(console, ("!", "bold yellow"), (notice, "bold yellow"))

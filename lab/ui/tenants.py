"""Tenants on a terminal: the list, one tenant step by step, and what adding, removing or connecting has come to."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from lab.engine.step import Effect
from lab.operations.tenant.results import Added, Removed, TenantState, TenantStatus
from lab.text import count, seconds
from lab.ui.lab import STATES
from lab.ui.plan import told_effects
from lab.ui.tenant_removal import render_removal
from lab.ui.text_writer import Cell, TextWriter

_HEADINGS = ("", "tenant", "mode", "KAI", "Kubernetes", "vCluster", "own nodes", "GPUs", "pods", "API", "kubeconfig")
_STYLES = {"ready": "green", "not ready": "yellow", "absent": "red"}
_SIGNS = {"ready": "ok", "not ready": "warn", "absent": "fail"}


def render_tenants(found: Sequence[TenantState], lab: str, console: Console | None = None) -> None:
    """The list: a table on a terminal, a line for each tenant that says all by itself elsewhere."""
    page = TextWriter(console)
    if not found:
        page.line(f"lab {lab} has no tenants", ("  lab tenant add NAME", "dim"))
        return
    if not page.console.is_terminal:
        for state in found:
            page.line(tenant_line(state))
        return
    page.line((f"Tenants of lab {lab}", "bold"))
    page.columns([[(heading, "dim") for heading in _HEADINGS], *(_row(page, state) for state in found)])
    for state in found:
        if state.why:
            page.sentence((page.words.glyph("warn"), "yellow"), f"{state.spec.name}: {state.why}", indent=1)


def tenant_line(state: TenantState) -> str:
    """One tenant in one line, without anything that needs a heading."""
    spec = state.spec
    words = [
        f"tenant {spec.name}: {state.state}",
        f"mode {spec.mode}",
        f"KAI {kai_words(state)}",
        f"Kubernetes {spec.kubernetes}",
        f"vCluster {spec.vcluster}",
        f"own nodes {', '.join(state.nodes) or 'none'}",
        f"GPUs {gpu_words(state)}",
        f"pods {pod_words(state)}",
        f"API {'answers' if state.answers else f'does not answer: {state.why}'}",
        f"kubeconfig {state.kubeconfig}",
    ]
    return "; ".join([*words, *(["added to the lab that runs"] if state.added else [])])


def kai_words(state: TenantState) -> str:
    """Who schedules: ``0.9.3``, ``0.12.23 (0.9.3 wanted)``, ``the host's``, ``none``."""
    if state.spec.mode == "host-kai":
        return "the host's"
    if state.spec.mode == "default":
        return "none"
    wanted = state.spec.kai_version or "?"
    if not state.kai:
        return f"missing ({wanted} wanted)"
    return state.kai if state.kai == wanted else f"{state.kai} ({wanted} wanted)"


def gpu_words(state: TenantState) -> str:
    """GPUs it may use and has: ``1.5 on 2 of 2``, with its quota where it has one."""
    used = f"{state.gpus_used:g} on {state.gpus_held} of {state.gpus}" if state.gpus_held else f"0 of {state.gpus}"
    return used if state.spec.quota.gpus is None else f"{used} (quota {state.spec.quota.gpus})"


def pod_words(state: TenantState) -> str:
    """Its workloads: ``4 running``, ``4 running, 2 pending``; nothing is known while its API does not answer."""
    if not state.answers:
        return "?"
    return f"{state.running} running" + (f", {state.pending} pending" if state.pending else "")


def render_tenant_status(found: Sequence[TenantStatus], lab: str, console: Console | None = None) -> None:
    """Each tenant and each of its steps."""
    page = TextWriter(console)
    if not found:
        render_tenants((), lab, console)
        return
    for number, one in enumerate(found):
        if number:
            page.blank()
        state = one.state
        word, style = ("ready", "bold green") if one.ok else (_not_ready(state), "bold red")
        page.line(
            (f"Tenant {state.spec.name} is {word}", style),
            (f"  {state.spec.mode}{', added to the lab that runs' if state.added else ''}", "dim"),
        )
        page.columns(_facts(state), indent=2)
        for _, title, seen in one.steps:
            style = STATES[seen.state.value]
            sign = page.words.glyph(seen.state.value)
            page.columns([[(sign, style), title, (seen.state.value, style), seen.detail]], indent=2)
            for line in seen.diff:
                page.line((line, "yellow"), indent=6)
        if not one.ok:
            again = f"lab tenant add {state.spec.name} as it was added" if state.added else "lab up"
            page.sentence((page.words.glyph("next"), "cyan"), (f"next: {again}", "cyan"), indent=2)


def render_added(report: Added, console: Console | None = None) -> None:
    """That the tenant is there, what is its own, and the way in."""
    page = TextWriter(console)
    name, record = report.tenant.name, report.record
    told = (
        seconds(record.seconds) if record.changed else f"nothing to do, {count(len(record.steps), 'step')} as planned"
    )
    page.line((f"Tenant {name} is there", "bold green"), f"  {told}")
    page.columns(
        [
            ["mode", report.tenant.mode + (f", KAI {report.tenant.kai_version}" if report.tenant.kai_version else "")],
            ["own nodes", ", ".join(report.nodes) or "none: it shares those of the lab"],
            ["kubeconfig", str(report.kubeconfig)],
        ],
        indent=2,
    )
    page.blank()
    page.line(f"lab tenant connect {name} -- kubectl get pods -A", indent=2)
    page.line(f"lab tenant status {name}", (" · ", "dim"), f"lab tenant remove {name}", indent=2)


def render_removed(report: Removed, console: Console | None = None) -> None:
    """How the removal went, and what is everybody's again."""
    render_removal(report.removal, console)
    if report.removal.left:
        return
    page = TextWriter(console)
    if report.nodes:
        page.line(f"everybody's again: {', '.join(report.nodes)}", indent=2)
    if report.in_file:
        page.line("it is in the lab file: the next 'lab up' with that file brings it back", indent=2)


def render_changes(effects: Sequence[Effect], console: Console | None = None) -> None:
    """What a change of one tenant does to everybody else, and what undoes it, on stderr."""
    page = TextWriter(console, stderr=True)
    page.heading("Changes for everybody in this lab")
    told_effects(page, effects)
    page.blank()


def _not_ready(state: TenantState) -> str:
    return "not ready" if state.state == "ready" else state.state  # its API answers, a step of it is not as planned


def _row(page: TextWriter, state: TenantState) -> list[Cell]:
    spec = state.spec
    return [
        (page.words.glyph(_SIGNS[state.state]), _STYLES[state.state]),
        (f"{spec.name}{' +' if state.added else ''}", "bold"),
        spec.mode,
        kai_words(state),
        spec.kubernetes,
        spec.vcluster,
        ", ".join(state.nodes) or page.words.dot,
        gpu_words(state),
        pod_words(state),
        ("answers", "green") if state.answers else ("silent", "red"),
        (str(state.kubeconfig), "dim"),
    ]


def _facts(state: TenantState) -> list[list[Cell]]:
    spec = state.spec
    rows: list[list[Cell]] = [
        ["KAI", kai_words(state)],
        ["Kubernetes", f"{spec.kubernetes} (vCluster {spec.vcluster})"],
        ["own nodes", ", ".join(state.nodes) or "none: it shares those of the lab"],
        ["GPUs", gpu_words(state)],
        ["pods", pod_words(state)],
        ["API", f"{state.server} answers" if state.answers else state.why],
        ["kubeconfig", str(state.kubeconfig)],
    ]
    return rows

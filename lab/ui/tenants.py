"""Tenants as text: the list, the steps of one tenant, and the results of adding and removing one."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from lab.engine.step import Effect
from lab.operations.tenant.results import Added, Removed, TenantState, TenantStatus
from lab.text import count, seconds
from lab.ui.lab import write_steps
from lab.ui.plan import write_effects
from lab.ui.tenant_removal import render_removal
from lab.ui.text_writer import Cell, TextWriter

_SIGNS = {"ready": ("ok", "green"), "not ready": ("warn", "yellow"), "absent": ("fail", "red")}


def render_tenants(found: Sequence[TenantState], lab: str, console: Console | None = None) -> None:
    """The list of tenants: a table on a terminal, elsewhere a self-contained line per tenant."""
    page = TextWriter(console)
    if not found:
        page.line(f"lab {lab} has no tenants", ("  kailab tenant add NAME", "dim"))
        return
    if not page.console.is_terminal:
        for state in found:
            page.line(tenant_line(state))
        return
    page.line((f"Tenants of lab {lab}", "bold"))
    page.table(["", "tenant", *_facts(found[0])], [_row(page, state) for state in found])
    for state in found:
        if state.why:
            page.marked("warn", f"{state.spec.name}: {state.why}", indent=1)


def tenant_line(state: TenantState) -> str:
    """A tenant in one line."""
    facts = {**_facts(state), **({} if state.answers else {"API": f"not ready: {state.why}"})}
    words = [f"tenant {state.spec.name}: {state.state}", *(f"{name} {value}" for name, value in facts.items())]
    return "; ".join([*words, *(["added to the running lab"] if state.added else [])])


def kai_words(state: TenantState) -> str:
    """The scheduler: ``0.9.3``, ``0.12.23 (0.9.3 wanted)``, ``the host's``, ``none``."""
    if state.spec.mode == "host-kai":
        if state.mode not in ("", state.spec.mode):
            return "none on the host"
        return "the host's"
    if state.spec.mode == "default":
        return "none"
    wanted = state.spec.kai_version or "?"
    if not state.kai:
        return f"missing ({wanted} wanted)"
    return state.kai if state.kai == wanted else f"{state.kai} ({wanted} wanted)"


def gpu_words(state: TenantState) -> str:
    """GPUs in use and available: ``1.5 on 2 of 2``, with the quota if it has one."""
    used = f"{state.gpus_used:g} on {state.gpus_held} of {state.gpus}" if state.gpus_held else f"0 of {state.gpus}"
    return used if state.spec.quota.gpus is None else f"{used} (quota {state.spec.quota.gpus})"


def pod_words(state: TenantState) -> str:
    """Its workloads: ``4 running, 2 pending``; ``?`` while its API does not answer."""
    if not state.answers:
        return "?"
    return f"{state.running} running" + (f", {state.pending} pending" if state.pending else "")


def render_tenant_status(found: Sequence[TenantStatus], lab: str, console: Console | None = None) -> None:
    """Each tenant with its steps."""
    page = TextWriter(console)
    if not found:
        render_tenants((), lab, console)
    for number, one in enumerate(found):
        if number:
            page.blank()
        state = one.state
        # A tenant whose API is ready can still have a drifted step.
        word = "ready" if one.ok else "not ready" if state.state == "ready" else state.state
        page.line(
            (f"Tenant {state.spec.name} is {word}", "bold green" if one.ok else "bold red"),
            (f"  {state.mode or state.spec.mode}{', added to the running lab' if state.added else ''}", "dim"),
        )
        page.columns([[name, value] for name, value in _facts(state).items()], indent=2)
        if state.why:
            page.marked("warn", state.why, indent=2)
        write_steps(page, one.steps, indent=2)
        if not one.ok:
            again = f"kailab tenant add {state.spec.name}, with the same options" if state.added else "kailab up"
            page.next(again, indent=2)


def render_added(report: Added, console: Console | None = None) -> None:
    """A tenant that was added, and how to use it."""
    page = TextWriter(console)
    name, record, spec = report.tenant.name, report.record, report.tenant
    done = f"nothing to do, {count(len(record.steps), 'step')} as planned"
    page.line((f"Tenant {name} is ready", "bold green"), f"  {seconds(record.seconds) if record.changed else done}")
    page.columns(
        [
            ["mode", spec.mode + (f", KAI {spec.kai_version}" if spec.kai_version else "")],
            ["own nodes", ", ".join(report.nodes) or "none"],
            ["kubeconfig", str(report.kubeconfig)],
        ],
        indent=2,
    )
    page.blank()
    page.line(f"kailab tenant connect {name} -- kubectl get pods -A", indent=2)
    page.line(f"kailab tenant status {name}", (" · ", "dim"), f"kailab tenant remove {name}", indent=2)


def render_removed(report: Removed, console: Console | None = None) -> None:
    """The removal of a tenant, and the nodes that are shared again."""
    render_removal(report.removal, console)
    page = TextWriter(console)
    if report.nodes and not report.removal.left:
        page.line(f"shared again: {', '.join(report.nodes)}", indent=2)
    if report.in_file and not report.removal.left:
        page.line("it is in the lab file: the next 'kailab up' with that file recreates it", indent=2)


def render_changes(effects: Sequence[Effect], console: Console | None = None) -> None:
    """Changes that affect the whole lab, and how to undo them, on stderr."""
    page = TextWriter(console, stderr=True)
    page.heading("Changes that affect the whole lab")
    write_effects(page, effects)
    page.blank()


def _row(page: TextWriter, state: TenantState) -> list[Cell]:
    sign, style = _SIGNS[state.state]
    name = f"{state.spec.name}{' +' if state.added else ''}"
    return [(page.terminal.glyph(sign), style), (name, "bold"), *_facts(state).values()]


def _facts(state: TenantState) -> dict[str, str]:
    spec = state.spec
    return {
        "mode": spec.mode,
        "KAI": kai_words(state),
        "Kubernetes": spec.kubernetes,
        "vCluster": spec.vcluster,
        "own nodes": ", ".join(state.nodes) or "none",
        "GPUs": gpu_words(state),
        "pods": pod_words(state),
        "API": ("ready" if state.answers else "not ready") + (f" ({state.access})" if state.access else ""),
        "kubeconfig": str(state.kubeconfig),
    }

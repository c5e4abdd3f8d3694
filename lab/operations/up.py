"""Brings a lab up."""

from __future__ import annotations

from collections.abc import Callable

from lab.engine.events import Notice
from lab.engine.run import RunRecord
from lab.engine.step import Effect
from lab.errors import HostNotReady, Interrupted, LabError, NotPermitted
from lab.findings import Finding
from lab.operations.abandoned import in_words
from lab.operations.abandoned_removal import remove_abandoned
from lab.operations.engine import engine_for, observe
from lab.operations.planning import Plan
from lab.operations.prepare import prepare
from lab.operations.preview import preview
from lab.operations.results import UpReport
from lab.paths import state_root
from lab.session.lab import Lab
from lab.session.run_history import save_run, step_seconds
from lab.steps.cluster import KindCluster
from lab.steps.host import HostReady

Ask = Callable[[tuple[Effect, ...]], bool]


def up(lab: Lab, *, require: frozenset[str] = frozenset(), ask: Ask = lambda _: False, means: str = "") -> UpReport:
    """Bring the lab up, or continue an earlier run that did not finish.

    Args:
        lab: the lab.
        require: what the lab must have; with ``kai``, a missing KAI is an error.
        ask: called with the changes to this machine; returns False to refuse them.
        means: the context that the user confirmed to mean, needed for a cluster that looks like production.

    Raises:
        NotPermitted: an existing cluster does not permit the steps, or looks like production.
        HostNotReady: the machine lacks something that kailab cannot fix, or the fix was refused.
        LabError: a step failed; the same command continues from there.
    """
    with lab.session.locked():
        plan, findings = prepare(lab, require)
        plan.refuse_missing()
        _refuse_host(plan, findings, ask)
        _refuse_cluster(lab, plan, means)
        lab.session.save()
        for text in plan.notices:
            lab.bus.emit(Notice("warning", text))
        estimate = plan.critical_path(step_seconds(state_root() / "runs"))
        engine = engine_for(lab, plan.steps)
        began = engine.clock()
        seen = observe(lab, plan.steps, stop=True)
        record = engine.up(estimate, seen=seen, since=began)
        save_run(lab.paths.runs, record, dict(plan.facts))
        record.raise_failure()
        _keep_checkpoint(lab, plan, record)
        for line in in_words(remove_abandoned(lab)):
            lab.bus.emit(Notice("info", f"removed {line}"))
    return UpReport(
        lab.spec.name,
        record,
        plan.facts,
        plan.notices,
        lab.paths.kubeconfig,
        {tenant.name: lab.paths.tenant_kubeconfig(tenant.name) for tenant in lab.tenants},
    )


def _keep_checkpoint(lab: Lab, plan: Plan, record: RunRecord) -> None:
    """Keep the state of a lab whose nodes this run created; the lab is up even if that fails."""
    new = any(step.step == "cluster" and step.outcome == "changed" and not step.detail for step in record.steps)
    for step in plan.steps if new else ():
        if isinstance(step, KindCluster):
            try:
                step.keep_checkpoint(lab.context(step.id))
            except Interrupted:
                raise
            except (LabError, OSError) as error:
                lab.bus.emit(Notice("warning", f"no checkpoint was saved: {error}"))


def _refuse_cluster(lab: Lab, plan: Plan, means: str) -> None:
    """Raise NotPermitted or LabError for an existing cluster before anything is made there."""
    if lab.spec.cluster.own:
        return
    found = preview(lab, plan, observe(lab, plan.steps), before_up=True)
    context = lab.spec.cluster.context
    if found is not None and found.production and means != context:
        raise NotPermitted(
            f"the cluster of context {context} looks like production: {found.production}",
            fix=f"if you mean it, repeat the command with --yes-i-mean {context}",
        )
    if found is not None:
        found.refuse()


def _refuse_host(plan: Plan, findings: tuple[Finding, ...], ask: Ask) -> None:
    fixable = {fix.id for step in plan.steps if isinstance(step, HostReady) for fix in step.fixes}
    bad = [one for one in findings if one.severity == "error" and one.fix_id not in fixable]
    if bad:
        raise HostNotReady(
            f"this machine is not ready: {bad[0].what}",
            evidence=[f"{one.title}: {one.what}" for one in bad],
            fix=bad[0].next or "kailab doctor",
        )
    if plan.host_effects and not ask(plan.host_effects):
        raise HostNotReady(
            "Host changes are required but were not approved",
            evidence=[f"{effect.what}  (undone by: {effect.undo})" for effect in plan.host_effects],
            fix="re-run with --yes to approve them",
        )

"""Examines the machine and the sources and builds the plan that ``kailab plan`` shows and ``kailab up`` applies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import yaml

from lab.config import LabSpec
from lab.config.added_tenants import checked_with_added, with_added
from lab.config.budget import with_budget
from lab.engine.step import Observed
from lab.errors import SpecError
from lab.findings import Finding
from lab.gpu.diagnosis.host import needs_of
from lab.host.checks import doctor
from lab.host.facts import PLANNED, gather
from lab.host.fixes import build_fixes, needed_fixes
from lab.host.nvidia.discovery import discover
from lab.lint import lint, parse, refuse
from lab.lint.context import lint_context
from lab.operations.engine import observe
from lab.operations.existing import resolve_existing
from lab.operations.planning import Plan, build_plan, resolve_gpus, resolve_scheduler
from lab.operations.preview import preview
from lab.operations.results import PlanReport
from lab.operations.ways import Ways
from lab.paths import state_root
from lab.session.lab import Lab
from lab.session.run_history import step_seconds
from lab.session.session import Session, saved_engine
from lab.session.user_kubeconfig import CLAIM, connect
from lab.steps import kai
from lab.steps.cluster.existing import refuse_another
from lab.steps.cluster.ownership import refuse_foreign_nodes
from lab.steps.host import HostReady
from lab.steps.queues import queue_documents
from lab.tenants.preflight import refuse_unfit
from lab.tenants.vcluster.validation import validate_tenants


def prepare(
    lab: Lab, require: frozenset[str] = frozenset(), *, advice: bool = False
) -> tuple[Plan, tuple[Finding, ...]]:
    """Examine the machine and the sources and build the plan, which takes seconds.

    Changes nothing, except that the lab's copy of an existing cluster's credentials is renewed.

    Args:
        lab: the lab.
        require: what the lab must have.
        advice: also run the doctor's advisory checks, which take longer.

    Raises:
        Unavailable: ``require`` names KAI, and KAI is not available.
        SpecError: the lab file requests something that this release does not support.
        NameTaken: nodes of a lab of this name belong to another state directory.
    """
    asked = lab.session.asked
    host = gather(lab.runner, tools=PLANNED)
    needs = needs_of(asked)
    findings = doctor(host, lab.runner, needs=needs, advice=advice)
    running = [engine.name for engine in host.engines if engine.running]
    wanted = asked.cluster.engine
    name = _engine(lab.session, running)
    uses = asked.cluster.own and name in running
    lab.session = Session(asked, asked, {}, name, uses, lab.session.bus, lab.session.cancel)
    if lab.session.engine_runs:
        refuse_foreign_nodes(lab.session.scope("plan"))
    added = lab.session.added or ()
    checked_with_added(asked, added)
    cluster = None if asked.cluster.own else connect(asked)
    if cluster is None:
        spec, notices = resolve_gpus(asked, discover(lab.runner, host, engine=wanted), lab.session.journal)
        facts = {"engine": name}
    else:
        refuse_another(lab.session.scope("plan"), cluster)
        lab.session.renew_credentials()
        spec, facts, notices = resolve_existing(asked, cluster)
        findings = tuple(finding for finding in findings if finding.rule in _WITHOUT_ENGINE)
    spec, no_kai = resolve_scheduler(spec, lab.session.supply, require)
    lab.session.spec = spec = with_budget(with_added(spec, added))
    if cluster is not None:
        refuse_unfit(replace(lab.session.scope("plan"), open_cluster=lambda _: cluster), spec)
    plan = build_plan(
        spec,
        lab.session.supply,
        HostReady(needed_fixes(findings), build_fixes(host), engine=asked.cluster.own),
        no_kai=no_kai,
        notices=(
            *notices,
            # the file's own scheduler: no_kai says what became of it
            *spec.model_copy(update={"scheduler": asked.scheduler}).warnings(),
            *_tenant_warnings(lab, spec),
            *lint_warnings(spec),
            *lab.session.added_notices,
        ),
        facts=facts,
        added=lab.session.added_names,
    )
    lab.session.facts = dict(plan.facts)
    return plan, findings


def _engine(session: Session, running: Sequence[str]) -> str:
    """The engine of the lab's nodes: that of those it has, else that of its file, else the first that runs.

    Raises SpecError if the lab is elsewhere: a new one would take its state, and nobody would know what it has there.
    """
    asked, name = session.asked.cluster, session.asked.name
    theirs, nodes = session.journal.owned(CLAIM), session.journal.owned("cluster")
    used = saved_engine(session.paths) if nodes else ""
    if (theirs and asked.own) or (nodes and not asked.own) or (used and asked.engine not in ("auto", used)):
        where = f"in the existing cluster {theirs[0].name}" if theirs else f"on nodes of {used or 'its own'}"
        raise SpecError(
            f"lab {name} is up {where}, and its file wants it elsewhere",
            fix=f"kailab down --name {name} first, or give the new lab another name",
        )
    return used or (asked.engine if asked.engine != "auto" else next(iter(running), "docker"))


_WITHOUT_ENGINE = ("memory", "disk", "cache", "sources", "build-tools")
"""The doctor's checks that matter to a lab in an existing cluster."""


def lint_warnings(spec: LabSpec) -> tuple[str, ...]:
    """Lint the queues that the lab applies, and the lab file's values for KAI. Raises ManifestsRefused for an error."""
    if spec.scheduler != "kai":
        return ()
    documents = [*parse(yaml.safe_dump_all(queue_documents(spec)), "queues of the lab file")]
    if kai.wanted(spec) and spec.kai.values:
        values = parse(yaml.safe_dump(spec.kai.values), "kai.values of the lab file")
        documents += [replace(one, values="set") for one in values]
    found = lint(documents, lint_context(spec))
    refuse(found)
    return tuple(f"{one.subject}: {one.what} ({one.rule})" for one in found if one.severity == "warning")


def _tenant_warnings(lab: Lab, spec: LabSpec) -> tuple[str, ...]:
    """Validate the values of tenants, before anything is built for them."""
    supply = lab.session.supply
    warnings: list[str] = []
    for version in dict.fromkeys(tenant.vcluster for tenant in spec.tenants):
        chart = supply.item("chart", "vcluster", version)
        at_hand = supply.choose([chart])[chart].source in ("present", "bundle")
        alike = tuple(tenant for tenant in spec.tenants if tenant.vcluster == version)
        only = spec.model_copy(update={"tenants": alike})
        warnings += validate_tenants(only, supply.path(chart) if at_hand else None)
    return tuple(warnings)


def plan(lab: Lab, require: frozenset[str] = frozenset()) -> PlanReport:
    """The steps that ``up`` would apply, and the current state of each."""
    found, findings = prepare(lab, require, advice=True)
    seen: Mapping[str, Observed] = {}
    if lab.session.engine_runs or not lab.spec.cluster.own:
        seen = observe(lab, found.steps)
    estimate = found.critical_path(step_seconds(state_root() / "runs"), seen)
    ways = Ways.of(found.choices, lab.session.supply)
    return PlanReport(found, seen, findings, estimate, ways, preview(lab, found, seen))

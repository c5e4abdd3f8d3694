"""Labs as objects: what the command line, the pytest plugin and other programs use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import yaml

from lab.config import LabSpec, TenantSpec
from lab.config.added_tenants import checked_with_added, with_added
from lab.engine.events import Bus, Notice
from lab.engine.run import Engine
from lab.engine.step import Effect, Observed
from lab.errors import HostNotReady, NoLab
from lab.gpu.diagnosis.host import needs_of
from lab.host import Verdict, doctor, gather, needed_fixes
from lab.host.nvidia.discovery import discover
from lab.kube import Cluster
from lab.lint import lint, parse, refuse
from lab.lint.setting import setting_of
from lab.operations.down import down
from lab.operations.planning import Plan, build_plan, resolve_gpus, resolve_scheduler
from lab.operations.results import DownReport, PlanReport, StatusReport, UpReport
from lab.paths import LabPaths, lab_names, state_root
from lab.session import run_history
from lab.session.context import LabContext
from lab.session.session import Session, name_of
from lab.steps.cluster.ownership import refuse_strangers
from lab.steps.host import HostReady
from lab.steps.kai.values import kai_values
from lab.steps.queues import queue_documents
from lab.tenants import validate_tenants
from lab.tools.process import Runner

Ask = Callable[[tuple[Effect, ...]], bool]
_BLOCKING = "fail"


class Lab:
    """One lab.

    Make one with ``Lab.of`` (from a lab file) or ``Lab.attach`` (one that is up).
    """

    def __init__(self, session: Session) -> None:
        self.session = session

    @classmethod
    def of(cls, spec: LabSpec) -> Lab:
        """The lab of a lab file, up or not."""
        return cls(Session(spec, spec))

    @classmethod
    def attach(cls, name: str | None = None) -> Lab:
        """A lab that is up: by name, KAILAB_LAB, or the only one there is. Raises NoLab."""
        lab = cls(Session.attached(name_of(name)))
        if not lab.paths.kubeconfig.exists():
            raise NoLab(f"lab {lab.spec.name!r} was not brought up to its cluster", fix="lab up")
        return lab

    @property
    def bus(self) -> Bus:
        """Where the lab's events are told."""
        return self.session.bus

    @property
    def spec(self) -> LabSpec:
        """The lab file, without ``auto``."""
        return self.session.spec

    @property
    def paths(self) -> LabPaths:
        """Where the lab keeps its state."""
        return self.session.paths

    @property
    def runner(self) -> Runner:
        """Runs commands, logged to the lab's log."""
        return self.session.runner

    @property
    def cluster(self) -> Cluster:
        """The lab's own cluster."""
        return self.session.cluster()

    @property
    def tenants(self) -> tuple[TenantSpec, ...]:
        """The lab's tenants."""
        return self.spec.tenants

    @property
    def has_kai(self) -> bool:
        """Whether KAI schedules in this lab."""
        return self.spec.scheduler == "kai"

    @property
    def kai_version(self) -> str | None:
        """KAI's version, None without KAI."""
        return self.spec.kai.version if self.has_kai else None

    @property
    def kai_reason(self) -> str:
        """Why there is no KAI; empty when there is."""
        return self.session.facts.get("no_kai", "")

    @property
    def gpu_mode(self) -> str:
        """simulated, nvidia or none."""
        return self.session.facts.get("gpu_mode", "none")

    @property
    def kind_name(self) -> str:
        """Name of the kind cluster."""
        return self.session.scope("").kind_name

    @property
    def node_image(self) -> str:
        """The node image's tag."""
        return self.session.facts.get("node_image", "")

    def tenant(self, name: str) -> Cluster:
        """A tenant's cluster. Raises NoLab when the lab has no such tenant."""
        if name not in {tenant.name for tenant in self.tenants}:
            known = ", ".join(tenant.name for tenant in self.tenants) or "none"
            raise NoLab(f"lab {self.spec.name!r} has no tenant {name!r} (tenants: {known})", fix="lab status")
        return self.session.cluster(name)

    def tool(self, name: str) -> Path:
        """A program of the lab: kind, kubectl or helm. Raises Unavailable."""
        return self.session.supply.binary(name)

    def facts(self) -> dict[str, str]:
        """What is true of this lab, for reports."""
        return dict(self.session.facts)

    def context(self, step: str) -> LabContext:
        """What a step of this lab would get."""
        return self.session.scope(step)

    def prepare(self, require: frozenset[str] = frozenset()) -> tuple[Plan, tuple[Verdict, ...]]:
        """Look at the machine and the sources, and make the plan. Changes nothing; takes seconds.

        Raises:
            Unavailable: something required (``kai``) cannot be had.
            SpecError: the lab file asks for what this release cannot do.
            NameTaken: there are nodes of a lab of that name, which is somebody else's.
        """
        asked = self.session.asked
        host = gather(self.runner)
        needs = needs_of(asked)
        verdicts = doctor(host, self.runner, needs=needs)
        running = [engine.name for engine in host.engines if engine.running]
        wanted = asked.cluster.engine
        name = wanted if wanted != "auto" else next(iter(running), "docker")
        self.session = Session(asked, asked, {}, name, name in running, self.session.bus, self.session.cancel)
        if self.session.engine_runs:
            refuse_strangers(self.session.scope("plan"))
        added = self.session.added or ()
        checked_with_added(asked, added)
        nvidia = discover(self.runner, host, engine=wanted)
        spec, gpu_notices = resolve_gpus(asked, nvidia, self.session.journal)
        spec, no_kai, _ = resolve_scheduler(spec, self.session.supply, require)
        self.session.spec = spec = with_added(spec, added)
        step = HostReady(needed_fixes(verdicts))
        plan = build_plan(
            spec,
            self.session.supply,
            step,
            no_kai=no_kai,
            notices=(
                *gpu_notices,
                *spec.warnings(),
                *self._doubts(spec),
                *self._linted(spec),
                *self.session.added_notices,
            ),
            facts={"engine": name},
            added=self.session.added_names,
            leave_alone=True,
        )
        self.session.facts = dict(plan.facts)
        return plan, verdicts

    def _linted(self, spec: LabSpec) -> tuple[str, ...]:
        """Lint what the lab will apply for KAI: its queues and values. Raises ManifestsRefused for an error."""
        if spec.scheduler != "kai":
            return ()
        documents = parse(yaml.safe_dump_all(queue_documents(spec)), "queues of the lab file")
        values = parse(yaml.safe_dump(kai_values(spec)), "KAI's values")
        found = lint([*documents, *values], setting_of(spec))
        refuse(found)
        return tuple(f"{one.object}: {one.what} ({one.rule})" for one in found if one.level == "warning")

    def _doubts(self, spec: LabSpec) -> tuple[str, ...]:
        """Check the tenants' values before anything is made, wherever their chart is at hand already."""
        supply = self.session.supply
        doubts: list[str] = []
        for version in dict.fromkeys(tenant.vcluster for tenant in spec.tenants):
            chart = supply.item("chart", "vcluster", version)
            if supply.choose([chart])[chart].source in ("present", "bundle"):
                alike = tuple(tenant for tenant in spec.tenants if tenant.vcluster == version)
                doubts += validate_tenants(spec.model_copy(update={"tenants": alike}), supply.path(chart))
        return tuple(doubts)

    def plan(self, require: frozenset[str] = frozenset()) -> PlanReport:
        """What ``up`` would do, and how everything stands now."""
        plan, verdicts = self.prepare(require)
        seen: Mapping[str, Observed] = {}
        if self.session.engine_runs:
            seen = self._engine(plan).observe()
        estimate = plan.critical_path(run_history.step_seconds(state_root() / "runs"), seen)
        return PlanReport(plan, seen, verdicts, estimate)

    def up(self, *, require: frozenset[str] = frozenset(), ask: Ask = lambda _: False) -> UpReport:
        """Bring the lab up, or finish what an earlier run began.

        Args:
            require: what must be there; with ``kai``, no KAI is an error.
            ask: called with the changes to this machine; False refuses them.

        Raises:
            HostNotReady: the machine lacks something that cannot be fixed here, or the fix was refused.
            LabError: a step failed; the same command goes on from there.
        """
        with self.session.locked():
            plan, verdicts = self.prepare(require)
            plan.refuse_missing()
            self._refuse_host(plan, verdicts, ask)
            self.session.save()
            for text in plan.notices:
                self.bus.emit(Notice("warning", text))
            estimate = plan.critical_path(run_history.step_seconds(state_root() / "runs"))
            record = self._engine(plan).up(estimate)
            run_history.save_run(self.paths.runs, record, dict(plan.facts))
            record.raise_failure()
        return UpReport(
            self.spec.name,
            record,
            plan.facts,
            plan.notices,
            self.paths.kubeconfig,
            {tenant.name: self.paths.tenant_kubeconfig(tenant.name) for tenant in self.tenants},
        )

    def status(self) -> StatusReport:
        """How the lab stands now."""
        spec = self.spec
        plan = build_plan(
            spec,
            self.session.supply,
            HostReady(()),
            no_kai=self.kai_reason,
            notices=(),
            facts={},
            added=self.session.added_names,
            made_of=self.node_image,
        )
        seen = self._engine(plan).observe()
        notices = plan.notices
        steps = tuple((s.id, s.title, seen[s.id]) for s in plan.steps if not s.id.startswith(("supply:", "host")))
        tenants = {tenant.name: self.paths.tenant_kubeconfig(tenant.name) for tenant in spec.tenants}
        return StatusReport(spec.name, self.session.facts, steps, notices, tenants, self.paths.kubeconfig)

    def _engine(self, plan: Plan) -> Engine[LabContext]:
        return Engine(plan.steps, self.session.scope, bus=self.bus, cancel=self.session.cancel, lab=self.spec.name)

    def _refuse_host(self, plan: Plan, verdicts: tuple[Verdict, ...], ask: Ask) -> None:
        fixable = {fix.id for step in plan.steps if isinstance(step, HostReady) for fix in step.fixes}
        bad = [v for v in verdicts if v.level == _BLOCKING and (v.fix_id is None or v.fix_id not in fixable)]
        if bad:
            raise HostNotReady(
                f"this machine is not ready: {bad[0].what}",
                evidence=[f"{v.title}: {v.what}" for v in bad],
                fix=bad[0].fix or "lab doctor",
            )
        if plan.host_effects and not ask(plan.host_effects):
            raise HostNotReady(
                "this machine needs changes that were not agreed to",
                evidence=[f"{effect.what}  (undone by: {effect.undo})" for effect in plan.host_effects],
                fix="run with --yes to let kailab make them, or make them yourself",
            )


__all__ = ["DownReport", "Lab", "PlanReport", "StatusReport", "UpReport", "down", "lab_names"]

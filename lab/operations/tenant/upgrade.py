"""Upgrades and rollbacks of one tenant that runs: what is refused first, and the saved state that follows.

``lab.operations.tenant.version_skew`` refuses; ``lab.operations.tenant.rehearse`` changes KAI, with snapshot, suites
and way back.
"""

from __future__ import annotations

from typing import Any

from lab.config import TenantSpec
from lab.config.added_tenants import TenantRequest, dump_added, with_fixed_nodes, with_tenant
from lab.engine.events import Notice
from lab.errors import LabError, SpecError
from lab.operations.engine import engine_for
from lab.operations.tenant import rehearse
from lab.operations.tenant.changes import delta
from lab.operations.tenant.rehearse import Rehearsal
from lab.operations.tenant.status import find
from lab.operations.tenant.version_skew import forbidden
from lab.session import run_history
from lab.session.lab import Lab
from lab.tenants import validate_tenants
from lab.tenants.vcluster.values import CHART


def upgrade(lab: Lab, name: str, kai: str, *, vcluster: str = "", suites: bool = True, keep: bool = False) -> Rehearsal:
    """Rehearse another KAI version in a tenant: snapshot, upgrade, suites, verdict, and back again on red.

    Args:
        lab: one that is up.
        name: the tenant.
        kai: the version of KAI inside.
        vcluster: another version of the vCluster too, first; empty: it stays.
        suites: run the suites in the tenant after the upgrade.
        keep: stay on the new version, whatever the suites say.

    Raises:
        NoLab: the lab has no such tenant.
        SpecError: the change is refused; nothing was changed.
        Unavailable: a chart or an image of that version cannot be had; nothing was changed.
        Busy: another process changes the lab.
        LabError: the upgrade failed.
    """
    _check(lab, name, {"kai_version": kai.removeprefix("v"), **({"vcluster": vcluster} if vcluster else {})})
    if vcluster and find(lab.spec, name).vcluster != vcluster:
        _upgrade_vcluster(lab, name, vcluster)
    found = rehearse.rehearse(lab, name, kai, suites=suites, keep=keep, save=lambda tenant: keep_tenant(lab, tenant))
    _tell(lab, name)
    return found


def roll_back(lab: Lab, name: str, to: str | None = None) -> Rehearsal:
    """Bring the KAI of a tenant back to the version before, or to a named one; running pods stay.

    Raises:
        NoLab: the lab has no such tenant.
        SpecError: the tenant has no KAI of its own, or the version is refused; nothing was changed.
        Busy: another process changes the lab.
        LabError: the rollback failed, or no version before is known.
    """
    _check(lab, name, {"kai_version": to.removeprefix("v")} if to else {})
    found = rehearse.roll_back(lab, name, to, save=lambda tenant: keep_tenant(lab, tenant))
    _tell(lab, name)
    return found


def keep_tenant(lab: Lab, tenant: TenantSpec) -> None:
    """Write a changed tenant into the saved state, in the place of the one of its name. The lab must be locked."""
    session = lab.session
    session.refresh()
    put(lab, tenant)
    session.save()


def put(lab: Lab, tenant: TenantSpec) -> None:
    """Have a changed tenant in the session in the place of the one of its name; ``save`` writes it."""
    session = lab.session

    def changed(tenants: tuple[TenantSpec, ...]) -> tuple[TenantSpec, ...]:
        return tuple(tenant if one.name == tenant.name else one for one in tenants)

    asked = session.asked.model_copy(update={"tenants": changed(session.asked.tenants)})
    session.change_tenants(asked, changed(session.added or ()))


def _check(lab: Lab, name: str, update: dict[str, Any]) -> None:
    """Refuse a change before anything is touched. Raises NoLab, SpecError, and Busy where somebody is at it already."""
    with lab.session.locked():
        lab.session.refresh()
        there = find(lab.spec, name)
        if there.mode != "own-kai":
            raise _refused(name, (f"mode {there.mode} has no KAI inside; only own-kai has",))
        _changed(lab, there, update)


def _changed(lab: Lab, there: TenantSpec, update: dict[str, Any]) -> TenantSpec:
    """The tenant with the change, checked with the whole lab. Raises SpecError."""
    whole = with_fixed_nodes(lab.spec)
    now = find(whole, there.name)
    wanted = now.model_copy(update=update)
    if why := forbidden(now, wanted):
        raise _refused(there.name, why)
    rest = tuple(one for one in whole.tenants if one.name != there.name)
    # where 'auto' came to the default scheduler, host-kai tenants of the file would be refused
    scheduler = "kai" if lab.has_kai else lab.session.asked.scheduler
    others = whole.model_copy(update={"tenants": rest, "scheduler": scheduler})
    checked = with_tenant(others, TenantRequest(dump_added([wanted])[0])).tenants[-1]
    return checked.model_copy(update={"nodes": there.nodes})


def _upgrade_vcluster(lab: Lab, name: str, version: str) -> None:
    """Bring the vCluster of a tenant to a version, by the step that made it."""
    session = lab.session
    with session.locked():
        session.refresh()
        before = lab.spec
        wanted = _changed(lab, find(before, name), {"vcluster": version})
        try:
            put(lab, wanted)
            _refuse_missing_chart(lab, wanted)
            steps = delta(lab, before, lab.spec, (name,)).applied
            alone = lab.spec.model_copy(update={"tenants": (wanted,)})
            notices = validate_tenants(alone, session.supply.chart(CHART, version))
        except LabError:
            session.refresh()  # nothing was written: the lab is as it was
            raise
        session.save()
        for text in notices:
            lab.bus.emit(Notice("warning", text))
        record = engine_for(lab, steps, partial=True).up(verb="tenant upgrade")
        run_history.save_run(lab.paths.runs, record, dict(session.facts))
        record.raise_failure()


def _refuse_missing_chart(lab: Lab, wanted: TenantSpec) -> None:
    item = lab.session.supply.item("chart", CHART, wanted.vcluster)
    choice = lab.session.supply.choose([item])[item]
    if not choice.available:
        raise _refused(wanted.name, (f"the lab cannot have the vCluster chart {wanted.vcluster}", *choice.why))


def _tell(lab: Lab, name: str) -> None:
    """Say where a lab file would undo what was done."""
    lab.session.refresh()
    if name not in lab.session.added_names:
        version = find(lab.spec, name).kai_version
        text = f"tenant {name} is to have KAI {version}: a lab file that says otherwise changes it at the next 'lab up'"
        lab.bus.emit(Notice("info", text))


def _refused(name: str, why: tuple[str, ...]) -> SpecError:
    return SpecError(
        f"tenant {name} cannot be changed so: {why[0]}",
        evidence=why[1:],
        fix=f"lab tenant status {name} shows what it has; another version beside it: lab tenant add",
    )

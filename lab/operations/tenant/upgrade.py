"""Upgrades and rolls back one running tenant, and keeps the saved state in step.

``lab.operations.tenant.version_skew`` has the rules; ``lab.operations.kai.rehearse`` changes KAI.
"""

from __future__ import annotations

from typing import Any

from lab.config import TenantSpec
from lab.config.added_tenants import TenantRequest, dump_added, with_fixed_nodes, with_tenant
from lab.engine.events import Notice
from lab.errors import SpecError
from lab.operations.kai import rehearse
from lab.operations.kai.cluster_kai import TenantKai
from lab.operations.planning import loading_steps
from lab.operations.tenant.changes import TenantChange, saved_when_done
from lab.operations.tenant.status import find
from lab.operations.tenant.version_skew import forbidden
from lab.session.lab import Lab
from lab.steps.kai.upgrade.rehearsal_result import Rehearsal
from lab.tenants.vcluster.validation import validate_tenants
from lab.tenants.vcluster.values import CHART


def upgrade(lab: Lab, name: str, kai: str, *, vcluster: str = "", suites: bool = True, keep: bool = False) -> Rehearsal:
    """Rehearse another KAI version in a tenant; on red, return to the old one.

    Args:
        lab: a running lab.
        name: the tenant.
        kai: the version of KAI inside.
        vcluster: another version of the vCluster, upgraded first; empty keeps it.
        suites: run the suites in the tenant after the upgrade.
        keep: keep the new version even on red.

    Raises:
        NoLab: the lab has no such tenant.
        SpecError: the change is refused; nothing was changed.
        Unavailable: a chart or an image of that version is not available; nothing was changed.
        Busy: another process is changing the lab.
        LabError: the upgrade failed.
    """
    _check(lab, name, {"kai_version": kai.removeprefix("v"), **({"vcluster": vcluster} if vcluster else {})})
    if vcluster and find(lab.spec, name).vcluster != vcluster:
        _upgrade_vcluster(lab, name, vcluster)
    found = rehearse.rehearse(TenantKai(lab, name), kai, suites=suites, keep=keep)
    _note_lab_file(lab, name)
    return found


def roll_back(lab: Lab, name: str, to: str | None = None) -> Rehearsal:
    """Return a tenant's KAI to the version before, or to a named one; running pods stay.

    Raises:
        NoLab: the lab has no such tenant.
        SpecError: the tenant has no KAI of its own, or the version is refused; nothing was changed.
        Busy: another process is changing the lab.
        LabError: the rollback failed, or no earlier version is recorded.
    """
    _check(lab, name, {"kai_version": to.removeprefix("v")} if to else {})
    found = rehearse.roll_back(TenantKai(lab, name), to)
    _note_lab_file(lab, name)
    return found


def _check(lab: Lab, name: str, update: dict[str, Any]) -> None:
    """Refuse an invalid change before it begins. Raises NoLab, SpecError, Busy."""
    with lab.session.locked():
        lab.session.refresh()
        there = find(lab.spec, name)
        if there.mode != "own-kai":
            raise _refused(name, (f"mode {there.mode} has no KAI inside; only own-kai has",))
        _changed(lab, there, update)


def _changed(lab: Lab, there: TenantSpec, update: dict[str, Any]) -> TenantSpec:
    """The tenant with the change, validated with the whole lab. Raises SpecError."""
    whole = with_fixed_nodes(lab.spec)
    now = find(whole, there.name)
    wanted = now.model_copy(update=update)
    if why := forbidden(now, wanted):
        raise _refused(there.name, why)
    rest = tuple(one for one in whole.tenants if one.name != there.name)
    # where 'auto' became the default scheduler, host-kai tenants of the file would be refused
    scheduler = "kai" if lab.has_kai else lab.session.asked.scheduler
    others = whole.model_copy(update={"tenants": rest, "scheduler": scheduler})
    checked = with_tenant(others, TenantRequest(dump_added([wanted])[0])).tenants[-1]
    return checked.model_copy(update={"nodes": there.nodes})


def _upgrade_vcluster(lab: Lab, name: str, version: str) -> None:
    """Upgrade the vCluster of a tenant through its step."""
    session = lab.session
    with session.locked():
        session.refresh()
        before = lab.spec
        wanted = _changed(lab, find(before, name), {"vcluster": version})
        with saved_when_done(lab):
            session.replace_tenant(wanted)
            chart = session.supply.item("chart", CHART, version)
            choice = session.supply.choose([chart])[chart]
            if not choice.available:
                raise _refused(name, (f"vCluster chart {version} is not available", *choice.why))
            loading = loading_steps(lab.spec, wanted, session.supply)
            change = TenantChange(lab, before, lab.spec, loading)
            alone = lab.spec.model_copy(update={"tenants": (wanted,)})
            notices = validate_tenants(alone, session.supply.path(chart))
        change.apply("tenant upgrade", notices)


def _note_lab_file(lab: Lab, name: str) -> None:
    """Emit a notice when the next 'kailab up' with the lab file could undo the change."""
    lab.session.refresh()
    if name not in lab.session.added_names:
        version = find(lab.spec, name).kai_version
        text = f"tenant {name} now has KAI {version}: a lab file with another version changes it at the next kailab up"
        lab.bus.emit(Notice("info", text))


def _refused(name: str, why: tuple[str, ...]) -> SpecError:
    return SpecError(
        f"Tenant {name} cannot be changed: {why[0]}",
        evidence=why[1:],
        fix=f"see kailab tenant status {name}, or add another tenant with that version: kailab tenant add",
    )

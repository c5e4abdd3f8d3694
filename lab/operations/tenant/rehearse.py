"""Rehearses another KAI version in a tenant that runs: snapshot, change, trial pods, suites, verdict, and back on red.

The change itself is made by ``lab.tenants.upgrade.upgrade``. The caller saves the version that the tenant is to have
(``save``). The version that a rollback returns to is recorded here (``lab.tenants.upgrade.rollback_record``).
"""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path

from lab.config import TenantSpec
from lab.errors import Busy, Interrupted, LabError, NoLab
from lab.objects.redact import redact_text
from lab.session.lab import Lab
from lab.tenants.upgrade.rehearsal_result import Rehearsal, Suites
from lab.tenants.upgrade.rollback_record import RollbackRecord, forget, last_change, record
from lab.tenants.upgrade.smoke_test import SmokeTest, try_out
from lab.tenants.upgrade.upgrade import Change, Save, change_kai, changed, check_change, running_inside, trial_queue
from lab.tenants.upgrade.workload_snapshot import SnapshotDiff, WorkloadSnapshot, compare
from lab.tenants.vcluster.inner_lab import inside
from lab.workloads.namespace import WorkloadNamespace

__all__ = ["Rehearsal", "Suites", "rehearse", "roll_back", "run_suites"]

SUITES = Path("tests") / "e2e"
"""Where the suites lie in a checkout; a wheel has none."""

_SUITES_SECONDS = 1800.0
_NO_TESTS = 5
"""pytest's exit status where nothing was selected."""

_COLUMNS = "400"
"""Width of pytest's lines, which would otherwise cut off why a test failed."""

_MARKS = "tenants and not disturbs"
"""Those that need a tenant, without those that break or change one: this one is being changed already."""


def rehearse(
    lab: Lab, name: str, version: str, *, suites: bool = True, keep: bool = False, save: Save | None = None
) -> Rehearsal:
    """Bring a tenant's KAI to a version and find out whether it can stay; on red it does not, unless ``keep``.

    Args:
        lab: one that is up.
        name: a tenant of mode own-kai.
        version: KAI's, older or newer.
        suites: run the suites inside the tenant too, where there are any.
        keep: stay on the version even on red.
        save: told how the tenant is wanted, before anything changes, and again before it is taken back.

    Raises:
        NoLab: there is no such tenant.
        SpecError, Unavailable: the tenant cannot have that version; nothing was changed.
        Busy: another process changes the lab; nothing was changed.
        Interrupted: cut off; doing the same again, or a rollback, goes on from there.
    """
    wanted = changed(_tenant(lab, name), version)
    ctx = lab.context(f"kai:{name}")
    check_change(ctx, wanted)
    before = running_inside(ctx, wanted)
    earlier = last_change(lab.paths, name)
    old = changed(wanted, before.kai) if before.kai else None
    differs = old is not None and before.kai != wanted.kai_version
    try:
        change = _change(lab, wanted, save, RollbackRecord(old, wanted) if old and differs else None)
    except (Interrupted, Busy):
        raise
    except LabError as error:
        found = Rehearsal(name, before.kai, version, None, error=str(error))
    else:
        trials = _trials(lab, wanted)
        ran = run_suites(lab, name) if suites else Suites(ran=False, summary="not asked for")
        found = Rehearsal(
            name, before.kai, version, change, trials=trials, suites=ran, outcome=_outcome(lab, wanted, before)
        )
    if found.green or old is None or not differs:
        _done(lab, name)
        return found
    if keep:
        _done(lab, name)
        return replace(found, kept=True)
    return _taken_back(lab, found, old, wanted, before, earlier, save)


def roll_back(lab: Lab, name: str, to: str | None = None, *, save: Save | None = None) -> Rehearsal:
    """Bring a tenant's KAI back to the version before its last change, with the values and queues of then.

    A rollback that was cut off is finished. Without trial pods and suites: this one is for haste.

    Args:
        lab: one that is up.
        name: a tenant of mode own-kai.
        to: another version than the one before.
        save: told how the tenant is wanted, before anything changes.

    Raises:
        NoLab: there is no such tenant.
        Busy: another process changes the lab; nothing was changed.
        LabError: no version before is known, or going back failed.
    """
    now = _tenant(lab, name)
    if to is None:
        last = last_change(lab.paths, name)
        if last is None:
            raise LabError(
                f"tenant {name} has no earlier KAI version that this lab knows of",
                fix=f"name the version: lab tenant rollback {name} --to VERSION",
            )
        then = last.target
        same = {"gpu_sharing": then.gpu_sharing, "kai_values": then.kai_values, "queues": then.queues}
        target = changed(now.model_copy(update=same), str(then.kai_version))
    else:
        target = changed(now, to)
    ctx = lab.context(f"kai:{name}")
    check_change(ctx, target)
    before = running_inside(ctx, target)
    differs = before.kai and before.kai != target.kai_version
    change = _change(
        lab, target, save, RollbackRecord(changed(now, before.kai), target, back=True) if differs else None
    )
    _done(lab, name)
    return Rehearsal(name, before.kai, str(target.kai_version), change)


def run_suites(lab: Lab, name: str) -> Suites:
    """Run the suites that need a tenant in this one, in a process of their own.

    Returns:
        Which failed; not ``ran`` where kailab was installed without its suites.
    """
    folder = Path(__file__).resolve().parents[3] / SUITES
    if not folder.is_dir():
        return Suites(ran=False, summary="this installation of kailab has no suites: the trial pods alone were run")
    # By the name as a parameter of a test: as a bare word it would also select by parts of other names.
    mine = f"[{name}] or [{name}- or -{name}] or -{name}-"
    words: list[str | Path] = [sys.executable, "-m", "pytest", folder, "--lab", lab.spec.name]
    options = ["-m", _MARKS, "-k", mine, "-q", "-rfE", "-p", "no:cacheprovider", "--no-header", "--color=no"]
    kept = lab.paths.root / f"rehearsal-{name}"
    shutil.rmtree(kept, ignore_errors=True)  # of the last one
    kept.mkdir(parents=True)
    done = lab.runner.run(
        [*words, *options, f"--lab-artifacts={kept}"],
        cwd=folder.parent.parent,
        env={"PYTEST_ADDOPTS": "", "COLUMNS": _COLUMNS},
        timeout=_SUITES_SECONDS,
        check=False,
    )
    (kept / "pytest.txt").write_text(redact_text(done.out))
    lines = [line.strip() for line in done.out.splitlines() if line.strip()]
    summary = lines[-1].strip("= ") if lines else f"pytest said nothing (status {done.code})"
    if done.code == _NO_TESTS:
        return Suites(ran=False, summary=f"no suite is for tenant {name}: {summary}")
    failed = tuple(line.split(" ", 1)[1] for line in lines if line.startswith(("FAILED ", "ERROR ")))
    if done.code and not failed:
        failed = (f"pytest ended with status {done.code}: {summary}",)
    return Suites(ran=True, failed=failed, summary=summary, folder=str(kept))


def _taken_back(
    lab: Lab,
    found: Rehearsal,
    old: TenantSpec,
    new: TenantSpec,
    before: WorkloadSnapshot,
    earlier: RollbackRecord | None,
    save: Save | None,
) -> Rehearsal:
    """Bring a tenant back that failed its rehearsal, and compare again with what ran before it."""
    try:
        back = _change(lab, old, save, RollbackRecord(new, old, back=True))
    except Interrupted:
        raise
    except LabError as error:
        return replace(found, error_back=str(error))
    # As if the rehearsal had not been: a rollback must not lead to the version that has just failed.
    if earlier is not None:
        record(lab.paths, earlier)
    else:
        forget(lab.paths, found.tenant)
    return replace(found, back=replace(back, comparison=_outcome(lab, old, before)))


def _change(lab: Lab, tenant: TenantSpec, save: Save | None, note: RollbackRecord | None) -> Change:
    """Change the tenant as the only process that changes the lab; ``note`` is kept first."""
    with lab.session.locked():
        if note is not None:
            record(lab.paths, note)
        return change_kai(lab.context(f"kai:{tenant.name}"), tenant, str(tenant.kai_version), save=save)


def _trials(lab: Lab, tenant: TenantSpec) -> tuple[SmokeTest, ...]:
    inner = inside(lab.context(f"kai:{tenant.name}"), tenant)
    try:
        place = WorkloadNamespace.open(lab.spec.name, lab.cluster, "trial", tenant=tenant.name, cluster=inner.cluster())
    except LabError as error:
        return (SmokeTest("namespace", problem=error.what),)
    try:
        found = try_out(place, trial_queue(inner.spec), sharing=tenant.gpu_sharing)
    finally:
        place.cluster.delete_all("Pod", place.namespace, grace=1)
        place.cluster.delete("Namespace", place.namespace)
    return found


def _outcome(lab: Lab, tenant: TenantSpec, before: WorkloadSnapshot) -> SnapshotDiff:
    return compare(before, running_inside(lab.context(f"kai:{tenant.name}"), tenant))


def _done(lab: Lab, name: str) -> None:
    if (last := last_change(lab.paths, name)) is not None:
        record(lab.paths, replace(last, done=True))


def _tenant(lab: Lab, name: str) -> TenantSpec:
    for tenant in lab.tenants:
        if tenant.name == name:
            return tenant
    known = ", ".join(tenant.name for tenant in lab.tenants) or "none"
    raise NoLab(f"lab {lab.spec.name!r} has no tenant {name!r} (tenants: {known})", fix="lab status")

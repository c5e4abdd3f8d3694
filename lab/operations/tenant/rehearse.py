"""Rehearses another KAI version in a running tenant: snapshot, change, smoke test, suites, result, rollback on red.

A rehearsal in which nothing failed, but tests are missing, is not proven: the tenant keeps the version.

``lab.tenants.upgrade.upgrade`` makes the change, ``save`` writes the wanted tenant into the lab's state, and
``lab.tenants.upgrade.rollback_record`` keeps the version that a rollback returns to.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

from lab.config import TenantSpec
from lab.errors import Busy, Interrupted, LabError
from lab.objects.redact import redact_text
from lab.operations.abandoned import remove_abandoned
from lab.operations.tenant.status import find
from lab.paths import suites as suites_folder
from lab.session.lab import Lab
from lab.tenants.upgrade.preflight import check_kai_version, with_kai_version
from lab.tenants.upgrade.rehearsal_result import Rehearsal, Suites
from lab.tenants.upgrade.rollback_record import RollbackRecord, forget, last_change, record
from lab.tenants.upgrade.smoke_test import SLUG, SmokeTest, run_smoke_tests, smoke_test_queue
from lab.tenants.upgrade.upgrade import Change, Save, change_kai
from lab.tenants.upgrade.workload_snapshot import compare, take_snapshot
from lab.tenants.vcluster.inner_lab import tenant_context
from lab.workloads.namespace import WorkloadNamespace

__all__ = ["Rehearsal", "Suites", "rehearse", "roll_back", "run_suites"]

_SUITES_SECONDS = 1800.0
_NO_TESTS = 5
"""pytest's exit status when no test was selected."""

_COLUMNS = "400"
"""Width of pytest's lines, so that it does not truncate the reasons of failures."""

_MARKS = "tenants and not disturbs"
"""Suites that need a tenant, without those that break or change one: this tenant is being changed already."""


def rehearse(
    lab: Lab, name: str, version: str, *, suites: bool = True, keep: bool = False, save: Save | None = None
) -> Rehearsal:
    """Change a tenant's KAI to a version and check whether it works; on red, return to the old version.

    Continues a rehearsal that was killed: the old version is the one before that.

    Args:
        lab: a running lab.
        name: a tenant of mode own-kai.
        version: a version of KAI, newer or older.
        suites: also run the suites inside the tenant, where they are installed.
        keep: keep the version even on red.
        save: called with the wanted tenant before each change.

    Raises:
        NoLab: the lab has no such tenant.
        SpecError, Unavailable: the tenant cannot have that version; nothing was changed.
        Busy: another process is changing the lab; nothing was changed.
        Interrupted: stopped; the same call or a rollback continues from there.
    """
    wanted = with_kai_version(find(lab.spec, name), version)
    check_kai_version(lab.context(f"kai:{name}"), wanted)
    remove_abandoned(lab)  # otherwise the suites would, and workloads of before would be missing
    before = take_snapshot(lab.tenant(name))
    earlier = last_change(lab.paths, name)
    old = with_kai_version(wanted, before.kai) if before.kai and before.kai != wanted.kai_version else None
    continued = earlier if old is None and earlier is not None and earlier.leads_to(version) else None
    if continued is not None:
        earlier, old = None, continued.before
    was = str(old.kai_version) if old else before.kai
    try:
        change = _change(lab, wanted, save, continued or (RollbackRecord(old, wanted) if old else None))
    except (Interrupted, Busy):
        raise
    except LabError as error:
        found = Rehearsal(name, was, version, None, error=str(error))
    else:
        trials = _trials(lab, wanted)
        ran = run_suites(lab, name) if suites else Suites(ran=False, summary="left out (--no-suites)")
        outcome = compare(before, take_snapshot(lab.tenant(name)))
        found = Rehearsal(name, was, version, change, trials=trials, suites=ran, outcome=outcome)
    if old is None or not found.reasons or keep:
        _done(lab, name)
        return found if old is None or not found.reasons else replace(found, kept=True)
    try:
        back = _change(lab, old, save, RollbackRecord(wanted, old, back=True))
    except Interrupted:
        raise
    except LabError as error:
        return replace(found, error_back=str(error))
    # Restore the earlier record: a later rollback must not lead to the version that has just failed.
    if earlier is not None:
        record(lab.paths, earlier)
    else:
        forget(lab.paths, name)
    outcome = compare(before, take_snapshot(lab.tenant(name)))
    return replace(found, back=replace(back, comparison=outcome))


def roll_back(lab: Lab, name: str, to: str | None = None, *, save: Save | None = None) -> Rehearsal:
    """Return a tenant's KAI to the version before its last change, with the values and queues of that version.

    Continues an interrupted rollback. Runs neither smoke test nor suites, to be quick.

    Args:
        lab: a running lab.
        name: a tenant of mode own-kai.
        to: a version other than the one before.
        save: called with the wanted tenant before the change.

    Raises:
        NoLab: the lab has no such tenant.
        Busy: another process is changing the lab; nothing was changed.
        LabError: no earlier version is recorded, or the rollback failed.
    """
    now = find(lab.spec, name)
    if to is None:
        last = last_change(lab.paths, name)
        if last is None:
            raise LabError(
                f"no earlier KAI version of tenant {name} is recorded",
                fix=f"name the version: lab tenant rollback {name} --to VERSION",
            )
        then = last.target
        same = {"gpu_sharing": then.gpu_sharing, "kai_values": then.kai_values, "queues": then.queues}
        target = with_kai_version(now.model_copy(update=same), str(then.kai_version))
    else:
        target = with_kai_version(now, to)
    check_kai_version(lab.context(f"kai:{name}"), target)
    before = take_snapshot(lab.tenant(name))
    note = None
    if before.kai and before.kai != target.kai_version:
        note = RollbackRecord(with_kai_version(now, before.kai), target, back=True)
    change = _change(lab, target, save, note)
    _done(lab, name)
    return Rehearsal(name, before.kai, str(target.kai_version), change, rehearsed=False)


def run_suites(lab: Lab, name: str) -> Suites:
    """Run the suites that need a tenant in this one, in a separate process.

    Returns:
        The failed tests; ``ran`` is False where kailab is installed without its suites or without pytest.
    """
    folder = suites_folder()
    if folder is None:
        return Suites(ran=False, summary="this installation of kailab has no suites: only the smoke test ran")
    if importlib.util.find_spec("pytest") is None:
        return Suites(ran=False, summary="pytest is not installed: pip install 'kailab[test]'")
    # The name as a parameter of a test: a bare word would also match parts of other names.
    mine = f"[{name}] or [{name}- or -{name}] or -{name}-"
    command: list[str | Path] = [sys.executable, "-m", "pytest", folder, "--lab", lab.spec.name]
    options = ["-m", _MARKS, "-k", mine, "-q", "-rfEs", "-p", "no:cacheprovider", "--no-header", "--color=no"]
    if folder.name == "suites":  # in a wheel: pytest would use the settings of a project that the environment is in
        options += ["-c", os.devnull, f"--rootdir={folder}"]
    kept = lab.paths.root / f"rehearsal-{name}"
    shutil.rmtree(kept, ignore_errors=True)  # from an earlier rehearsal
    kept.mkdir(parents=True)
    done = lab.runner.run(
        [*command, *options, f"--lab-artifacts={kept}"],
        cwd=folder.parent.parent,
        env={"PYTEST_ADDOPTS": "", "COLUMNS": _COLUMNS},
        timeout=_SUITES_SECONDS,
        check=False,
    )
    (kept / "pytest.txt").write_text(redact_text(done.out))
    lines = [line.strip() for line in done.out.splitlines() if line.strip()]
    summary = lines[-1].strip("= ") if lines else f"pytest printed nothing (exit status {done.code})"
    if done.code == _NO_TESTS:
        return Suites(ran=False, summary=f"no suite selects tenant {name}: {summary}")
    failed = tuple(line.split(" ", 1)[1] for line in lines if line.startswith(("FAILED ", "ERROR ")))
    if done.code and not failed:
        failed = (f"pytest ended with exit status {done.code}: {summary}",)
    skipped = tuple(line.removeprefix("SKIPPED ") for line in lines if line.startswith("SKIPPED "))
    passed = re.search(r"\b(\d+) passed\b", summary)
    return Suites(True, failed, summary, str(kept), int(passed[1]) if passed else 0, skipped)


def _change(lab: Lab, tenant: TenantSpec, save: Save | None, note: RollbackRecord | None) -> Change:
    """Record ``note`` and change the tenant, under the lab's lock."""
    with lab.session.locked():
        if note is not None:
            record(lab.paths, note)
        return change_kai(lab.context(f"kai:{tenant.name}"), tenant, str(tenant.kai_version), save=save)


def _trials(lab: Lab, tenant: TenantSpec) -> tuple[SmokeTest, ...]:
    inner = tenant_context(lab.context(f"kai:{tenant.name}"), tenant)
    try:
        space = WorkloadNamespace.open(lab.spec.name, lab.cluster, SLUG, tenant=tenant.name, cluster=inner.cluster())
    except LabError as error:
        return (SmokeTest("namespace", problem=error.what),)
    try:
        return run_smoke_tests(space, smoke_test_queue(inner.spec), sharing=tenant.gpu_sharing)
    finally:
        space.cluster.delete_all("Pod", space.namespace, grace=1)
        space.cluster.delete("Namespace", space.namespace)


def _done(lab: Lab, name: str) -> None:
    if (last := last_change(lab.paths, name)) is not None:
        record(lab.paths, replace(last, done=True))

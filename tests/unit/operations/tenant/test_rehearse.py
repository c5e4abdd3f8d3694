from __future__ import annotations

import contextlib
import importlib.util
import io
import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from rich.console import Console

from lab import paths
from lab.cli.tenant.options import print_rehearsal
from lab.config import TenantSpec
from lab.errors import Busy, Interrupted, LabError, NoLab, SpecError, WaitTimeout
from lab.operations.tenant import rehearse as rehearsal
from lab.operations.tenant.rehearse import rehearse, roll_back, run_suites
from lab.paths import LabPaths
from lab.serialization import to_json
from lab.tenants.removal.timeline import Milestone
from lab.tenants.upgrade.rehearsal_result import Rehearsal, Suites
from lab.tenants.upgrade.rollback_record import RollbackRecord, last_change, record
from lab.tenants.upgrade.smoke_test import SmokeTest
from lab.tenants.upgrade.uninstall import REINSTALL
from lab.tenants.upgrade.upgrade import READY, SCHEDULED, Change
from lab.tenants.upgrade.workload_snapshot import SnapshotDiff, WorkloadSnapshot
from lab.ui.tenant_rehearsal import render_rehearsal
from tests.support.fakes import FakeRunner
from tests.support.tenant_kai_world import tenant_of
from tests.support.workload_snapshots import BEFORE

PASSED = (SmokeTest("cpu", 2.0), SmokeTest("gpu", 3.0), SmokeTest("fraction", 5.0))
BUSY = SmokeTest("gpu", skipped="the tenant has no free GPU", unproven=True)
OLD = replace(BEFORE, kai="0.9.8")


class Bench:
    """A lab whose tenant ``ml`` has KAI 0.9.8, and a rehearsal with configurable results."""

    def __init__(self, patch: pytest.MonkeyPatch, runner: FakeRunner) -> None:
        self.paths = LabPaths("demo")
        self.paths.root.mkdir(parents=True)
        self.log: list[str] = []
        self.changes: list[LabError | SnapshotDiff] = []
        self.snapshots: list[WorkloadSnapshot] = [OLD]
        self.smoke_tests = PASSED
        self.suites = Suites(ran=True, summary="4 passed", passed=4)
        self.lab: Any = SimpleNamespace(
            spec=SimpleNamespace(name="demo", tenants=(tenant_of("0.9.8"),)),
            paths=self.paths,
            runner=runner,
            context=lambda step: None,
            tenant=lambda name: None,
            session=SimpleNamespace(locked=contextlib.nullcontext),
        )
        patch.setattr(rehearsal, "change_kai", self.change)
        patch.setattr(rehearsal, "check_kai_version", lambda ctx, tenant: ())
        patch.setattr(rehearsal, "take_snapshot", lambda cluster: self.snapshot())
        patch.setattr(rehearsal, "_trials", lambda lab, tenant: self.smoke_tests)
        patch.setattr(rehearsal, "run_suites", lambda lab, name: self.suites)

    def snapshot(self) -> WorkloadSnapshot:
        return self.snapshots.pop(0) if len(self.snapshots) > 1 else self.snapshots[0]

    def change(self, ctx: object, tenant: TenantSpec, version: str, *, save: Any = None) -> Change:
        self.log.append(version)
        last = last_change(self.paths, "ml")
        assert last is not None, "the wanted version is recorded before any change"
        assert last.wanted.kai_version == version
        outcome = self.changes.pop(0) if self.changes else SnapshotDiff(kept=2)
        if isinstance(outcome, LabError):
            raise outcome
        milestones = (Milestone(SCHEDULED, 11.5), Milestone(READY, 14.0))
        return Change("ml", OLD.kai, version, REINSTALL, milestones, OLD, outcome)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, runner: FakeRunner) -> Bench:
    return Bench(monkeypatch, runner)


def rendered(found: Rehearsal) -> str:
    out = io.StringIO()
    render_rehearsal(found, Console(file=out, width=120))
    return out.getvalue()


def test_passed_rehearsal_keeps_the_version_and_records_the_previous(bench: Bench) -> None:
    found = rehearse(bench.lab, "ml", "0.16.8")
    assert (found.green, found.now, bench.log) == (True, "0.16.8", ["0.16.8"])
    last = last_change(bench.paths, "ml")
    assert last is not None
    assert (last.target.kai_version, last.done) == ("0.9.8", True)
    text = rendered(found)
    for line in (
        "KAI 0.9.8 → 0.16.8 in tenant ml: passed",
        "first pod scheduled",
        "11.5 s",
        "4 passed",
        "tenant ml has KAI 0.16.8 now",
    ):
        assert line in text


@pytest.mark.parametrize(
    ("results", "missing"),
    [
        ({"suites": Suites(ran=False, summary="pytest is not installed")}, "suites: pytest is not installed"),
        (
            {"suites": Suites(ran=True, summary="9 skipped in 2s", skipped=("[9] a.py:1: needs 2 GPUs",))},
            "suites: no test passed (9 skipped in 2s)",
        ),
        ({"smoke_tests": (PASSED[0], BUSY, PASSED[2])}, "smoke test gpu: the tenant has no free GPU"),
        ({"smoke_tests": ()}, "smoke tests: none ran"),
    ],
)
def test_little_tested_is_not_proven(bench: Bench, results: dict[str, Any], missing: str) -> None:
    for name, value in results.items():
        setattr(bench, name, value)
    found = rehearse(bench.lab, "ml", "0.16.8")
    assert (found.verdict, found.green, found.reasons, found.missing) == ("not proven", False, (), (missing,))
    assert (found.now, bench.log) == ("0.16.8", ["0.16.8"]), "nothing failed: the version stays"
    last = last_change(bench.paths, "ml")
    assert last is not None
    assert last.target.kai_version == "0.9.8", "lab tenant rollback returns to it"
    data = to_json(found)
    assert (data["verdict"], data["missing"]) == ("not proven", [missing])
    text = rendered(found)
    for line in ("in tenant ml: not proven", missing, "tenant ml has KAI 0.16.8 now", "lab tenant rollback ml"):
        assert line in text


def test_suites_left_out_on_request_prove_nothing_either(bench: Bench) -> None:
    found = rehearse(bench.lab, "ml", "0.16.8", suites=False)
    assert (found.verdict, found.missing) == ("not proven", ("suites: left out (--no-suites)",))


def test_failure_counts_more_than_what_is_missing(bench: Bench) -> None:
    bench.smoke_tests = (SmokeTest("cpu", problem="not within 120 s"), BUSY, PASSED[2])
    found = rehearse(bench.lab, "ml", "0.16.8")
    assert (found.verdict, found.now) == ("red", "0.9.8")
    assert found.missing, "it is reported beside the failure"


def test_skip_that_the_tenant_asked_for_is_not_missing(bench: Bench) -> None:
    bench.smoke_tests = (*PASSED[:2], SmokeTest("fraction", skipped="gpuSharing is off"))
    assert rehearse(bench.lab, "ml", "0.16.8").green


def test_rollback_is_no_rehearsal_and_lacks_nothing(bench: Bench) -> None:
    found = roll_back(bench.lab, "ml", "0.9.3")
    assert (found.verdict, found.missing) == ("green", ())


@pytest.mark.parametrize(
    ("suites", "code"), [(Suites(ran=True, passed=1), 0), (Suites(ran=False), 15), (Suites(True, failed=("x",)), 1)]
)
def test_exit_code_tells_not_proven_from_failed(suites: Suites, code: int) -> None:
    change = Change("ml", "0.9.8", "0.16.8", REINSTALL, (), OLD, SnapshotDiff(kept=2))
    found = Rehearsal("ml", "0.9.8", "0.16.8", change, trials=PASSED, suites=suites)
    try:
        print_rehearsal(found, as_json=False)
        seen = 0
    except typer.Exit as error:
        seen = error.exit_code
    assert seen == code


@pytest.mark.parametrize(
    ("results", "reason"),
    [
        ({"smoke_tests": (SmokeTest("cpu", problem="not within 120 s"),)}, "smoke test cpu: not within 120 s"),
        ({"suites": Suites(ran=True, failed=("a.py::b[ml]",))}, "1 tests failed: a.py::b[ml]"),
        ({"changes": [SnapshotDiff(kept=1, lost=("pod team/half: gone",))]}, "pod team/half: gone"),
        ({"changes": [WaitTimeout("KAI's components run: not within 300 s")]}, "KAI's components run"),
        ({"snapshots": [OLD, replace(OLD, pods=OLD.pods[:1]), OLD]}, "pod team/whole: gone (UID u-whole)"),
    ],
)
def test_failed_rehearsal_is_rolled_back(bench: Bench, results: dict[str, Any], reason: str) -> None:
    for name, value in results.items():
        setattr(bench, name, value)
    found = rehearse(bench.lab, "ml", "0.16.8")
    assert not found.green
    assert reason in found.reasons[0]
    assert bench.log == ["0.16.8", "0.9.8"]
    assert found.now == "0.9.8"
    assert last_change(bench.paths, "ml") is None, "the tenant is unchanged, so there is no version to roll back to"
    assert "tenant ml has KAI 0.9.8 now" in rendered(found)
    assert to_json(found)["verdict"] == "red"


def test_failed_rehearsal_keeps_the_earlier_rollback_record(bench: Bench) -> None:
    earlier = RollbackRecord(tenant_of("0.7.11"), tenant_of("0.9.8"), done=True)
    record(bench.paths, earlier)
    bench.suites = Suites(ran=True, failed=("x",))
    rehearse(bench.lab, "ml", "0.16.8")
    assert last_change(bench.paths, "ml") == earlier


def test_repeated_rehearsal_after_a_kill_still_returns_to_the_old_version(bench: Bench) -> None:
    """Helm's record already has the new version, or none: only the rollback record knows the old one."""
    for left in ("0.16.8", ""):
        bench.log.clear()
        record(bench.paths, RollbackRecord(tenant_of("0.9.8"), tenant_of("0.16.8")))
        bench.snapshots = [replace(OLD, kai=left)]
        bench.suites = Suites(ran=True, failed=("x",))
        found = rehearse(bench.lab, "ml", "0.16.8")
        assert (found.before, found.now, bench.log) == ("0.9.8", "0.9.8", ["0.16.8", "0.9.8"])
        assert last_change(bench.paths, "ml") is None


def test_keep_option_keeps_the_version_of_a_failed_rehearsal(bench: Bench) -> None:
    bench.suites = Suites(ran=True, failed=("x",))
    found = rehearse(bench.lab, "ml", "0.16.8", keep=True)
    assert (found.green, found.kept, found.now, bench.log) == (False, True, "0.16.8", ["0.16.8"])
    assert "although the rehearsal failed" in rendered(found)


def test_failed_rollback_is_reported_and_can_be_resumed(bench: Bench) -> None:
    bench.changes = [WaitTimeout("up"), WaitTimeout("down")]
    found = rehearse(bench.lab, "ml", "0.16.8")
    assert (found.error_back, found.now) == ("down", "")
    last = last_change(bench.paths, "ml")
    assert last is not None
    assert last.target.kai_version == "0.9.8", "a rollback continues with it"
    assert "the change is incomplete" in rendered(found)


def test_interrupted_rehearsal_is_not_rolled_back(bench: Bench) -> None:
    bench.changes = [Interrupted("stopped")]
    with pytest.raises(Interrupted):
        rehearse(bench.lab, "ml", "0.16.8")
    assert bench.log == ["0.16.8"]
    last = last_change(bench.paths, "ml")
    assert last is not None
    assert (last.wanted.kai_version, last.done) == ("0.16.8", False)


def test_busy_lab_is_refused_without_a_record(bench: Bench) -> None:
    @contextlib.contextmanager
    def busy() -> Any:
        raise Busy("another kailab process is changing lab 'demo'")
        yield

    bench.lab.session.locked = busy
    with pytest.raises(Busy):
        rehearse(bench.lab, "ml", "0.16.8")
    assert last_change(bench.paths, "ml") is None


def test_invalid_rehearsals_are_refused_before_any_change(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(ctx: object, tenant: TenantSpec) -> None:
        raise SpecError("no")

    monkeypatch.setattr(rehearsal, "check_kai_version", refuse)
    with pytest.raises(SpecError):
        rehearse(bench.lab, "ml", "0.16.8")
    assert bench.log == []
    assert last_change(bench.paths, "ml") is None
    with pytest.raises(NoLab, match="no tenant 'nl'"):
        rehearse(bench.lab, "nl", "0.16.8")


def test_roll_back_to_the_previous_version(bench: Bench) -> None:
    rehearse(bench.lab, "ml", "0.16.8")
    bench.lab.spec.tenants = (tenant_of("0.16.8"),)
    bench.snapshots = [replace(OLD, kai="0.16.8")]
    found = roll_back(bench.lab, "ml")
    assert (found.before, found.version, found.green) == ("0.16.8", "0.9.8", True)
    assert bench.log == ["0.16.8", "0.9.8"]


def test_roll_back_restores_values_and_queues_but_not_nodes(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    queues: Any = ({"name": "a"}, {"name": "b", "parent": "a"})
    previous = TenantSpec(name="ml", mode="own-kai", kai_version="0.7.11", kai_values={"x": 1}, queues=queues, nodes=1)
    record(bench.paths, RollbackRecord(previous, tenant_of("0.9.8"), done=True))
    bench.lab.spec.tenants = (tenant_of("0.9.8", nodes=("worker2",)),)
    targets: list[TenantSpec] = []

    def change(ctx: object, tenant: TenantSpec, version: str, *, save: Any = None) -> Change:
        targets.append(tenant)
        return bench.change(ctx, tenant, version)

    monkeypatch.setattr(rehearsal, "change_kai", change)
    roll_back(bench.lab, "ml")
    (target,) = targets
    assert (target.kai_version, target.kai_values, len(target.queues)) == ("0.7.11", {"x": 1}, 2)
    assert (target.nodes, target.kubernetes) == (("worker2",), "1.33.4")


def test_interrupted_rollback_is_resumed(bench: Bench) -> None:
    record(bench.paths, RollbackRecord(tenant_of("0.16.8"), tenant_of("0.9.8"), back=True))
    bench.lab.spec.tenants = (tenant_of("0.16.8"),)
    bench.snapshots = [replace(OLD, kai="")]
    assert roll_back(bench.lab, "ml").version == "0.9.8"
    last = last_change(bench.paths, "ml")
    assert last is not None
    assert (last.done, last.target.kai_version) == (True, "0.16.8")


def test_roll_back_without_a_record_needs_a_version(bench: Bench) -> None:
    with pytest.raises(LabError, match="no earlier KAI version") as refused:
        roll_back(bench.lab, "ml")
    assert "--to VERSION" in refused.value.fix
    assert roll_back(bench.lab, "ml", "0.9.3").version == "0.9.3"


@pytest.fixture
def pytest_run(runner: FakeRunner) -> Any:
    def declare(out: str, code: int) -> Suites:
        lab: Any = SimpleNamespace(spec=SimpleNamespace(name="demo"), runner=runner, paths=LabPaths("demo"))
        runner.handle([..., "-m", "pytest"], out=out, code=code)
        return run_suites(lab, "ml")

    return declare


def test_suites_select_the_tests_of_the_tenant(pytest_run: Any, runner: FakeRunner) -> None:
    found = pytest_run("...\n==== 3 passed, 2 skipped in 9.1s ====\n", 0)
    folder = LabPaths("demo").root / "rehearsal-ml"
    assert found == Suites(ran=True, summary="3 passed, 2 skipped in 9.1s", folder=str(folder), passed=3)
    assert (folder / "pytest.txt").read_text() == "...\n==== 3 passed, 2 skipped in 9.1s ====\n"
    argv = runner.calls[0].argv
    assert argv[argv.index("--lab") + 1] == "demo"
    assert argv[argv.index("-k") + 1] == "[ml] or [ml- or -ml] or -ml-"
    assert f"--lab-artifacts={folder}" in argv
    assert runner.calls[0].env == {"PYTEST_ADDOPTS": "", "COLUMNS": "400"}


def test_failed_suites_name_their_tests(pytest_run: Any) -> None:
    out = "F.\nFAILED tests/e2e/a.py::b[ml] - assert 1\nERROR tests/e2e/c.py::d[ml]\n1 failed, 1 error in 2s\n"
    found = pytest_run(out, 1)
    assert found.failed == ("tests/e2e/a.py::b[ml] - assert 1", "tests/e2e/c.py::d[ml]")
    (reason,) = Rehearsal("ml", "0.9.8", "0.16.8", None, suites=found).reasons
    assert reason == "2 tests failed: tests/e2e/a.py::b[ml], tests/e2e/c.py::d[ml]"
    assert found.summary == "1 failed, 1 error in 2s"


@pytest.mark.parametrize(("out", "code", "ran", "failed"), [("1 deselected\n", 5, False, 0), ("", 4, True, 1)])
def test_suites_without_results(pytest_run: Any, out: str, code: int, ran: bool, failed: int) -> None:
    found = pytest_run(out, code)
    assert (found.ran, len(found.failed)) == (ran, failed)


def test_skipped_tests_are_named(pytest_run: Any) -> None:
    out = "ss\nSKIPPED [2] tests/e2e/a.py:7: needs 2 GPUs\n2 skipped in 1s\n"
    found = pytest_run(out, 0)
    assert (found.ran, found.passed, found.skipped) == (True, 0, ("[2] tests/e2e/a.py:7: needs 2 GPUs",))


def test_suites_of_a_wheel_run_without_the_settings_of_a_project_around_it(
    pytest_run: Any, runner: FakeRunner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    inside = tmp_path / "site-packages" / "lab" / "suites"
    inside.mkdir(parents=True)
    monkeypatch.setattr(paths, "__file__", str(inside.parent / "paths.py"))
    pytest_run("1 passed in 1s\n", 0)
    call = runner.calls[0]
    assert call.argv[3] == str(inside)
    assert {"-c", os.devnull, f"--rootdir={inside}"} <= set(call.argv)


@pytest.mark.parametrize(("lacks", "why"), [("suites", "has no suites"), ("pytest", "pip install 'kailab[test]'")])
def test_what_the_installation_lacks_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, runner: FakeRunner, lacks: str, why: str
) -> None:
    if lacks == "suites":
        monkeypatch.setattr(paths, "__file__", str(tmp_path / "lab" / "paths.py"))
    else:
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    found = run_suites(SimpleNamespace(runner=runner), "ml")  # type: ignore[arg-type]
    assert not found.ran
    assert why in found.summary
    assert runner.calls == []

from __future__ import annotations

import contextlib
import io
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
import typer
from rich.console import Console

from lab.cli.rehearsal import print_rehearsal
from lab.config.budget import with_budget
from lab.errors import Busy, Interrupted, LabError, SpecError, WaitTimeout
from lab.invariants import Violation
from lab.operations.kai.rehearse import rehearse, roll_back
from lab.serialization import to_json
from lab.session.kai_changes import RollbackRecord, last_change, record
from lab.steps.kai.upgrade.change import Change
from lab.steps.kai.upgrade.rehearsal_result import Rehearsal, Suites
from lab.steps.kai.upgrade.smoke_test import SmokeTest
from lab.steps.kai.upgrade.uninstall import REINSTALL
from lab.steps.kai.upgrade.workload_snapshot import SnapshotDiff
from lab.ui.rehearsal import render_rehearsal
from tests.support.fakes import FakeRunner
from tests.support.rehearsal_world import OLD, PASSED, Bench, wanted
from tests.support.specs import EXISTING, lab_spec

BUSY = SmokeTest("gpu", skipped="the tenant has no free GPU", unproven=True)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, runner: FakeRunner) -> Bench:
    return Bench(monkeypatch, runner, "ml")


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch, runner: FakeRunner) -> Bench:
    return Bench(monkeypatch, runner, "")


def rendered(found: Rehearsal) -> str:
    out = io.StringIO()
    render_rehearsal(found, Console(file=out, width=120), lab="demo")
    return out.getvalue()


def test_passed_rehearsal_keeps_the_version_and_records_the_previous(bench: Bench) -> None:
    found = rehearse(bench.kai, "0.16.8")
    assert (found.green, found.now, bench.versions) == (True, "0.16.8", ["0.16.8"])
    last = last_change(bench.paths, "ml")
    assert last is not None
    assert (last.target.version, last.done) == ("0.9.8", True)
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
    found = rehearse(bench.kai, "0.16.8")
    assert (found.verdict, found.green, found.reasons, found.missing) == ("not proven", False, (), (missing,))
    assert (found.now, bench.versions) == ("0.16.8", ["0.16.8"]), "nothing failed: the version stays"
    last = last_change(bench.paths, "ml")
    assert last is not None
    assert last.target.version == "0.9.8", "kailab tenant rollback returns to it"
    data = to_json(found)
    assert (data["verdict"], data["missing"]) == ("not proven", [missing])
    text = rendered(found)
    for line in ("in tenant ml: not proven", missing, "tenant ml has KAI 0.16.8 now", "kailab tenant rollback ml"):
        assert line in text


def test_suites_left_out_on_request_prove_nothing_either(bench: Bench) -> None:
    found = rehearse(bench.kai, "0.16.8", suites=False)
    assert (found.verdict, found.missing) == ("not proven", ("suites: left out (--no-suites)",))


def test_failure_counts_more_than_what_is_missing(bench: Bench) -> None:
    bench.smoke_tests = (SmokeTest("cpu", problem="not within 120 s"), BUSY, PASSED[2])
    found = rehearse(bench.kai, "0.16.8")
    assert (found.verdict, found.now) == ("red", "0.9.8")
    assert found.missing, "it is reported beside the failure"


def test_skip_that_the_tenant_asked_for_is_not_missing(bench: Bench) -> None:
    bench.smoke_tests = (*PASSED[:2], SmokeTest("fraction", skipped="gpuSharing is off"))
    assert rehearse(bench.kai, "0.16.8").green


def test_rollback_is_no_rehearsal_and_lacks_nothing(bench: Bench) -> None:
    found = roll_back(bench.kai, "0.9.3")
    assert (found.verdict, found.missing) == ("green", ())


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize(
    ("suites", "code"), [(Suites(ran=True, passed=1), 0), (Suites(ran=False), 15), (Suites(True, failed=("x",)), 1)]
)
def test_exit_code_tells_not_proven_from_failed(suites: Suites, code: int, kept: bool) -> None:
    change = Change("ml", "0.9.8", "0.16.8", REINSTALL, (), OLD, SnapshotDiff(kept=2))
    found = Rehearsal("ml", "0.9.8", "0.16.8", change, trials=PASSED, suites=suites, kept=kept)
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
    found = rehearse(bench.kai, "0.16.8")
    assert not found.green
    assert reason in found.reasons[0]
    assert bench.versions == ["0.16.8", "0.9.8"]
    assert found.now == "0.9.8"
    assert last_change(bench.paths, "ml") is None, "the tenant is unchanged, so there is no version to roll back to"
    assert "tenant ml has KAI 0.9.8 now" in rendered(found)
    assert to_json(found)["verdict"] == "red"


def test_failed_rehearsal_keeps_the_earlier_rollback_record(bench: Bench) -> None:
    earlier = RollbackRecord(wanted("0.7.11"), wanted("0.9.8"), done=True)
    record(bench.paths, "ml", earlier)
    bench.suites = Suites(ran=True, failed=("x",))
    rehearse(bench.kai, "0.16.8")
    assert last_change(bench.paths, "ml") == earlier


def test_repeated_rehearsal_after_a_kill_still_returns_to_the_old_version(bench: Bench) -> None:
    """Helm's record already has the new version, or none: only the rollback record knows the old one."""
    for left in ("0.16.8", ""):
        bench.log.clear()
        record(bench.paths, "ml", RollbackRecord(wanted("0.9.8"), wanted("0.16.8")))
        bench.snapshots = [replace(OLD, kai=left)]
        bench.suites = Suites(ran=True, failed=("x",))
        found = rehearse(bench.kai, "0.16.8")
        assert (found.before, found.now, bench.versions) == ("0.9.8", "0.9.8", ["0.16.8", "0.9.8"])
        assert last_change(bench.paths, "ml") is None


def test_keep_option_keeps_the_version_of_a_failed_rehearsal(bench: Bench) -> None:
    bench.suites = Suites(ran=True, failed=("x",))
    found = rehearse(bench.kai, "0.16.8", keep=True)
    assert (found.green, found.kept, found.now, bench.versions) == (False, True, "0.16.8", ["0.16.8"])
    assert "although the rehearsal failed" in rendered(found)


def test_failed_rollback_is_reported_and_can_be_resumed(bench: Bench) -> None:
    bench.changes = [WaitTimeout("up"), WaitTimeout("down")]
    found = rehearse(bench.kai, "0.16.8")
    assert (found.error_back, found.now) == ("down", "")
    last = last_change(bench.paths, "ml")
    assert last is not None
    assert last.target.version == "0.9.8", "a rollback continues with it"
    assert "the change is incomplete" in rendered(found)


def test_interrupted_rehearsal_is_not_rolled_back(bench: Bench) -> None:
    bench.changes = [Interrupted("stopped")]
    with pytest.raises(Interrupted):
        rehearse(bench.kai, "0.16.8")
    assert bench.versions == ["0.16.8"]
    last = last_change(bench.paths, "ml")
    assert last is not None
    assert (last.wanted.version, last.done) == ("0.16.8", False)


def test_busy_lab_is_refused_without_a_record(bench: Bench) -> None:
    @contextlib.contextmanager
    def busy() -> Any:
        raise Busy("another kailab process is changing lab 'demo'")
        yield

    bench.lab.session.locked = busy
    with pytest.raises(Busy):
        rehearse(bench.kai, "0.16.8")
    assert last_change(bench.paths, "ml") is None


def test_invalid_rehearsals_are_refused_before_any_change(bench: Bench) -> None:
    bench.refuses = True
    with pytest.raises(SpecError):
        rehearse(bench.kai, "0.16.8")
    with pytest.raises(SpecError, match="invalid version"):
        rehearse(bench.kai, "latest")
    assert bench.log == []
    assert last_change(bench.paths, "ml") is None


def test_roll_back_to_the_previous_version(bench: Bench) -> None:
    rehearse(bench.kai, "0.16.8")
    bench.wanted = wanted("0.16.8")
    bench.snapshots = [replace(OLD, kai="0.16.8")]
    found = roll_back(bench.kai)
    assert (found.before, found.version, found.green) == ("0.16.8", "0.9.8", True)
    assert bench.versions == ["0.16.8", "0.9.8"]


def test_interrupted_rollback_is_resumed(bench: Bench) -> None:
    record(bench.paths, "ml", RollbackRecord(wanted("0.16.8"), wanted("0.9.8"), back=True))
    bench.wanted = wanted("0.16.8")
    bench.snapshots = [replace(OLD, kai="")]
    assert roll_back(bench.kai).version == "0.9.8"
    last = last_change(bench.paths, "ml")
    assert last is not None
    assert (last.done, last.target.version) == (True, "0.16.8")


def test_roll_back_without_a_record_needs_a_version(bench: Bench) -> None:
    with pytest.raises(LabError, match="no earlier KAI version") as refused:
        roll_back(bench.kai)
    assert "--to VERSION" in refused.value.fix
    assert roll_back(bench.kai, "0.9.3").version == "0.9.3"


def test_host_is_changed_under_load_which_ends_before_the_suites(host: Bench) -> None:
    found = rehearse(host.kai, "0.16.8")
    assert (found.verdict, found.now) == ("green", "0.16.8")
    assert host.log == [
        "namespace trial",
        "namespace load",
        "0.16.8",
        "watch ends",
        "no namespace load",
        "no namespace trial",
        "suites ",
    ]
    assert host.removed == ["load-gpu"], "the smoke tests get its GPU"
    text = rendered(found)
    for line in (
        "KAI 0.9.8 → 0.16.8 in lab demo: passed",
        "Load",
        "1 held, 0 violations",
        "lab demo has KAI 0.16.8 now",
    ):
        assert line in text


def test_way_back_after_the_suites_has_a_namespace_of_its_own(host: Bench) -> None:
    """That of the smoke tests went before the suites; pods in it would not be created."""
    host.suites = Suites(ran=True, failed=("x",))
    found = rehearse(host.kai, "0.16.8")
    assert (found.verdict, found.now) == ("red", "0.9.8")
    after = host.log[host.log.index("suites ") + 1 :]
    assert after == ["namespace trial", "0.9.8", "no namespace trial"]


def test_load_is_below_the_budget_in_a_cluster_of_others(host: Bench) -> None:
    rehearse(host.kai, "0.16.8")
    host.lab.spec = with_budget(lab_spec(cluster=EXISTING))
    rehearse(host.kai, "0.16.8")
    assert host.queues == [([None, "rehearsal-top"], ""), ([None], "demo")]


def test_host_whose_kai_does_not_run_the_load_is_not_changed(host: Bench) -> None:
    host.loaded = (SmokeTest("gang", problem="pods a, b: Ready on the host: not within 120 s"),)
    with pytest.raises(LabError, match=r"does not run the load \(gang\); nothing was changed"):
        rehearse(host.kai, "0.16.8")
    assert host.versions == []
    assert last_change(host.paths, "") is None


def test_busy_gpus_of_the_load_prove_nothing(host: Bench) -> None:
    busy = SmokeTest("gpu", skipped="no second GPU is free", unproven=True)
    host.loaded = (*host.loaded[:2], busy)
    found = rehearse(host.kai, "0.16.8")
    assert (found.verdict, found.missing) == ("not proven", ("load gpu: no second GPU is free",))


def test_change_after_which_no_pod_is_scheduled_is_rolled_back_under_load(host: Bench) -> None:
    """As in NVIDIA/aicr #2636: every Deployment is Ready, but nothing is scheduled any more."""
    host.problems = ("the first pod is scheduled: not within 300 s",)
    found = rehearse(host.kai, "0.16.8")
    assert (found.reasons, found.now) == (host.problems, "0.9.8")
    assert (found.trials, found.suites.ran) == ((), False)
    assert host.log.index("0.9.8") < host.log.index("no namespace load")


def test_violated_invariant_is_red(host: Bench) -> None:
    now = datetime.now(UTC)
    host.violated = (Violation("2 users", rule="gpu-held-once", since=now, reported=now),)
    found = rehearse(host.kai, "0.16.8")
    assert (found.reasons, found.now) == (("invariant gpu-held-once: 2 users",), "0.9.8")


def test_invariants_that_were_not_watched_prove_nothing(host: Bench) -> None:
    host.watch_trouble = ValueError("gone")
    found = rehearse(host.kai, "0.16.8")
    assert (found.verdict, found.missing) == ("not proven", ("the invariants were not watched to the end: gone",))


def test_interrupted_rehearsal_of_the_host_is_finished_without_a_load(host: Bench) -> None:
    record(host.paths, "", RollbackRecord(wanted("0.9.8"), wanted("0.16.8")))
    host.snapshots = [replace(OLD, kai="")]
    found = rehearse(host.kai, "0.16.8")
    assert "namespace load" not in host.log
    assert (found.verdict, found.missing) == ("not proven", ("load workloads: an interrupted change is finished",))


@pytest.mark.parametrize("works", [True, False])
def test_rehearsal_killed_before_helm_has_a_load_if_the_old_version_works(host: Bench, works: bool) -> None:
    """The Config precedes Helm, so the old operator may be deploying the new images."""
    record(host.paths, "", RollbackRecord(wanted("0.9.8"), wanted("0.16.8")))
    host.old_works = works
    found = rehearse(host.kai, "0.16.8")
    assert (("namespace load" in host.log), found.verdict) == (works, "green" if works else "not proven")


def test_version_on_the_way_needs_no_suites(host: Bench) -> None:
    found = rehearse(host.kai, "0.16.8", later=True)
    assert (found.verdict, found.missing) == ("green", ())
    assert "suites " not in host.log

"""Disturbing tests run last, in the group of the GPU tests, and exclusively."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from lab.pytest_plugin import gpu_fixtures, scheduling
from lab.pytest_plugin.gpu_fixtures import FREE_SECONDS, NUDGE_SECONDS
from lab.pytest_plugin.scheduling import PATIENCE
from lab.steps.kai.step import RESERVATIONS
from lab.tools.lock import file_lock
from lab.workloads.temporary import LOCK_HELD, kai_lock_file
from tests.support.fake_lab import FakeLab, Run, runner

pytest_plugins = ["pytester"]


@pytest.fixture
def lab() -> FakeLab:
    return FakeLab()


@pytest.fixture
def run(pytester: pytest.Pytester, lab: FakeLab, monkeypatch: pytest.MonkeyPatch) -> Run:
    return runner(pytester, lab, monkeypatch)


def test_disturbing_tests_come_last_and_join_the_gpu_group(run: Run) -> None:
    done = run(
        """
        import pytest

        pytestmark = pytest.mark.filterwarnings("ignore")

        @pytest.mark.disturbs("first of two")
        def test_c(request):
            assert request.node.get_closest_marker("xdist_group").args == ("gpus",)

        def test_a(request):
            assert request.node.get_closest_marker("xdist_group") is None

        @pytest.mark.disturbs("second")
        @pytest.mark.xdist_group("own")
        def test_d(request):
            assert request.node.get_closest_marker("xdist_group").args == ("own",)

        def test_b(): pass
        """,
        "-v",
        "-o",
        "markers=xdist_group(name): of pytest-xdist",
    )
    done.assert_outcomes(passed=4)
    done.stdout.fnmatch_lines(["*test_a*", "*test_b*", "*test_c*", "*test_d*"])


def test_node_ids_may_carry_xdist_groups(pytester: pytest.Pytester) -> None:
    """pytest-xdist 3.8 writes a test's group into its id; from pytest 9.2 on it is lost, which splits groups."""
    item = pytester.getitem("def test_func(): pass")
    item._nodeid = f"{item.nodeid}@gpus"
    assert item.nodeid.endswith("@gpus")


@pytest.mark.parametrize("asked", [True, False])
def test_long_tests_need_lab_long(run: Run, asked: bool) -> None:
    text = "import pytest\n@pytest.mark.long\ndef test_storm(): pass\ndef test_short(): pass"
    done = run(text, *(["--lab-long"] if asked else []))
    done.assert_outcomes(passed=2 if asked else 1, skipped=0 if asked else 1)


def lock_of(lab: FakeLab) -> Path:
    return lab.paths.lock.with_suffix(".turn")


@pytest.mark.parametrize(("exclusive", "other_shares"), [(False, True), (True, False)])
def test_lab_lock_is_shared_unless_exclusive(tmp_path: Path, exclusive: bool, other_shares: bool) -> None:
    path = tmp_path / "locks" / "demo.turn"
    with file_lock(path, exclusive=exclusive), path.open("a") as other:
        if other_shares:
            fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
        with pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with path.open("a") as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_only_tests_of_a_lab_take_the_file_lock(run: Run, lab: FakeLab) -> None:
    run("def test_plain(): pass").assert_outcomes(passed=1)
    assert not lock_of(lab).exists()
    run("def test_lab(lab): pass").assert_outcomes(passed=1)
    assert lock_of(lab).exists()


KINDS = {
    "test_plain": "def test_plain(lab): pass",
    "test_without": "@pytest.mark.without_kai\ndef test_without(lab): pass",
    "test_kai": "@pytest.mark.disturbs('KAI restarts', only='kai')\ndef test_kai(lab): pass",
    "test_all": "@pytest.mark.disturbs('all of it')\ndef test_all(lab): pass",
}


@pytest.mark.parametrize(
    ("held", "kai", "waiting"),
    [
        ((".turn", True), "0.16.8", {"test_plain", "test_without", "test_kai", "test_all"}),
        ((".turn", False), "0.16.8", {"test_all"}),
        ((".turn-kai", True), "0.16.8", {"test_plain", "test_kai"}),
        ((".turn-kai", False), "0.16.8", {"test_kai"}),
        ((".turn-kai", True), "0.9.8", {"test_plain", "test_without", "test_kai"}),
        ((".turn-kai", True), None, {"test_plain", "test_kai"}),
    ],
)
def test_tests_wait_for_conflicting_locks(
    run: Run, lab: FakeLab, monkeypatch: pytest.MonkeyPatch, held: tuple[str, bool], kai: str | None, waiting: set[str]
) -> None:
    """Webhooks of KAI 0.12 and older see pods of all schedulers: no test creates any while KAI is disturbed."""
    lab.kai_version = kai
    wait = fcntl.flock
    monkeypatch.setattr(fcntl, "flock", lambda file, how: wait(file, how | fcntl.LOCK_NB))
    suffix, exclusive = held
    with file_lock(lab.paths.lock.with_suffix(suffix), exclusive=exclusive):
        for name, text in KINDS.items():
            done = run(f"import pytest\n{text}")
            done.assert_outcomes(**({"errors": 1} if name in waiting else {"passed": 1}))
    for text in KINDS.values():
        run(f"import pytest\n{text}").assert_outcomes(passed=1)


def test_lock_held_by_the_caller_is_not_taken_again(run: Run, lab: FakeLab, monkeypatch: pytest.MonkeyPatch) -> None:
    with file_lock(lock_of(lab), exclusive=True):
        monkeypatch.setenv(LOCK_HELD, str(lock_of(lab)))
        run("def test_lab(lab): pass").assert_outcomes(passed=1)


def test_lab_lock_can_be_tried_without_waiting(tmp_path: Path) -> None:
    path = tmp_path / "demo.turn"
    with file_lock(path, exclusive=False), pytest.raises(BlockingIOError), file_lock(path, exclusive=True, wait=False):
        pass


WATCHING = """
    import fcntl
    import pytest

    @pytest.hookimpl(tryfirst=True, wrapper=True)
    def pytest_runtest_protocol(item, nextitem):
        try:
            return (yield)
        finally:
            if nextitem is not None:
                with open("{path}", "a") as other, open("seen", "a") as seen:
                    try:
                        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        seen.write("free")
                    except BlockingIOError:
                        seen.write("kept")
"""


@pytest.mark.parametrize(
    ("second", "seen"),
    [
        ("def test_b(lab): pass", "kept"),
        ("@pytest.mark.skip\ndef test_b(lab): pass", "kept"),
        ("@pytest.mark.without_kai\ndef test_b(lab): pass", "free"),
        ("@pytest.mark.disturbs('it')\ndef test_b(lab): pass", "free"),
        ("def test_b(): pass", "free"),
    ],
)
def test_worker_keeps_its_kai_lock_until_a_test_that_does_not_share_it(
    run: Run, lab: FakeLab, pytester: pytest.Pytester, second: str, seen: str
) -> None:
    path = kai_lock_file(lock_of(lab))
    pytester.makeconftest(WATCHING.format(path=path))
    run(f"import pytest\ndef test_a(lab): pass\n{second}")
    assert (pytester.path / "seen").read_text() == seen
    with file_lock(path, exclusive=True, wait=False):
        pass  # the lock is free at the end


@pytest.mark.parametrize(("asked", "patience", "seen"), [(1, PATIENCE, "kept"), (1, -5, "free"), (-1, -5, "kept")])
def test_kai_lock_is_released_for_a_waiting_disturbing_test(
    run: Run,
    lab: FakeLab,
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    asked: int,
    patience: float,
    seen: str,
) -> None:
    """A request from before the lock was taken does not count."""
    path = kai_lock_file(lock_of(lab))
    pytester.makeconftest(WATCHING.format(path=path))
    monkeypatch.setattr(scheduling, "PATIENCE", patience)
    at = f"time.time() + {asked}"
    run(f"import os, time\ndef test_a(lab): os.utime({str(path)!r}, ({at}, {at}))\ndef test_b(lab): pass")
    assert (pytester.path / "seen").read_text() == seen


def test_lock_of_a_removed_lab_is_released(run: Run, lab: FakeLab) -> None:
    path = kai_lock_file(lock_of(lab))
    run(f"import os\ndef test_a(lab): os.unlink({str(path)!r})\ndef test_b(lab): pass").assert_outcomes(passed=2)


def test_free_gpus_waits_for_reservation_pods(run: Run, lab: FakeLab) -> None:
    run("def test_gpu(free_gpus): pass").assert_outcomes(passed=1)
    assert lab.api.brief == ["list Pod"]
    lab.kai_version = None
    run("def test_gpu(free_gpus): pass").assert_outcomes(passed=1)
    assert lab.api.brief == ["list Pod"]


def test_stale_reservation_pods_are_nudged_and_deleted(run: Run, lab: FakeLab, monkeypatch: pytest.MonkeyPatch) -> None:
    nudged: list[list[str]] = []
    for number, node in enumerate(("w2", "w1", "w2")):
        lab.api.put("Pod", f"r-{number}", RESERVATIONS, spec={"nodeName": node})
    lab.api.put("Pod", "ending", RESERVATIONS, metadata={"deletionTimestamp": "now"}, spec={"nodeName": "w3"})
    lab.cluster.patience = 0.1
    lab.cluster.meanwhile = lambda: lab.api.remove("Pod") if len(lab.cluster.waits) == 2 else None
    monkeypatch.setattr(gpu_fixtures, "_nudge", lambda _, nodes: nudged.append(nodes))
    run("def test_gpu(free_gpus): pass").assert_outcomes(passed=1)
    assert nudged == [["w1", "w2"]]
    (ended,) = lab.api.calls_of("delete", "Pod")
    assert (ended.name, ended.body["gracePeriodSeconds"]) == ("ending", 0)
    assert [wait.timeout for wait in lab.cluster.waits] == [NUDGE_SECONDS, FREE_SECONDS]

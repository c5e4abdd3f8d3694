"""Seeded faults: their table, the verdicts on trials, and the guards against breaking the wrong lab."""

from __future__ import annotations

import ast
import fcntl
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from _pytest.mark.expression import Expression

from lab.errors import ApiFailed, Busy, SpecError
from tests.support.fake_lab import FakeLab

ROOT = Path(__file__).parents[3]
SUITES = ROOT / "tests" / "e2e"
JUNIT = """<testsuites><testsuite>
<testcase name="test_a"/>
<testcase name="test_b[host]"><failure message="x"/></testcase>
<testcase name="test_b[host]"><error message="y"/></testcase>
<testcase name="test_c"><skipped message="needs KAI"/></testcase>
</testsuite></testsuites>"""


@pytest.fixture
def scripts() -> Any:
    """The modules of scripts/fault_injection."""
    from scripts.fault_injection import faults, results, run, tampering

    return SimpleNamespace(faults=faults, tampering=tampering, run=run, results=results)


def names_in(suite: str) -> list[str]:
    tree = ast.parse((SUITES / suite).read_text())
    return [node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]


def test_fault_ids_are_unique_and_each_fault_names_tests(scripts: Any) -> None:
    ids = [fault.id for fault in scripts.faults.FAULTS]
    assert len(ids) == len(set(ids))
    assert all(fault.what and fault.reds for fault in scripts.faults.FAULTS)


@pytest.mark.parametrize("suite", sorted(path.name for path in SUITES.glob("test_*.py")))
def test_suite_has_a_fault(scripts: Any, suite: str) -> None:
    tried = {name for fault in scripts.faults.FAULTS for name in fault.reds}
    assert (suite in tried) != (suite in scripts.faults.WITHOUT_FAULT)


def test_named_tests_exist(scripts: Any) -> None:
    for fault in scripts.faults.FAULTS:
        for suite, words in fault.reds.items():
            names = names_in(suite)
            chosen = Expression.compile(words).evaluate if words else lambda _: True
            # parameters: [host] of the marker "places"; the others occur in the fault "killed" only
            parameters = ("[host]", "[scheduler]", "[binder]", "[podgrouper]", "[queues-deleted]")
            found = [
                name
                for name in names
                if any(chosen(lambda word, whole=name + extra: word in whole) for extra in ("", *parameters))
            ]
            assert found, f"{fault.id}: {suite} has no test for {words!r}"


def test_suites_without_a_fault_have_a_reason(scripts: Any) -> None:
    assert all(scripts.faults.WITHOUT_FAULT.values())
    assert all((SUITES / suite).exists() for suite in scripts.faults.WITHOUT_FAULT)


def ran(scripts: Any, tmp_path: Path, text: str = JUNIT) -> Any:
    path = tmp_path / "junit.xml"
    path.write_text(text)
    return scripts.results.Ran.of(path)


def test_junit_is_read(scripts: Any, tmp_path: Path) -> None:
    result = ran(scripts, tmp_path)
    assert (result.tests, result.skipped, result.failed, result.reason) == (4, 1, ("test_b[host]",), "needs KAI")


@pytest.mark.parametrize("text", ["", "<testsuites><testsuite>"])
def test_truncated_junit_file_has_no_tests(scripts: Any, tmp_path: Path, text: str) -> None:
    assert ran(scripts, tmp_path, text).tests == 0
    assert scripts.results.Ran.of(tmp_path / "missing.xml").tests == 0


@pytest.mark.parametrize(
    ("code", "tests", "skipped", "failed", "seeded", "word"),
    [
        (1, 2, 0, ("test_a",), True, "caught"),
        (1, 2, 0, ("test_a",), False, "broken"),
        (0, 2, 0, (), True, "missed"),
        (0, 2, 1, (), True, "missed"),
        (0, 2, 0, (), False, "green"),
        (0, 2, 2, (), True, "n/a"),
        (0, 0, 0, (), True, "broken"),
        (5, 0, 0, (), True, "broken"),
        (2, 1, 0, ("test_a",), True, "broken"),
        (-1, 0, 0, (), True, "broken"),
    ],
)
def test_verdict(
    scripts: Any, code: int, tests: int, skipped: int, failed: tuple[str, ...], seeded: bool, word: str
) -> None:
    result = scripts.results.Ran(tests, skipped, failed, "why" if skipped else "")
    assert scripts.results.verdict(code, result, seeded=seeded)[0] == word


def test_record_resumes_only_for_the_same_lab(scripts: Any, tmp_path: Path) -> None:
    path, about = tmp_path / "new" / "results.json", {"lab": "demo", "kai": "0.16.8"}
    record = scripts.results.Record(path, about)
    record.add(scripts.results.Trial("f", "s.py", "", "caught", 1.0, "test_a"))
    record.add(scripts.results.Trial("g", "s.py", "", "broken", 1.0))
    again = scripts.results.Record(path, about)
    assert again.find("f", "s.py", "").verdict == "caught"
    assert again.find("g", "s.py", "") is None  # no verdict: it runs again
    assert again.find("f", "s.py", "other") is None
    assert scripts.results.Record(path, {**about, "kai": "0.9.8"}).trials == {}
    assert scripts.results.Record(path, about, fresh=True).trials == {}


def test_missed_and_broken_trials_are_bad(scripts: Any, capsys: pytest.CaptureFixture[str]) -> None:
    trials = [
        scripts.results.Trial(word, "s.py", "", word, 1.0) for word in ("caught", "missed", "broken", "n/a", "green")
    ]
    assert [trial.verdict for trial in scripts.results.bad(trials)] == ["missed", "broken"]
    scripts.results.show(trials)
    assert "1 missed" in capsys.readouterr().out


@pytest.mark.parametrize(("verdicts", "code"), [(["caught", "n/a"], 0), (["n/a", "green"], 15), (["missed"], 1)])
def test_run_that_tried_no_fault_proves_nothing(
    scripts: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, verdicts: list[str], code: int
) -> None:
    done = [scripts.results.Trial(word, "s.py", "", word, 1.0) for word in verdicts]
    fake = SimpleNamespace(fitting=lambda plan: [], controls=lambda plan: None, done=done)
    monkeypatch.setattr(scripts.run, "FaultRun", lambda *_: fake)
    asked = SimpleNamespace(json=tmp_path / "f.json", again=True, limit=1.0)
    assert scripts.run.tried(asked, FakeLab(), []) == code


def test_faults_need_an_explicit_lab(scripts: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAILAB_LAB", "demo")  # enough to run tests, but not to break the lab
    monkeypatch.setattr(scripts.run.Lab, "attach", lambda name=None: pytest.fail(f"attached to {name}"))
    with pytest.raises(SpecError, match="a lab that is named"):
        scripts.run.main([])
    assert scripts.run.main(["--list"]) == 0


def test_lab_in_use_by_other_tests_is_refused(scripts: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = FakeLab()
    monkeypatch.setattr(scripts.run.Lab, "attach", lambda name: lab)
    monkeypatch.setattr(scripts.run, "tried", lambda *_: pytest.fail("a fault was seeded"))
    path = scripts.run.lab_lock_file(lab.paths)
    path.parent.mkdir(parents=True)
    with path.open("a") as other:
        fcntl.flock(other, fcntl.LOCK_SH)
        with pytest.raises(Busy, match="tests run on lab demo"):
            scripts.run.main(["--lab", "demo"])


def test_unknown_names_are_refused(scripts: Any) -> None:
    with pytest.raises(SystemExit, match=r"unknown: nope, test_nope\.py"):
        scripts.run.chosen(["nope"], ["test_nope"])
    ((fault, reds),) = scripts.run.chosen(["reclaim-off"], ["test_reclaim"])
    assert (fault.id, set(reds)) == ("reclaim-off", {"test_reclaim.py"})


class Patches:
    """A cluster that records patches and deletions."""

    def __init__(self) -> None:
        self.done: list[tuple[str, Any]] = []

    def patch(self, kind: str, name: str, change: Any, namespace: str | None = None) -> None:
        self.done.append((name, change))

    def create(self, obj: Any) -> None:
        self.done.append((obj["metadata"]["name"], obj))

    def delete(self, kind: str, name: str, namespace: str | None = None, grace: int | None = None) -> None:
        self.done.append((name, "deleted"))


def queue(name: str, mine: bool = True, **gpu: float) -> dict[str, Any]:
    labels = {"kailab.dev/test": "1"} if mine else {"kailab": "demo"}
    shares = {key: {"quota": -1, "limit": -1, "overQuotaWeight": 1} for key in ("gpu", "cpu", "memory")}
    shares["gpu"] |= gpu
    return {"metadata": {"name": name, "labels": labels}, "spec": {"resources": shares}}


def test_tampering_changes_test_objects_only(scripts: Any) -> None:
    cluster, act = Patches(), scripts.tampering.share_set("limit", -1)
    act(cluster, "ADDED", queue("test", mine=False, limit=1))
    act(cluster, "ADDED", queue("t-a", limit=-1))
    act(cluster, "DELETED", queue("t-b", limit=1))
    assert cluster.done == []
    act(cluster, "ADDED", queue("t-c", limit=1))
    assert cluster.done == [("t-c", {"spec": {"resources": {"gpu": {"limit": -1}}}})]


@pytest.mark.parametrize(("namespace", "hit"), [("t-gangs-1", True), ("default", False), ("vcluster-ml", False)])
def test_tampering_changes_test_namespaces_only(scripts: Any, namespace: str, hit: bool) -> None:
    cluster = Patches()
    group = {"metadata": {"name": "g", "namespace": namespace}, "spec": {"minMember": 3}}
    scripts.tampering.minimum_set(1)(cluster, "ADDED", group)
    pod = {
        "metadata": {"name": "p", "namespace": namespace},
        "spec": {"schedulerName": "kai-scheduler", "containers": [{"resources": {"limits": {"nvidia.com/gpu": 1}}}]},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }
    scripts.tampering.evicted(cluster, "MODIFIED", pod)
    assert bool(cluster.done) is hit


def test_over_packing_asks_for_one_gpu_for_all_fractions(scripts: Any) -> None:
    cluster, act = Patches(), scripts.tampering.over_packed()

    def half(name: str, namespace: str = "t-storm-1", **more: Any) -> dict[str, Any]:
        meta = {"name": name, "namespace": namespace, "uid": name, "annotations": {"gpu-fraction": "0.5"}}
        node = {"nodeSelector": {"kubernetes.io/hostname": "worker"}}
        return {"metadata": meta, "spec": {"schedulerName": "kai-scheduler", "containers": [{}], **node, **more}}

    act(cluster, "ADDED", half("elsewhere", "default"))
    act(cluster, "ADDED", half("bound", nodeName="worker"))
    act(cluster, "MODIFIED", half("a"))
    assert cluster.done == []
    for name in ("a", "b"):
        act(cluster, "ADDED", half(name))
    assert [(name, one["kind"], one["metadata"]["namespace"]) for name, one in cluster.done] == [
        ("a", "BindRequest", "t-storm-1"),
        ("b", "BindRequest", "t-storm-1"),
    ]
    first, second = (one["spec"] for _, one in cluster.done)
    assert {**first, "podName": "b"} == second
    assert (first["selectedNode"], len(first["selectedGPUGroups"])) == ("worker", 1)
    assert first["receivedGPU"] == {"count": 1, "portion": "0.50"}


def test_only_not_found_is_ignored(scripts: Any) -> None:
    from scripts.fault_injection import seeding

    def refuse(status: int) -> Any:
        def act(*_: object) -> None:
            raise ApiFailed("no", status=status)

        return act

    seeding._try(refuse(404), Patches(), "ADDED", {})
    with pytest.raises(ApiFailed):
        seeding._try(refuse(403), Patches(), "ADDED", {})

"""The noisy neighbour table, its exit code, and the problems and saved figures of a monitored fault."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.errors import LabError
from lab.workloads.pods import fraction_pod
from tests.e2e.noisy_neighbour import course, faults
from tests.e2e.noisy_neighbour.latency import AFTER, BEFORE, DURING, Finding, MonitorReport, Sample
from tests.e2e.noisy_neighbour.own_kai import with_class

ROOT = Path(__file__).parents[3]
Json = dict[str, Any]


@pytest.fixture
def table() -> Any:
    """The script as a module."""
    from tests.e2e.noisy_neighbour import table

    return table


def report(during: float | None = 0.5, *findings: Finding) -> MonitorReport:
    times = {BEFORE: [0.4, 0.6], DURING: [during, during], AFTER: [0.4]}
    samples = tuple(
        Sample(name, phase, value, None if value is None else value + 1)
        for name in ("host", "research")
        for phase, values in times.items()
        for value in values
    )
    return MonitorReport(45.0, {"host": 12, "research": 3}, samples, findings)


def saved(folder: Path, report: MonitorReport, fault: str = "queues-deleted") -> Path:
    """Run ``course.save`` and return the path it writes to the user properties."""
    request = SimpleNamespace(
        config=SimpleNamespace(getoption=lambda name: str(folder), rootpath=folder),
        node=SimpleNamespace(user_properties=[]),
    )
    tenant = SimpleNamespace(name="ml", mode="own-kai", kai_version="0.9.3")
    facts = {"lab": "versions", "kubernetes": "1.34.4", "gpu_mode": "simulated"}
    own = SimpleNamespace(tenant=tenant, lab=SimpleNamespace(facts=lambda: facts))
    path = course.save(request, SimpleNamespace(id=fault, description="description"), own, report)  # type: ignore[arg-type]
    properties = dict(request.node.user_properties)
    assert properties["kailab.noisy_neighbour"] == str(path)
    assert json.loads(properties["kailab.noisy_neighbour.figures"])["host"]["scheduled"][0] == 0.4
    return path


GONE = Finding("research", DURING, "team/steady", "is gone (uid 1)", 12.3)


def test_undisturbed_neighbours_have_no_problems() -> None:
    assert course.problems(report()) == []


def test_changed_unserved_and_slow_pods_are_problems() -> None:
    found = course.problems(report(9.0, GONE))
    assert found[0] == "research: pod team/steady is gone (uid 1) (during, 12 s)"
    assert any(line.startswith("host: scheduled p50 9.00 s") for line in found)
    assert any("not running within 45 s" in line for line in course.problems(report(None)))


def test_table_has_a_row_for_each_neighbour(table: Any, tmp_path: Path) -> None:
    path = saved(tmp_path, report(0.5, GONE))
    (found,) = table.results(path.parent)
    first, second = table.rows(found)
    assert first == (
        "queues-deleted",
        "ml (own-kai 0.9.3)",
        "host",
        "0.40/0.60 → 0.50/0.50 → 0.40/0.40",
        "1.40/1.60 → 1.50/1.50 → 1.40/1.40",
        "12",
        "0",
        "0 of 2",
    )
    assert second[2] == "research"
    assert second[5:7] == ("3", "1")


def test_missing_figures_are_dashes_and_missed_pods_are_counted(table: Any, tmp_path: Path) -> None:
    samples = (Sample("host", BEFORE, 0.4, 1.4), Sample("host", DURING, None, None))
    path = saved(tmp_path, MonitorReport(45.0, {"host": 1}, samples))
    (row,) = table.rows(table.results(path.parent)[0])
    assert row[3] == "0.40/0.40 → 45.00/45.00 → –/–"
    assert row[-1] == "1 of 1"


def test_table_is_aligned_and_followed_by_problems(table: Any, tmp_path: Path) -> None:
    first = saved(tmp_path, report(), "a-fault")
    second = saved(tmp_path, report(0.5, GONE), "another-fault")
    os.utime(first, (1, 1))
    os.utime(second, (2, 2))
    found = table.results(first.parent)
    assert [result["fault"] for result in found] == ["a-fault", "another-fault"]
    lines = table.table(found).splitlines()
    assert len(lines) == 2 + 4
    assert len({len(line) for line in lines}) == 1
    text = table.summary(found)
    assert "p50 during ≤ 3 × p50 before + 2 s" in text
    assert "Lab: lab versions, kubernetes 1.34.4, gpu_mode simulated" in text
    assert text.endswith("PROBLEM: another-fault of ml: research: pod team/steady is gone (uid 1) (during, 12 s)")


@pytest.mark.parametrize(("findings", "code"), [((), 0), ((GONE,), 1)])
def test_exit_code(table: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], findings: Any, code: int) -> None:
    saved(tmp_path, report(0.5, *findings))
    assert table.main(["--artifacts", str(tmp_path)]) == code
    assert "| queues-deleted " in capsys.readouterr().out


def test_missing_figures_are_an_error(table: Any, tmp_path: Path) -> None:
    with pytest.raises(LabError, match="No figures in"):
        table.main(["--artifacts", str(tmp_path)])


def test_file_without_figures_is_refused_by_name(table: Any, tmp_path: Path) -> None:
    (tmp_path / "noisy-neighbour").mkdir()
    (tmp_path / "noisy-neighbour" / "other.json").write_text("{}")
    with pytest.raises(LabError, match=r"other\.json has no figures"):
        table.main(["--artifacts", str(tmp_path)])


def test_table_reruns_the_suite_and_returns_its_status(
    table: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runner: Any
) -> None:
    old = saved(tmp_path, report(), "old")

    def suite(call: Any) -> str:
        assert not old.exists()
        saved(tmp_path, report(), "new")
        return "1 failed"

    runner.handle([sys.executable, "-m", "pytest", "tests/e2e/test_noisy_neighbour.py"], out=suite, code=1)
    lab = SimpleNamespace(runner=runner, spec=SimpleNamespace(name="versions"))
    monkeypatch.setattr(table.Lab, "attach", lambda name: lab)
    assert table.main(["--lab", "versions", "--artifacts", str(tmp_path), "--only", "queues", "--long"]) == 1
    (call,) = runner.calls
    assert call.argv[call.argv.index("--lab") :][:2] == ("--lab", "versions")
    assert "--lab-long" in call.argv
    assert call.argv[-2:] == ("-k", "queues")
    assert call.check is False


# --- the faults


def test_faults_have_unique_ids() -> None:
    ids = [fault.id for fault in faults.repairable_faults(5)]
    assert len(ids) == len(set(ids)) == 6
    assert "5 pods are pending in it" in [fault.description for fault in faults.repairable_faults(5)]


def test_deleted_queues_are_restored_parents_first() -> None:
    def queue(name: str, parent: str | None = None) -> Json:
        meta = {"name": name, "labels": {"kailab": "x"}, "uid": "1", "resourceVersion": "2"}
        spec = {"resources": {}, **({"parentQueue": parent} if parent else {})}
        return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": meta, "spec": spec, "status": {}}

    queues = {
        doc["metadata"]["name"]: doc for doc in (queue("c", "b"), queue("b", "a"), queue("a"), queue("x", "gone"))
    }
    ordered = sorted(queues, key=lambda name: faults._depth(queues[name], queues))
    assert ordered == ["a", "x", "b", "c"]


@pytest.mark.parametrize(
    ("status", "crashed"),
    [
        ({"containerStatuses": [{"restartCount": 1, "state": {"terminated": {}}}]}, True),
        ({"containerStatuses": [{"restartCount": 0, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}, True),
        ({"containerStatuses": [{"restartCount": 0, "state": {"waiting": {"reason": "ContainerCreating"}}}]}, False),
        ({"conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [{"restartCount": 1}]}, False),
    ],
)
def test_crash_is_distinguished_from_a_start(status: Json, crashed: bool) -> None:
    assert faults._crashed({"metadata": {"name": "scheduler"}, "status": status}) is crashed


@pytest.mark.parametrize(("version", "named"), [("0.7.11", True), ("0.9.3", True), ("0.9.8", False), ("0.16.8", False)])
def test_fraction_pods_set_the_runtime_class_for_old_kai(version: str, named: bool) -> None:
    pod = fraction_pod("half")
    changed = with_class(pod, version)
    assert ("runtimeClassName" in changed["spec"]) is named
    assert "runtimeClassName" not in pod["spec"]

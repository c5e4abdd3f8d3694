"""Records of processes and their temporary changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lab.engine.journal import Journal
from lab.errors import ApiFailed
from lab.paths import LabPaths
from lab.tools.lock import file_lock
from lab.workloads.temporary import CHANGE, PROCESS_LABEL, absent, changed, ended, known, owner_labels, process_label
from tests.support.fake_api_server import FakeApiServer

PATHS = LabPaths("demo")
OFF = {"spec": {"replicas": 0}}


def record() -> Journal:
    (path,) = (PATHS.root / "processes").glob("*.jsonl")
    return Journal(path)


@pytest.fixture
def api() -> FakeApiServer:
    found = FakeApiServer()
    found.put("Deployment", "scheduler", "kai", spec={"replicas": 2})
    return found


def test_label_of_a_process_stays_the_same_and_is_valid() -> None:
    first = process_label("demo")
    assert first == process_label("demo")
    assert owner_labels("demo") == {"kailab": "demo", **first}
    assert len(first[PROCESS_LABEL]) <= 63
    assert known(PATHS) == {first[PROCESS_LABEL]}
    assert process_label("other") != first


def test_running_process_has_not_ended() -> None:
    process_label("demo")
    assert list(ended(PATHS)) == []


def test_record_without_its_lock_is_that_of_an_ended_process() -> None:
    path = PATHS.root / "processes" / "box-17-abcdef.jsonl"
    Journal(path).owns("process", path.stem, "pytest")
    assert [found.path for found in ended(PATHS)] == [path]
    with file_lock(path, exclusive=False):
        assert list(ended(PATHS)) == []


def test_new_record_follows_lab_down() -> None:
    first = process_label("demo")
    record().path.unlink()
    assert process_label("demo") != first
    assert list(ended(PATHS)) == []


def test_change_is_recorded_before_it_is_made_and_undone_at_the_end(api: FakeApiServer) -> None:
    with changed(api.cluster, "demo", "Deployment", "scheduler", OFF, "kai") as before:
        assert before["spec"]["replicas"] == 2
        assert api.cluster.get("Deployment", "scheduler", "kai")["spec"]["replicas"] == 0
        (undo,) = record().owned(CHANGE)
        assert json.loads(undo.facts["patch"]) == {"spec": {"replicas": 2}}
    assert api.cluster.get("Deployment", "scheduler", "kai")["spec"]["replicas"] == 2
    assert record().owned(CHANGE) == ()


def test_failed_block_is_undone_and_forgotten(api: FakeApiServer) -> None:
    with pytest.raises(AssertionError), changed(api.cluster, "demo", "Deployment", "scheduler", OFF, "kai"):
        raise AssertionError
    assert record().owned(CHANGE) == ()


def test_change_that_could_not_be_undone_stays_recorded(api: FakeApiServer) -> None:
    def refuse(call: Any) -> tuple[int, str]:
        return (500, "the API server is gone")

    with pytest.raises(ApiFailed), changed(api.cluster, "demo", "Deployment", "scheduler", OFF, "kai"):
        api.react("patch", "Deployment", refuse)
    assert len(record().owned(CHANGE)) == 1


def test_deleted_objects_are_applied_again(api: FakeApiServer) -> None:
    doc = api.cluster.get("Deployment", "scheduler", "kai")
    with absent(api.cluster, "demo", [doc]):
        api.cluster.delete("Deployment", "scheduler", "kai")
        (undo,) = record().owned(CHANGE)
        (saved,) = json.loads(undo.facts["documents"])
        assert set(saved["metadata"]) <= {"name", "namespace", "labels", "annotations"}
    assert api.cluster.get("Deployment", "scheduler", "kai")["spec"] == {"replicas": 2}
    assert record().owned(CHANGE) == ()


def test_file_lock_is_released_with_its_block(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file"
    with file_lock(path, exclusive=True), pytest.raises(BlockingIOError), file_lock(path, exclusive=False, wait=False):
        pass
    with file_lock(path, exclusive=True, wait=False):
        assert path.exists()

"""Objects and changes of killed processes: found, named and removed; those of running ones stay."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lab.engine.journal import Journal
from lab.operations.abandoned import abandoned, in_words
from lab.operations.abandoned_removal import remove_abandoned
from lab.tools.lock import file_lock
from lab.workloads.temporary import PROCESS_LABEL, lab_lock_file, owner_labels
from tests.support.fake_api_server import FakeApiServer
from tests.support.fake_lab import FakeLab

KILLED, RUNNING, ELSEWHERE = "box-17-aaaaaa", "box-18-bbbbbb", "other-19-cccccc"
QUEUE = "Queue"


@pytest.fixture
def lab() -> Iterator[Any]:
    """A lab with the records of a killed process and of a running one."""
    found: Any = FakeLab()
    for tenant in ("ml", "ops"):
        found.paths.root.mkdir(parents=True, exist_ok=True)
        found.paths.tenant_kubeconfig(tenant).write_text("")
    for name in (KILLED, RUNNING):
        record_of(found, name).owns("process", name, f"pytest of {name}")
    with file_lock(record_of(found, RUNNING).path, exclusive=True):
        yield found


def record_of(lab: Any, name: str) -> Journal:
    return Journal(lab.paths.root / "processes" / f"{name}.jsonl")


def space(api: FakeApiServer, name: str, process: str = "", **labels: str) -> None:
    marks = {"kailab": "demo", **({PROCESS_LABEL: process} if process else {}), **labels}
    api.put("Namespace", name, metadata={"labels": marks})
    api.put("Pod", "load", name, status={"phase": "Running"})


def names(api: FakeApiServer, kind: str = "Namespace") -> list[str]:
    return sorted(obj["metadata"]["name"] for obj in api.cluster.list(kind))


def test_only_what_a_killed_process_left_is_removed(lab: Any) -> None:
    space(lab.api, "t-killed-aaaaaa", KILLED)
    space(lab.api, "t-running-bbbbbb", RUNNING)
    space(lab.api, "t-elsewhere-cccccc", ELSEWHERE)
    space(lab.api, "t-old-dddddd")
    space(lab.api, "vcluster-ml")
    space(lab.inside["ml"], "t-inside-eeeeee", KILLED)
    removed = remove_abandoned(lab)
    assert [one.what for one in removed] == [
        "Namespace t-killed-aaaaaa, with 1 pod",
        "Namespace t-inside-eeeeee in tenant ml, with 1 pod",
    ]
    assert names(lab.api) == ["t-elsewhere-cccccc", "t-old-dddddd", "t-running-bbbbbb", "vcluster-ml"]
    assert names(lab.inside["ml"]) == []
    assert not record_of(lab, KILLED).path.exists()
    assert record_of(lab, RUNNING).path.exists()
    assert remove_abandoned(lab) == ()


def test_what_is_left_is_named_and_nothing_changed(lab: Any) -> None:
    space(lab.api, "t-killed-aaaaaa", KILLED)
    space(lab.api, "t-elsewhere-cccccc", ELSEWHERE)
    space(lab.api, "t-old-dddddd")
    space(lab.api, "t-running-bbbbbb", RUNNING)
    before = list(lab.api.brief)
    killed, elsewhere, old = in_words(abandoned(lab))
    assert killed == f"Namespace t-killed-aaaaaa, with 1 pod: left by pytest of {KILLED} ({KILLED})"
    assert ELSEWHERE in elsewhere
    assert "delete namespace t-elsewhere-cccccc" in elsewhere
    assert "of an earlier kailab" in old
    assert [line for line in lab.api.brief[len(before) :] if not line.startswith("list")] == []


def test_queues_pods_and_topologies_go_too_the_labs_queues_stay(lab: Any) -> None:
    marks = {"kailab": "demo", PROCESS_LABEL: KILLED}
    lab.api.put(QUEUE, "team", metadata={"labels": {"kailab": "demo"}}, spec={})
    lab.api.put(QUEUE, "t-top-1", metadata={"labels": {**marks, "kailab.dev/test": "1"}}, spec={})
    lab.api.put(
        QUEUE, "t-leaf-1", metadata={"labels": {**marks, "kailab.dev/test": "1"}}, spec={"parentQueue": "t-top-1"}
    )
    lab.api.put("Pod", "gpu-release-x", "default", metadata={"labels": marks})
    lab.api.put("Topology", "kailab-1", metadata={"labels": marks})
    assert len(remove_abandoned(lab)) == 4
    assert names(lab.api, QUEUE) == ["team"]
    assert names(lab.api, "Pod") == names(lab.api, "Topology") == []


def test_changes_are_undone_last_one_first(lab: Any) -> None:
    config = lab.paths.kubeconfig
    config.write_text("")
    patched: list[Any] = []

    class Recorder:
        def __init__(self, path: Any) -> None:
            assert path == config
            self.cancel: Any = None

        def close(self) -> None:
            patched.append("closed" if self.cancel is lab.session.cancel else "closed, and never to be cancelled")

        def get(self, *_: Any) -> dict[str, Any]:
            return {}

        def patch(self, kind: str, name: str, patch: Any, namespace: str | None) -> None:
            patched.append((kind, name, patch, namespace))

        def apply(self, documents: Any, retry: float) -> None:
            patched.append(documents)

    record = record_of(lab, KILLED)
    facts = {"kubeconfig": str(config)}
    for number, (kind, patch) in enumerate((("Node", "{}"), ("SchedulingShard", '{"spec": {"kValue": 0}}')), 1):
        record.owns(
            "change", str(number), f"{kind} x is changed", **facts, target=f'["{kind}", "x", null]', patch=patch
        )
    record.owns("change", "3", "Queue q may be deleted", **facts, documents='[{"kind": "Queue"}]')
    with pytest.MonkeyPatch.context() as patch_:
        patch_.setattr("lab.operations.abandoned_removal.Cluster", Recorder)
        removed = remove_abandoned(lab)
    assert [one.what for one in removed] == [
        "Queue q may be deleted",
        "SchedulingShard x is changed",
        "Node x is changed",
    ]
    assert patched == [
        [{"kind": "Queue"}],
        "closed",
        ("SchedulingShard", "x", {"spec": {"kValue": 0}}, None),
        "closed",
        ("Node", "x", {}, None),
        "closed",
    ]
    assert not record.path.exists()


def test_what_cannot_be_removed_is_named_and_tried_again(lab: Any) -> None:
    space(lab.api, "t-killed-aaaaaa", KILLED)

    def refuse(call: Any) -> tuple[int, str]:
        return (500, "a webhook does not answer")

    lab.api.react("delete", "Namespace", refuse)
    (line,) = in_words(remove_abandoned(lab))
    assert "not removed: DELETE Namespace t-killed-aaaaaa: a webhook does not answer" in line
    assert record_of(lab, KILLED).path.exists()


def test_tenant_that_does_not_answer_is_looked_at_the_next_time(lab: Any) -> None:
    space(lab.inside["ml"], "t-inside-eeeeee", KILLED)

    def refuse(call: Any) -> tuple[int, str]:
        return (500, "no route to host")

    lab.inside["ml"].react("list", "Namespace", refuse)
    assert remove_abandoned(lab) == ()
    assert record_of(lab, KILLED).path.exists()


def test_nothing_is_removed_while_a_test_disturbs_the_lab(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    space(lab.api, "t-killed-aaaaaa", KILLED)
    with file_lock(lab_lock_file(lab.paths), exclusive=True):
        assert remove_abandoned(lab) == ()
        assert abandoned(lab), "it is still named"
        monkeypatch.setenv("KAILAB_TURN_HELD", str(lab_lock_file(lab.paths)))
        assert remove_abandoned(lab), "the caller of this run holds the lock"


def test_own_objects_are_not_abandoned(lab: Any) -> None:
    lab.api.put("Namespace", "t-mine-ffffff", metadata={"labels": owner_labels("demo")})
    assert abandoned(lab) == remove_abandoned(lab) == ()

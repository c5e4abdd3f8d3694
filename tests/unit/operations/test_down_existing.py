"""'kailab down' of a lab in an existing cluster: nothing but the lab's own objects is removed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml

from lab.engine.events import Bus
from lab.engine.journal import Journal
from lab.errors import LabError, Leftovers, NoLab, SpecError
from lab.gpu.pools import SIMULATED_LABEL
from lab.operations import down as operation
from lab.paths import LabPaths
from lab.session.session import Session
from lab.session.user_kubeconfig import CLAIM
from lab.steps.cluster import existing
from lab.tools.lock import file_lock
from lab.watch.manifests import WatchObjects
from lab.watch.names import NAME as WATCH
from lab.workloads.temporary import PROCESS_LABEL, lab_lock_file
from tests.support.fake_api_server import FakeApiServer
from tests.support.kai_install import add_kai_of_others
from tests.support.specs import EXISTING, lab_spec

MINE = {"labels": {"kailab": "demo"}}


@pytest.fixture
def theirs(monkeypatch: pytest.MonkeyPatch) -> FakeApiServer:
    """A cluster with a KAI of others, and a lab with a queue that uses it."""
    api = FakeApiServer()
    api.put("Namespace", "kube-system", metadata={"uid": "one"})
    add_kai_of_others(api, "0.16.8")
    api.put("Queue", "theirs")
    api.put("Queue", "mine", metadata=MINE)
    spec = lab_spec(cluster=EXISTING, scheduler="kai", kai={"manage": "adopt"})
    session = Session(spec, spec, engine_runs=False)
    session.save()
    session.paths.kubeconfig.write_text("copy")
    session.journal.owns(CLAIM, api.server, "cluster", server=api.server, uid="one")
    monkeypatch.setattr(Session, "cluster", lambda *_: api.cluster)
    return api


def test_only_objects_of_the_lab_are_removed(theirs: FakeApiServer) -> None:
    """Without any container engine: the guard refuses processes."""
    before = {key for key in theirs.objects if key != ("Queue", "", "mine")}
    report = operation.down("demo")
    assert report.kept == ()
    assert set(theirs.objects) == before
    assert [line for line in theirs.log if line.startswith("delete Q")] == ["delete Queue mine"]
    assert not LabPaths("demo").root.exists()


@pytest.fixture
def cordoned(theirs: FakeApiServer, monkeypatch: pytest.MonkeyPatch) -> FakeApiServer:
    """A test that was killed after it had cordoned a node."""
    theirs.put("Node", "a", spec={"unschedulable": True})
    undo = json.dumps({"spec": {"unschedulable": None}})
    record = Journal(LabPaths("demo").root / "processes" / "box-17-aaaaaa.jsonl")
    facts = {"kubeconfig": str(LabPaths("demo").kubeconfig), "target": json.dumps(["Node", "a", None]), "patch": undo}
    record.owns("change", "1", "Node a is changed", **facts)
    monkeypatch.setattr("lab.operations.abandoned_removal.Cluster", lambda _: theirs.cluster)
    return theirs


def test_change_of_a_killed_test_is_undone_in_a_cluster_of_others(cordoned: FakeApiServer) -> None:
    operation.down("demo")
    assert (cordoned.get("Node", "a") or {})["spec"] == {}
    assert not LabPaths("demo").root.exists()


def test_change_of_a_killed_test_that_stays_keeps_the_state(cordoned: FakeApiServer) -> None:
    cordoned.fail("patch", "Node", (403, "forbidden"))
    with pytest.raises(Leftovers) as caught:
        operation.down("demo")
    assert any("Node a is changed: left by" in line for line in caught.value.evidence)
    assert LabPaths("demo").journal.exists()


def test_change_of_a_killed_test_stays_known_while_another_test_runs(cordoned: FakeApiServer) -> None:
    with file_lock(lab_lock_file(LabPaths("demo")), exclusive=True), pytest.raises(Leftovers) as caught:
        operation.down("demo")
    assert any("Node a is changed: left by" in line for line in caught.value.evidence)
    assert (cordoned.get("Node", "a") or {})["spec"] == {"unschedulable": True}


def test_objects_that_remain_keep_the_state(theirs: FakeApiServer) -> None:
    theirs.put("ConfigMap", "forgotten", "default", metadata=MINE)
    with pytest.raises(Leftovers) as caught:
        operation.down("demo")
    assert any("ConfigMap default/forgotten" in line for line in caught.value.evidence)
    assert LabPaths("demo").journal.exists()


def test_nothing_is_removed_from_another_cluster(theirs: FakeApiServer) -> None:
    theirs.put("Namespace", "kube-system", metadata={"uid": "two"})
    with pytest.raises(LabError, match="leads to another cluster"):
        operation.down("demo")
    assert theirs.log == []
    assert LabPaths("demo").journal.exists()


def test_credentials_that_were_renewed_are_used(theirs: FakeApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before any request: with the expired ones of the copy nothing could be removed."""
    asked: list[bool] = []
    monkeypatch.setattr("lab.session.session.renew_copy", lambda *_: asked.append(not theirs.calls))
    operation.down("demo")
    assert asked == [True]


def test_cluster_that_does_not_answer_keeps_the_state(theirs: FakeApiServer) -> None:
    theirs.alive = False
    with pytest.raises(LabError):
        operation.down("demo")
    assert LabPaths("demo").journal.exists()


def test_unreadable_state_of_such_a_lab_is_not_deleted(theirs: FakeApiServer) -> None:
    LabPaths("demo").spec.write_text("{")
    with pytest.raises(LabError, match="cannot be read"):
        operation.down("demo")
    assert LabPaths("demo").journal.exists()


def test_lab_that_got_no_cluster_is_removed(theirs: FakeApiServer) -> None:
    LabPaths("demo").kubeconfig.unlink()
    operation.down("demo")
    assert theirs.log == []
    assert not LabPaths("demo").root.exists()


def watch(api: FakeApiServer, lab: str = "demo") -> None:
    """What ``kailab watch install`` makes."""
    for doc in WatchObjects(lab, "watch:1", canary=True).documents(operator=False):
        api.add(doc)
    api.put("Secret", "login", WATCH, metadata={"labels": {"kailab": lab}})


def test_watch_is_removed_with_the_lab_before_the_queues(theirs: FakeApiServer) -> None:
    before = {key for key in theirs.objects if key != ("Queue", "", "mine")}
    watch(theirs)
    Journal(LabPaths("demo").journal).owns("watch", WATCH, WATCH)
    operation.down("demo")
    assert set(theirs.objects) == before
    deleted = [line for line in theirs.log if line.startswith("delete ")]
    assert deleted.index(f"delete Namespace {WATCH}") < deleted.index("delete Queue mine")
    assert not LabPaths("demo").root.exists()


def test_claimed_watch_that_was_removed_by_hand_is_no_leftover(theirs: FakeApiServer) -> None:
    """Also one whose installation was killed before its first object."""
    Journal(LabPaths("demo").journal).owns("watch", WATCH, WATCH)
    operation.down("demo")


def test_rest_of_a_watch_whose_namespace_is_gone_is_removed(theirs: FakeApiServer) -> None:
    theirs.put("ClusterRole", WATCH, metadata=MINE)
    Journal(LabPaths("demo").journal).owns("watch", WATCH, WATCH)
    operation.down("demo")
    assert theirs.get("ClusterRole", WATCH) is None


@pytest.mark.parametrize("owner", ["other", WATCH])
def test_watch_of_others_stays(theirs: FakeApiServer, owner: str) -> None:
    watch(theirs, owner)
    before = {key for key in theirs.objects if key != ("Queue", "", "mine")}
    operation.down("demo")
    assert set(theirs.objects) == before


def test_claimed_watch_that_belongs_to_others_now_stays_with_a_notice(theirs: FakeApiServer) -> None:
    Journal(LabPaths("demo").journal).owns("watch", WATCH, WATCH)
    watch(theirs, "other")
    notices: list[str] = []
    bus = Bus()
    bus.subscribe(lambda event: notices.append(getattr(event, "text", "")))
    operation.down("demo", bus=bus)
    assert f"Namespace {WATCH} belongs to lab other, and is left alone" in notices
    assert theirs.get("Namespace", WATCH) is not None


def test_user_without_a_watch_needs_no_permission_for_it(theirs: FakeApiServer) -> None:
    theirs.fail("get", "ClusterRoleBinding", *[(403, "no")] * 10)
    operation.down("demo")


def test_watch_that_cannot_be_removed_keeps_the_state(theirs: FakeApiServer) -> None:
    watch(theirs)
    Journal(LabPaths("demo").journal).owns("watch", WATCH, WATCH)
    theirs.fail("delete", "ClusterRole", *[(403, "no")] * 10)
    with pytest.raises(Leftovers) as caught:
        operation.down("demo")
    assert any(line.startswith("watch: DELETE ClusterRole") for line in caught.value.evidence)
    assert f"ClusterRole {WATCH}" in caught.value.evidence
    assert theirs.get("Queue", "mine") is None, "the other steps are undone"
    assert Journal(LabPaths("demo").journal).owned("watch")


@pytest.fixture
def lost(theirs: FakeApiServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> tuple[Path, str]:
    """Kubeconfig and context of the cluster, whose lab has lost its state directory."""
    shutil.rmtree(LabPaths("demo").root)
    for module in (operation, existing):
        monkeypatch.setattr(module, "connect", lambda spec: theirs.cluster)
    file = tmp_path / "config"
    clusters = [{"name": "x", "cluster": {"server": theirs.server}}]
    contexts = [{"name": "c", "context": {"cluster": "x"}}]
    file.write_text(yaml.safe_dump({"clusters": clusters, "contexts": contexts}))
    return file, "c"


def test_lab_without_its_state_is_removed_by_its_labels(theirs: FakeApiServer, lost: tuple[Path, str]) -> None:
    theirs.put("CustomResourceDefinition", "queues.scheduling.run.ai")
    theirs.put("Namespace", "t-killed", metadata={"labels": {"kailab": "demo", PROCESS_LABEL: "gone"}})
    theirs.put("ConfigMap", "other", "default", metadata={"labels": {"kailab": "other"}})
    operation.down("demo", at=lost)
    deleted = [line for line in theirs.log if line.startswith("delete ") and " all " not in line]
    assert sorted(deleted) == ["delete Namespace t-killed", "delete Queue mine"]
    assert theirs.get("Queue", "theirs") is not None
    assert not LabPaths("demo").root.exists()


def test_watch_of_a_lost_lab_is_removed_by_its_label(theirs: FakeApiServer, lost: tuple[Path, str]) -> None:
    theirs.put("CustomResourceDefinition", "queues.scheduling.run.ai")
    before = {key for key in theirs.objects if key != ("Queue", "", "mine")}
    watch(theirs)
    operation.down("demo", at=lost)
    assert set(theirs.objects) == before


def test_simulated_gpus_of_a_lost_lab_are_taken_from_their_nodes(theirs: FakeApiServer, lost: tuple[Path, str]) -> None:
    theirs.put("CustomResourceDefinition", "queues.scheduling.run.ai")
    gpus = {"capacity": {"nvidia.com/gpu": "2"}, "allocatable": {"nvidia.com/gpu": "2"}}
    theirs.put("Node", "a", metadata={"labels": {SIMULATED_LABEL: "demo", "kailab": "demo"}}, status=gpus)
    operation.down("demo", at=lost)
    found = theirs.get("Node", "a") or {}
    assert (found["metadata"]["labels"], found["status"]) == ({}, {"capacity": {}, "allocatable": {}})


def test_kai_in_which_others_have_queues_stays_though_it_has_the_label(
    theirs: FakeApiServer, lost: tuple[Path, str]
) -> None:
    """The step refuses; a deletion by the label would take the queues of others with the CRD."""
    theirs.put("Namespace", "kai-scheduler", metadata=MINE)
    theirs.put("CustomResourceDefinition", "queues.scheduling.run.ai", metadata=MINE)
    with pytest.raises(Leftovers) as caught:
        operation.down("demo", at=lost)
    assert any("KAI is not removed" in line for line in caught.value.evidence)
    assert theirs.get("Namespace", "kai-scheduler") is not None
    assert theirs.get("CustomResourceDefinition", "queues.scheduling.run.ai") is not None
    assert theirs.get("Queue", "theirs") is not None


def test_lab_that_the_cluster_does_not_have_is_named(theirs: FakeApiServer, lost: tuple[Path, str]) -> None:
    with pytest.raises(NoLab, match="cluster c has nothing of a lab other"):
        operation.down("other", at=lost)
    assert theirs.log == []


def test_kinds_that_may_hide_a_lost_lab_are_named(theirs: FakeApiServer, lost: tuple[Path, str]) -> None:
    theirs.fail("list", "Secret", (403, "forbidden"))
    with pytest.raises(NoLab) as caught:
        operation.down("other", at=lost)
    assert caught.value.evidence == ("you may not list Secret",)


@pytest.mark.usefixtures("theirs")
def test_labels_are_not_used_where_the_state_exists(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="lab demo has its state on this machine"):
        operation.down("demo", at=(tmp_path / "config", "c"))

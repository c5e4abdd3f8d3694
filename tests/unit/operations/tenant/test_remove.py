"""'kailab tenant remove': the saved state, the other tenants' nodes, and undoing the isolation of the host."""

from __future__ import annotations

import pytest

from lab.engine.journal import Journal
from lab.engine.milestones import Milestone
from lab.errors import Busy, HostNotReady, LabError, NoLab
from lab.operations.tenant.remove import remove
from lab.paths import LabPaths
from lab.serialization import to_json
from lab.tenants.removal.timeline import Removal
from tests.support.tenancy_world import TenancyWorld, lab_file, own_kai, saved_state


def test_removed_tenant_leaves_the_state(monkeypatch: pytest.MonkeyPatch) -> None:
    world = TenancyWorld(monkeypatch, added=(own_kai(nodes=["worker3"]), own_kai("two", nodes=["worker2"])))
    world.removal = Removal("ml", (Milestone("namespace gone", 5.1),), 1.0)
    report = remove(world.lab(), "ml")
    assert (world.removed, report.nodes, report.in_file) == ([("ml", 1.0)], ("worker3",), False)
    assert [tenant["name"] for tenant in saved_state()["added"]] == ["two"]
    assert world.log == ["tenant-nodes"], "the marks of its nodes are reconciled"
    assert to_json(report)["moments"][0]["seconds"] == 5.1


def test_grace_none_keeps_the_grace_of_the_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    world = TenancyWorld(monkeypatch)
    remove(world.lab(), "file", grace=None)
    assert world.removed == [("file", None)]


def test_tenant_with_leftovers_stays_in_the_state(monkeypatch: pytest.MonkeyPatch) -> None:
    world = TenancyWorld(monkeypatch, added=(own_kai(nodes=["worker3"]),))
    world.removal = Removal("ml", (), 1.0, left=("Namespace vcluster-ml",))
    report = remove(world.lab(), "ml")
    assert report.removal.left == ("Namespace vcluster-ml",)
    assert [tenant["name"] for tenant in saved_state()["added"]] == ["ml"]
    assert world.log == []


def test_tenant_whose_removal_fails_stays_in_the_state(monkeypatch: pytest.MonkeyPatch) -> None:
    world = TenancyWorld(monkeypatch, added=(own_kai(nodes=["worker3"]),))

    def fail(*_: object, **__: object) -> Removal:
        raise LabError("namespace vcluster-ml does not go")

    monkeypatch.setattr("lab.tenants.virtual_cluster.remove_tenant", fail)
    with pytest.raises(LabError, match="does not go"):
        remove(world.lab(), "ml")
    assert [tenant["name"] for tenant in saved_state()["added"]] == ["ml"]


def test_other_tenants_of_the_lab_file_keep_their_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    tenants = [{"name": name, "mode": "own-kai", "kaiVersion": "0.16.8"} for name in ("one", "two")]
    world = TenancyWorld(monkeypatch, lab_file(tenants=tenants))
    report = remove(world.lab(), "one")
    assert (report.in_file, report.nodes) == (True, ("worker3",))
    (left,) = saved_state()["asked"]["tenants"]
    assert (left["name"], left["nodes"]) == ("two", ["worker2"])


def test_pods_of_a_killed_gpu_check_are_deleted_first(monkeypatch: pytest.MonkeyPatch) -> None:
    world = TenancyWorld(monkeypatch)
    killed = Journal(LabPaths("demo").root / "processes" / "box-17-aaaaaa.jsonl")
    killed.owns("process", "box-17-aaaaaa", "kailab tenant remove file --check-gpus")
    labels = {"kailab": "demo", "kailab.dev/tenant": "file", "kailab.dev/process": "box-17-aaaaaa"}
    world.api.put("Pod", "gpu-release-file-1a2b3c", "default", metadata={"labels": labels})
    remove(world.lab(), "file", check_gpus=True)
    assert world.api.of_kind("Pod", "default") == []
    assert not killed.path.exists()


def test_removing_the_last_own_kai_tenant_undoes_isolation(monkeypatch: pytest.MonkeyPatch) -> None:
    world = TenancyWorld(monkeypatch, lab_file(scheduler="kai", tenants=[]), (own_kai(nodes=["worker3"]),))
    world.install_kai()
    with pytest.raises(HostNotReady, match="removing tenant ml changes KAI on the host, and this was not approved"):
        remove(world.lab(), "ml")
    assert world.removed == []
    report = remove(world.lab(), "ml", ask=lambda _: True)
    assert any("global.namespaceLabelSelector" in effect.what for effect in report.changes)
    assert world.log == ["undo isolation", "undo tenant-nodes", "kai"]


def test_removal_continues_when_the_change_of_the_host_did_not_finish(monkeypatch: pytest.MonkeyPatch) -> None:
    world = TenancyWorld(monkeypatch, lab_file(scheduler="kai", tenants=[]), (own_kai(nodes=["worker3"]),))
    world.install_kai()

    def fail() -> None:
        assert [tenant["name"] for tenant in saved_state()["added"]] == ["ml"], "a kill here must not lose the tenant"
        raise LabError("helm failed")

    world.acts["kai"] = fail
    with pytest.raises(LabError, match="helm failed"):
        remove(world.lab(), "ml", ask=lambda _: True)
    world.acts["kai"] = lambda: None
    remove(world.lab(), "ml", ask=lambda _: True)
    assert saved_state()["added"] == []


def test_unknown_tenant_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    world = TenancyWorld(monkeypatch, added=(own_kai(),))
    with pytest.raises(NoLab, match=r"no tenant 'mk' \(tenants: file, ml\)"):
        remove(world.lab(), "mk")


def test_removal_during_another_change_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    world = TenancyWorld(monkeypatch)
    with world.lab().session.locked(), pytest.raises(Busy):
        remove(world.lab(), "file")

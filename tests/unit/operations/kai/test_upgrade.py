"""The lab's own KAI along a path of versions: checks before any change, the path's verdict, and the saved state."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

import lab.operations.kai.rehearse
from lab.config import TenantSpec
from lab.errors import SpecError
from lab.operations.kai import cluster_kai
from lab.operations.kai.cluster_kai import ClusterKai, HostKai
from lab.operations.kai.upgrade import roll_back, upgrade
from lab.serialization import to_json
from lab.steps.kai.upgrade.change import Change
from lab.steps.kai.upgrade.rehearsal_result import Rehearsal, Suites
from lab.steps.kai.upgrade.smoke_test import SmokeTest
from lab.steps.kai.upgrade.workload_snapshot import SnapshotDiff
from lab.ui.rehearsal import render_upgrade
from tests.support.tenancy_world import TenancyWorld, lab_file, own_kai, saved_state
from tests.support.workload_snapshots import BEFORE

QUEUES = [{"name": "default"}, {"name": "test", "parent": "default"}]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> TenancyWorld:
    """A lab with KAI 0.16.8, for which every version is available."""
    monkeypatch.setattr(cluster_kai, "check_kai_version", lambda ctx, where: ())
    monkeypatch.setattr(cluster_kai, "check_crds", lambda ctx, where: None)
    return TenancyWorld(monkeypatch, lab_file(scheduler="kai", queues=QUEUES))


@pytest.fixture
def rehearsed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Versions of faked rehearsals, which fail for 0.17.0 and otherwise save their version."""
    asked: list[Any] = []

    def rehearse(kai: ClusterKai, version: str, *, suites: bool, keep: bool, later: bool) -> Rehearsal:
        asked.append((version, later))
        before = kai.wanted().version
        failed = version == "0.17.0"
        with kai.lab.session.locked():
            kai.save(kai.with_version(before if failed else version))
        change = Change("", before, version, "in place", (), BEFORE, SnapshotDiff(kept=1), unscheduled=2.0)
        back = Change("", version, before, "anew", (), BEFORE, SnapshotDiff(kept=1))
        ran = Suites(ran=False, later=True) if later else Suites(ran=True, passed=1)
        trials = (SmokeTest("gang", problem="not Ready"),) if failed else (SmokeTest("gang", 1.0),)
        return Rehearsal("", before, version, change, trials=trials, suites=ran, back=back if failed else None)

    monkeypatch.setattr(lab.operations.kai.rehearse, "rehearse", rehearse)
    return asked


def test_path_is_rehearsed_in_order_and_its_last_version_saved(world: TenancyWorld, rehearsed: list[Any]) -> None:
    texts: list[str] = []
    handle = world.lab()
    handle.bus.subscribe(lambda event: texts.append(str(getattr(event, "text", ""))))
    found = upgrade(handle, ["0.12.23", "0.14.7", "0.16.7"])
    assert rehearsed == [("0.12.23", True), ("0.14.7", True), ("0.16.7", False)]
    assert (found.verdict, found.now, found.not_reached) == ("green", "0.16.7", ())
    saved = saved_state()
    assert (saved["asked"]["kai"]["version"], saved["facts"]["kai_version"]) == ("0.16.7", "0.16.7")
    assert world.lab().kai_version == "0.16.7"
    assert "the lab has KAI 0.16.7 now" in texts[-1]


def test_failed_version_ends_the_path(world: TenancyWorld, rehearsed: list[Any]) -> None:
    found = upgrade(world.lab(), ["0.14.7", "0.17.0", "0.17.1"])
    assert [version for version, _ in rehearsed] == ["0.14.7", "0.17.0"]
    assert (found.verdict, found.now, found.not_reached) == ("red", "0.14.7", ("0.17.1",))
    data = to_json(found)
    assert (data["verdict"], data["not_reached"], len(data["rehearsals"])) == ("red", ["0.17.1"], 2)
    assert world.lab().kai_version == "0.14.7"
    out = io.StringIO()
    render_upgrade(found, "demo", Console(file=out, width=120))
    for line in ("KAI 0.14.7 → 0.17.0 in lab demo: failed", "not reached: 0.17.1", "waited at most 2.0 s for a node"):
        assert line in out.getvalue()


@pytest.mark.parametrize(
    ("path", "why"), [(["0.16.7", "latest"], "invalid version"), (["0.16.7", "0.5.0"], "older than all")]
)
def test_whole_path_is_checked_before_anything_changes(
    world: TenancyWorld, rehearsed: list[Any], path: list[str], why: str
) -> None:
    with pytest.raises(SpecError) as refused:
        upgrade(world.lab(), path)
    assert why in str(refused.value)
    assert rehearsed == []


def test_version_that_harms_a_tenant_is_refused(monkeypatch: pytest.MonkeyPatch, rehearsed: list[Any]) -> None:
    added: tuple[TenantSpec, ...] = (own_kai(nodes=["worker3"]),)
    world = TenancyWorld(monkeypatch, lab_file(scheduler="kai", queues=QUEUES), added)
    with pytest.raises(SpecError, match=r"lab demo cannot have KAI 0\.16\.1") as refused:
        upgrade(world.lab(), ["0.16.1"])
    assert "deletes the tenant's fractional pods" in str(refused.value)
    assert rehearsed == []


def test_kai_of_others_is_refused(world: TenancyWorld, rehearsed: list[Any]) -> None:
    world.api.put("Namespace", "kai-scheduler", metadata={"labels": {"app.kubernetes.io/managed-by": "Helm"}})
    with pytest.raises(SpecError, match="lab demo did not install its KAI"):
        upgrade(world.lab(), ["0.17.0"])
    assert rehearsed == []


def test_lab_without_kai_is_refused(monkeypatch: pytest.MonkeyPatch, rehearsed: list[Any]) -> None:
    world = TenancyWorld(monkeypatch)
    with pytest.raises(SpecError, match="lab demo has no KAI"):
        upgrade(world.lab(), ["0.17.0"])
    assert rehearsed == []


def test_rollback_is_of_the_labs_own_kai(world: TenancyWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(
        lab.operations.kai.rehearse, "roll_back", lambda kai, to: seen.append((kai.tenant, to)) or SimpleNamespace()
    )
    roll_back(world.lab(), "0.16.7")
    assert seen == [("", "0.16.7")]


def test_namespace_is_removed_with_its_jobs(world: TenancyWorld) -> None:
    """A Job that is left would create its pods again."""
    with HostKai(world.lab()).namespace("load") as space:
        world.api.put("Job", "gang", space.namespace)
        world.api.put("Pod", "gang-1", space.namespace)
    assert [world.api.of_kind(kind) for kind in ("Job", "Pod")] == [[], []]
    assert world.api.get("Namespace", space.namespace) is None


def test_contexts_differ_only_in_the_version(world: TenancyWorld) -> None:
    world.tenants["file"] = world.api
    kai = HostKai(world.lab())
    spec = kai.context(kai.with_version("v0.17.0")).spec
    assert spec.kai.version == "0.17.0"
    assert spec.model_copy(update={"kai": kai.wanted().kai}) == world.lab().spec
    assert [scope.name for scope in kai.scopes] == [""]

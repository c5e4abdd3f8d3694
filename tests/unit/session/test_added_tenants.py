"""Tenants in the saved state that 'kailab tenant add' added: older states, 'kailab up', concurrency, killed adds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lab.config import TenantQuota, TenantSpec
from lab.config.added_tenants import tenant_request
from lab.engine.journal import Journal
from lab.errors import Busy, NoLab
from lab.objects.isolation_labels import HOST_KAI
from lab.operations.tenant.add import add
from lab.operations.tenant.remove import remove
from lab.paths import LabPaths
from lab.session.lab import KAI_SERVES, Lab
from lab.session.session import Session
from lab.tenants.vcluster.access import claim_port
from tests.support.specs import EXISTING, lab_spec
from tests.support.tenancy_world import TenancyWorld, lab_file, own_kai, saved_state


def names(lab: Lab) -> list[str]:
    return [tenant.name for tenant in lab.tenants]


def test_state_of_an_older_kailab_has_no_added_tenants() -> None:
    spec = lab_file()
    Session(spec, spec, {}).save()
    data = saved_state()
    del data["added"]
    LabPaths("demo").spec.write_text(json.dumps(data))
    lab = Lab(Session.attached("demo"))
    assert (names(lab), lab.session.added) == (["file"], ())


def test_labels_by_which_an_adopted_kai_serves_namespaces_are_saved() -> None:
    spec = lab_file()
    Session(spec, spec, {}).save()
    assert Lab(Session.attached("demo")).kai_serves == {}
    Session(spec, spec, {KAI_SERVES: "team=ml,kai=on"}).save()
    assert Lab(Session.attached("demo")).kai_serves == {"team": "ml", "kai": "on"}


def test_host_kai_beside_own_kai_tenants_serves_labelled_namespaces() -> None:
    tenants = [{"name": "team-own", "mode": "own-kai", "kaiVersion": "0.16.8", "nodes": 1}]
    lab = Lab.of(lab_spec(scheduler="kai", cluster={"workers": 3}, tenants=tenants))
    assert lab.kai_serves == HOST_KAI


def test_added_tenants_follow_tenants_of_the_lab_file() -> None:
    spec = lab_file()
    Session(spec, spec, {}, added=(own_kai(nodes=["worker3"]),)).save()
    lab = Lab(Session.attached("demo"))
    assert names(lab) == ["file", "ml"]
    assert lab.tenants[1] == own_kai(nodes=["worker3"])
    assert [tenant.name for tenant in lab.session.asked.tenants] == ["file"]


def test_queues_get_what_added_tenants_leave_of_the_budget() -> None:
    spec = lab_spec(cluster=EXISTING, scheduler="kai")
    added = TenantSpec(name="ml", mode="default", quota=TenantQuota(gpus=1))
    Session(spec, spec, {}, added=(added,)).save()
    session = Session.attached("demo")
    assert (session.spec.queues[0].name, session.spec.queues[0].gpu.limit) == ("demo", 3)
    assert session.spec_with(session.asked, ()).queues[0].gpu.limit == 4


def test_up_keeps_added_tenants() -> None:
    spec = lab_file()
    Session(spec, spec, {}, added=(own_kai(),)).save()
    up = Session(spec, spec, {})
    up.save()
    assert up.added_names == ("ml",)
    assert up.added_notices[0].startswith("tenant ml was added by 'kailab tenant add' and is left alone")
    assert names(Lab(Session.attached("demo"))) == ["file", "ml"]


def test_lab_file_takes_over_an_added_tenant_that_it_names() -> None:
    spec = lab_file()
    Session(spec, spec, {}, added=(own_kai(),)).save()
    wider = lab_file(tenants=[{"name": "ml", "mode": "default"}])
    Session(wider, wider, {}).save()
    lab = Lab(Session.attached("demo"))
    assert [(tenant.name, tenant.mode) for tenant in lab.tenants] == [("ml", "default")]
    assert saved_state()["added"] == []


def test_damaged_state_does_not_stop_up() -> None:
    spec = lab_file()
    Session(spec, spec, {}).save()
    LabPaths("demo").spec.write_text("{")
    assert Session(spec, spec, {}).added == ()


def test_changes_of_another_process_are_read_under_the_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    world = TenancyWorld(monkeypatch)
    lab, other = world.lab(), world.lab()
    add(other, tenant_request("late", {"mode": "default"}))
    with pytest.raises(NoLab, match="no tenant 'early'"):
        remove(lab, "early")
    assert names(lab) == ["file", "late"]


def test_concurrent_change_of_a_lab_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    world = TenancyWorld(monkeypatch)
    with world.lab().session.locked():
        for change in (lambda lab: add(lab, tenant_request("x", {})), lambda lab: remove(lab, "file")):
            with pytest.raises(Busy, match="another kailab process is changing lab 'demo'"):
                change(world.lab())
    assert (world.log, world.removed, saved_state()["added"]) == ([], [], [])


class Killed(BaseException):
    """Stands in for SIGKILL."""


def test_killed_add_is_recorded_and_can_be_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    world = TenancyWorld(monkeypatch)
    Journal(LabPaths("demo").journal).owns("port", "spare-0", "cluster", host="41000", node="30440")
    lab = world.lab()
    seen: list[list[str]] = []

    def die() -> None:
        claim_port(lab.context("tenant:ml"), "ml")
        seen.append([tenant["name"] for tenant in saved_state()["added"]])
        raise Killed

    world.acts["tenant:ml"] = die
    monkeypatch.setattr("lab.engine.run.RunRecord.raise_failure", _raise_first)
    with pytest.raises(Killed):
        add(lab, tenant_request("ml", {"mode": "default"}))
    assert seen == [["ml"]], "the state must name the tenant before any part of it is created"
    after = world.lab()
    assert names(after) == ["file", "ml"]
    assert [port.name for port in after.session.journal.owned("port")] == ["ml"]
    assert remove(after, "ml").removal.left == ()
    assert (world.removed, saved_state()["added"]) == ([("ml", 1.0)], [])


def _raise_first(record: Any) -> None:
    if record.errors:
        raise record.errors[0][1]

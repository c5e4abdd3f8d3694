"""Restoring the CoreDNS configuration of a tenant whose control plane restarted without data."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.engine.step import State
from lab.errors import WaitTimeout
from lab.kube.transport import TransportError
from lab.objects.synced import MANAGED_BY_LABEL
from lab.tenants.vcluster import access, coredns
from tests.support.api_requests import Call
from tests.support.builders import ready_deployment, running_pod
from tests.support.fake_api_server import FakeApiServer
from tests.support.fakes import FakeRunner
from tests.support.lab_world import LabWorld
from tests.support.tenant_install import (
    DNS,
    SPACE,
    kubeconfig_secret,
    run_control_plane,
    step_of,
    tenant_release,
    tenant_world,
)

SYSTEM = coredns.NAMESPACE
INSTALLED = ["apply StorageClass kailab", f"apply Namespace {SPACE}", "helm upgrade --install"]


@pytest.fixture
def world(runner: FakeRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LabWorld:
    """An installed tenant whose CoreDNS waits for a lost configuration."""
    monkeypatch.setattr("lab.tenants.virtual_cluster.validate_tenants", lambda spec, chart: None)
    world = tenant_world(runner, tmp_path)
    world.api.add(tenant_release(world), kubeconfig_secret("https://127.0.0.1:41000"))
    world.helm("upgrade")
    run_control_plane(world)
    inside = world.tenants["team-a"]
    inside.add(ready_deployment(coredns.NAME, SYSTEM))
    inside.add(running_pod(coredns.NAME, SYSTEM, labels=DNS, waiting="ContainerCreating"))
    inside.cluster.patience = 0.1
    return world


def on_restart(world: LabWorld, *, answers: bool = True) -> None:
    """Let vCluster end at SIGTERM and write the configuration when it starts again."""
    inside = world.tenants["team-a"]

    def end(call: Call) -> str:
        world.log.append(f"exec {call.namespace}/{call.name}/{call.query['container']}: {' '.join(call.body)}")
        inside.put("ConfigMap", coredns.NAME, SYSTEM)
        if not answers:
            raise TransportError("the connection has ended")
        return ""

    world.api.react("exec", "Pod", end)
    inside.after("deletecollection", "Pod", lambda _: inside.add(running_pod(coredns.NAME, SYSTEM, labels=DNS)))


@pytest.mark.parametrize("answers", [True, False], ids=["answers", "ends-with-the-container"])
def test_lost_configuration_restarts_vcluster_in_its_container(world: LabWorld, answers: bool) -> None:
    on_restart(world, answers=answers)
    step_of(world).apply(world.ctx)
    assert world.log == [
        *INSTALLED,
        f"exec {SPACE}/team-a-1/syncer: sh -c kill -TERM 1",
        f"delete all Pod in {SYSTEM} grace None",
    ]
    assert world.tenants["team-a"].calls_of("deletecollection")[0].query == {"labelSelector": coredns.SELECTOR}


def test_slow_dns_is_waited_for_without_a_restart(world: LabWorld) -> None:
    inside = world.tenants["team-a"]
    inside.put("ConfigMap", coredns.NAME, SYSTEM)

    def become_ready(_: Call) -> None:
        if sum("CoreDNS" in what for what in inside.waits) == 3:
            inside.add(running_pod(coredns.NAME, SYSTEM, labels=DNS))

    inside.after("list", "Pod", become_ready)
    step_of(world).apply(world.ctx)
    assert world.log == INSTALLED


def test_dns_that_never_becomes_ready_is_named(world: LabWorld) -> None:
    inside = world.tenants["team-a"]
    inside.put("ConfigMap", coredns.NAME, SYSTEM)
    with pytest.raises(WaitTimeout, match="CoreDNS of tenant team-a is Ready"):
        step_of(world).apply(world.ctx)
    assert sum("CoreDNS" in what for what in inside.waits) == coredns.ATTEMPTS


@pytest.mark.parametrize(
    ("started", "ready", "restarts", "does"),
    [
        ("10:00:05", False, 0, "kill"),
        ("10:00:05", False, 2, "delete old"),
        ("10:00:10", False, 0, ""),
        ("10:00:12", False, 2, ""),
        ("10:00:05", True, 2, ""),
    ],
)
def test_dns_that_started_before_its_api_is_restarted(
    runner: FakeRunner, tmp_path: Path, started: str, ready: bool, restarts: int, does: str
) -> None:
    """The kubelet restarts a container at once only for the first time."""
    world = tenant_world(runner, tmp_path)
    if does == "kill":
        runner.handle("docker exec worker ctr --namespace k8s.io task kill --signal SIGKILL abc")
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T10:00:10Z"}
    control = running_pod("team-a-0", SPACE, labels={"app": "vcluster", "release": "team-a"})
    control["status"]["conditions"] = [condition]
    labels = {**DNS, MANAGED_BY_LABEL: "team-a", "vcluster.loft.sh/namespace": SYSTEM}
    copy = running_pod("coredns-x", SPACE, labels=labels)
    copy["metadata"]["annotations"] = {
        "vcluster.loft.sh/object-name": "old",
        "vcluster.loft.sh/object-namespace": SYSTEM,
    }
    copy["spec"]["nodeName"] = "worker"
    copy["status"]["containerStatuses"] = [
        {
            "name": "coredns",
            "ready": ready,
            "restartCount": restarts,
            "containerID": "containerd://abc",
            "state": {"running": {"startedAt": f"2026-01-01T{started}Z"}},
        }
    ]
    world.api.add(control, copy)
    inside = world.tenants["team-a"]
    inside.add(*(running_pod(name, SYSTEM, labels=DNS) for name in ("old", "new")))
    coredns.wait_for_dns(world.ctx, "team-a")
    killed = ["kill" for call in runner.calls if "task kill" in call.line]
    assert [*killed, *(f"delete {call.name}" for call in inside.calls_of("delete"))] == ([does] if does else [])


def test_lost_configuration_is_drift(world: LabWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    on_restart(world)
    step_of(world).apply(world.ctx)
    monkeypatch.setattr(access, "answers", lambda ctx, name: True)
    assert step_of(world).observe(world.ctx).state is State.READY
    world.tenants["team-a"].remove("ConfigMap", coredns.NAME, SYSTEM)
    seen = step_of(world).observe(world.ctx)
    assert (seen.state, seen.detail) == (State.DRIFTED, "its CoreDNS has lost its configuration")


def test_tenant_without_coredns_has_no_lost_configuration() -> None:
    assert not coredns.is_lost(FakeApiServer().cluster)

"""CoreDNS of a tenant whose control plane came back empty: without its configuration it is brought back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from lab.engine.step import State
from lab.errors import ApiFailed, WaitTimeout
from lab.tenants.vcluster import access, coredns
from tests.support.cluster_fake import FakeCluster, World, add_release, ready_deployment, running_pod
from tests.support.fakes import FakeRunner
from tests.unit.tenants.test_virtual_cluster import DNS, SPACE, make, right, run_control_plane, step_of

SYSTEM = coredns.NAMESPACE


@pytest.fixture
def world(runner: FakeRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A tenant that is installed, and whose CoreDNS waits for a configuration that is lost."""
    monkeypatch.setattr("lab.tenants.virtual_cluster.validate_tenants", lambda spec, chart: None)
    world = make(runner, tmp_path)
    add_release(world.cluster, right(world))
    run_control_plane(world)
    inside = world.tenants["team-a"]
    inside.objects["Deployment", SYSTEM, coredns.NAME] = ready_deployment(coredns.NAME, SYSTEM)
    inside.objects["Pod", SYSTEM, coredns.NAME] = running_pod(
        coredns.NAME, SYSTEM, labels=DNS, waiting="ContainerCreating"
    )
    return world


def starts_again(world: World, monkeypatch: pytest.MonkeyPatch, *, answers: bool = True) -> None:
    """vCluster ends when it is told to, and writes the configuration at its next start."""
    inside = world.tenants["team-a"]

    def end(cluster: FakeCluster, pod: str, namespace: str, argv: Sequence[str], *, container: str) -> str:
        world.log.append(f"exec {namespace}/{pod}/{container}: {' '.join(argv)}")
        inside.put("ConfigMap", coredns.NAME, SYSTEM)
        if not answers:
            raise ApiFailed("the connection has ended")
        return ""

    def anew(kind: str, namespace: str, labels: str | None = None, grace: int | None = None) -> None:
        world.log.append(f"delete all {kind} of {labels} in {namespace}")
        inside.objects["Pod", SYSTEM, coredns.NAME] = running_pod(coredns.NAME, SYSTEM, labels=DNS)

    monkeypatch.setattr(FakeCluster, "exec", end, raising=False)
    monkeypatch.setattr(inside, "delete_all", anew)


@pytest.mark.parametrize("answers", [True, False], ids=["answers", "ends-with-the-container"])
def test_vcluster_starts_again_in_its_container(world: World, monkeypatch: pytest.MonkeyPatch, answers: bool) -> None:
    starts_again(world, monkeypatch, answers=answers)
    step_of(world).apply(world.ctx)
    assert world.log == [
        f"apply Namespace {SPACE}",
        f"exec {SPACE}/team-a-1/syncer: sh -c kill -TERM 1",
        f"delete all Pod of {coredns.SELECTOR} in {SYSTEM}",
    ]


def test_dns_that_is_only_slow_is_waited_for(world: World) -> None:
    inside = world.tenants["team-a"]
    inside.put("ConfigMap", coredns.NAME, SYSTEM)

    def become_ready(kind: str) -> None:
        if sum("CoreDNS" in what for what in inside.waits) == 3:
            inside.objects["Pod", SYSTEM, coredns.NAME] = running_pod(coredns.NAME, SYSTEM, labels=DNS)

    inside.before_wait = become_ready
    step_of(world).apply(world.ctx)
    assert world.log == [f"apply Namespace {SPACE}"]


def test_dns_that_never_comes_is_named(world: World) -> None:
    inside = world.tenants["team-a"]
    inside.put("ConfigMap", coredns.NAME, SYSTEM)
    with pytest.raises(WaitTimeout, match="CoreDNS of tenant team-a is Ready"):
        step_of(world).apply(world.ctx)
    assert sum("CoreDNS" in what for what in inside.waits) == coredns.LOOKS


def test_a_lost_configuration_is_seen(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    starts_again(world, monkeypatch)
    monkeypatch.setattr(access, "answers", lambda ctx, name: True)
    step_of(world).apply(world.ctx)
    assert step_of(world).observe(world.ctx).state is State.READY
    del world.tenants["team-a"].objects["ConfigMap", SYSTEM, coredns.NAME]
    seen = step_of(world).observe(world.ctx)
    assert (seen.state, seen.detail) == (State.DRIFTED, "its CoreDNS has lost its configuration")


def test_a_tenant_without_coredns_has_lost_nothing() -> None:
    assert not coredns.lost(FakeCluster())  # type: ignore[arg-type]

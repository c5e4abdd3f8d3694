from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from lab.engine.step import State
from lab.errors import ApiFailed, LabError, StepFailed, WaitTimeout
from lab.tenants.vcluster import access
from lab.tenants.vcluster.values import release_values
from lab.tenants.virtual_cluster import VirtualCluster
from tests.support.builders import node, release_secret, running_pod
from tests.support.fakes import FakeRunner
from tests.support.lab_world import LabWorld
from tests.support.specs import EXISTING, PORT
from tests.support.tenant_install import (
    CONTROL,
    DNS,
    SPACE,
    kubeconfig_secret,
    run_control_plane,
    step_of,
    tenant_release,
    tenant_world,
)


@pytest.fixture(autouse=True)
def validated(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Charts against which tenants were validated; test_validation.py tests the validation."""
    seen: list[Path] = []
    monkeypatch.setattr("lab.tenants.virtual_cluster.validate_tenants", lambda spec, chart: seen.append(chart))
    return seen


@pytest.fixture
def world(runner: FakeRunner, tmp_path: Path) -> LabWorld:
    return tenant_world(runner, tmp_path)


def test_apply_installs_the_release_and_writes_the_kubeconfig(world: LabWorld) -> None:
    upgrade = world.helm("upgrade")
    run_control_plane(world)
    step_of(world).apply(world.ctx)
    claim = "create PersistentVolumeClaim data-team-a-0"
    assert world.log == ["apply StorageClass kailab", f"apply Namespace {SPACE}", claim, "helm upgrade --install"]
    assert "--disable-openapi-validation" in upgrade.calls[0].argv
    values = json.loads(upgrade.calls[0].stdin)
    assert values == release_values(world.spec, world.spec.tenants[0], PORT)
    assert upgrade.calls[0].argv[3:7] == ("team-a", "/cache/vcluster.tgz", "--namespace", SPACE)
    kubeconfig = world.paths.tenant_kubeconfig("team-a")
    assert "https://127.0.0.1:41000" in kubeconfig.read_text()
    assert stat.S_IMODE(kubeconfig.stat().st_mode) == 0o600
    assert str(kubeconfig) in world.owned("file")
    step_of(world).verify(world.ctx)


def test_kubeconfig_for_another_port_is_not_used(world: LabWorld) -> None:
    world.helm("upgrade")
    run_control_plane(world, "https://localhost:8443")
    world.api.cluster.patience = 0.5
    with pytest.raises(WaitTimeout, match=r"kubeconfig for https://127\.0\.0\.1:41000"):
        step_of(world).apply(world.ctx)
    assert not world.paths.tenant_kubeconfig("team-a").exists()


def test_crashing_control_plane_ends_the_wait(world: LabWorld) -> None:
    world.helm("upgrade")

    def crashes(restarts: int) -> None:
        world.api.add(running_pod("team-a-1", SPACE, labels=CONTROL, waiting="CrashLoopBackOff", restarts=restarts))

    crashes(7)  # of its life so far: it is created again
    world.api.after("delete", "Pod", lambda _: crashes(0))
    world.api.after("watch", "Pod", lambda _: crashes(5))
    with pytest.raises(WaitTimeout, match="team-a-1, container main: CrashLoopBackOff: why"):
        step_of(world).apply(world.ctx)


def test_dns_without_its_image_ends_the_wait(world: LabWorld) -> None:
    world.helm("upgrade")
    run_control_plane(world)
    bad = running_pod("coredns", "kube-system", labels=DNS, waiting="ErrImageNeverPull")
    world.tenants["team-a"].add(bad)
    with pytest.raises(WaitTimeout, match="CoreDNS of tenant team-a is Ready: pod coredns"):
        step_of(world).apply(world.ctx)


@pytest.mark.parametrize(("claim", "there"), [(True, "Deployment"), (False, "StatefulSet")])
def test_change_that_would_lose_the_objects_inside_is_refused(
    runner: FakeRunner, tmp_path: Path, claim: bool, there: str
) -> None:
    volume = {"controlPlane": {"statefulSet": {"persistence": {"volumeClaim": {"enabled": claim}}}}}
    world = tenant_world(runner, tmp_path, values=volume)
    world.api.put(there, "team-a", SPACE)
    with pytest.raises(LabError, match=r"Tenant team-a keeps its objects in an? .*would lose them"):
        step_of(world).apply(world.ctx)
    assert world.log == []


def test_observe_names_missing_objects_of_the_release(world: LabWorld) -> None:
    manifest = "apiVersion: v1\nkind: Service\nmetadata: {name: team-a}\n"
    world.api.add(tenant_release(world, manifest))
    seen = step_of(world).observe(world.ctx)
    lines = (f"Service {SPACE}/team-a is missing", f"Secret {SPACE}/vc-team-a is missing")
    assert (seen.state, seen.diff) == (State.DRIFTED, lines)


def test_vcluster_starts_again_when_its_objects_were_missing(world: LabWorld) -> None:
    """vCluster's Service owns its Secret, which it writes only at its start."""
    world.api.add(tenant_release(world))
    world.helm("upgrade")
    world.api.after("deletecollection", "Pod", lambda _: run_control_plane(world))
    step_of(world).apply(world.ctx)
    assert world.log[-2:] == ["helm upgrade --install", f"delete all Pod in {SPACE} grace None"]
    world.log.clear()
    step_of(world).apply(world.ctx)
    assert world.log[-1] == "helm upgrade --install"


def test_namespace_of_a_user_is_neither_changed_nor_removed(world: LabWorld) -> None:
    """The vcluster CLI's default names are those of the lab's tenants."""
    made = {"creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": [{"manager": "vcluster"}]}
    world.api.put("Namespace", SPACE, metadata=made)
    world.api.add(release_secret("team-a", SPACE, {}, version="0.30.0", chart="vcluster"))
    with pytest.raises(StepFailed) as refused:
        step_of(world).apply(world.ctx)
    assert refused.value.what == (
        f"Namespace {SPACE} was created by vcluster at 2026-01-01T00:00:00Z: lab demo does not change it"
    )
    assert refused.value.evidence == (f"it has the Helm release {SPACE}/team-a",)
    assert refused.value.fix.startswith("rename the tenant; or hand it over to the lab: kubectl")
    assert world.log == []
    assert world.tenants["team-a"].cluster.healthy()
    step = step_of(world)
    step.undo(world.ctx)
    assert world.log == ["close"]
    assert [removal.left for removal in step.removals] == [()]
    assert world.owned("port") == ["spare-0"]


def test_unreachable_api_of_a_ready_control_plane_is_an_error(world: LabWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.tenants.virtual_cluster._REACH_SECONDS", 0.0)
    world.helm("upgrade")
    run_control_plane(world)
    world.tenants["team-a"].alive = False
    with pytest.raises(ApiFailed, match="although its control plane is Ready"):
        step_of(world).apply(world.ctx)


def test_verify_refuses_the_api_of_the_host(world: LabWorld) -> None:
    world.tenants["team-a"].put("Namespace", "kube-system", metadata={"uid": "host"})
    with pytest.raises(StepFailed, match="points to the lab's own cluster"):
        step_of(world).verify(world.ctx)


def test_observe_names_the_missing_part(world: LabWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    alive = [True]
    monkeypatch.setattr(access, "answers", lambda ctx, name: alive[0])
    step = step_of(world)
    assert step.observe(world.ctx).state is State.ABSENT
    world.api.add(tenant_release(world), kubeconfig_secret("https://127.0.0.1:41000"))
    assert step.observe(world.ctx).detail == "its namespace lacks kailab=demo"
    world.api.put("Namespace", SPACE, metadata={"labels": {"kailab": "demo"}})
    assert step.observe(world.ctx).detail == "its kubeconfig is missing"
    world.paths.tenant_kubeconfig("team-a").write_text("x")
    seen = step.observe(world.ctx)
    assert (seen.state, seen.detail) == (State.READY, "https://127.0.0.1:41000")
    alive[0] = False
    assert step.observe(world.ctx).detail == "its API does not answer"


def test_lacking_label_needs_no_helm(world: LabWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first own-kai tenant of a lab makes KAI on the host serve labelled namespaces only."""
    monkeypatch.setattr(access, "answers", lambda ctx, name: True)
    monkeypatch.setattr(VirtualCluster, "labels", {"kailab": "demo", "kailab.dev/kai": "host"})
    world.api.add(tenant_release(world), kubeconfig_secret("https://127.0.0.1:41000"))
    world.api.put("Namespace", SPACE, metadata={"labels": {"kailab": "demo"}})
    world.paths.tenant_kubeconfig("team-a").write_text("x")
    run_control_plane(world)
    step = step_of(world)
    assert step.observe(world.ctx).detail == "its namespace lacks kailab.dev/kai=host"
    step.apply(world.ctx)
    assert world.log == [f"apply Namespace {SPACE}"]
    assert step.observe(world.ctx).state is State.READY


def test_observe_claims_no_port(world: LabWorld) -> None:
    world.ctx.journal.released("port", "team-a")
    world.ctx.journal.owns("port", "spare-0", "cluster", host="1", node="2")
    assert step_of(world).observe(world.ctx).state is State.ABSENT
    assert world.owned("port") == ["spare-0"]


def test_observe_shows_a_changed_value(world: LabWorld) -> None:
    values = release_values(world.spec, world.spec.tenants[0], PORT)
    values["telemetry"] = {"enabled": True}
    world.api.add(release_secret("team-a", SPACE, values, version="0.36.1", chart="vcluster"))
    assert step_of(world).observe(world.ctx).diff == ("telemetry.enabled: true → false",)


@pytest.mark.parametrize("labels", [{}, {"kailab": "other"}])
def test_undo_keeps_a_namespace_of_another_owner(runner: FakeRunner, tmp_path: Path, labels: dict[str, str]) -> None:
    world = tenant_world(runner, tmp_path, cluster=EXISTING, gpus="none")
    world.api.put("Namespace", SPACE, metadata={"labels": labels})
    assert world.tenants["team-a"].cluster.healthy()
    step_of(world).undo(world.ctx)
    assert world.log == ["close"]  # the connection to its API: the kubeconfig is deleted


@pytest.fixture
def existing(runner: FakeRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LabWorld:
    """A tenant on a cluster of others, whose API answers at the first address."""
    world = tenant_world(runner, tmp_path, cluster=EXISTING, gpus="none")
    world.ctx.journal.released("port", "team-a")
    port = {"name": "https", "port": 443, "nodePort": 31000}
    world.api.put("Service", "team-a", SPACE, spec={"ports": [port]})
    world.api.put(
        "Secret", "pull", "default", type="kubernetes.io/dockerconfigjson", data={".dockerconfigjson": "e30="}
    )
    world.api.add(node("one", status={"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]}))
    monkeypatch.setattr("lab.tenants.vcluster.existing_access._answers", lambda *_: True)
    monkeypatch.setattr(access, "answers", lambda *_: True)
    return world


def test_tenant_of_an_existing_cluster_has_neither_port_nor_storage_of_the_lab(existing: LabWorld) -> None:
    world, upgrade = existing, existing.helm("upgrade")
    assert step_of(world).observe(world.ctx).state is State.ABSENT
    run_control_plane(world, "https://localhost:8443")
    step_of(world).apply(world.ctx)
    assert not [line for line in world.log if "StorageClass" in line or "PersistentVolumeClaim" in line]
    values = json.loads(upgrade.calls[0].stdin)
    assert values == release_values(world.spec, world.spec.tenants[0], None)
    assert values["controlPlane"]["service"] == {"spec": {"type": "NodePort"}}
    assert values["controlPlane"]["statefulSet"]["persistence"]["volumeClaim"]["storageClass"] == ""
    assert "https://10.0.0.1:31000" in world.paths.tenant_kubeconfig("team-a").read_text()
    world.api.put("Namespace", SPACE, metadata={"labels": {"kailab": "demo"}})
    world.api.add(release_secret("team-a", SPACE, values, version="0.36.1", chart="vcluster"))
    seen = step_of(world).observe(world.ctx)
    assert (seen.state, seen.detail) == (State.READY, "https://10.0.0.1:31000 (NodePort)")


def test_pull_secrets_are_copied_to_the_namespace_of_the_tenant(existing: LabWorld) -> None:
    world = existing
    supply = world.spec.supply.model_copy(
        update={"pull_secrets": ("pull",), "mirrors": {"ghcr.io": "mirror.example/x"}}
    )
    world.spec = world.spec.model_copy(update={"supply": supply})
    upgrade = world.helm("upgrade")
    run_control_plane(world)
    step_of(world).apply(world.ctx)
    copy = world.api.get("Secret", "pull", SPACE) or {}
    assert (copy["metadata"]["labels"], copy["data"]) == ({"kailab": "demo"}, {".dockerconfigjson": "e30="})
    control = json.loads(upgrade.calls[0].stdin)["controlPlane"]
    assert control["advanced"]["serviceAccount"] == {"imagePullSecrets": [{"name": "pull"}]}
    assert control["advanced"]["workloadServiceAccount"] == {"imagePullSecrets": [{"name": "pull"}]}
    assert control["statefulSet"]["image"]["registry"] == "mirror.example/x"
    assert control["distro"]["k8s"]["image"]["registry"] == "mirror.example/x"
    assert control["coredns"]["deployment"]["image"] == "registry.k8s.io/coredns/coredns:v1.12.4"


def test_objects_of_the_chart_are_known_beforehand(existing: LabWorld) -> None:
    existing.helm("template", out="apiVersion: v1\nkind: Service\nmetadata: {name: team-a}\n")
    space, service = step_of(existing).creates(existing.ctx)
    assert (space["kind"], space["metadata"]["name"], service["kind"]) == ("Namespace", SPACE, "Service")
    assert existing.log == ["helm template team-a"]

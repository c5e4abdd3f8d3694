from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.config import TenantSpec
from lab.errors import SpecError, Unavailable
from lab.kai import line_of
from lab.serialization import to_json
from lab.steps.kai.step import NAMESPACE, RESERVATIONS
from lab.steps.kai.upgrade.change import ANSWER, DEPLOYED, READY, STOPPED
from lab.steps.kai.upgrade.downtime_probe import NAME, RUNNING, SCHEDULED
from lab.steps.kai.upgrade.smoke_test import smoke_test_queue
from lab.steps.kai.upgrade.uninstall import IN_PLACE, REINSTALL, UNCHANGED, made_by_operator, strategy
from lab.tenants.kai_version import bundled_versions
from tests.support.fakes import FakeRunner
from tests.support.kai_install import RENDERED
from tests.support.specs import lab_spec
from tests.support.tenant_kai_world import TRIALS, Bench, tenant_of

OWNER = {"ownerReferences": [{"apiVersion": "kai.scheduler/v1", "kind": "Config", "name": "kai-config"}]}


@pytest.fixture(autouse=True)
def images_loaded(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Pretend that the nodes have all images; test_images.py tests loading them."""
    monkeypatch.setattr("lab.steps.loaded_images.missing", lambda ctx, images: {})
    return


def test_strategy_between_version_lines_where_the_old_one_is_stopped() -> None:
    stopped = functools.partial(strategy, stop_first=True)
    for before, after in (("0.16.8", "0.17.0"), ("0.16.8", "0.14.7"), ("0.12.15", "0.16.8"), ("0.16.8", "0.12.15")):
        assert stopped(line_of(before), line_of(after)) == IN_PLACE, (before, after)
    for before, after in (("0.9.8", "0.16.8"), ("0.16.8", "0.9.8"), ("0.9.3", "0.9.8"), ("0.7.11", "0.16.8")):
        assert stopped(line_of(before), line_of(after)) == REINSTALL, (before, after)
    assert stopped(line_of("0.16.8"), line_of("0.16.99")) == REINSTALL, "the hooks of an unknown version are unknown"
    assert stopped(None, line_of("0.16.8")) == REINSTALL


def test_strategy_of_helm_upgrades_to_newer_versions_only() -> None:
    by_helm = functools.partial(strategy, stop_first=False)
    for before, after in (("0.9.8", "0.16.8"), ("0.16.8", "0.17.0"), ("0.12.20", "0.13.0"), ("0.17.0", "0.99.0")):
        assert by_helm(line_of(before), line_of(after)) == IN_PLACE, (before, after)
    for before, after in (("0.17.0", "0.16.8"), ("0.16.8", "0.9.8"), ("0.9.3", "0.9.8"), ("0.7.11", "0.16.8")):
        assert by_helm(line_of(before), line_of(after)) == REINSTALL, (before, after)
    assert by_helm(None, line_of("0.16.8")) == REINSTALL


def test_reinstall_removes_the_old_version_first(runner: FakeRunner, tmp_path: Path) -> None:
    bench = Bench(runner, tmp_path, "0.9.8")
    fake, log = bench.api, bench.world.log
    fake.put("Config", "kai-config")
    fake.put("ServiceAccount", "admission", NAMESPACE, metadata=OWNER)
    fake.put("ServiceAccount", "default", NAMESPACE)
    fake.put("ValidatingWebhookConfiguration", "kai-queue-validation-v2")
    fake.put("ValidatingWebhookConfiguration", "foreign")
    bench.world.helm("uninstall")
    bench.world.helm("template", out=RENDERED)
    bench.helm_installs("0.16.8")
    done = bench.change("0.16.8")
    assert (done.before, done.after, done.how, done.ok) == ("0.9.8", "0.16.8", REINSTALL, True)
    order = [
        "delete Config kai-config",
        "helm uninstall kai-scheduler",
        "delete ServiceAccount admission",
        "delete ValidatingWebhookConfiguration kai-queue-validation-v2",
        f"delete all Deployment in {NAMESPACE} grace None",
        f"delete all Pod in {NAMESPACE} grace 1",
        f"delete all Lease in {NAMESPACE} grace None",
        "apply Config kai-config",
        "helm upgrade",
    ]
    assert [log.index(line) for line in order] == sorted(log.index(line) for line in order)
    kept = '{"metadata": {"annotations": {"helm.sh/resource-policy": "keep"}}}'
    patched = f"patch Namespace {RESERVATIONS} {kept}"
    guards = [f"{verb} ValidatingAdmissionPolicyBinding kailab-kai-is-changed" for verb in ("apply", "delete")]
    assert log.index(guards[0]) < log.index(patched) < log.index(order[0])
    assert log.index("helm upgrade") < log.index(guards[1]), "the gate stays until the new webhooks exist"
    assert fake.get("ServiceAccount", "default", NAMESPACE)
    assert fake.get("ValidatingWebhookConfiguration", "foreign")
    assert fake.get("Pod", "work", "team"), "pods of workloads are never deleted"
    assert fake.get("Pod", NAME, TRIALS) is None, "the downtime probe's pod is deleted"
    assert max(wait.hold for wait in fake.cluster.waits) == 5.0
    assert [spec.kai_version for spec in bench.saved] == ["0.16.8"]


def test_milestones_are_in_order(runner: FakeRunner, tmp_path: Path) -> None:
    bench = Bench(runner, tmp_path, "0.9.8")
    bench.world.helm("uninstall")
    bench.world.helm("template", out=RENDERED)
    bench.helm_installs("0.16.8")
    done = bench.change("0.16.8")
    reached = {milestone.name: milestone.seconds for milestone in done.milestones}
    assert {STOPPED, DEPLOYED, READY, ANSWER, SCHEDULED, RUNNING} <= set(reached)
    times = [done.at(name) for name in (STOPPED, DEPLOYED, READY, ANSWER)]
    assert times == sorted(times, key=float)
    assert (done.at(SCHEDULED) or 0) < (done.at(RUNNING) or 0)
    assert to_json(done)["moments"][STOPPED] == done.at(STOPPED)


def test_in_place_upgrade_keeps_config_and_webhooks(runner: FakeRunner, tmp_path: Path) -> None:
    bench = Bench(runner, tmp_path, "0.16.8")
    bench.api.put("Config", "kai-config", metadata={"uid": "same"})
    bench.api.put("MutatingWebhookConfiguration", "mutating-kai-admission", metadata=OWNER)
    bench.world.helm("template", out=RENDERED)
    bench.helm_installs("0.17.0")
    done = bench.change("0.17.0")
    log = bench.world.log
    assert (done.how, done.ok) == (IN_PLACE, True)
    assert not [line for line in log if "uninstall" in line or line.startswith(("delete Config", "delete Mutating"))]
    assert "--take-ownership" in next(call.argv for call in runner.calls if "upgrade" in call.argv)
    assert log[0] == "delete Deployment kai-operator"
    assert log.index(f"delete all Deployment in {NAMESPACE} grace None") < log.index("helm upgrade")


def test_interrupted_change_is_repeated(runner: FakeRunner, tmp_path: Path) -> None:
    bench = Bench(runner, tmp_path, "0.9.8")
    bench.api.remove("Secret")
    bench.api.remove("Deployment")
    bench.world.helm("uninstall")
    bench.world.helm("template", out=RENDERED)
    bench.helm_installs("0.16.8")
    done = bench.change("0.16.8")
    assert (done.before, done.after, done.how) == ("", "0.16.8", REINSTALL)


def test_installed_version_is_unchanged(runner: FakeRunner, tmp_path: Path) -> None:
    bench = Bench(runner, tmp_path, "0.16.8")
    bench.api.put("SchedulingShard", "default")
    done = bench.change("0.16.8")
    assert (done.how, done.ok, done.milestones) == (UNCHANGED, True, ())
    assert not [line for line in bench.world.log if not line.startswith("create")]


def test_lost_pod_is_reported(runner: FakeRunner, tmp_path: Path) -> None:
    bench = Bench(runner, tmp_path, "0.9.8")
    bench.world.helm("uninstall", out="")
    bench.world.helm("template", out=RENDERED)
    bench.helm_installs("0.16.8")
    bench.on_install = lambda: bench.api.remove("Pod", "work", "team")
    done = bench.change("0.16.8")
    assert not done.ok
    assert done.comparison.lost == ("pod team/work: gone (UID u-1)",)


@pytest.mark.parametrize(
    ("tenant", "version", "reason"),
    [
        (tenant_of("0.16.8"), "0.5.0", "older than all"),
        (TenantSpec(name="ml"), "0.16.8", "no KAI of its own"),
        (tenant_of("0.16.8"), "latest", "invalid version"),
        (tenant_of("0.16.8", queues=({"name": "alone"},)), "0.9.8", "leaf queue without a parent"),
    ],
)
def test_unsupported_versions_are_refused_before_any_change(
    runner: FakeRunner, tmp_path: Path, tenant: TenantSpec, version: str, reason: str
) -> None:
    bench = Bench(runner, tmp_path, "0.16.8")
    bench.tenant = tenant
    with pytest.raises(SpecError) as refused:
        bench.change(version)
    assert reason in str(refused.value)
    assert bench.world.log == []
    assert bench.saved == []


def test_unavailable_versions_are_refused_before_any_change(runner: FakeRunner, tmp_path: Path) -> None:
    bench = Bench(runner, tmp_path, "0.16.8")
    requested: list[Any] = []

    def unavailable(items: Any) -> dict[Any, Any]:
        requested.extend(items)
        return {i: SimpleNamespace(item=i, available=False, why=("registry: 404",), fix="a bundle") for i in requested}

    bench.supply.choose = unavailable
    with pytest.raises(Unavailable, match=r"KAI 0\.9\.8 is not available for tenant ml"):
        bench.change("0.9.8")
    assert (requested[0].kind, requested[0].name, requested[0].version) == ("chart", "kai-scheduler", "v0.9.8")
    assert bench.world.log == []


def test_nodes_of_others_pull_the_images(runner: FakeRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is loaded into them, and what they cannot pull is known before any change."""
    bench = Bench(runner, tmp_path, "0.16.8")
    requested: list[Any] = []

    def choose(items: Any) -> dict[Any, Any]:
        requested.extend(items)
        return {i: SimpleNamespace(item=i, available=True, why=(), fix="") for i in requested}

    bench.supply.choose = choose
    bench.world.ctx = replace(bench.world.ctx, images_in_nodes=False)
    monkeypatch.setattr("lab.steps.pulled_images.has_manifest", lambda image, _: "scheduler" in image or None)
    monkeypatch.setattr("lab.steps.loaded_images.missing", lambda ctx, images: pytest.fail("looks into nodes"))
    bench.world.helm("template", out=RENDERED)
    bench.helm_installs("0.17.0")
    assert bench.change("0.17.0").ok
    assert {item.kind for item in requested} == {"chart"}

    written, saved = len(bench.world.log), len(bench.saved)
    monkeypatch.setattr("lab.steps.pulled_images.has_manifest", lambda image, _: "binder" not in image)
    with pytest.raises(Unavailable, match="neither on the nodes nor in registries") as refused:
        bench.change("0.16.8")
    assert refused.value.evidence == ("ghcr.io/kai-scheduler/kai-scheduler/binder:v0.16.8",)
    assert (len(bench.world.log), len(bench.saved)) == (written, saved)


def test_bundled_versions_exclude_the_current_and_unsupported_ones(runner: FakeRunner, tmp_path: Path) -> None:
    bench = Bench(runner, tmp_path, "0.16.8")
    charts = ("v0.16.8", "v0.9.8", "v0.9.3", "v0.4.0")
    entries = [SimpleNamespace(kind="chart", name="kai-scheduler", version=version) for version in charts]
    bench.supply.bundles = (SimpleNamespace(entries=entries),)
    assert bundled_versions(bench.world.ctx, bench.tenant) == ("0.9.3", "0.9.8")


def test_smoke_test_queue_allows_gpus() -> None:
    cpus = {"name": "cpus", "parent": "org", "gpu": {"limit": 0, "quota": 0}}
    spec = lab_spec(queues=[{"name": "org"}, cpus, {"name": "gpus", "parent": "org"}])
    assert smoke_test_queue(spec) == "gpus"


def test_objects_of_the_operator_are_recognized_by_owner() -> None:
    assert made_by_operator({"metadata": OWNER})
    assert not made_by_operator({"metadata": {"ownerReferences": [{"apiVersion": "apps/v1"}]}})
    assert not made_by_operator({"metadata": {}})

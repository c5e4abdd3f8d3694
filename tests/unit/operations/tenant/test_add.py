"""'kailab tenant add': refusals before any change, order of the steps, and repeated runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lab.operations.tenant.add
from lab.config.added_tenants import tenant_request
from lab.engine.step import Effect
from lab.errors import ApiFailed, HostNotReady, SpecError, StepFailed, Unavailable
from lab.gpu.map.model import Gpu, GpuMap, Holder, NodeGpus
from lab.operations.tenant.add import add
from lab.operations.tenant.remove import remove
from lab.paths import LabPaths
from lab.serialization import to_json
from tests.support.specs import EXISTING, lab_spec
from tests.support.tenancy_world import TenancyWorld, lab_file, own_kai, saved_state

YES = lambda effects: True  # noqa: E731
KAI = {"mode": "own-kai", "kaiVersion": "0.16.8"}


def added() -> list[Any]:
    return list(saved_state()["added"])


def lab_with_host_kai(**more: Any) -> Any:
    """A lab with KAI on the host and one host-kai tenant."""
    return lab_file(scheduler="kai", tenants=[{"name": "file", "mode": "host-kai"}], **more)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> TenancyWorld:
    return TenancyWorld(monkeypatch)


def test_only_steps_of_the_tenant_run(world: TenancyWorld) -> None:
    report = add(world.lab(), tenant_request("ml", KAI))
    assert world.log == ["tenant-nodes", "tenant:ml", "kai:ml", "queues:ml"]
    assert report.nodes == ("worker3",)
    assert added()[0]["nodes"] == ["worker3"], "recorded by name, so that no later change reassigns it"
    assert report.kubeconfig == LabPaths("demo").tenant_kubeconfig("ml")
    assert to_json(report)["kai_version"] == "0.16.8"


def test_isolation_is_applied_before_kai_beside_a_host_kai(monkeypatch: pytest.MonkeyPatch) -> None:
    world = TenancyWorld(monkeypatch, lab_with_host_kai())
    world.install_kai()
    effects: list[Effect] = []
    report = add(world.lab(), tenant_request("ml", KAI), lambda found: not effects.extend(found))  # type: ignore[func-returns-value]
    order = {step: index for index, step in enumerate(world.log)}
    assert order["kai"] < order["isolation"] < order["kai:ml"]
    assert order["tenant:ml"] < order["kai:ml"]
    text = " ".join(effect.what for effect in effects)
    assert "global.namespaceLabelSelector" in text
    assert "global.nodePoolLabelKey" in text
    assert "ValidatingAdmissionPolicy" in text
    assert report.changes == tuple(effects)


def test_second_own_kai_tenant_needs_no_host_change(monkeypatch: pytest.MonkeyPatch) -> None:
    world = TenancyWorld(monkeypatch, lab_with_host_kai(), (own_kai("first", nodes=["worker3"]),))
    world.install_kai()
    report = add(world.lab(), tenant_request("second", KAI), lambda _: pytest.fail("no change needs approval"))
    assert (report.nodes, report.changes) == (("worker2",), ())


def test_unapproved_host_change_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    world = TenancyWorld(monkeypatch, lab_with_host_kai())
    world.install_kai()
    handle = world.lab()
    with pytest.raises(HostNotReady, match="this was not approved; nothing was changed"):
        add(handle, tenant_request("ml", KAI))
    assert (world.log, added(), [tenant.name for tenant in handle.tenants]) == ([], [], ["file"])


def test_unavailable_items_are_refused_before_any_change(world: TenancyWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    def unavailable(*_: object) -> None:
        raise Unavailable("2 required items are not available")

    monkeypatch.setattr(lab.operations.tenant.add, "loading_steps", unavailable)
    with pytest.raises(Unavailable):
        add(world.lab(), tenant_request("ml", KAI))
    assert (world.log, added()) == ([], [])


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("file", {"mode": "default"}, "tenant file: name: 'file' is already used by tenants.0"),
        ("Ml", {"mode": "default"}, "tenant Ml: name: must be 1 to 40 of a-z"),
        ("ml", {"mode": "own-kai"}, "tenant ml: kaiVersion: is missing"),
        ("ml", {**KAI, "nodes": 4}, "tenant ml: nodes: needs 4 dedicated workers"),
        ("ml", {**KAI, "nodes": ["worker9"]}, "tenant ml: nodes.0: unknown worker 'worker9'"),
        ("ml", {**KAI, "gpus": 9}, "tenant ml: quota.gpus: 9 is more than"),
        ("ml", {"mode": "host-kai"}, "tenant ml: mode: host-kai needs KAI on the host"),
        ("ml", {"mode": "own-kai", "kaiVersion": "0.5.0"}, "tenant ml: kaiVersion: KAI 0.5.0 is older than all"),
        ("ml", {"mode": "default", "vcluster": "0.30.0"}, "tenant ml: vcluster: '0.30.0' is too old"),
    ],
)
def test_invalid_tenant_is_refused(world: TenancyWorld, name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError) as refused:
        add(world.lab(), tenant_request(name, options))
    assert message in str(refused.value)
    assert (world.log, added()) == ([], [])


def test_host_kai_that_cannot_be_isolated_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    world = TenancyWorld(monkeypatch, lab_with_host_kai(kai={"version": "0.12.23"}))
    with pytest.raises(SpecError, match=r"own-kai beside KAI 0\.12\.23 on the host"):
        add(world.lab(), tenant_request("ml", KAI), YES)


def test_nodes_of_another_tenant_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = {"name": "mine", "mode": "own-kai", "kaiVersion": "0.16.8"}
    world = TenancyWorld(monkeypatch, lab_file(tenants=[mine]))
    with pytest.raises(SpecError, match=r"would take nodes of tenant mine \(worker3\)"):
        add(world.lab(), tenant_request("ml", {**KAI, "nodes": ["worker3"]}))


def test_workers_with_gpus_in_use_are_refused(world: TenancyWorld) -> None:
    holder = Holder("default", "train", "", "", "1 GPU", 1.0, "Running", "u")
    node = "kailab-demo-worker3"
    gpu = Gpu(node, 0, "GPU-1", "T4", 15360, holders=(holder,))
    world.gpus = GpuMap("", (NodeGpus(node, True, False, "T4", 15360, 1, 1, (gpu,)),))
    with pytest.raises(
        SpecError, match="Workers worker3 cannot be dedicated to tenant ml: pods of others use GPUs there"
    ) as refused:
        add(world.lab(), tenant_request("ml", KAI))
    assert refused.value.evidence == ("worker3: default/train has 1 GPU",)
    assert add(world.lab(), tenant_request("ml", {**KAI, "nodes": ["worker2"]})).nodes == ("worker2",)


def test_failed_add_can_be_repeated_or_removed(world: TenancyWorld) -> None:
    failing = [True]

    def fail() -> None:
        if failing:
            raise ApiFailed("no answer")

    world.acts["kai:ml"] = fail
    with pytest.raises(StepFailed) as failed:
        add(world.lab(), tenant_request("ml", KAI))
    assert "kailab tenant remove ml" in failed.value.evidence[-1]
    failing.clear()
    assert add(world.lab(), tenant_request("ml", KAI)).record.ok
    assert [tenant["name"] for tenant in added()] == ["ml"]
    remove(world.lab(), "ml")
    assert added() == []


def test_queues_get_what_a_new_tenant_leaves_of_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """The queues are changed by each attempt: the state of a killed one has the tenant already."""
    spec = lab_spec(cluster=EXISTING, scheduler="kai", kai={"manage": "adopt"}, tenants=[])
    world = TenancyWorld(monkeypatch, spec)
    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    world.api.put("StorageClass", "fast", metadata={"annotations": default})
    failing = [True]

    def fail() -> None:
        if failing:
            raise ApiFailed("no answer")

    def limit() -> float:
        return world.lab().spec.queues[0].gpu.limit

    world.acts["queues"] = fail
    request = tenant_request("ml", {"mode": "default", "gpus": 1})
    with pytest.raises(StepFailed):
        add(world.lab(), request)
    failing.clear()
    add(world.lab(), request)
    assert (world.log.count("queues"), limit()) == (2, 3)
    remove(world.lab(), "ml")
    assert (world.log.count("queues"), limit()) == (3, 4)
    with pytest.raises(SpecError, match="leave nothing of budget"):
        add(world.lab(), tenant_request("all", {"mode": "default", "gpus": 4}))


def test_existing_tenant_with_other_settings_is_refused(world: TenancyWorld) -> None:
    add(world.lab(), tenant_request("ml", {"mode": "default"}))
    with pytest.raises(SpecError, match="Tenant ml already exists with different settings") as refused:
        add(world.lab(), tenant_request("ml", {"mode": "default", "gpus": 1}))
    assert "quota" in refused.value.evidence[0]


def test_options_override_the_tenant_file(world: TenancyWorld, tmp_path: Path) -> None:
    file, values = tmp_path / "ml.yaml", tmp_path / "values.yaml"
    file.write_text("mode: own-kai\nkaiVersion: 0.16.8\nquota:\n  cpu: 8\nqueues:\n  - name: all\n")
    values.write_text("telemetry:\n  enabled: false\n")
    tenant = add(
        world.lab(), tenant_request("ml", {"kaiVersion": "0.17.0", "gpus": 2, "mode": None}, file, values)
    ).tenant
    assert (tenant.kai_version, tenant.quota.gpus, tenant.quota.cpu) == ("0.17.0", 2, "8")
    assert tenant.values == {"telemetry": {"enabled": False}}
    assert [queue.name for queue in tenant.queues] == ["all"]


def test_errors_name_the_line_of_the_tenant_file(world: TenancyWorld, tmp_path: Path) -> None:
    file = tmp_path / "ml.yaml"
    file.write_text("mode: default\nkubernets: 1.34.4\nvcluster: 0.36.1\n")
    with pytest.raises(
        SpecError, match=rf"{file}:2: tenant ml: kubernets: unknown key; perhaps you meant 'kubernetes'"
    ):
        add(world.lab(), tenant_request("ml", {}, file))
    file.write_text("name: other\n")
    with pytest.raises(SpecError, match="is named 'other', not 'ml'"):
        tenant_request("ml", {}, file)
    file.write_text("a: 1\na: 2\n")
    with pytest.raises(SpecError, match=rf"{file}:2: a: duplicate key"):
        tenant_request("ml", {}, file)

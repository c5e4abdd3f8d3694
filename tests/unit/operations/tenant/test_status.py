"""Status, upgrades and kubeconfigs of tenants."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import lab.operations.kai.rehearse
import lab.operations.tenant.status
from lab.config import LabSpec
from lab.config.added_tenants import checked_with_added
from lab.engine.step import Observed
from lab.errors import NoLab, SpecError
from lab.gpu.map.model import Gpu, GpuMap, Holder, NodeGpus
from lab.operations.kai.cluster_kai import ClusterKai
from lab.operations.tenant.status import kubeconfig, states, status
from lab.operations.tenant.upgrade import roll_back, upgrade
from lab.paths import LabPaths
from lab.serialization import to_json
from tests.support.builders import release_secret, running_pod
from tests.support.fake_api_server import FakeApiServer
from tests.support.tenancy_world import FakeStep, TenancyWorld, lab_file, own_kai

ML = own_kai(nodes=["worker3"], quota={"gpus": 2})


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> TenancyWorld:
    world = TenancyWorld(monkeypatch, added=(ML,))
    monkeypatch.setattr(lab.operations.tenant.status, "cluster_steps", world.steps)
    monkeypatch.setattr(lab.operations.tenant.status.GpuSource, "read", lambda _: world.gpus)
    return world


def bring_up(world: TenancyWorld, name: str, kai: str = "") -> FakeApiServer:
    """Give the tenant a namespace, kubeconfig, port and API."""
    world.api.put("Namespace", f"vcluster-{name}")
    paths = LabPaths("demo")
    paths.tenant_kubeconfig(name).write_text("kind: Config\n")
    world.lab().session.journal.owns("port", name, "cluster", host="41000", node="30440")
    inside = world.tenants[name] = FakeApiServer()
    if kai:
        inside.add(release_secret("kai-scheduler", "kai-scheduler", {}, version=f"v{kai}"))
    return inside


def gpus(*holders: Holder) -> GpuMap:
    node = "kailab-demo-worker3"
    shared = Gpu(node, 0, "GPU-0", "T4", 15360, reservations=("a/b",), holders=holders)
    other = Gpu("kailab-demo-worker", 0, "GPU-2", "T4", 15360)
    return GpuMap(
        "",
        (
            NodeGpus(node, True, False, "T4", 15360, 2, 2, (shared, replace(shared, uuid="GPU-1", holders=()))),
            NodeGpus("kailab-demo-worker", True, False, "T4", 15360, 1, 1, (other,)),
        ),
    )


def test_state_of_a_running_tenant(world: TenancyWorld) -> None:
    inside = bring_up(world, "ml", "0.12.23")
    inside.add(running_pod("a", "team", labels={}))
    inside.add(running_pod("b", "team", labels={}, waiting="ContainerCreating"))
    inside.add(running_pod("dns", "kube-system", labels={}))
    holders = [Holder("team", name, "ml", "", "0.5", 0.5, "Running", name) for name in ("a", "c")]
    world.gpus = gpus(*holders)
    (found,) = states(world.lab(), ["ml"])
    assert (found.state, found.added, found.answers) == ("ready", True, True)
    assert (found.kai, found.spec.kai_version) == ("0.12.23", "0.16.8")
    assert (found.running, found.pending) == (1, 1)
    assert (found.gpus, found.gpus_held, found.gpus_used) == (2, 1, 1.0)
    assert found.server == "https://127.0.0.1:41000"
    assert to_json(found)["gpu_quota"] == 2


def test_tenant_on_shared_nodes_counts_gpus_of_undedicated_nodes(world: TenancyWorld) -> None:
    bring_up(world, "file")
    world.gpus = gpus()
    assert states(world.lab(), ["file"])[0].gpus == 1


def test_tenants_that_do_not_answer_are_reported_without_error(world: TenancyWorld) -> None:
    bring_up(world, "ml").alive = False
    file, own = states(world.lab())
    assert (file.state, file.why) == ("absent", "no kubeconfig: it did not come up")
    assert (own.state, own.why) == ("not ready", "https://127.0.0.1:6443 does not answer /readyz")
    inside = bring_up(world, "ml")
    inside.fail("list", "Pod", (403, "pods is forbidden"))
    assert states(world.lab(), ["ml"])[0].why == "GET Pod objects: pods is forbidden (HTTP 403)"


def test_status_shows_the_steps_of_the_tenant(world: TenancyWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    bring_up(world, "ml", "0.16.8")
    seen = {"kai:ml": Observed.drifted("differs", ["chart 0.12.23 → 0.16.8"])}

    def steps(spec: LabSpec, *_: object, **__: object) -> tuple[Any, ...]:
        fakes = (FakeStep(step.id, [], step.needs) for step in world.steps(spec))
        return tuple(replace(step, seen=seen.get(step.id, Observed.ready())) for step in fakes)

    monkeypatch.setattr(lab.operations.tenant.status, "cluster_steps", steps)
    (found,) = status(world.lab(), ["ml"])
    assert [step.id for step in found.steps] == ["tenant:ml", "kai:ml", "queues:ml"]
    assert not found.ok
    assert to_json(found)["steps"][1]["diff"] == ["chart 0.12.23 → 0.16.8"]
    seen.clear()
    assert status(world.lab(), ["ml"])[0].ok


def test_missing_kubeconfig_is_an_error(world: TenancyWorld) -> None:
    with pytest.raises(NoLab, match="did not come up") as refused:
        kubeconfig(world.lab(), "ml")
    assert refused.value.fix == "'kailab tenant add' continues with it"
    with pytest.raises(NoLab, match=r"tenants: file, ml"):
        kubeconfig(world.lab(), "other")


@pytest.fixture
def rehearsed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Arguments of a faked rehearsal that keeps the tenant in its new version."""
    requests: list[Any] = []

    def rehearse(kai: ClusterKai, version: str, *, suites: bool, keep: bool) -> Any:
        requests.append((kai.tenant, version, suites, keep))
        with kai.lab.session.locked():  # the rehearsal takes the lock itself
            kai.save(kai.with_version(version))
        return SimpleNamespace(green=True)

    def back(kai: ClusterKai, to: str | None) -> Any:
        return rehearse(kai, to or "0.12.23", suites=False, keep=False)

    monkeypatch.setattr(lab.operations.kai.rehearse, "rehearse", rehearse)
    monkeypatch.setattr(lab.operations.kai.rehearse, "roll_back", back)
    return requests


def test_upgrade_of_an_added_tenant_is_saved(world: TenancyWorld, rehearsed: list[Any]) -> None:
    upgrade(world.lab(), "ml", "0.17.0", suites=False)
    assert rehearsed == [("ml", "0.17.0", False, False)]
    (saved,) = json.loads(LabPaths("demo").spec.read_text())["added"]
    assert (saved["kaiVersion"], saved["nodes"]) == ("0.17.0", ["worker3"])
    roll_back(world.lab(), "ml")
    assert world.lab().tenants[1].kai_version == "0.12.23"


def test_upgrade_of_a_lab_file_tenant_is_saved_with_a_notice(
    monkeypatch: pytest.MonkeyPatch, rehearsed: list[Any]
) -> None:
    mine = {"name": "mine", "mode": "own-kai", "kaiVersion": "0.16.8"}
    world = TenancyWorld(monkeypatch, lab_file(tenants=[mine]))
    handle = world.lab()
    texts: list[str] = []
    handle.bus.subscribe(lambda event: texts.append(str(getattr(event, "text", ""))))
    upgrade(handle, "mine", "0.17.0")
    (saved,) = json.loads(LabPaths("demo").spec.read_text())["asked"]["tenants"]
    assert (saved["kaiVersion"], saved["nodes"]) == ("0.17.0", None)
    assert (
        "tenant mine now has KAI 0.17.0: a lab file with another version changes it at the next kailab up" in texts[0]
    )


@pytest.mark.parametrize(
    ("name", "kai", "vcluster", "why"),
    [
        ("file", "0.17.0", "", "mode default has no KAI inside"),
        ("ml", "0.5.0", "", "KAI 0.5.0 is older than all"),
        ("ml", "0.17.0", "0.30.0", "below 0.35.3"),
        ("ml", "0.17.0", "0.35.3", "is a downgrade"),
    ],
)
def test_unsupported_upgrades_are_refused(
    world: TenancyWorld, rehearsed: list[Any], name: str, kai: str, vcluster: str, why: str
) -> None:
    with pytest.raises(SpecError) as refused:
        upgrade(world.lab(), name, kai, vcluster=vcluster)
    assert why in str(refused.value)
    assert (rehearsed, world.log) == ([], [])


def test_lab_file_in_conflict_with_added_tenants_is_refused() -> None:
    smaller = lab_file(cluster={"workers": 2})
    with pytest.raises(SpecError, match="conflicts with tenants added") as refused:
        checked_with_added(smaller, (ML,))
    assert refused.value.evidence[0].startswith("tenant ml: nodes.0: unknown worker 'worker3'")
    assert "kailab tenant remove ml" in refused.value.fix
    assert [tenant.name for tenant in checked_with_added(lab_file(), (ML,)).tenants] == ["file", "ml"]


def test_kubeconfig_returns_the_path_of_the_file(world: TenancyWorld) -> None:
    bring_up(world, "ml")
    assert kubeconfig(world.lab(), "ml") == Path(LabPaths("demo").root / "tenant-ml.kubeconfig")

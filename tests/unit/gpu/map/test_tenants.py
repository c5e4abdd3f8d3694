"""The GPU map with own-kai tenants: reservation pods and waiting pods inside, and dedicated nodes."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from rich.console import Console

from lab.gpu.map.diff import changes
from lab.gpu.map.model import GpuState
from lab.gpu.map.text import gpu_lines
from lab.gpu.map.watch import GpuFollow, GpuSource
from lab.kube import Cluster as Server
from lab.kube import informers, reflector
from lab.serialization import to_json
from lab.ui.gpus import render_gpus
from tests.support.gpu_map_world import GpuCluster, Machine, next_of, pod
from tests.support.kube_fake import CUT, FakeApi, Stream, listing, status
from tests.support.specs import lab_spec, tenant_spec

if TYPE_CHECKING:
    from lab.session.context import LabContext

PODS, NODES = "/api/v1/pods", "/api/v1/nodes"


def shared(tenant: str = "ml") -> tuple[GpuCluster, Machine]:
    """A tenant's node with one GPU shared by two pods, and one GPU used by one pod."""
    cluster = GpuCluster()
    machine = cluster.machine("worker2", 2)
    machine.tenant = tenant
    users = [pod(name, tenant=tenant, ns="team", fraction="0.5") for name in ("a", "b")]
    cluster.share(machine, 0, "g", *users, own=tenant)
    cluster.whole(machine, [1], pod("big", tenant=tenant, ns="team", gpus=1))
    return cluster, machine


def table(cluster: GpuCluster, width: int = 100) -> str:
    console = Console(width=width, record=True, force_terminal=False, color_system=None)
    render_gpus(cluster.map(), "lab demo", console, width)
    return console.export_text()


def test_reservation_pod_of_a_tenant_makes_a_shared_gpu() -> None:
    cluster, _ = shared()
    first, second = cluster.map().gpus
    assert (first.state, first.used, first.claims) == (GpuState.SHARED, 1.0, 1)
    assert [(h.title, h.tenant, h.share) for h in first.holders] == [("team/a", "ml", 0.5), ("team/b", "ml", 0.5)]
    assert (second.state, [h.title for h in second.holders]) == (GpuState.WHOLE, ["team/big"])
    (on_host,), (owners,) = first.reservations, first.reserved_by
    assert on_host.startswith("vcluster-ml/gpu-reservation-")
    assert on_host.endswith("-x-kai-resource-reservation-x-ml")
    assert owners == on_host.split("/")[1].split("-x-")[0] + " of tenant ml"


def test_gpu_comes_from_the_kubelet_without_the_annotation() -> None:
    cluster, machine = shared()
    del cluster.pods[0]["metadata"]["annotations"]["run.ai/reserve_for_gpu_index"]
    gpu = cluster.map().gpus[0]
    assert (gpu.uuid, gpu.state, len(gpu.holders)) == (machine.uuid(0), GpuState.SHARED, 2)


def test_gpu_of_two_tenants_is_over_committed() -> None:
    cluster, machine = shared()
    cluster.share(machine, 0, "other", pod("c", tenant="ops", fraction="0.5"), own="ops")
    gpu = cluster.map().gpus[0]
    assert gpu.state is GpuState.OVER
    assert [owners.partition(" of ")[2] for owners in gpu.reserved_by] == ["tenant ml", "tenant ops"]


def test_table_and_lines_name_the_tenant() -> None:
    cluster, _ = shared()
    text = table(cluster)
    assert "dedicated to tenant ml" in text
    assert " of tenant ml\n" in text
    assert "-x-kai-resource" not in text
    lines = gpu_lines(cluster.map())
    assert lines[0].startswith("node worker2: Ready, dedicated to tenant ml, 2 of 2 offered")
    assert "-x-kai-resource-reservation-x-ml (gpu-reservation-" in lines[1]
    assert " of tenant ml), GPU group g" in lines[1]


def test_json_names_the_tenant() -> None:
    (node,) = to_json(shared()[0].map())["nodes"]
    assert node["tenant"] == "ml"
    assert node["gpus"][0]["reserved_by"][0].endswith(" of tenant ml")


def test_pods_waiting_inside_a_tenant_are_on_the_map() -> None:
    cluster, _ = shared()
    why = "no nodes with enough resources were found"
    bound = pod("a", ns="team", fraction="0.5", node="worker2")
    cluster.inside = {
        "ml": [bound, pod("late", ns="team", gpus=1, phase="Pending", why=why), pod("cpu", phase="Pending")]
    }
    found = cluster.map()
    assert [(w.title, w.tenant, w.asked, w.why) for w in found.waiting] == [("team/late", "ml", "1 GPU", why)]
    assert len(found.gpus[0].holders) == 2
    before = shared()[0].map()
    assert [change.change for change in changes(before, found)] == ["waits"]


def test_silent_tenant_is_noted() -> None:
    cluster, _ = shared()
    cluster.inside = {"ml": None}
    assert cluster.map().notes == ("tenant ml does not answer: its pods that wait for GPUs are not on this map",)


def test_note_says_to_delete_a_failed_reservation_pod_inside_the_tenant() -> None:
    cluster, _ = shared()
    cluster.pods[0]["status"]["phase"] = "Failed"
    (note,) = cluster.map().notes
    assert note.startswith("reservation pod vcluster-ml/gpu-reservation-")
    assert ": delete pod kai-resource-reservation/gpu-reservation-" in note
    assert note.endswith(" inside tenant ml")


# --- reading and following


@pytest.fixture
def inner() -> FakeApi:
    return FakeApi()


def server(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.setattr(reflector, "PAUSE", 0.01)
    made = Server(Path("/lab/kubeconfig"), transport=api)
    monkeypatch.setattr(made.calls, "pause", lambda seconds: None)
    return made


LATE = pod("late", gpus=1, phase="Pending")


def test_read_includes_tenants(api: FakeApi, inner: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    api.on("GET", NODES, listing(Machine("worker", 1).node()))
    api.on("GET", PODS, listing())
    inner.on("GET", PODS, listing(LATE))
    source = GpuSource(server(api, monkeypatch), tenants={"ml": server(inner, monkeypatch)})
    assert [(w.title, w.tenant) for w in source.read().waiting] == [("default/late", "ml")]


def test_unauthorized_tenant_is_noted(api: FakeApi, inner: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    api.on("GET", NODES, listing(Machine("worker", 1).node()))
    api.on("GET", PODS, listing())
    inner.on("GET", PODS, status(401, "Unauthorized"))
    found = GpuSource(server(api, monkeypatch), tenants={"ml": server(inner, monkeypatch)}).read()
    assert (len(found.gpus), len(found.notes)) == (1, 1)


def quiet_host(api: FakeApi) -> None:
    api.on("GET", NODES, listing(Machine("worker", 1).node()))
    api.on("GET", NODES, Stream())
    api.on("GET", PODS, listing())
    api.on("GET", PODS, Stream())


def test_follow_includes_pods_inside_tenants(api: FakeApi, inner: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    go = threading.Event()
    quiet_host(api)
    inner.on("GET", PODS, listing())
    inner.on("GET", PODS, Stream(go, ("ADDED", {**LATE, "metadata": {**LATE["metadata"], "resourceVersion": "11"}})))
    source = GpuSource(server(api, monkeypatch), tenants={"ml": server(inner, monkeypatch)})
    with GpuFollow(source) as maps:
        assert next_of(maps).waiting == ()
        go.set()
        assert [(w.title, w.tenant) for w in next_of(maps).waiting] == [("default/late", "ml")]


def test_follow_notes_a_silent_tenant_until_it_answers_again(
    api: FakeApi, inner: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = threading.Event()
    quiet_host(api)
    inner.on("GET", PODS, listing(LATE), listing(LATE))
    inner.on("GET", PODS, Stream(broken, CUT), Stream())
    source = GpuSource(server(api, monkeypatch), tenants={"ml": server(inner, monkeypatch)})
    monkeypatch.setattr(reflector, "PAUSE", 1.0)  # longer than a map waits for further events
    monkeypatch.setattr(informers, "TAKE_SECONDS", 0.05)
    with GpuFollow(source) as maps:
        found = next_of(maps)
        assert len((found if found.waiting else next_of(maps)).waiting) == 1
        broken.set()
        silent = next_of(maps)
        assert (silent.waiting, len(silent.notes)) == ((), 1)
        again = next_of(maps)  # listed again without changes
        assert (len(again.waiting), again.notes) == (1, ())


def test_follow_notes_a_forbidden_tenant_and_continues(
    api: FakeApi, inner: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet_host(api)
    inner.on("GET", PODS, status(403, "forbidden"))
    source = GpuSource(server(api, monkeypatch), tenants={"ml": server(inner, monkeypatch)})
    with GpuFollow(source) as maps:
        found = next_of(maps)
        while not found.notes:
            found = next_of(maps)
        assert len(found.gpus) == 1


def test_source_reads_own_kai_tenants_with_kubeconfigs(tmp_path: Path) -> None:
    tenants = [tenant_spec("own-kai", "ml"), tenant_spec("own-kai", "new"), tenant_spec("host-kai", "dev")]
    spec = lab_spec(cluster={"workers": 3}, tenants=[tenant.model_dump() for tenant in tenants])
    (tmp_path / "ml").write_text("")
    ctx = SimpleNamespace(
        spec=spec,
        cluster=lambda: "host",
        tenant=lambda name: f"cluster of {name}",
        paths=SimpleNamespace(tenant_kubeconfig=lambda name: tmp_path / name),
    )
    assert GpuSource.of(cast("LabContext", ctx)).tenants == {"ml": "cluster of ml"}

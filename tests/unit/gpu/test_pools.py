"""Node pools: the GPUs of each node in kind's configuration, in the nodes and in descriptions."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
import yaml

from lab.config import LabSpec
from lab.engine.step import State
from lab.gpu import GpuLabels, GpuNodes, GpuPlugin, gpu_steps
from lab.gpu.pools import describe_gpus, node_name, pool_of, pools_by_node, short_name
from lab.gpu.simulated.devices import gpus_of
from lab.steps.cluster.config import VOLUMES, has_gpus, kind_config, shape
from lab.steps.cluster.ports import ClusterPorts, PortMapping
from tests.support.gpu_world import GpuWorld, pretend_machine, wanted

POOLS = [
    {"name": "t4", "model": "T4", "perNode": 1, "labels": {"zone": "a"}},
    {"name": "none", "perNode": 0},
    {"name": "h100", "workers": 2, "model": "H100", "perNode": 3},
]


def lab(workers: int = 5, **gpu: object) -> LabSpec:
    section = {"mode": "simulated", "pools": POOLS, **gpu}
    return LabSpec.model_validate({"name": "demo", "cluster": {"workers": workers}, "gpu": section})


SPEC = lab()
T4, H100A, H100B = "kailab-demo-worker", "kailab-demo-worker3", "kailab-demo-worker4"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GpuWorld:
    pretend_machine(monkeypatch)
    return GpuWorld(tmp_path, SPEC)


def test_pools_get_workers_in_order() -> None:
    assert {name: pool.name for name, pool in pools_by_node(SPEC).items()} == {T4: "t4", H100A: "h100", H100B: "h100"}
    pools = [pool_of(SPEC.gpu, f"kailab-demo-worker{number}") for number in ("", 2, 3, 4, 5)]
    assert [pool and pool.name for pool in pools] == ["t4", "none", "h100", "h100", None]
    assert pool_of(SPEC.gpu, "kailab-demo-control-plane") is None
    assert (node_name("demo", "worker", 0), node_name("demo", "worker", 1)) == (T4, "kailab-demo-worker2")
    assert short_name("demo", H100B) == "worker4"


def test_each_node_has_the_gpus_of_its_pool_with_unique_uuids() -> None:
    gpus = {node: gpus_of("demo", node, SPEC.gpu) for node in (*pools_by_node(SPEC), "kailab-demo-worker5")}
    assert {node: [gpu.name for gpu in held] for node, held in gpus.items()} == {
        T4: ["Tesla T4"],
        H100A: ["NVIDIA H100 80GB HBM3"] * 3,
        H100B: ["NVIDIA H100 80GB HBM3"] * 3,
        "kailab-demo-worker5": [],
    }
    uuids = [gpu.uuid for held in gpus.values() for gpu in held]
    assert len({*uuids}) == len(uuids) == 7


def test_description_of_gpus() -> None:
    assert describe_gpus(SPEC) == (
        "t4: 1 worker × 1 Tesla T4, none: 1 worker × no GPU, h100: 2 workers × 3 NVIDIA H100 80GB HBM3"
    )
    assert describe_gpus(LabSpec()) == "2 workers × 2 NVIDIA A100-SXM4-40GB"
    assert describe_gpus(lab(1, mode="nvidia", pools=[{"name": "a", "devices": [0, 2]}])) == "a: 1 worker × GPUs 0, 2"
    assert describe_gpus(lab(2, mode="nvidia", pools=[], devices=1)) == "2 workers × 1 of the machine's GPUs"
    assert describe_gpus(lab(1, mode="nvidia", pools=[])) == "1 worker × all of the machine's GPUs"


def test_kind_config_has_the_labels_of_the_pools() -> None:
    config = kind_config(SPEC, ClusterPorts(3, (PortMapping("a", 1, 2),)), own_node=True)
    control, *workers = config["nodes"]
    h100 = {"kailab": "demo", "kailab/pool": "h100", "nvidia.com/gpu.present": "true"}
    assert control["labels"] == {"kailab": "demo"}
    assert [node["labels"] for node in workers] == [
        {"kailab": "demo", "zone": "a", "kailab/pool": "t4", "nvidia.com/gpu.present": "true"},
        {"kailab": "demo"},
        h100,
        h100,
        {"kailab": "demo"},
    ]
    assert [node["role"] for node in workers] == ["worker"] * 5
    (mapped,) = control["extraPortMappings"]
    assert (mapped["hostPort"], mapped["containerPort"], mapped["listenAddress"]) == (1, 2, "127.0.0.1")
    assert config["networking"] == {"apiServerPort": 3, "disableDefaultCNI": True}
    kubelet, controllers, etcd, dns, alone = (yaml.safe_load(patch) for patch in config["kubeadmConfigPatches"])
    assert (kubelet["kind"], kubelet["nodeStatusUpdateFrequency"]) == ("KubeletConfiguration", "2s")
    assert controllers["controllerManager"]["extraArgs"] == {"kube-api-qps": "200", "kube-api-burst": "400"}
    (mount,) = controllers["controllerManager"]["extraVolumes"]
    assert (mount["hostPath"], mount["mountPath"]) == (VOLUMES, VOLUMES)
    assert etcd["kind"] == dns["kind"] == "ClusterConfiguration"
    assert etcd["etcd"]["local"]["extraArgs"] == {"unsafe-no-fsync": "true"}
    leads = {"extraArgs": {"leader-elect": "false"}}
    assert (alone["controllerManager"], alone["scheduler"]) == (leads, leads)


@pytest.mark.parametrize(
    ("spec", "handlers"),
    [
        (SPEC, {"runc", "test-handler", "nvidia"}),
        (LabSpec.model_validate({"gpu": {"mode": "none"}}), {"runc", "test-handler"}),
    ],
)
def test_nodes_on_cgroup_v1_use_cgroupfs(spec: LabSpec, handlers: set[str]) -> None:
    config = kind_config(spec, ClusterPorts(3), own_node=False, old_cgroups=True)
    (kubelet,) = [
        patch["cgroupDriver"]
        for patch in map(yaml.safe_load, config["kubeadmConfigPatches"])
        if "cgroupDriver" in patch
    ]
    assert kubelet == "cgroupfs"
    last: dict[str, bool] = {}
    for patch in map(tomllib.loads, config["containerdConfigPatches"]):
        runtimes = patch["plugins"]["io.containerd.grpc.v1.cri"].get("containerd", {}).get("runtimes", {})
        last |= {name: runtime["options"]["SystemdCgroup"] for name, runtime in runtimes.items()}
    assert last == dict.fromkeys(handlers, False)


def test_nodes_on_cgroup_v2_keep_the_driver_of_kind() -> None:
    assert "SystemdCgroup = false" not in str(kind_config(SPEC, ClusterPorts(3), own_node=False))
    assert "cgroupDriver" not in str(kind_config(SPEC, ClusterPorts(3), own_node=False))


def test_real_gpus_are_mounted_only_into_their_node() -> None:
    mount = {"hostPath": "/dev/null", "containerPath": "/var/run/nvidia-container-devices/GPU-1"}
    nodes = kind_config(
        lab(2, mode="nvidia", pools=[]), ClusterPorts(3), own_node=False, mounts={"kailab-demo-worker2": [mount]}
    )
    assert [node.get("extraMounts") for node in nodes["nodes"]] == [None, None, [mount]]
    shared = {"hostPath": "/state/volumes", "containerPath": VOLUMES}
    nodes = kind_config(SPEC, ClusterPorts(3), own_node=False, everywhere=[shared])
    assert [node["extraMounts"] for node in nodes["nodes"]] == [[shared]] * 6


def test_every_control_plane_has_gpus_without_workers() -> None:
    spec = LabSpec.model_validate({"name": "demo", "cluster": {"workers": 0, "controlPlanes": 3}})
    nodes = kind_config(spec, ClusterPorts(3), own_node=False)["nodes"]
    assert [node["labels"].get("nvidia.com/gpu.present") for node in nodes] == ["true"] * 3
    assert list(pools_by_node(spec)) == [node_name("demo", "control-plane", index) for index in range(3)]


def test_shape_depends_on_gpu_nodes_but_not_on_models() -> None:
    other_model = [*POOLS[:2], {**POOLS[2], "model": "H200", "perNode": 1}]
    assert shape(lab(pools=other_model), "i") == shape(SPEC, "i")
    assert shape(lab(pools=POOLS[:1]), "i") != shape(SPEC, "i")
    assert shape(lab(mode="none"), "i") != shape(SPEC, "i")
    real = [{"name": "a", "devices": [0]}, {"name": "b", "devices": [1]}]
    swapped = [{"name": "a", "devices": [1]}, {"name": "b", "devices": [0]}]
    assert shape(lab(mode="nvidia", pools=real), "i") != shape(lab(mode="nvidia", pools=swapped), "i")


def test_lab_of_empty_pools_has_no_gpu_steps() -> None:
    spec = lab(pools=[{"name": "a", "perNode": 0}])
    assert not has_gpus(spec)
    assert gpu_steps(spec) == []


def test_effects_name_each_pool() -> None:
    effects = [effect.what for step in gpu_steps(SPEC) for effect in step.effects()]
    assert "1 simulated GPUs (Tesla T4, 15360 MiB) on each of 1 workers (pool t4)" in effects
    assert "3 simulated GPUs (NVIDIA H100 80GB HBM3, 81559 MiB) on each of 2 workers (pool h100)" in effects


def test_only_nodes_with_gpus_get_files(world: GpuWorld) -> None:
    for name in pools_by_node(SPEC):
        world.nodes[name].offers = [wanted(name, SPEC)]
    step = GpuNodes(SPEC)
    step.apply(world.ctx)
    step.verify(world.ctx)
    assert {name for name, node in world.nodes.items() if node.installs} == {T4, H100A, H100B}
    labels = world.api.get("Node", T4)["metadata"]["labels"]  # type: ignore[index]
    assert labels == {"zone": "a", "kailab/pool": "t4", "nvidia.com/gpu.present": "true"}
    assert step.observe(world.ctx).detail == describe_gpus(SPEC)


def test_each_node_offers_the_gpus_of_its_pool(world: GpuWorld) -> None:
    world.plan(*pools_by_node(SPEC))
    world.api.add(*GpuPlugin(SPEC).documents())
    world.serve(gpus=3)
    seen = GpuPlugin(SPEC).observe(world.ctx)
    assert (seen.state, seen.diff) == (State.DRIFTED, (f"{T4}: 3 GPUs allocatable, should be 1",))
    world.offer(T4, 1)
    assert GpuPlugin(SPEC).observe(world.ctx).detail == "7 GPUs"


def test_each_node_has_the_labels_of_its_model(world: GpuWorld) -> None:
    world.plan(*pools_by_node(SPEC))
    found = {"nvidia.com/gpu.count": "3", "nvidia.com/gpu.memory": "81559"}
    for name in pools_by_node(SPEC):
        labels = {**found, "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
        world.api.change("Node", name, metadata={"labels": labels})
    assert GpuLabels(SPEC).observe(world.ctx).diff == (
        f"{T4}: label nvidia.com/gpu.count is 3, should be 1",
        f"{T4}: label nvidia.com/gpu.memory is 81559, should be 15360",
        f"{T4}: label nvidia.com/gpu.product is NVIDIA-H100-80GB-HBM3, should be Tesla-T4",
    )


def test_several_control_planes_elect_a_leader() -> None:
    spec = LabSpec.model_validate({"cluster": {"controlPlanes": 3}})
    assert "leader-elect" not in str(kind_config(spec, ClusterPorts(3), own_node=True))

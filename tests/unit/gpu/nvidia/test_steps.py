"""The steps of mode nvidia against fake nodes and a fake cluster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lab.config import LabSpec
from lab.engine.events import Bus, Event, Notice
from lab.engine.journal import Journal
from lab.engine.step import State
from lab.errors import LabError, StepFailed
from lab.gpu import gpu_steps
from lab.gpu.nvidia import steps, verify
from lab.gpu.nvidia.claims import record
from lab.gpu.nvidia.node_state import RealFiles
from lab.gpu.nvidia.steps import RealGpuLabels, RealGpuNodes, RealGpuPlugin
from lab.gpu.nvidia.verify import LIST_GPUS, RealGpuProof, SeenGpus
from lab.host.nvml import Nvml
from lab.paths import LabPaths
from lab.session.context import LabContext
from lab.tools.container import ContainerEngine
from tests.support.api_requests import Call as Request
from tests.support.api_requests import Failure
from tests.support.fake_api_server import FakeApiServer
from tests.support.fakes import Call, FakeRunner
from tests.support.gpu_world import Json, make_node, plugin_pod
from tests.support.nvidia_world import facts, gpu, uuid

SPEC = LabSpec.model_validate({"name": "demo", "gpu": {"mode": "nvidia", "strategy": "volume-mount"}})
CONTROL, ONE, TWO = "kailab-demo-control-plane", "kailab-demo-worker", "kailab-demo-worker2"
SHARES = {ONE: (gpu(0, 2), gpu(1, 0)), TWO: (gpu(2, 1), gpu(3))}
PROGRAMS = ("nvidia-container-runtime", "nvidia-ctk", "nvidia-cdi-hook")


class Node:
    """A privileged node, with the device nodes of all GPUs until its list is installed."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.minors = [0, 1, 2, 3]
        self.files: RealFiles | None = None
        self.programs = list(PROGRAMS)
        self.extra: list[str] = ["handler nvidia"]

    def report(self, call: Call) -> str:
        assert "/proc/driver/nvidia/params" in str(call.stdin)
        lines = [f"minor {minor}" for minor in self.minors]
        if self.files is not None:
            lines += [f"sum {digest}  {path}" for path, digest in self.files.sums().items()]
            lines += [f"{word} {device.uuid}" for word in ("gpu", "spec") for device in SHARES.get(self.name, ())]
            lines += ["unit enabled active", "modify 0"]
        lines += [f"program /usr/bin/{name}" for name in self.programs]
        return "\n".join([*lines, *self.extra])

    def install(self, call: Call) -> str:
        gpus = SHARES.get(self.name, ())
        wanted = RealFiles.of(gpus, SPEC.gpu.toolkit)
        assert call.stdin == wanted.installer()
        self.files = wanted
        self.minors = [device.minor for device in gpus]
        return ""


class NvidiaWorld:
    def __init__(self, tmp_path: Path, runner: FakeRunner) -> None:
        self.runner, self.api = runner, FakeApiServer()
        self.nodes = {name: Node(name) for name in (CONTROL, ONE, TWO)}
        self.events: list[Event] = []
        bus = Bus()
        bus.subscribe(self.events.append)
        self.ctx = LabContext(
            "gpu",
            SPEC,
            LabPaths("demo"),
            runner,
            Journal(tmp_path / "journal.jsonl"),
            bus,
            None,  # type: ignore[arg-type]
            ContainerEngine(runner),
            lambda _: self.api.cluster,
        )
        record(self.ctx.journal, "cluster", SHARES, "volume-mount")
        self.api.add(*(make_node(name) for name in self.nodes))

    def docker(self, *, installs: bool = False) -> None:
        """Declare the docker commands of the nodes."""
        self.runner.handle("docker ps -aq --no-trunc --filter", out=lambda _: "\n".join(reversed(list(self.nodes))))
        labels = {"io.x-k8s.kind.cluster": "kailab-demo", "io.x-k8s.kind.role": "worker"}
        state = {"State": {"Status": "running"}, "Config": {"Labels": labels}}
        self.runner.containers(lambda name: {"Name": f"/{name}", "Id": name, **state})
        for node in self.nodes.values():
            self.runner.handle(["docker", "exec", "-i", node.name, "sh", "-s", "--"], out=node.report)
            if installs:
                self.runner.handle(["docker", "exec", "-i", node.name, "sh", "-s"], out=node.install, exact=True)

    def labels(self, name: str) -> Json:
        found: Json = self.api.get("Node", name)["metadata"]["labels"]  # type: ignore[index]
        return found


@pytest.fixture
def world(tmp_path: Path, runner: FakeRunner, monkeypatch: pytest.MonkeyPatch) -> NvidiaWorld:
    for module in (steps, verify):
        monkeypatch.setattr(module, "query", lambda: facts().nvml)
    return NvidiaWorld(tmp_path, runner)


def test_steps_and_their_needs() -> None:
    gpu_part = gpu_steps(SPEC)
    assert {step.id: step.needs for step in gpu_part} == {
        "gpu-nodes": ("cluster",),
        "gpu-plugin": ("gpu-nodes", "network"),
        "gpu-labels": ("gpu-plugin",),
        "gpu-heal": ("gpu-plugin",),
        "gpu-proof": ("gpu-plugin",),
    }
    effects = " ".join(effect.what for step in gpu_part for effect in step.effects())
    assert "volume-mount" in effects
    assert "A100" not in effects, "the model in the lab file is for simulated GPUs"


def test_apply_leaves_each_node_only_its_own_gpus(world: NvidiaWorld) -> None:
    world.docker(installs=True)
    step = RealGpuNodes(SPEC)
    assert step.observe(world.ctx).state is State.ABSENT
    step.apply(world.ctx)
    step.verify(world.ctx)
    seen = step.observe(world.ctx)
    assert (seen.state, seen.detail) == (State.READY, "worker: 2 × NVIDIA L4; worker2: 2 × NVIDIA L4 (volume-mount)")
    assert {name: node.minors for name, node in world.nodes.items()} == {CONTROL: [], ONE: [2, 0], TWO: [1, 3]}
    assert world.labels(ONE)["nvidia.com/gpu.present"] == "true"
    assert "nvidia.com/gpu.present" not in world.labels(CONTROL)


def test_reappeared_device_node_is_drift(world: NvidiaWorld) -> None:
    world.docker(installs=True)
    step = RealGpuNodes(SPEC)
    step.apply(world.ctx)
    world.nodes[CONTROL].minors = [3]
    seen = step.observe(world.ctx)
    assert (seen.state, seen.diff) == (State.DRIFTED, (f"{CONTROL}: /dev/nvidia3 belongs to another node",))
    with pytest.raises(StepFailed):
        step.verify(world.ctx)


def test_verify_fails_if_the_machine_lost_a_gpu(world: NvidiaWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    world.docker(installs=True)
    step = RealGpuNodes(SPEC)
    step.apply(world.ctx)
    monkeypatch.setattr(steps, "query", lambda: Nvml("1", "1", (gpu(0, 2),)))
    with pytest.raises(StepFailed, match="does not report") as caught:
        step.verify(world.ctx)
    assert f"{TWO}: {uuid(3)}" in caught.value.evidence


def test_missing_toolkit_programs_are_copied_into_the_node(world: NvidiaWorld) -> None:
    world.docker(installs=True)
    world.nodes[ONE].programs = ["nvidia-ctk"]
    for name in ("nvidia-container-runtime", "nvidia-cdi-hook"):
        world.runner.has(name)
        world.runner.handle(["docker", "cp", f"/usr/bin/{name}", f"{ONE}:/usr/bin/{name}"], times=1)
    RealGpuNodes(SPEC).apply(world.ctx)


def test_missing_toolkit_is_an_error(world: NvidiaWorld) -> None:
    world.docker()
    world.nodes[ONE].programs = []
    with pytest.raises(LabError, match="nvidia-container-runtime is missing on"):
        RealGpuNodes(SPEC).apply(world.ctx)


def test_nodes_created_without_real_gpus_are_refused(world: NvidiaWorld) -> None:
    world.docker()
    world.nodes[ONE].extra = []
    for owned in world.ctx.journal.owned("gpu"):
        if owned.facts["node"] == TWO:
            world.ctx.journal.released("gpu", owned.name)
    with pytest.raises(LabError, match=r"created for another gpu\.mode") as caught:
        RealGpuNodes(SPEC).apply(world.ctx)
    assert caught.value.evidence == (
        f"{ONE}: containerd has no runtime handler 'nvidia'",
        f"{TWO}: got no GPU when it was created",
    )


def test_plugin_offers_follow_the_journal(world: NvidiaWorld) -> None:
    plugin = RealGpuPlugin(SPEC)
    assert {node: str(offer) for node, offer in plugin.offers(world.ctx).items()} == {ONE: "2", TWO: "2"}
    (pod,) = [doc["spec"]["template"]["spec"] for doc in plugin.documents() if doc["kind"] == "DaemonSet"]
    assert not pod.get("hostNetwork")
    assert all(not container["securityContext"].get("privileged") for container in pod["containers"])
    assert [volume["name"] for volume in pod["volumes"]] == ["kubelet-device-plugins-dir"]


def set_labels(world: NvidiaWorld, **labels: str) -> None:
    for name in (ONE, TWO):
        world.labels(name).update({f"nvidia.com/gpu.{key}": value for key, value in labels.items()})


@pytest.mark.parametrize(
    ("labels", "state", "message"),
    [
        ({}, State.ABSENT, ""),
        ({"memory": "23034", "product": "NVIDIA-L4"}, State.READY, ""),
        ({"memory": "23034", "product": "Tesla-T4"}, State.DRIFTED, "should be NVIDIA-L4"),
        ({"memory": "15360", "product": "NVIDIA-L4"}, State.DRIFTED, "should be 23034"),
    ],
)
def test_labels_are_compared_with_nvml(world: NvidiaWorld, labels: dict[str, str], state: State, message: str) -> None:
    set_labels(world, present="true", **labels)
    seen = RealGpuLabels(SPEC).observe(world.ctx)
    assert seen.state is state
    assert all(message in line for line in seen.diff)
    assert bool(seen.diff) == (state is State.DRIFTED)


def smi(*numbers: int) -> str:
    return "".join(f"GPU {index}: NVIDIA L4 (UUID: {uuid(number)})\n" for index, number in enumerate(numbers))


def serve(world: NvidiaWorld, answer: Callable[[str], str | Failure]) -> None:
    """Run the device plugin on the workers, whose pods answer nvidia-smi."""
    for name in (ONE, TWO):
        world.api.add(plugin_pod(name, "x", "2026-11-21T10:00:07Z"))
    nodes = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in world.api.of_kind("Pod")}

    def run(call: Request) -> str | Failure:
        assert tuple(call.body) == LIST_GPUS
        return answer(nodes[call.name])

    world.api.react("exec", "Pod", run)


def test_proof_passes_if_machine_nodes_and_pods_agree(world: NvidiaWorld) -> None:
    mig = "  MIG 1g.5gb     Device  0: (UUID: MIG-1)\n"
    serve(world, lambda node: smi(0, 1) if node == ONE else smi(2, 3) + mig)
    step = RealGpuProof(SPEC)
    seen = step.observe(world.ctx)
    assert (seen.state, seen.detail) == (State.READY, "4 of the machine's 4, each on one node")
    step.verify(world.ctx)
    assert world.events == []


def test_pod_that_sees_a_gpu_of_another_node_fails_the_proof(world: NvidiaWorld) -> None:
    serve(world, lambda node: smi(0, 1, 2) if node == ONE else smi(3))
    with pytest.raises(StepFailed) as caught:
        RealGpuProof(SPEC).verify(world.ctx)
    assert caught.value.evidence == (
        f"{ONE}: its pods see {uuid(2)} of another node",
        f"{TWO}: its pods do not see {uuid(2)}",
    )


def test_proof_fails_without_plugin_pods(world: NvidiaWorld) -> None:
    assert RealGpuProof(SPEC).observe(world.ctx).state is State.ABSENT
    with pytest.raises(StepFailed, match="does not run"):
        RealGpuProof(SPEC).verify(world.ctx)


def refuse(message: str) -> Callable[[str], Failure]:
    return lambda node: (500, message)


def test_driver_without_nvidia_smi_is_reported(world: NvidiaWorld) -> None:
    serve(world, refuse('exec: "nvidia-smi": executable file not found in $PATH'))
    step = RealGpuProof(SPEC)
    step.verify(world.ctx)
    assert [event.text for event in world.events if isinstance(event, Notice)] == [
        f"GPUs in pods were not checked on {ONE}, {TWO}: the driver there has no nvidia-smi"
    ]
    assert step.observe(world.ctx).state is State.READY


def test_failed_nvidia_smi_fails_the_proof(world: NvidiaWorld) -> None:
    serve(world, refuse("command terminated with exit code 9"))
    with pytest.raises(StepFailed):
        RealGpuProof(SPEC).verify(world.ctx)


def test_lost_gpu_is_a_difference() -> None:
    shares = {ONE: frozenset({uuid(0)})}
    assert SeenGpus(frozenset(), shares, shares).differences() == (
        f"{ONE} has {uuid(0)}, which NVML does not report on this machine",
    )

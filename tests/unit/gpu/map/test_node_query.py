"""What nodes say of their GPUs: the kubelet's record, nvml.conf, and nodes that say nothing."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.errors import Interrupted
from lab.gpu.map import node_query
from lab.gpu.map.node_query import NodeEvidence, lab_nodes, parse, parse_checkpoint
from lab.host.nvml import GpuDevice, Nvml
from lab.snapshot.pod_info import reported_gpus
from lab.tools.container import ContainerEngine
from lab.tools.process import HostRunner
from tests.support.fakes import FakeRunner
from tests.support.gpu_map_world import Machine

GPU = "nvidia.com/gpu"


def record(entries: list[dict[str, Any]], registered: dict[str, list[str]] | None = None) -> str:
    return json.dumps({"Data": {"PodDeviceEntries": entries, "RegisteredDevices": registered}, "Checksum": 7})


def entry(uid: str, devices: Any, resource: str = GPU) -> dict[str, Any]:
    return {"PodUID": uid, "ContainerName": "c", "ResourceName": resource, "DeviceIDs": devices, "AllocResp": "Cg=="}


def test_checkpoint_tells_who_has_which_gpu() -> None:
    text = record(
        [
            entry("one", {"-1": ["GPU-a"]}),
            entry("two", {"0": ["GPU-b"], "1": ["GPU-c"]}),
            entry("two", {"0": ["GPU-d"]}),  # its second container
            entry("other", {"-1": ["nic-0"]}, "example.com/nic"),
        ],
        {GPU: ["GPU-a", "GPU-b"], "example.com/nic": ["nic-0"]},
    )
    found = parse_checkpoint(text)
    assert found.by_pod == {"one": ("GPU-a",), "two": ("GPU-b", "GPU-c", "GPU-d")}
    assert found.offered == {"GPU-a", "GPU-b"}


def test_checkpoint_of_an_old_kubelet_and_of_time_slices() -> None:
    found = parse_checkpoint(record([entry("one", ["GPU-a::1", "GPU-a::2"])], {GPU: ["GPU-a::0", "GPU-b::0"]}))
    assert found == NodeEvidence(by_pod={"one": ("GPU-a",)}, offered=frozenset({"GPU-a", "GPU-b"}))


@pytest.mark.parametrize("text", ["", "not json", "[]", '{"Data": null}', '{"Data": 3}', '{"Checksum": 1}'])
def test_what_is_no_checkpoint_is_no_record(text: str) -> None:
    assert parse_checkpoint(text) == NodeEvidence()


def test_kubelet_that_never_heard_of_gpus_offers_unknown_ones() -> None:
    assert parse_checkpoint(record([], {"example.com/nic": []})).offered is None
    assert parse_checkpoint(record([], {GPU: []})).offered == frozenset()
    assert parse_checkpoint(record([])).offered is None


def test_status_without_the_feature_tells_nothing() -> None:
    assert reported_gpus({}) == ()
    assert reported_gpus({"status": {"containerStatuses": [{"name": "c"}]}}) == ()


def test_simulated_gpus_are_those_of_nvml_conf() -> None:
    machine = Machine("w", 3, {1: "xid=48", 2: "xid=79 health=lost"}, {"pod": [0]})
    said = parse(machine.name, machine.printed())
    assert [(gpu.index, gpu.uuid, gpu.memory) for gpu in said.gpus] == [(n, machine.uuid(n), 40960) for n in range(3)]
    assert [gpu.trouble for gpu in said.gpus] == [
        "",
        "XID 48, double-bit ECC error",
        "XID 79, GPU has fallen off the bus; lost",
    ]
    assert {gpu.model for gpu in said.gpus} == {"NVIDIA A100-SXM4-40GB"}
    assert said.by_pod == {"pod": (machine.uuid(0),)}
    assert said.offered == {machine.uuid(0)}


def test_real_gpus_are_those_the_kubelet_offers_as_nvml_describes_them() -> None:
    text = "--- kubelet\n" + record([], {GPU: ["GPU-b", "GPU-a", "GPU-far"]})
    nvml = Nvml(gpus=(GpuDevice(0, 0, "GPU-b", "NVIDIA L4", 23034), GpuDevice(1, 1, "GPU-a", "NVIDIA L4", 23034)))
    devices = parse("w1", text, nvml).gpus
    assert [(gpu.uuid, gpu.index, gpu.memory) for gpu in devices] == [
        ("GPU-b", 0, 23034),
        ("GPU-a", 1, 23034),
        ("GPU-far", None, None),
    ]


def context(runner: FakeRunner, provider: str = "kind", mode: str = "simulated") -> Any:
    spec = SimpleNamespace(cluster=SimpleNamespace(provider=provider), gpu=SimpleNamespace(mode=mode))
    return SimpleNamespace(spec=spec, engine=ContainerEngine(runner), kind_name="kailab-demo")


def test_nodes_are_asked_by_one_command_each(runner: FakeRunner) -> None:
    one, two, kwok = "kailab-demo-worker", "kailab-demo-worker2", "kwok-node-0"
    first = runner.handle(["docker", "exec", one, "sh", "-c", ...], out=Machine("w1", 1).printed(), times=1)
    runner.handle(["docker", "exec", two, "sh", "-c", ...], code=1, err="No such container", times=1)
    said = lab_nodes(context(runner))([one, two, kwok])
    assert [gpu.uuid for gpu in said[one].gpus] == [Machine("w1", 1).uuid(0)]
    assert said[two].gpus == ()
    assert "docker ended with status 1" in said[two].why
    assert kwok not in said  # no container: there is nobody to ask
    assert first.calls[0].timeout == node_query.SECONDS


def test_existing_cluster_is_never_asked(runner: FakeRunner) -> None:
    assert lab_nodes(context(runner, provider="existing"))(["node"]) == {}
    assert runner.lines == []


def test_nvml_of_this_machine_is_asked_once_for_real_gpus(runner: FakeRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    nvml = Nvml(gpus=(GpuDevice(3, 3, "GPU-r", "NVIDIA H100", 81559),))
    monkeypatch.setattr(node_query, "query", lambda: asked.append(1) or nvml)
    runner.handle(["docker", "exec", "kailab-demo-w1"], out="--- kubelet\n" + record([], {GPU: ["GPU-r"]}))
    ask = lab_nodes(context(runner, mode="nvidia"))
    assert (
        ask(["kailab-demo-w1"])["kailab-demo-w1"].gpus[0].model
        == ask(["kailab-demo-w1"])["kailab-demo-w1"].gpus[0].model
        == "NVIDIA H100"
    )
    assert asked == [1]


def test_cancel_is_not_taken_for_a_silent_node(runner: FakeRunner) -> None:
    runner.handle(["docker", "exec", "kailab-demo-w1"], raises=Interrupted("stopped"))
    with pytest.raises(Interrupted):
        lab_nodes(context(runner))(["kailab-demo-w1"])


@pytest.mark.processes("sh")
def test_the_question_is_one_a_shell_understands(tmp_path: Path) -> None:
    (tmp_path / "nvml.conf").write_text("gpu index=0 uuid=GPU-z memory=1024 name=T4\nend\n")
    script = node_query._COMMAND.replace(node_query.NVML_CONFIG, str(tmp_path / "nvml.conf"))
    script = script.replace(node_query.CHECKPOINT, str(tmp_path / "missing"))
    assert [gpu.uuid for gpu in parse("w1", HostRunner().run(["sh", "-c", script]).out).gpus] == ["GPU-z"]

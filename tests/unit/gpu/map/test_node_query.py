"""GPUs reported by nodes: the kubelet's checkpoint, nvml.conf, and nodes that do not answer."""

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


def test_checkpoint_gives_the_gpus_of_each_pod() -> None:
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


def test_checkpoint_of_an_old_kubelet_with_time_slices_is_read() -> None:
    found = parse_checkpoint(record([entry("one", ["GPU-a::1", "GPU-a::2"])], {GPU: ["GPU-a::0", "GPU-b::0"]}))
    assert found == NodeEvidence(by_pod={"one": ("GPU-a",)}, offered=frozenset({"GPU-a", "GPU-b"}))


@pytest.mark.parametrize("text", ["", "not json", "[]", '{"Data": null}', '{"Data": 3}', '{"Checksum": 1}'])
def test_invalid_checkpoint_is_empty(text: str) -> None:
    assert parse_checkpoint(text) == NodeEvidence()


def test_offered_gpus_are_unknown_without_a_registration() -> None:
    assert parse_checkpoint(record([], {"example.com/nic": []})).offered is None
    assert parse_checkpoint(record([], {GPU: []})).offered == frozenset()
    assert parse_checkpoint(record([])).offered is None


def test_status_without_the_feature_reports_no_gpus() -> None:
    assert reported_gpus({}) == ()
    assert reported_gpus({"status": {"containerStatuses": [{"name": "c"}]}}) == ()


def test_simulated_gpus_come_from_nvml_conf() -> None:
    machine = Machine("w", 3, {1: "xid=48", 2: "xid=79 health=lost"}, {"pod": [0]})
    evidence = parse(machine.name, machine.printed())
    assert [(gpu.index, gpu.uuid, gpu.memory) for gpu in evidence.gpus] == [
        (n, machine.uuid(n), 40960) for n in range(3)
    ]
    assert [gpu.trouble for gpu in evidence.gpus] == [
        "",
        "XID 48, double-bit ECC error",
        "XID 79, GPU has fallen off the bus; lost",
    ]
    assert {gpu.model for gpu in evidence.gpus} == {"NVIDIA A100-SXM4-40GB"}
    assert evidence.by_pod == {"pod": (machine.uuid(0),)}
    assert evidence.offered == {machine.uuid(0)}


def test_real_gpus_come_from_the_kubelet_with_details_from_nvml() -> None:
    text = "--- kubelet\n" + record([], {GPU: ["GPU-b", "GPU-a", "GPU-far"]})
    nvml = Nvml(gpus=(GpuDevice(0, 0, "GPU-b", "NVIDIA L4", 23034), GpuDevice(1, 1, "GPU-a", "NVIDIA L4", 23034)))
    devices = parse("w1", text, nvml).gpus
    assert [(gpu.uuid, gpu.index, gpu.memory) for gpu in devices] == [
        ("GPU-b", 0, 23034),
        ("GPU-a", 1, 23034),
        ("GPU-far", None, None),
    ]


def context(runner: FakeRunner, own: bool = True, mode: str = "simulated") -> Any:
    spec = SimpleNamespace(cluster=SimpleNamespace(own=own), gpu=SimpleNamespace(mode=mode))
    return SimpleNamespace(spec=spec, engine=ContainerEngine(runner), kind_name="kailab-demo")


def test_each_node_is_queried_by_one_command(runner: FakeRunner) -> None:
    one, two, kwok = "kailab-demo-worker", "kailab-demo-worker2", "kwok-node-0"
    first = runner.handle(["docker", "exec", one, "sh", "-c", ...], out=Machine("w1", 1).printed(), times=1)
    runner.handle(["docker", "exec", two, "sh", "-c", ...], code=1, err="No such container", times=1)
    evidence = lab_nodes(context(runner))([one, two, kwok])
    assert [gpu.uuid for gpu in evidence[one].gpus] == [Machine("w1", 1).uuid(0)]
    assert evidence[two].gpus == ()
    assert "docker ended with status 1" in evidence[two].why
    assert kwok not in evidence  # it has no container to query
    assert first.calls[0].timeout == node_query.SECONDS


def test_nodes_of_an_existing_cluster_are_not_queried(runner: FakeRunner) -> None:
    assert lab_nodes(context(runner, own=False))(["node"]) == {}
    assert runner.lines == []


def test_nvml_of_this_machine_is_queried_once_for_real_gpus(
    runner: FakeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries: list[int] = []
    nvml = Nvml(gpus=(GpuDevice(3, 3, "GPU-r", "NVIDIA H100", 81559),))
    monkeypatch.setattr(node_query, "query", lambda: queries.append(1) or nvml)
    runner.handle(["docker", "exec", "kailab-demo-w1"], out="--- kubelet\n" + record([], {GPU: ["GPU-r"]}))
    ask = lab_nodes(context(runner, mode="nvidia"))
    assert (
        ask(["kailab-demo-w1"])["kailab-demo-w1"].gpus[0].model
        == ask(["kailab-demo-w1"])["kailab-demo-w1"].gpus[0].model
        == "NVIDIA H100"
    )
    assert queries == [1]


def test_interrupt_is_raised(runner: FakeRunner) -> None:
    runner.handle(["docker", "exec", "kailab-demo-w1"], raises=Interrupted("stopped"))
    with pytest.raises(Interrupted):
        lab_nodes(context(runner))(["kailab-demo-w1"])


@pytest.mark.processes("sh")
def test_query_runs_in_a_shell(tmp_path: Path) -> None:
    (tmp_path / "nvml.conf").write_text("gpu index=0 uuid=GPU-z memory=1024 name=T4\nend\n")
    script = node_query._COMMAND.replace(node_query.NVML_CONFIG, str(tmp_path / "nvml.conf"))
    script = script.replace(node_query.CHECKPOINT, str(tmp_path / "missing"))
    assert [gpu.uuid for gpu in parse("w1", HostRunner().run(["sh", "-c", script]).out).gpus] == ["GPU-z"]

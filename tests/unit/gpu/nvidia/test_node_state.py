"""The lab's files in a node with real GPUs, and the state that the node reports."""

from __future__ import annotations

import shlex
import tomllib

import pytest

from lab.config.gpu import ToolkitOptions
from lab.gpu.node_state import NodeState
from lab.gpu.nvidia.node_state import LIST, SCRIPT, UNIT, RealFiles
from lab.gpu.simulated.node_files import RUNTIME_CONFIG
from tests.support.nvidia_world import gpu, uuid

GPUS = (gpu(0, 2), gpu(1, 0))
FILES = RealFiles.of(GPUS, ToolkitOptions())

HEALTHY = "\n".join(
    [
        *(f"sum {digest}  {path}" for path, digest in FILES.sums().items()),
        "minor 0",
        "minor 2",
        "modify 0",
        *(f"{word} {uuid(number)}" for word in ("gpu", "spec") for number in (0, 1)),
        "unit enabled active",
        *(f"program /usr/bin/{name}" for name in ("nvidia-container-runtime", "nvidia-ctk", "nvidia-cdi-hook")),
        "handler nvidia",
    ]
)


def test_list_has_minors_and_uuids() -> None:
    assert FILES.texts[LIST] == f"2 {uuid(0)}\n0 {uuid(1)}\n"
    config = tomllib.loads(FILES.texts[RUNTIME_CONFIG])
    assert config["nvidia-container-runtime"]["mode"] == "cdi"
    assert config["accept-nvidia-visible-devices-envvar-when-unprivileged"] is True


def test_node_without_gpus_gets_list_script_and_unit_only() -> None:
    bare = RealFiles.of((), ToolkitOptions())
    assert bare.texts[LIST] == ""
    assert set(bare.texts) == {LIST, SCRIPT, f"/etc/systemd/system/{UNIT}"}


def test_installer_contains_every_file() -> None:
    words = shlex.split(FILES.installer(), comments=True)
    for text in FILES.texts.values():
        assert text in words
    assert f"{SCRIPT}.kailab" in words
    assert FILES.installer().count("chmod 0755") == 1


def test_healthy_node_has_no_difference() -> None:
    state = NodeState.parse(HEALTHY)
    assert FILES.differences(state) == []
    assert not FILES.untouched(state)
    assert FILES.missing_programs(state) == []
    assert state.handler


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("minor 2", "", "/dev/nvidia2 is missing"),
        ("minor 2", "minor 2\nminor 7", "/dev/nvidia7 belongs to another node"),
        ("modify 0", "modify 1", "ModifyDeviceFiles"),
        (f"gpu {uuid(1)}", "", f"NVML in the node does not list {uuid(1)}"),
        (f"gpu {uuid(1)}", f"gpu {uuid(1)}\ngpu {uuid(5)}", f"lists {uuid(5)} of another node"),
        (f"spec {uuid(0)}", "", f"/etc/cdi/nvidia.json does not list {uuid(0)}"),
        ("enabled active", "enabled failed", f"{UNIT} is enabled failed"),
        (f"  {LIST}", "  /elsewhere", f"{LIST} is missing"),
    ],
)
def test_differences_are_named(old: str, new: str, message: str) -> None:
    assert old in HEALTHY
    assert any(message in line for line in FILES.differences(NodeState.parse(HEALTHY.replace(old, new, 1))))


def test_changed_file_is_a_difference() -> None:
    assert FILES.differences(NodeState.parse(HEALTHY.replace("sum ", "sum 0", 1))) == [f"{LIST} differs"]


def test_missing_kernel_parameters_are_not_a_difference() -> None:
    assert FILES.differences(NodeState.parse(HEALTHY.replace("modify 0\n", ""))) == []


def test_untouched_node_is_recognized() -> None:
    state = NodeState.parse("minor 0\nminor 1\nunit  \n")
    assert FILES.untouched(state)
    assert FILES.missing_programs(state) == ["nvidia-container-runtime", "nvidia-ctk", "nvidia-cdi-hook"]
    assert state.all("minor") == {"0", "1"}
    assert NodeState.parse("") == NodeState()

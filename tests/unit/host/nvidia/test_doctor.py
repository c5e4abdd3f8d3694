"""Findings of the doctor about real GPUs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.findings import Finding
from lab.host.check import CheckContext, HostNeeds
from lab.host.facts import HostFacts
from lab.host.nvidia.cdi import CdiSpec
from lab.host.nvidia.doctor import findings, strategy_findings
from lab.host.nvidia.driver import KernelDriver
from lab.host.nvidia.toolkit import Toolkit
from lab.host.nvml import Nvml
from tests.support.host_world import HostWorld
from tests.support.nvidia_world import DOCKER, TOOLKIT, VERSION, facts, gpu, uuid

READY = facts(
    default_runtime="nvidia", engine=replace(DOCKER, default_runtime="nvidia"), toolkit=replace(TOOLKIT, mounts=True)
)


def levels(found: list[Finding]) -> list[tuple[str, str]]:
    return [(finding.severity, finding.fix_id) for finding in found]


def test_prepared_machine_has_only_ok_findings() -> None:
    found = list(strategy_findings(READY, "auto", forced=False))
    assert levels(found) == [("ok", ""), ("ok", "")]
    assert "NVIDIA L4 (23034 MiB)" in found[0].what
    assert "volume-mount" in found[1].what


def test_missing_settings_name_their_fixes() -> None:
    assert levels(list(strategy_findings(facts(), "auto", forced=False)))[-1] == ("error", "nvidia-runtime")
    found = list(strategy_findings(facts(), "cdi", forced=True))
    assert [finding.fix_id for finding in found if finding.fix_id] == ["nvidia-runtime", "nvidia-cdi"]
    assert "does not accept requests by mounts" in found[-2].what
    uuids = tuple(uuid(number) for number in range(3))
    stale = replace(READY, cdi=CdiSpec("/etc/cdi/nvidia.yaml", uuids))
    found = list(strategy_findings(stale, "cdi", forced=True))
    assert levels(found)[-1] == ("error", "nvidia-cdi")
    assert found[-1].what == f"/etc/cdi/nvidia.yaml does not name {uuid(3)}"


def test_rejected_strategies_are_warnings_with_reasons() -> None:
    found = list(strategy_findings(facts(toolkit=Toolkit()), "auto", forced=False))
    assert levels(found) == [("ok", ""), ("warning", ""), ("warning", ""), ("ok", "")]
    assert found[1].what.startswith("volume-mount: the NVIDIA container toolkit is not installed")
    assert "install-guide" in found[1].next
    assert "explicit-mounts" in found[-1].what


@pytest.mark.parametrize(("forced", "level"), [(True, "error"), (False, "warning")])
def test_unusable_gpus_are_an_error_only_if_forced(forced: bool, level: str) -> None:
    broken = facts(kernel=KernelDriver("1.2", (0, 1, 2, 3), ("nvidiactl", "nvidia-uvm")))
    found = list(strategy_findings(broken, "auto", forced=forced))
    assert found[-1].severity == level
    assert f"its libraries are {VERSION}: reboot" in found[-1].what


def test_gpu_in_mig_mode_is_named() -> None:
    partitioned = facts(nvml=Nvml(VERSION, "13.0", (gpu(0, 2), gpu(1, mig=True, slices=("MIG-1", "MIG-2")))))
    found = list(strategy_findings(partitioned, "auto", forced=False))
    assert found[1].severity == "warning"
    assert "GPU 1 is in MIG mode (2 slices)" in found[1].what


@pytest.mark.parametrize(
    ("mode", "level", "text"),
    [
        ("none", "skipped", "gpu.mode none"),
        ("simulated", "skipped", "gpu.mode simulated"),
        ("auto", "skipped", "GPUs will be simulated"),
        ("nvidia", "error", "Driver Not Loaded"),
    ],
)
def test_missing_gpu_fails_only_if_the_lab_file_requires_it(world: HostWorld, mode: str, level: str, text: str) -> None:
    context = CheckContext(
        HostFacts(gpu=Nvml(why="Driver Not Loaded")), world.runner, world.machine, HostNeeds(gpu=mode)
    )
    (found,) = findings(context)
    assert found.severity == level
    assert text in found.what


def test_machine_with_gpu_is_inspected(world: HostWorld) -> None:
    world.runner.has("ldconfig", "/sbin/ldconfig")
    world.runner.handle("/sbin/ldconfig -p", times=1)
    world.put("/dev/dxg", "")
    known = HostFacts(arch="x86_64", gpu=Nvml(VERSION, "13.0", (gpu(0),)), engines=(DOCKER,))
    found = list(findings(CheckContext(known, world.runner, world.machine, HostNeeds(gpu="nvidia"))))
    assert found[-1].severity == "error"
    assert "WSL" in found[-1].what

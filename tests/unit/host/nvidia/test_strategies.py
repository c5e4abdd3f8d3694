"""Choice of the GPU strategy, with reasons."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lab.errors import HostNotReady
from lab.host.nvidia.cdi import CdiSpec
from lab.host.nvidia.driver import KernelDriver
from lab.host.nvidia.libraries import DriverFiles
from lab.host.nvidia.requirements import REQUIREMENTS
from lab.host.nvidia.strategies import (
    CDI_FIX,
    RUNTIME_FIX,
    choose_mode,
    choose_strategy,
    required_strategy,
    runtime_ready,
    strategies,
)
from lab.host.nvidia.toolkit import Toolkit
from lab.host.nvml import Nvml
from tests.support.nvidia_world import DOCKER, FILES, TOOLKIT, facts, gpu, uuid

ALL = ("volume-mount", "cdi", "explicit-mounts")


def test_strategies_name_existing_checks_and_use_all_of_them() -> None:
    rows = strategies()
    assert tuple(rows) == ALL
    assert {name for row in rows.values() for name in row.checks} == set(REQUIREMENTS)
    assert all(row.title and row.why for row in rows.values())


def test_auto_prefers_volume_mounts_and_names_required_changes() -> None:
    choice = choose_strategy(facts())
    assert (choice.strategy, dict(choice.refused), choice.changes) == ("volume-mount", {}, (RUNTIME_FIX,))
    assert choice.why == strategies()["volume-mount"].why


@pytest.mark.parametrize("name", ALL)
def test_every_strategy_can_be_forced(name: str) -> None:
    choice = choose_strategy(facts(), name)
    assert choice.strategy == name
    assert choice.why == "set in gpu.strategy"


@pytest.mark.parametrize(
    ("changes", "refused", "text"),
    [
        ({"nvml": Nvml(why="Driver Not Loaded")}, ALL, "Driver Not Loaded"),
        ({"nvml": Nvml("1.2", "13.0", (gpu(0, mig=True),))}, ALL, "MIG"),
        ({"kernel": KernelDriver("1.2", (0, 1, 2, 3), ("nvidiactl", "nvidia-uvm"))}, ALL, "reboot"),
        ({"kernel": KernelDriver("", (0, 1, 2, 3), ("nvidiactl",))}, ALL, "/dev/nvidia-uvm missing"),
        ({"kernel": KernelDriver("", (0, 1, 2), ("nvidiactl", "nvidia-uvm"))}, ALL, "/dev/nvidia3 missing"),
        ({"kernel": KernelDriver(wsl=True)}, ALL, "WSL"),
        ({"engine": replace(DOCKER, installed=False)}, ALL, "another (or virtual) machine"),
        ({"engine": replace(DOCKER, rootless=True)}, ALL, "rootless"),
        ({"engine": replace(DOCKER, name="podman")}, ALL[:2], "kind cannot select NVIDIA's runtime in podman"),
        ({"engine": None, "wanted_engine": "nerdctl"}, ALL[:2], "kind cannot select NVIDIA's runtime in nerdctl"),
        ({"engine": replace(DOCKER, root_dir="/var/snap/docker/x")}, ALL[:2], "snap"),
        ({"toolkit": Toolkit()}, ALL[:2], "not installed (nvidia-ctk, nvidia-container-runtime, nvidia-cdi-hook"),
        ({"toolkit": replace(TOOLKIT, broken="config.toml: it is not TOML")}, ALL[:2], "not TOML"),
        ({"toolkit": replace(TOOLKIT, modern=False)}, ALL[:1], "older than 1.18"),
        ({"toolkit": replace(TOOLKIT, mode="cdi")}, ALL[:1], "mode cdi"),
        ({"toolkit": replace(TOOLKIT, mode="legacy")}, ALL[:2], "mode legacy"),
        ({"toolkit": replace(TOOLKIT, mode="csv")}, ALL[:2], "mode csv"),
        ({"default_runtime": "sysbox-runc"}, ALL[:2], "sysbox-runc"),
        ({"engine_broken": "daemon.json is not JSON"}, ALL[:2], "not JSON"),
        ({"files": DriverFiles(FILES.libraries[:1])}, ALL[2:], "libnvidia-ml.so"),
    ],
)
def test_missing_requirements_are_named(changes: dict[str, Any], refused: tuple[str, ...], text: str) -> None:
    machine = facts(**changes)
    for name, row in strategies().items():
        reason = row.refusal(machine)
        assert bool(reason) == (name in refused), f"{name}: {reason}"
    assert text in strategies()[refused[0]].refusal(machine)
    choice = choose_strategy(machine)
    left = [name for name in ALL if name not in refused]
    assert choice.strategy == (left[0] if left else "")
    # the choice gives the reason only if it changed the outcome
    if refused[0] == ALL[0]:
        assert text in choice.why


def test_old_toolkit_works_through_its_cli() -> None:
    old = replace(TOOLKIT, modern=False, hook="", cli="/usr/bin/nvidia-container-cli", mode="legacy")
    assert choose_strategy(facts(toolkit=old)).strategy == "volume-mount"


def test_stopped_engine_does_not_prevent_a_strategy() -> None:
    choice = choose_strategy(facts(engine=None))
    assert (choice.strategy, choice.changes) == ("volume-mount", (RUNTIME_FIX,))


def test_prepared_machine_needs_no_change() -> None:
    uuids = tuple(uuid(number) for number in range(4))
    ready = facts(
        default_runtime="nvidia",
        engine=replace(DOCKER, default_runtime="nvidia"),
        toolkit=replace(TOOLKIT, mounts=True),
        cdi=CdiSpec("/etc/cdi/nvidia.yaml", uuids),
    )
    assert [choose_strategy(ready, name).changes for name in ALL] == [(), (), ()]
    assert runtime_ready(replace(ready, engine=None))
    # each of the three is needed
    assert not runtime_ready(replace(ready, default_runtime="runc"))
    assert not runtime_ready(replace(ready, engine=DOCKER))
    assert not runtime_ready(replace(ready, toolkit=TOOLKIT))
    stale = replace(ready, cdi=CdiSpec("/etc/cdi/nvidia.yaml", uuids[:3]))
    assert choose_strategy(stale, "cdi").changes == (CDI_FIX,)
    assert choose_strategy(stale, "volume-mount").changes == ()


def test_forced_strategy_is_never_replaced() -> None:
    bare = facts(toolkit=Toolkit())
    assert choose_strategy(bare, "cdi").strategy == ""
    with pytest.raises(HostNotReady, match=r"gpu.strategy 'cdi' does not work.*not installed") as caught:
        required_strategy(bare, "cdi")
    assert "gpu.strategy to 'auto'" in caught.value.fix
    assert required_strategy(bare).strategy == "explicit-mounts"


def test_error_without_any_strategy_lists_every_reason() -> None:
    with pytest.raises(HostNotReady, match=r"gpu.mode 'nvidia' does not work") as caught:
        required_strategy(facts(toolkit=Toolkit(), files=DriverFiles()))
    assert len(caught.value.evidence) == 3


def test_auto_mode_uses_real_gpus_only_where_they_work() -> None:
    assert choose_mode(facts(nvml=Nvml(why="no driver"))) == ("simulated", "")
    mode, reason = choose_mode(facts())
    assert mode == "nvidia"
    assert reason.startswith("this machine has 4 NVIDIA GPUs, passed to nodes by volume-mount: ")
    mode, reason = choose_mode(facts(kernel=KernelDriver(wsl=True)))
    assert mode == "simulated"
    assert "GPUs are simulated" in reason
    assert "WSL" in reason

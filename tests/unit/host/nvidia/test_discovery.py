"""Discovery of a machine's driver, libraries, toolkit and CDI specs."""

from __future__ import annotations

import json

import pytest

from lab.errors import CommandFailed
from lab.host.facts import HostFacts
from lab.host.nvidia import cdi, driver, libraries, toolkit
from lab.host.nvidia.discovery import discover
from lab.host.nvml import Nvml
from lab.serialization import to_json
from tests.support.host_world import HostWorld
from tests.support.nvidia_world import DOCKER, LIB, VERSION, gpu, uuid

PROC_VERSION = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  999.12.03  Release Build  (dvs-builder@U22)\n"
    "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n"
)
GENERATE = "nvidia-ctk cdi generate --mode=auto --format=json"


def test_kernel_driver_is_read_from_proc_and_dev(world: HostWorld) -> None:
    world.put("/proc/driver/nvidia/version", PROC_VERSION)
    world.put("/proc/driver/nvidia/params", "ResmanDebugLevel: 4294967295\nModifyDeviceFiles: 1\nDeviceFileUID: 0\n")
    for name in ("nvidia0", "nvidia10", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "null"):
        world.put(f"/dev/{name}", "")
    assert driver.read(world.machine) == driver.KernelDriver(
        VERSION, (0, 10), ("nvidiactl", "nvidia-uvm"), modify=True, wsl=False
    )


def test_version_of_the_proprietary_module_is_read(world: HostWorld) -> None:
    line = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.256.02  Thu May  2 14:37:44 UTC 2024\n"
    world.put("/proc/driver/nvidia/version", line)
    assert driver.read(world.machine).version == "470.256.02"


def test_machine_without_driver_gives_empty_facts(world: HostWorld) -> None:
    assert driver.read(world.machine) == driver.KernelDriver()


def test_wsl_is_recognized_by_its_device(world: HostWorld) -> None:
    world.put("/dev/dxg", "")
    assert driver.read(world.machine).wsl


def install(world: HostWorld, *names: str, version: str = VERSION, folder: str = LIB) -> None:
    for name in names:
        world.put(f"{folder}/{name}.so.{version}", "ELF")


def ldconfig(world: HostWorld, *lines: str) -> None:
    text = "".join(f"\t{line}\n" for line in lines)
    world.runner.has("ldconfig", "/sbin/ldconfig")
    world.runner.handle("/sbin/ldconfig -p", out=f"{len(lines)} libs found in cache `/etc/ld.so.cache'\n{text}")


def test_libraries_are_found_in_the_linker_cache(world: HostWorld) -> None:
    install(world, "libcuda", "libnvidia-ml", "libnvidia-nosoname")
    install(world, "libcuda", folder="/usr/lib/i386-linux-gnu")
    install(world, "libnvidia-ml", version="111.22", folder="/opt/old")
    world.machine.path("/lib").symlink_to("usr/lib")
    for name in ("libcuda", "libnvidia-ml"):
        world.machine.path(f"{LIB}/{name}.so.1").symlink_to(f"{name}.so.{VERSION}")
    ldconfig(
        world,
        "libcuda.so.1 (libc6,x86-64) => /lib/x86_64-linux-gnu/libcuda.so.1",
        "libcuda.so.1 (libc6) => /usr/lib/i386-linux-gnu/libcuda.so.999.12.03",
        "libnvidia-ml.so.1 (libc6,x86-64) => /lib/x86_64-linux-gnu/libnvidia-ml.so.1",
        "libnvidia-ml.so.1 (libc6,x86-64) => /opt/old/libnvidia-ml.so.111.22",
        "libnvidia-gone.so.1 (libc6,x86-64) => /usr/lib/x86_64-linux-gnu/libnvidia-gone.so.1",
        "libz.so.1 (libc6,x86-64) => /lib/x86_64-linux-gnu/libz.so.1",
    )
    world.runner.has("nvidia-smi")
    found = libraries.find(world.runner, world.machine, VERSION, "x86_64")
    assert found.libraries == tuple(
        f"{LIB}/{name}.so.{VERSION}" for name in ("libcuda", "libnvidia-ml", "libnvidia-nosoname")
    )
    assert found.programs == ("/usr/bin/nvidia-smi",)
    assert found.missing == ()
    assert set(found.witnesses.values()) == {("ldconfig",)}


def test_toolkit_confirms_libraries_and_adds_firmware(world: HostWorld) -> None:
    install(world, "libcuda", "libnvidia-ml")
    firmware = f"/lib/firmware/nvidia/{VERSION}/gsp_ga10x.bin"
    world.put(firmware, "")
    ldconfig(world, f"libcuda.so.1 (libc6,x86-64) => {LIB}/libcuda.so.{VERSION}")
    world.runner.has("nvidia-ctk")
    paths = [
        f"{LIB}/libcuda.so.{VERSION}",
        f"{LIB}/libnvidia-ml.so.{VERSION}",
        firmware,
        "/run/nvidia-persistenced/socket",
    ]
    edits = {"containerEdits": {"mounts": [{"hostPath": path, "containerPath": path} for path in paths]}}
    world.runner.handle(GENERATE, out=json.dumps(edits))
    found = libraries.find(world.runner, world.machine, VERSION, "x86_64")
    assert found.witnesses == {
        firmware: ("toolkit",),
        f"{LIB}/libcuda.so.{VERSION}": ("ldconfig", "toolkit"),
        f"{LIB}/libnvidia-ml.so.{VERSION}": ("ldconfig", "toolkit"),
    }
    assert found.firmware == (firmware,)


@pytest.mark.parametrize("answer", ["not json", "[]"])
def test_failed_toolkit_output_is_ignored(world: HostWorld, answer: str) -> None:
    ldconfig(world)
    world.runner.has("nvidia-ctk")
    world.runner.handle(GENERATE, out=answer, code=1)
    found = libraries.find(world.runner, world.machine, VERSION, "x86_64")
    assert found.libraries == ()
    assert found.missing == ("libnvidia-ml.so", "libcuda.so")


def test_packaged_toolkit_is_described(world: HostWorld) -> None:
    for name in ("nvidia-ctk", "nvidia-container-runtime", "nvidia-cdi-hook"):
        world.runner.has(name)
    world.runner.handle("nvidia-ctk --version", out="NVIDIA Container Toolkit CLI version 1.18.2\ncommit: f00\n")
    world.put(
        toolkit.CONFIG,
        f'{toolkit.ACCEPT_MOUNTS} = true\n[nvidia-container-runtime]\nmode = "legacy"\nruntimes = ["runc"]\n',
    )
    found = toolkit.inspect(world.runner, world.machine)
    assert (found.version, found.modern, found.mode, found.mounts) == ("1.18.2", True, "legacy", True)
    assert found.runtimes == ("runc",)
    assert found.missing == ()


@pytest.mark.parametrize(("help_text", "modern"), [("  disable-device-node-modification  x", True), ("chmod", False)])
def test_toolkit_without_version_is_classified_by_its_hooks(world: HostWorld, help_text: str, modern: bool) -> None:
    for name in ("nvidia-ctk", "nvidia-container-runtime", "nvidia-cdi-hook"):
        world.runner.has(name)
    world.runner.handle("nvidia-ctk --version", out="NVIDIA Container Toolkit CLI version unknown\n")
    world.runner.handle("/usr/bin/nvidia-cdi-hook --help", out=help_text)
    found = toolkit.inspect(world.runner, world.machine)
    assert (found.version, found.modern, found.mode, found.mounts) == ("", modern, "auto", False)


def test_toolkit_that_fails_to_run_counts_as_installed(world: HostWorld) -> None:
    world.runner.has("nvidia-ctk")
    world.runner.handle("nvidia-ctk --version", raises=CommandFailed(["nvidia-ctk"], 127))
    world.put(toolkit.CONFIG, "a = = b")
    found = toolkit.inspect(world.runner, world.machine)
    assert found.missing == ("nvidia-container-runtime", "nvidia-cdi-hook")
    assert "not TOML" in found.broken


def spec(*names: str, path: str = "/usr/bin/nvidia-smi", kind: str = "nvidia.com/gpu") -> str:
    edits = {"mounts": [{"hostPath": path, "containerPath": path}]}
    devices = [{"name": name, "containerEdits": {}} for name in names]
    return json.dumps({"cdiVersion": "0.5.0", "kind": kind, "containerEdits": edits, "devices": devices})


def test_later_folder_takes_precedence_and_missing_file_makes_spec_stale(world: HostWorld) -> None:
    world.put("/etc/cdi/nvidia.yaml", spec("0", uuid(0)))
    world.put("/etc/cdi/other.json", spec("x", kind="example.com/nic"))
    world.put("/etc/cdi/torn.yaml", "kind: [")
    world.put("/etc/cdi/notes.txt", spec("9"))
    found = cdi.read(world.machine)
    assert found == cdi.CdiSpec("/etc/cdi/nvidia.yaml", ("0", uuid(0)), ("/usr/bin/nvidia-smi",))
    assert "does not exist" in found.lacks((uuid(0),))[0]
    world.put("/usr/bin/nvidia-smi", "")
    world.put("/var/run/cdi/nvidia.json", spec(uuid(1)))
    found = cdi.read(world.machine)
    assert found.lacks((uuid(1),)) == ()
    assert found.lacks((uuid(0), uuid(1))) == (f"/var/run/cdi/nvidia.json does not name {uuid(0)}",)


def test_missing_spec_is_reported(world: HostWorld) -> None:
    assert cdi.read(world.machine).lacks(()) == ("no CDI spec for nvidia.com/gpu exists",)


def test_discovery_combines_all_facts(world: HostWorld) -> None:
    ldconfig(world)
    world.put("/etc/docker/daemon.json", '{"default-runtime": "kailab-runc"}')
    known = HostFacts(arch="x86_64", gpu=Nvml(VERSION, "13.0", (gpu(0), gpu(1, mig=True))), engines=(DOCKER,))
    found = discover(world.runner, known, engine="auto", machine=world.machine)
    assert (found.engine, found.default_runtime, found.engine_broken) == (DOCKER, "kailab-runc", "")
    assert [device.index for device in found.gpus] == [0]
    assert [device.index for device in found.mig_gpus] == [1]
    assert to_json(found)["nvml"]["driver"] == VERSION


def test_discovery_runs_no_command_without_gpus(world: HostWorld) -> None:
    world.put("/etc/docker/daemon.json", "{broken")
    found = discover(world.runner, HostFacts(gpu=Nvml(why="Driver Not Loaded")), machine=world.machine)
    assert found.gpus == ()
    assert "not JSON" in found.engine_broken
    assert world.runner.lines == []

"""Facts of the machine, from files and from the output of programs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from lab.errors import CommandFailed, HostNotReady
from lab.host import engines, facts, nvml
from lab.serialization import to_json
from tests.support.fakes import FakeRunner
from tests.support.host_world import HostWorld

V1 = (
    "cgroup /sys/fs/cgroup/cpu cgroup rw,relatime,cpu 0 0\ncgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0\n"
)
NAMED = "cgroup /sys/fs/cgroup/systemd cgroup rw,relatime,name=systemd 0 0\n"
UNIFIED = "cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0\n"
V2 = "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n"


def test_gather_reads_the_whole_machine(world: HostWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "query", lambda: nvml.Nvml(why="no driver"))
    world.put("/proc/meminfo", "MemTotal:       24684000 kB\nMemFree: 1 kB\nMemAvailable:   10240000 kB\n")
    world.put("/proc/self/status", "CapBnd:\t000001fffeffffff\n")
    world.put("/proc/self/mounts", V1 + NAMED + UNIFIED)
    world.sysctl("kernel.cap_last_cap", 40)
    world.sysctl("fs.inotify.max_user_instances", 128)
    for program in ("docker", "dockerd", "go", "gcc", "nvidia-ctk", "helm"):
        world.runner.has(program)
    world.runner.handle("docker info --format", out=world.docker_info())
    world.runner.handle("go version", out="go version go1.26.8 linux/amd64\n")
    world.runner.handle("nvidia-ctk --version", out="NVIDIA Container Toolkit CLI version 1.18.0\n")
    world.runner.handle("helm version --short", raises=CommandFailed(["helm"], 127))
    found = facts.gather(world.runner, world.machine)
    assert found.os == facts.OsFacts("debian", "12", "bookworm", "Debian GNU/Linux 12 (bookworm)")
    assert found.os.debian
    assert (found.memory_mib, found.available_mib) == (24105, 10000)
    assert found.missing_capabilities == ("CAP_SYS_RESOURCE",)
    assert found.cgroup == facts.CgroupFacts("v1", ("cpu", "memory"), named=True)
    assert found.sysctls == {"kernel.cap_last_cap": 40, "fs.inotify.max_user_instances": 128}
    assert found.go == (1, 26)
    assert found.compiler == "/usr/bin/gcc"
    assert found.tools["nvidia-ctk"] == facts.ToolFacts("/usr/bin/nvidia-ctk", "1.18.0")
    assert found.tools["helm"].version == ""
    assert (found.systemd, found.root, found.kvm) == (False, True, False)
    assert {disk.what for disk in found.disks} == {"engine", "cache", "state"}
    assert all(disk.free_mib > 0 for disk in found.disks)
    engine = found.engine()
    assert engine is not None
    assert (engine.name, engine.release, engine.storage) == ("docker", (20, 10), "overlay2")
    assert found.engine("podman") is None
    assert json.loads(json.dumps(to_json(found)))["go"] == "1.26"


@pytest.mark.parametrize(
    ("mounts", "version", "named"),
    [
        (V1 + UNIFIED, "v1", False),
        (V1 + NAMED, "v1", True),
        (V2, "v2", True),
        (UNIFIED, "none", False),
        ("", "none", False),
    ],
)
def test_cgroup_version_is_read_from_the_mounts(world: HostWorld, mounts: str, version: str, named: bool) -> None:
    world.put("/proc/self/mounts", mounts)
    found = facts.cgroups(world.machine)
    assert (found.version, found.named) == (version, named)


def test_cgroup_v2_controllers_are_read(world: HostWorld) -> None:
    world.put("/proc/self/mounts", V2)
    world.put("/sys/fs/cgroup/cgroup.controllers", "cpu memory pids\n")
    assert facts.cgroups(world.machine).controllers == ("cpu", "memory", "pids")


@pytest.mark.parametrize(
    ("text", "debian"),
    [("ID=ubuntu\nID_LIKE=debian\n", True), ("ID=linuxmint\nID_LIKE='ubuntu debian'\n", True), ("ID=fedora\n", False)],
)
def test_debian_derivatives_count_as_debian(world: HostWorld, text: str, debian: bool) -> None:
    world.put("/etc/os-release", text)
    assert facts.os_release(world.machine).debian is debian


def test_podman_info_is_read(world: HostWorld) -> None:
    world.runner.has("podman")
    info = {
        "host": {"cgroupVersion": "v2", "cgroupManager": "systemd", "security": {"rootless": True}},
        "store": {"graphDriverName": "overlay", "graphRoot": "/home/u/.local/share/containers/storage"},
        "version": {"Version": "4.9.3"},
    }
    world.runner.handle("podman info --format json", out=json.dumps(info))
    found = engines.inspect("podman", world.runner, world.machine)
    assert found.running
    assert (found.version, found.cgroup_version, found.rootless) == ("4.9.3", "2", True)


def test_docker_without_daemon_is_not_running(world: HostWorld) -> None:
    world.runner.has("docker")
    why = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock."
    world.runner.handle("docker info", out=json.dumps({"ServerErrors": [why]}), code=1)
    found = engines.inspect("docker", world.runner, world.machine)
    assert (found.installed, found.running, found.denied, found.why) == (False, False, False, why)
    world.put("/usr/sbin/dockerd", "")
    assert engines.inspect("docker", world.runner, world.machine).installed


def test_docker_without_permission_is_denied(world: HostWorld) -> None:
    world.runner.has("docker")
    world.runner.has("dockerd")
    why = "permission denied while trying to connect to the Docker daemon socket"
    world.runner.handle("docker info", out=json.dumps({"ServerErrors": [why]}))
    found = engines.inspect("docker", world.runner, world.machine)
    assert (found.installed, found.running, found.denied) == (True, False, True)


def test_engine_timeout_is_recorded_as_reason(world: HostWorld) -> None:
    world.runner.has("docker")
    world.runner.handle("docker info", raises=CommandFailed(["docker"], 1, why="docker did not end within 15 s"))
    assert engines.inspect("docker", world.runner, world.machine).why == "docker did not end within 15 s"


def test_root_commands_use_sudo_without_password_prompt(tmp_path: Path, runner: FakeRunner) -> None:
    world = HostWorld(tmp_path / "root", runner, euid=1000)
    root = world.machine.as_root(runner)
    runner.handle("sudo -n env A=b apt-get update", exact=True)
    root.run(["apt-get", "update"], env={"A": "b"})
    runner.handle("sudo -n id", err="sudo: a password is required\n", code=1)
    with pytest.raises(HostNotReady, match="needs root"):
        root.run(["id"])
    world.put("/usr/sbin/iptables", "")
    assert root.which("iptables") == Path("/usr/sbin/iptables"), "sudo searches folders outside a user's PATH"
    assert root.which("ip") is None
    runner.handle("sudo -n false", code=1)
    with pytest.raises(CommandFailed):
        root.run(["false"])
    assert world.machine.shown("id") == "sudo id"


class _Error(Exception):
    pass


def _pynvml(**changes: object) -> SimpleNamespace:
    def no_mig(handle: object) -> list[int]:
        raise _Error("Not Supported")

    parts: dict[str, object] = {
        "NVMLError": _Error,
        "NVML_DEVICE_MIG_ENABLE": 1,
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlSystemGetDriverVersion": lambda: b"580.65.06",
        "nvmlSystemGetCudaDriverVersion": lambda: 13010,
        "nvmlDeviceGetCount": lambda: 1,
        "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlDeviceGetMigMode": no_mig,
        "nvmlDeviceGetMinorNumber": lambda handle: 3,
        "nvmlDeviceGetUUID": lambda handle: "GPU-1",
        "nvmlDeviceGetName": lambda handle: "NVIDIA L4",
        "nvmlDeviceGetMemoryInfo": lambda handle: SimpleNamespace(total=24 * 2**30),
    }
    return SimpleNamespace(**{**parts, **changes})


def test_nvml_describes_the_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", _pynvml())
    found = nvml.query()
    assert found.usable
    assert (found.driver, found.cuda) == ("580.65.06", "13.1")
    assert found.gpus == (nvml.GpuDevice(0, 3, "GPU-1", "NVIDIA L4", 24576, mig=False),)


def test_missing_nvml_library_is_recorded_as_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_library() -> None:
        raise _Error("NVML Shared Library Not Found")

    monkeypatch.setitem(sys.modules, "pynvml", _pynvml(nvmlInit=no_library))
    assert nvml.query() == nvml.Nvml(why="NVML Shared Library Not Found")


def test_nvml_is_shut_down_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    shutdowns = []

    def broken() -> int:
        raise _Error("Driver/library version mismatch")

    fake = _pynvml(nvmlDeviceGetCount=broken, nvmlShutdown=lambda: shutdowns.append(1))
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    assert nvml.query().why == "Driver/library version mismatch"
    assert shutdowns == [1]

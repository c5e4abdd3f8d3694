"""Facts about this machine, gathered once and frozen; plans and checks depend on nothing else."""

from __future__ import annotations

import os
import platform
import re
import shutil
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from lab import paths
from lab.errors import CommandFailed
from lab.host import capabilities, engines, nvml
from lab.host.engines import EngineFacts
from lab.host.machine import Machine
from lab.tools.process import Runner

_MIB = 2**20

SYSCTLS = ("fs.inotify.max_user_instances", "fs.inotify.max_user_watches", "net.ipv4.ip_forward", "kernel.cap_last_cap")

TOOLS: dict[str, tuple[str, ...]] = {
    "apt-get": ("--version",),
    "debootstrap": ("--version",),
    "dpkg-deb": ("--version",),
    "git": ("--version",),
    "go": ("version",),
    "helm": ("version", "--short"),
    "iptables": ("--version",),
    "kind": ("version",),
    "kubectl": ("version", "--client"),
    "nvidia-ctk": ("--version",),
    "tar": ("--version",),
    "vcluster": ("--version",),
}
"""Programs shown in reports, with the arguments that print their version."""

PLANNED = ("debootstrap", "go")
"""The programs of ``TOOLS`` that a plan depends on."""

COMPILERS = ("cc", "gcc", "clang")

_V1_CONTROLLERS = frozenset(
    "cpuset cpu cpuacct blkio memory devices freezer net_cls perf_event net_prio hugetlb pids rdma misc".split()  # noqa: SIM905
)


@dataclass(frozen=True)
class OsFacts:
    """Fields of os-release(5): ``id`` such as debian, ``codename`` such as bookworm, ``like`` for ID_LIKE."""

    id: str = ""
    version: str = ""
    codename: str = ""
    name: str = ""
    like: tuple[str, ...] = ()

    @property
    def debian(self) -> bool:
        """Whether packages are Debian's or Ubuntu's, which the lab can install."""
        return bool({"debian", "ubuntu"} & {self.id, *self.like})


@dataclass(frozen=True)
class CgroupFacts:
    """``version`` is v1, v2 or none; ``named`` is whether systemd's named v1 hierarchy is mounted."""

    version: str = "none"
    controllers: tuple[str, ...] = ()
    named: bool = False


@dataclass(frozen=True)
class DiskFacts:
    """Free space on the file system of ``what`` (engine, cache or state), and whether this user may write there."""

    what: str
    path: str
    free_mib: int
    writable: bool = True


@dataclass(frozen=True)
class ToolFacts:
    """An installed program."""

    path: str
    version: str = ""


@dataclass(frozen=True)
class HostFacts:
    """This machine; sizes in MiB."""

    os: OsFacts = OsFacts()
    kernel: str = ""
    arch: str = ""
    cores: int = 0
    memory_mib: int = 0
    available_mib: int = 0
    disks: tuple[DiskFacts, ...] = ()
    missing_capabilities: tuple[str, ...] = ()
    cgroup: CgroupFacts = CgroupFacts()
    systemd: bool = False
    root: bool = False
    engines: tuple[EngineFacts, ...] = ()
    sysctls: Mapping[str, int] = field(default_factory=dict)
    tools: Mapping[str, ToolFacts] = field(default_factory=dict)
    compiler: str = ""
    go: tuple[int, int] | None = None
    gpu: nvml.Nvml = field(default_factory=nvml.Nvml)
    kvm: bool = False

    def engine(self, wanted: str = "auto") -> EngineFacts | None:
        """The wanted engine if it is running, or for ``auto`` the first running one."""
        names = engines.NAMES if wanted == "auto" else (wanted,)
        running = {engine.name: engine for engine in self.engines if engine.running}
        return next((running[name] for name in names if name in running), None)

    @property
    def go_version(self) -> str | None:
        return ".".join(map(str, self.go)) if self.go else None

    JSON = "* go=go_version"


def gather(run: Runner, machine: Machine | None = None, tools: Iterable[str] = TOOLS) -> HostFacts:
    """Gather the facts without changing anything; facts that cannot be read keep their defaults.

    Each of ``tools`` is started for its version.
    """
    here = machine or Machine()
    with ThreadPoolExecutor(16, thread_name_prefix="facts") as pool:
        found = [pool.submit(engines.inspect, name, run, here) for name in engines.NAMES]
        versions = {name: pool.submit(_tool, name, TOOLS[name], run) for name in tools}
        gpu = pool.submit(nvml.query)
        installed = {name: fact for name, future in versions.items() if (fact := future.result()) is not None}
    memory = {key: int(kib) for key, kib in re.findall(r"^(\w+):\s+(\d+) kB", here.text("/proc/meminfo"), re.M)}
    sysctls = {name: value for name in SYSCTLS if (value := here.sysctl(name)) is not None}
    mask = capabilities.bounding(here.text("/proc/self/status"))
    go = re.match(r"(\d+)\.(\d+)", installed["go"].version) if "go" in installed else None
    engine_facts = tuple(future.result() for future in found)
    return HostFacts(
        os=os_release(here),
        kernel=platform.release(),
        arch=platform.machine(),
        cores=len(os.sched_getaffinity(0)),
        memory_mib=memory.get("MemTotal", 0) // 1024,
        available_mib=memory.get("MemAvailable", 0) // 1024,
        disks=_disks(here, engine_facts),
        missing_capabilities=capabilities.missing(mask, sysctls.get("kernel.cap_last_cap", 40)),
        cgroup=cgroups(here),
        systemd=here.systemd,
        root=here.euid == 0,
        engines=engine_facts,
        sysctls=sysctls,
        tools=installed,
        compiler=next((str(path) for name in COMPILERS if (path := run.which(name))), ""),
        go=(int(go[1]), int(go[2])) if go else None,
        gpu=gpu.result(),
        kvm=here.path("/dev/kvm").exists(),
    )


def os_release(machine: Machine) -> OsFacts:
    """Read os-release(5)."""
    text = machine.text("/etc/os-release") or machine.text("/usr/lib/os-release")
    values = {key: value.strip().strip("\"'") for key, value in re.findall(r"^(\w+)=(.*)$", text, re.M)}
    return OsFacts(
        id=values.get("ID", ""),
        version=values.get("VERSION_ID", ""),
        codename=values.get("VERSION_CODENAME", ""),
        name=values.get("PRETTY_NAME", ""),
        like=tuple(values.get("ID_LIKE", "").split()),
    )


def cgroups(machine: Machine) -> CgroupFacts:
    """Read which cgroup hierarchies are mounted below /sys/fs/cgroup, from /proc/self/mounts."""
    controllers: list[str] = []
    named = False
    for line in machine.text("/proc/self/mounts").splitlines():
        words = line.split()
        if len(words) < 4 or not words[1].startswith("/sys/fs/cgroup"):
            continue
        if words[2] == "cgroup2" and words[1] == "/sys/fs/cgroup":
            found = machine.text("/sys/fs/cgroup/cgroup.controllers").split()
            return CgroupFacts("v2", tuple(found), named=True)
        if words[2] == "cgroup":
            options = words[3].split(",")
            named = named or "name=systemd" in options
            controllers += [option for option in options if option in _V1_CONTROLLERS]
    return CgroupFacts("v1" if controllers else "none", tuple(sorted(set(controllers))), named)


def _disks(machine: Machine, found: tuple[EngineFacts, ...]) -> tuple[DiskFacts, ...]:
    engine = next((engine for engine in found if engine.running), None)
    places = {
        "engine": Path(engine.root_dir if engine and engine.root_dir else "/var/lib/docker"),
        "cache": paths.cache_path(),
        "state": paths.state_root(),
    }
    disks = []
    for what, place in places.items():
        path = machine.path(str(place)) if what == "engine" else place
        existing = next((one for one in (path, *path.parents) if os.access(one, os.F_OK)), Path("/"))
        writable = what == "engine" or (existing.is_dir() and os.access(existing, os.W_OK | os.X_OK))
        disks.append(DiskFacts(what, str(place), shutil.disk_usage(existing).free // _MIB, writable))
    return tuple(disks)


def _tool(name: str, args: tuple[str, ...], run: Runner) -> ToolFacts | None:
    path = run.which(name)
    if path is None:
        return None
    try:
        answer = run.run([name, *args], check=False, timeout=10)
    except CommandFailed:
        return ToolFacts(str(path))
    found = re.search(r"(\d+\.\d+[\w.+-]*)", answer.out + answer.err)
    return ToolFacts(str(path), found[1] if found else "")

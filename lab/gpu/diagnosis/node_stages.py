"""Stages of the GPU path in a node, with problems in words that symptoms_*.toml know. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from lab.findings import Finding
from lab.gpu.diagnosis.node_facts import HANDLER, NodeFacts
from lab.gpu.diagnosis.symptoms import Evidence, match
from lab.gpu.simulated.devices import DEVICE_MAJOR

CHECK = "gpu-path"
"""First part of the rules of these findings: ``gpu-path.devices``."""

STAGES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "reached": ("node containers", "the node container runs and answers commands"),
        "devices": ("device nodes", "/dev has the device nodes of exactly the node's own GPUs"),
        "driver": ("driver", "the driver's files are in the node, in the version that the kernel has loaded"),
        "toolkit": ("container toolkit", "NVIDIA's container toolkit is in the node, in mode cdi"),
        "handler": ("containerd handler", "containerd and the kubelet run, and containerd has the handler nvidia"),
        "cdi": ("CDI spec", "a CDI spec names every GPU of the node"),
        "health": ("GPUs", "no GPU of the node has failed"),
        "class": ("RuntimeClass", "the RuntimeClass nvidia exists and has the handler nvidia"),
        "plugin": ("device plugin", "a Ready pod of NVIDIA's device plugin runs on the node"),
        "allocatable": ("GPUs offered", "the node offers all of its GPUs as nvidia.com/gpu"),
        "labels": ("labels", "the node has the labels of its GPUs that KAI reads"),
        "reservations": ("reservation pods", "KAI's reservation pods run"),
    }
)
"""Stages in the order of the GPU path: title, and the state that is expected."""

CLUSTER = "cluster"
"""Subject of a stage outside nodes."""

CONTROL = {"/dev/nvidiactl": f"{DEVICE_MAJOR}:255", "/dev/nvidia-uvm": ""}
"""Device nodes beside the GPUs' own. The kernel chooses the number of nvidia-uvm on real machines."""


@dataclass(frozen=True)
class Expected:
    """State that a node should have."""

    gpus: Mapping[str, int] = field(default_factory=dict)
    """UUID of each GPU → N of its /dev/nvidiaN."""
    programs: tuple[str, ...] = ("/usr/bin/nvidia-container-runtime", "/usr/bin/nvidia-ctk")
    """Paths of the toolkit's programs."""
    real: bool = False
    """Whether the node uses the machine's driver; otherwise the kernel's report about one does not count."""

    @property
    def devices(self) -> dict[str, str]:
        """Path of each device node → ``major:minor``; empty if any is right."""
        return {**{f"/dev/nvidia{minor}": f"{DEVICE_MAJOR}:{minor}" for minor in self.gpus.values()}, **CONTROL}


@dataclass(frozen=True)
class GpuPathStage:
    """One stage in a node or in the cluster: its problems, else a description.

    A problem is a line of the stream ``node``; its subject is the pod concerned, if there is one.
    """

    id: str
    where: str
    problems: tuple[Finding, ...]
    good: str = ""

    @property
    def title(self) -> str:
        return STAGES[self.id][0]

    def evidence(self) -> tuple[Evidence, ...]:
        return tuple(
            Evidence("node", problem.subject or self.where or CLUSTER, problem.what, self.where)
            for problem in self.problems
        )

    def finding(self, short: str) -> Finding:
        """The stage as a finding of the doctor; ``short`` is the node's short name."""
        title = f"{short}: {self.title}" if short else self.title
        good = Finding(self.good, severity="ok", subject=self.where or CLUSTER, rule=f"{CHECK}.{self.id}", title=title)
        if not self.problems:
            return good
        known = match(self.evidence())
        return replace(
            good,
            what="; ".join(problem.what for problem in self.problems),
            next=known[0].next if known else "kailab up",
            severity="error" if any(problem.severity == "error" for problem in self.problems) else "warning",
        )


Check = Callable[[NodeFacts, Expected], Iterable[Finding]]


def node_stages(facts: NodeFacts, expected: Expected) -> tuple[GpuPathStage, ...]:
    """Return all stages of one node, in the order of the GPU path."""
    runtime = facts.containerd.handlers.get(HANDLER) or {}
    program = (runtime.get("options") or {}).get("BinaryName", "")
    version = facts.library or facts.loaded
    devices = ", ".join(sorted(path for path in facts.devices if path not in CONTROL))
    specs = ", ".join(facts.cdi.devices)
    rows: tuple[tuple[str, Check, str], ...] = (
        ("devices", _devices, devices),
        ("driver", _driver, f"{len(facts.files)} files{f' of driver {version}' if version else ''}"),
        ("toolkit", _toolkit, f"mode {facts.toolkit.mode}"),
        ("handler", _handler, f"{HANDLER} runs {program}"),
        ("cdi", _cdi, f"{specs}: {len(facts.cdi.names)} devices"),
        ("health", _health, f"{len(expected.gpus)}, none has failed"),
    )
    return tuple(GpuPathStage(name, facts.node, tuple(check(facts, expected)), good) for name, check, good in rows)


def _devices(facts: NodeFacts, expected: Expected) -> Iterator[Finding]:
    for path, numbers in expected.devices.items():
        seen = facts.devices.get(path, "")
        if not seen:
            yield Finding(f"device {path} is missing")
        elif (numbers and seen != numbers) or ":" not in seen:
            yield Finding(f"device {path} is {seen}, should be {numbers or 'a device'}")
    for path in sorted(set(facts.devices) - set(expected.devices)):
        yield Finding(f"device {path} belongs to another node")
    if expected.real and facts.modify not in ("", "0"):
        yield Finding(f"ModifyDeviceFiles is {facts.modify}: NVML may create the device nodes of other GPUs")


def _driver(facts: NodeFacts, expected: Expected) -> Iterator[Finding]:
    if expected.real and facts.loaded and facts.library and facts.loaded != facts.library:
        yield Finding(f"driver {facts.loaded} is loaded, but the node has the library of {facts.library}")
    for path, kind in facts.files.items():
        if kind == "missing":
            yield Finding(f"driver file {path} is missing")
        elif kind == "directory":
            yield Finding(f"driver file {path} is a directory")


def _toolkit(facts: NodeFacts, expected: Expected) -> Iterator[Finding]:
    for path in expected.programs:
        if path not in facts.programs:
            yield Finding(f"{path} is missing in the node")
    if facts.toolkit.broken:
        yield Finding(f"the toolkit's configuration cannot be read: {facts.toolkit.broken}")
        return
    if facts.toolkit.mode != "cdi":
        yield Finding(f"the toolkit's mode is {facts.toolkit.mode}, should be cdi")
    if not facts.toolkit.environment:
        yield Finding("the toolkit ignores NVIDIA_VISIBLE_DEVICES of unprivileged containers")


def _handler(facts: NodeFacts, expected: Expected) -> Iterator[Finding]:
    for unit, name in (("containerd", "containerd"), ("kubelet", "the kubelet")):
        if (state := facts.units.get(unit) or "unknown") != "active":
            yield Finding(f"{name} is {state}")
    if facts.containerd.broken:
        yield Finding(f"containerd's configuration cannot be read: {facts.containerd.broken}")
        return
    handlers = facts.containerd.handlers.items()
    systemd = {name: (handler.get("options") or {}).get("SystemdCgroup") is True for name, handler in handlers}
    # kind gives runc what its kubelet's cgroup driver needs: systemd, or cgroupfs in labs on cgroup v1.
    wanted = systemd.get("runc", True)
    if HANDLER not in systemd:
        yield Finding(f"containerd has no handler {HANDLER}")
    elif systemd[HANDLER] != wanted:
        yield Finding(f"containerd's handler {HANDLER} has no SystemdCgroup = {str(wanted).lower()}")
    for path in facts.changed:
        yield Finding(f"containerd has not been restarted since {path} changed", severity="warning")
    if facts.containerd.default == HANDLER:
        yield Finding(f"containerd's default runtime is {HANDLER}", severity="warning")


def _cdi(facts: NodeFacts, expected: Expected) -> Iterator[Finding]:
    for path, why in facts.cdi.broken.items():
        yield Finding(f"CDI spec {path} cannot be read: {why}")
    if not facts.cdi.devices:
        yield Finding("the node has no CDI spec for nvidia.com/gpu")
        return
    for uuid in expected.gpus:
        if uuid not in facts.cdi.names:
            yield Finding(f"no CDI spec names {uuid}")


def _health(facts: NodeFacts, expected: Expected) -> Iterator[Finding]:
    by_minor = {minor: uuid for uuid, minor in expected.gpus.items()}
    for index, health in facts.failed.items():
        # a simulated GPU's minor is its index
        yield Finding(f"GPU {by_minor.get(index, f'GPU-{index}')} has failed: {health}")

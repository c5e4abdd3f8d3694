"""The way of a GPU through a node, stage by stage: what is wrong at each, in words that symptoms_*.toml knows. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from lab.findings import Finding
from lab.gpu.diagnosis.node_facts import HANDLER, NodeFacts
from lab.gpu.diagnosis.symptoms import Evidence, match
from lab.gpu.simulated.devices import DEVICE_MAJOR

CHECK = "gpu-path"
"""How the rules of these findings begin: ``gpu-path.devices``."""

CLUSTER = "cluster"
"""Where something is that is on no node."""

CONTROL = {"/dev/nvidiactl": f"{DEVICE_MAJOR}:255", "/dev/nvidia-uvm": ""}
"""Device nodes beside the GPUs' own. The number of nvidia-uvm is the kernel's choice on real machines."""


@dataclass(frozen=True)
class Expected:
    """What a node should have.

    Attributes:
        gpus: UUID of each GPU → N of its /dev/nvidiaN.
        programs: paths of the toolkit's programs.
        real: whether the machine's own driver is behind them; else what the kernel says of one does not count.
    """

    gpus: Mapping[str, int] = field(default_factory=dict)
    programs: tuple[str, ...] = ("/usr/bin/nvidia-container-runtime", "/usr/bin/nvidia-ctk")
    real: bool = False

    @property
    def devices(self) -> dict[str, str]:
        """Path of each device node → ``major:minor``; empty where any will do."""
        return {**{f"/dev/nvidia{minor}": f"{DEVICE_MAJOR}:{minor}" for minor in self.gpus.values()}, **CONTROL}


@dataclass(frozen=True)
class GpuPathStage:
    """One stage of a node or of the cluster: what is wrong, else what there is.

    What is wrong is a line of the stream ``node``; its subject is the pod that it is about, if there is one.
    """

    id: str
    title: str
    where: str
    troubles: tuple[Finding, ...]
    good: str

    def evidence(self) -> tuple[Evidence, ...]:
        return tuple(
            Evidence("node", trouble.subject or self.where or CLUSTER, trouble.what, self.where)
            for trouble in self.troubles
        )

    def finding(self, short: str) -> Finding:
        """The stage as the doctor says it; ``short`` is the node's name for people."""
        title = f"{short}: {self.title}" if short else self.title
        good = Finding(self.good, severity="ok", subject=self.where or CLUSTER, rule=f"{CHECK}.{self.id}", title=title)
        if not self.troubles:
            return good
        known = match(self.evidence())
        return replace(
            good,
            what="; ".join(trouble.what for trouble in self.troubles),
            next=known[0].next if known else "lab up",
            severity="error" if any(trouble.severity == "error" for trouble in self.troubles) else "warning",
        )


Look = Callable[[NodeFacts, Expected], Iterable[Finding]]


def node_stages(facts: NodeFacts, expected: Expected) -> tuple[GpuPathStage, ...]:
    """All stages of one node, in the order of the way."""
    runtime = facts.containerd.handlers.get(HANDLER) or {}
    program = (runtime.get("options") or {}).get("BinaryName", "")
    specs = ", ".join(facts.cdi.devices)
    rows: tuple[tuple[str, str, Look, str], ...] = (
        ("devices", "device nodes", _devices, ", ".join(sorted(path for path in facts.devices if path not in CONTROL))),
        ("driver", "driver", _driver, f"{len(facts.files)} files{_version(facts)}"),
        ("toolkit", "container toolkit", _toolkit, f"mode {facts.toolkit.mode}"),
        ("handler", "containerd handler", _handler, f"{HANDLER} runs {program}"),
        ("cdi", "CDI spec", _cdi, f"{specs}: {len(facts.cdi.names)} devices"),
        ("health", "GPUs", _health, f"{len(expected.gpus)}, none has failed"),
    )
    return tuple(
        GpuPathStage(name, title, facts.node, tuple(look(facts, expected)), good) for name, title, look, good in rows
    )


def _devices(facts: NodeFacts, expected: Expected) -> Iterator[Finding]:
    for path, numbers in expected.devices.items():
        seen = facts.devices.get(path, "")
        if not seen:
            yield Finding(f"device {path} is missing")
        elif (numbers and seen != numbers) or ":" not in seen:
            yield Finding(f"device {path} is {seen}, should be {numbers or 'a device'}")
    for path in sorted(set(facts.devices) - set(expected.devices)):
        yield Finding(f"device {path} is not the node's")
    if expected.real and facts.modify not in ("", "0"):
        yield Finding(f"ModifyDeviceFiles is {facts.modify}: NVML may make the device nodes of other GPUs")


def _driver(facts: NodeFacts, expected: Expected) -> Iterator[Finding]:
    if expected.real and facts.loaded and facts.library and facts.loaded != facts.library:
        yield Finding(f"driver {facts.loaded} is loaded, and the node's library is of {facts.library}")
    for path, kind in facts.files.items():
        if kind == "missing":
            yield Finding(f"driver file {path} is missing")
        elif kind == "directory":
            yield Finding(f"driver file {path} is a directory")


def _toolkit(facts: NodeFacts, expected: Expected) -> Iterator[Finding]:
    for path in expected.programs:
        if path not in facts.programs:
            yield Finding(f"{path} is not in the node")
    if facts.toolkit.broken:
        yield Finding(f"the toolkit's configuration cannot be read: {facts.toolkit.broken}")
        return
    if facts.toolkit.mode != "cdi":
        yield Finding(f"the toolkit's mode is {facts.toolkit.mode}, should be cdi")
    if not facts.toolkit.environment:
        yield Finding("the toolkit ignores NVIDIA_VISIBLE_DEVICES of unprivileged containers")


def _systemd(handler: Mapping[str, Any]) -> bool:
    return (handler.get("options") or {}).get("SystemdCgroup") is True


def _handler(facts: NodeFacts, expected: Expected) -> Iterator[Finding]:
    for unit, name in (("containerd", "containerd"), ("kubelet", "the kubelet")):
        if (state := facts.units.get(unit) or "unknown") != "active":
            yield Finding(f"{name} is {state}")
    if facts.containerd.broken:
        yield Finding(f"containerd's configuration cannot be read: {facts.containerd.broken}")
        return
    handler = facts.containerd.handlers.get(HANDLER)
    if handler is None:
        yield Finding(f"containerd has no handler {HANDLER}")
    else:
        # kind gives runc what its kubelet's cgroup driver needs: systemd, or cgroupfs in labs on cgroup v1.
        others = facts.containerd.handlers.get("runc")
        wanted = others is None or _systemd(others)
        if _systemd(handler) != wanted:
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


def _version(facts: NodeFacts) -> str:
    return f" of driver {facts.library or facts.loaded}" if facts.library or facts.loaded else ""

"""Facts about the GPU path in a node, from the report of diagnose.sh."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from lab.gpu.simulated.health import Health, failures_in
from lab.session.context import LabContext

HANDLER = "nvidia"
"""Containerd's runtime handler, and the RuntimeClass of that handler."""

_CRI = ("io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri")
"""Sections of containerd's runtimes: from schema 3 on, and before."""

_SECTION = re.compile(r"^@@@ (\S+)$", re.MULTILINE)
_SPEC = re.compile(r"^@@ (\S+)$", re.MULTILINE)
_KIND = "nvidia.com/gpu"


@dataclass(frozen=True)
class Containerd:
    """containerd's configuration: handlers with their options, the default one, or why it cannot be read."""

    handlers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    default: str = ""
    broken: str = ""


@dataclass(frozen=True)
class NodeToolkit:
    """The toolkit's configuration in the node with its defaults, or why it cannot be read."""

    mode: str = "auto"
    environment: bool = True
    """Whether NVIDIA_VISIBLE_DEVICES of unprivileged containers counts."""
    broken: str = ""


@dataclass(frozen=True)
class CdiSpecs:
    """CDI specs for NVIDIA's GPUs: file → names of devices, and file → why it cannot be read."""

    devices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    broken: Mapping[str, str] = field(default_factory=dict)

    @property
    def names(self) -> frozenset[str]:
        return frozenset(name for names in self.devices.values() for name in names)


@dataclass(frozen=True)
class NodeFacts:
    """The report of one node: section of diagnose.sh → text."""

    node: str
    sections: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def units(self) -> dict[str, str]:
        """State of containerd and of the kubelet."""
        return _pairs(self._text("units"))

    @property
    def changed(self) -> tuple[str, ...]:
        """Files of containerd's configuration that are newer than its start."""
        return tuple(self._text("changed").split())

    @cached_property
    def containerd(self) -> Containerd:
        """Its configuration as it would read it now, with imported files."""
        text = self._text("containerd")
        try:
            config = tomllib.loads(text)
        except tomllib.TOMLDecodeError:
            return Containerd(broken=_first(text) or "no output")
        plugins = config.get("plugins") or {}
        section: Mapping[str, Any] = next(
            (found for key in _CRI if (found := (plugins.get(key) or {}).get("containerd"))), {}
        )
        return Containerd(section.get("runtimes") or {}, str(section.get("default_runtime_name") or ""))

    @cached_property
    def toolkit(self) -> NodeToolkit:
        try:
            config = tomllib.loads(self._text("toolkit"))
        except tomllib.TOMLDecodeError as error:
            return NodeToolkit(broken=str(error))
        mode = (config.get("nvidia-container-runtime") or {}).get("mode") or "auto"
        accepted = config.get("accept-nvidia-visible-devices-envvar-when-unprivileged", True)
        return NodeToolkit(str(mode), accepted is not False)

    @property
    def programs(self) -> frozenset[str]:
        return frozenset(self._text("programs").split())

    @cached_property
    def devices(self) -> dict[str, str]:
        """Path of each device node → ``major:minor``, or the type of another file."""
        return _pairs(self._text("devices"))

    @property
    def modify(self) -> str:
        """ModifyDeviceFiles in the node; empty without a driver."""
        return _found(r"^ModifyDeviceFiles: (\d+)", self._text("driver"))

    @property
    def loaded(self) -> str:
        """Version of the driver in the kernel; empty without one."""
        return _found(r"^NVRM version:.*?\s(\d+\.\d+(?:\.\d+)?)\s", self._text("driver"))

    @property
    def library(self) -> str:
        """Version of the node's libnvidia-ml by its file name; empty if the name has none."""
        return _found(r"^library \S*libnvidia-ml\.so\.(\d+\.\d[\d.]*)$", self._text("driver"))

    @cached_property
    def cdi(self) -> CdiSpecs:
        parts = _SPEC.split(self._text("cdi"))
        devices, broken = {}, {}
        for path, text in zip(parts[1::2], parts[2::2], strict=True):
            spec, why = _spec(text)
            if why:
                broken[path] = why
            elif spec.get("kind") == _KIND:
                devices[path] = tuple(str(device.get("name")) for device in spec["devices"])
        return CdiSpecs(devices, broken)

    @cached_property
    def files(self) -> dict[str, str]:
        """Path of each file that a CDI spec mounts → file, directory or missing."""
        return {path: kind for kind, _, path in (row.partition(" ") for row in self._text("files").splitlines())}

    @cached_property
    def failed(self) -> dict[int, Health]:
        """Simulated GPUs that have failed, by index."""
        return {index: health for index, health in failures_in(self._text("nvml")).items() if health.failed}

    @property
    def smi(self) -> tuple[str, ...]:
        """Output of nvidia-smi if it failed."""
        *lines, last = self._text("smi").splitlines() or [""]
        return tuple(lines) if last.startswith("rc ") and last != "rc 0" else ()

    def journal(self, unit: str) -> tuple[str, ...]:
        """The last errors and warnings of containerd or the kubelet."""
        return tuple(self._text(f"{unit}-log").splitlines())

    def _text(self, section: str) -> str:
        return self.sections.get(section, "")


def query_node(ctx: LabContext, node: str, timeout: float) -> NodeFacts:
    """Read the facts of a running node container, within ``timeout`` seconds. Raises CommandFailed."""
    return parse(node, ctx.engine.exec(node, ["sh", "-s"], stdin=script(), timeout=timeout).out)


def script() -> str:
    """Return the shell script that a node runs."""
    return (Path(__file__).parent / "diagnose.sh").read_text()


def parse(node: str, text: str) -> NodeFacts:
    """Read the output of the script."""
    parts = _SECTION.split(text)
    return NodeFacts(node, dict(zip(parts[1::2], (part.strip("\n") for part in parts[2::2]), strict=True)))


def _spec(text: str) -> tuple[dict[str, Any], str]:
    """A CDI spec, or why the text is not one."""
    import yaml

    try:
        spec = yaml.safe_load(text)
    except yaml.YAMLError as error:
        return {}, _first(str(error))
    if not isinstance(spec, dict) or not isinstance(spec.get("devices") or [], list):
        return {}, "not a CDI spec"
    return {**spec, "devices": [device for device in spec.get("devices") or [] if isinstance(device, dict)]}, ""


def _pairs(text: str) -> dict[str, str]:
    return {name: value for name, _, value in (line.partition(" ") for line in text.splitlines()) if name}


def _found(pattern: str, text: str) -> str:
    match = re.search(pattern, text, re.MULTILINE)
    return match[1] if match else ""


def _first(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")

"""What a node says about itself (kind/gpu/state.sh), and how that differs from what it should have."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from lab.parts.context import LabContext
from lab.parts.gpu.devices import DEVICE_MAJOR
from lab.parts.gpu.node_files import UNIT, NodeFiles
from lab.paths import assets

_PROGRAMS = ("/usr/bin/nvidia-container-runtime", "/usr/bin/nvidia-ctk")


@dataclass(frozen=True)
class NodeState:
    """One look at a node: sha256 by path, whole libraries, device nodes, the unit, what the image brought."""

    sums: Mapping[str, str] = field(default_factory=dict)
    libraries: frozenset[str] = frozenset()
    devices: Mapping[str, str] = field(default_factory=dict)
    unit: str = ""
    programs: frozenset[str] = frozenset()
    handler: bool = False

    @property
    def untouched(self) -> bool:
        """Whether the lab never put anything of its GPUs here."""
        return not self.sums and not self.libraries

    def lacks(self) -> tuple[str, ...]:
        """What only a new node can bring: the toolkit's programs and the containerd handler."""
        missing = [f"{path} is not in the node image" for path in _PROGRAMS if path not in self.programs]
        if not self.handler:
            missing.append("containerd in the node has no runtime handler 'nvidia'")
        return tuple(missing)


def look(ctx: LabContext, node: str, files: NodeFiles) -> NodeState:
    """Ask a running node container what it has. Raises CommandFailed."""
    script = (assets("kind") / "gpu" / "state.sh").read_text()
    return parse(ctx.engine.exec(node, ["sh", "-s", "--", *files.texts], stdin=script, timeout=30).out)


def parse(text: str) -> NodeState:
    """Read what state.sh printed."""
    sums, libraries, devices, unit, programs, handler = {}, set(), {}, "", set(), False
    for line in text.splitlines():
        match line.split():
            case ["sum", digest, path]:
                sums[path] = digest
            case ["library", path]:
                libraries.add(path)
            case ["device", path, numbers]:
                devices[path] = numbers
            case ["unit", *words]:
                unit = " ".join(words)
            case ["program", path]:
                programs.add(path)
            case ["handler", "nvidia"]:
                handler = True
    return NodeState(sums, frozenset(libraries), devices, unit, frozenset(programs), handler)


def differences(files: NodeFiles, state: NodeState) -> tuple[str, ...]:
    """What differs from the plan, a line each; empty when nothing does."""
    lines = [
        f"{path} {'differs' if path in state.sums else 'is missing'}"
        for path, digest in files.sums().items()
        if state.sums.get(path) != digest
    ]
    if files.library not in state.libraries:
        lines.append(f"{files.library} is missing or broken")
    wanted = {
        **files.devices,
        "/dev/nvidiactl": f"{DEVICE_MAJOR}:255",
        "/dev/nvidia-uvm": f"{DEVICE_MAJOR}:253",
    }
    lines += [
        f"device {path} is {state.devices.get(path, 'missing')}, should be {numbers}"
        for path, numbers in wanted.items()
        if state.devices.get(path) != numbers
    ]
    lines += [
        f"device {path} should not be there"
        for path in state.devices
        if re.fullmatch(r"/dev/nvidia\d+", path) and path not in wanted
    ]
    if state.unit != "enabled active":
        lines.append(f"{UNIT} is {state.unit or 'missing'}, should be enabled and active")
    return tuple(lines)

"""What a node says about itself (kind/gpu/state.sh), and how that differs from what it should have."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from lab.gpu.simulated.devices import DEVICE_MAJOR
from lab.gpu.simulated.node_files import UNIT, USAGE_UNIT, NodeFiles
from lab.paths import assets
from lab.session.context import LabContext

_PROGRAMS = ("/usr/bin/nvidia-container-runtime", "/usr/bin/nvidia-ctk")


@dataclass(frozen=True)
class NodeState:
    """One look at a node: sha256 by path, whole libraries, links, device nodes, units, what the image brought."""

    sums: Mapping[str, str] = field(default_factory=dict)
    libraries: frozenset[str] = frozenset()
    links: Mapping[str, str] = field(default_factory=dict)
    devices: Mapping[str, str] = field(default_factory=dict)
    unit: str = ""
    usage: str = ""
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
    state = NodeState()
    for line in text.splitlines():
        match line.split():
            case ["sum", digest, path]:
                state = replace(state, sums={**state.sums, path: digest})
            case ["library", path]:
                state = replace(state, libraries=state.libraries | {path})
            case ["link", path, target]:
                state = replace(state, links={**state.links, path: target})
            case ["device", path, numbers]:
                state = replace(state, devices={**state.devices, path: numbers})
            case ["unit", *words]:
                state = replace(state, unit=" ".join(words))
            case ["usage", *words]:
                state = replace(state, usage=" ".join(words))
            case ["program", path]:
                state = replace(state, programs=state.programs | {path})
            case ["handler", "nvidia"]:
                state = replace(state, handler=True)
    return state


def differences(files: NodeFiles, state: NodeState) -> tuple[str, ...]:
    """What differs from the plan, a line each; empty when nothing does."""
    lines = [
        f"{path} {'differs' if path in state.sums else 'is missing'}"
        for path, digest in files.sums().items()
        if state.sums.get(path) != digest
    ]
    if files.library not in state.libraries:
        lines.append(f"{files.library}, or what belongs beside it, is missing or broken")
    lines += [
        f"{path} leads to {state.links.get(path, 'nothing')}, should lead to {target}"
        for path, target in files.links.items()
        if state.links.get(path) != target
    ]
    wanted = {**files.devices, "/dev/nvidiactl": f"{DEVICE_MAJOR}:255", "/dev/nvidia-uvm": f"{DEVICE_MAJOR}:253"}
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
    for unit, seen in ((UNIT, state.unit), (USAGE_UNIT, state.usage)):
        if seen != "enabled active":
            lines.append(f"{unit} is {seen or 'missing'}, should be enabled and active")
    return tuple(lines)

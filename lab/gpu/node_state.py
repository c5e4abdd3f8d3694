"""Files that kailab puts on a GPU node, and what the node reports (kind/gpu/state.sh, kind/gpu/nvidia/state.sh)."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Self

from lab.paths import assets
from lab.session.context import LabContext


@dataclass(frozen=True)
class NodeState:
    """A node's report: the first word of each line → the rest of these lines."""

    lines: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Self:
        lines: dict[str, tuple[str, ...]] = {}
        for line in text.splitlines():
            word, _, rest = line.partition(" ")
            lines[word] = (*lines.get(word, ()), rest.strip())
        return cls(lines)

    def all(self, word: str) -> frozenset[str]:
        return frozenset(self.lines.get(word, ()))

    def first(self, word: str) -> str:
        return next(iter(self.lines.get(word, ())), "")

    def table(self, word: str) -> dict[str, str]:
        """Lines of two values as a mapping."""
        return {key: value.strip() for key, _, value in (line.partition(" ") for line in self.lines.get(word, ()))}

    @property
    def sums(self) -> dict[str, str]:
        """Path → sha256."""
        return {path.strip(): digest for digest, _, path in (line.partition(" ") for line in self.lines.get("sum", ()))}

    @property
    def handler(self) -> bool:
        """Whether containerd has the runtime handler ``nvidia``."""
        return "handler" in self.lines


@dataclass(frozen=True)
class LabFiles(ABC):
    """The lab's files on one node: path → text."""

    texts: Mapping[str, str]

    script: ClassVar[str]
    """The script in ``kind/gpu`` that reports the node's state."""
    timeout: ClassVar[float]
    """Seconds for the script."""
    marker: ClassVar[str]
    """Path of a file that only kailab writes."""
    programs: ClassVar[tuple[str, ...]]
    """Programs of NVIDIA's container toolkit that the node needs in /usr/bin."""

    def sums(self) -> dict[str, str]:
        """Path → sha256."""
        return {path: hashlib.sha256(text.encode()).hexdigest() for path, text in self.texts.items()}

    def look(self, ctx: LabContext, node: str) -> NodeState:
        """Read the state of a running node. Raises CommandFailed."""
        script = (assets("kind") / "gpu" / self.script).read_text()
        done = ctx.engine.exec(node, ["sh", "-s", "--", *self.texts], stdin=script, timeout=self.timeout)
        return NodeState.parse(done.out)

    def missing_programs(self, state: NodeState) -> list[str]:
        return [name for name in self.programs if f"/usr/bin/{name}" not in state.all("program")]

    @abstractmethod
    def obstacles(self, state: NodeState, *, gpus: bool) -> list[str]:
        """Reasons why only a recreated node can get these files; ``gpus``: the plan gives the node GPUs."""

    def untouched(self, state: NodeState) -> bool:
        """Whether kailab never wrote its files to the node."""
        return self.marker not in state.sums

    def differences(self, state: NodeState) -> list[str]:
        """One line for each difference between the node and the plan."""
        seen = state.sums
        return [
            f"{path} {'differs' if path in seen else 'is missing'}"
            for path, digest in self.sums().items()
            if seen.get(path) != digest
        ]


def unit_difference(unit: str, state: str) -> list[str]:
    """The difference of a systemd unit that has to be enabled and active, if there is one."""
    return [] if state == "enabled active" else [f"{unit} is {state or 'missing'}, should be enabled and active"]

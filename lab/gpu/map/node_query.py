"""GPUs as the nodes report them: the kubelet's record and, for simulated GPUs, NVML's config.

kailab queries only nodes of its own labs, by one command in each node container.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from lab.errors import Interrupted, LabError
from lab.gpu.map.kubelet import CHECKPOINT, Allocations, parse_checkpoint
from lab.gpu.nodes import on_nodes
from lab.gpu.simulated.health import failures_in
from lab.gpu.simulated.node_files import NVML_CONFIG
from lab.host.nvml import Nvml, query
from lab.session.context import LabContext

SECONDS = 15.0
"""Timeout of one node."""

_MARK = "--- kubelet"
_COMMAND = f"cat {NVML_CONFIG} 2>/dev/null; echo '{_MARK}'; cat {CHECKPOINT} 2>/dev/null; true"
_PAIR = re.compile(r"(\w+)=(\S*)")


@dataclass(frozen=True)
class QueriedDevice:
    """One GPU of a node; ``memory`` in MiB; ``index`` is NVML's."""

    uuid: str
    index: int | None = None
    model: str = ""
    memory: int | None = None
    trouble: str = ""
    """The failure that NVML reports: an XID error, or that it fell off the bus."""


@dataclass(frozen=True)
class NodeEvidence:
    """The report of one node; ``why`` is the reason of an empty one."""

    devices: tuple[QueriedDevice, ...] = ()
    allocations: Allocations = field(default_factory=Allocations)
    why: str = ""


Ask = Callable[[Sequence[str]], Mapping[str, NodeEvidence]]
"""Queries nodes by name. A node that does not answer is evidence with a reason, not an error."""


def lab_nodes(ctx: LabContext) -> Ask:
    """Return a function that queries the node containers of a lab, all at once, and no nodes of other clusters.

    It skips nodes that are no containers of the kind cluster (KWOK's). It raises Interrupted.
    """
    if ctx.spec.cluster.provider != "kind":
        return no_nodes
    nvml = query() if ctx.spec.gpu.mode == "nvidia" else Nvml()

    def read(node: str) -> NodeEvidence:
        try:
            return parse(ctx.engine.exec(node, ["sh", "-c", _COMMAND], timeout=SECONDS).out, nvml)
        except Interrupted:
            raise
        except LabError as error:
            return NodeEvidence(why=error.what)

    return lambda names: on_nodes((name for name in names if name.startswith(f"{ctx.kind_name}-")), read)


def no_nodes(names: Sequence[str]) -> Mapping[str, NodeEvidence]:
    """Return no evidence."""
    return {}


def parse(text: str, nvml: Nvml | None = None) -> NodeEvidence:
    """Read the output of a node."""
    config, _, record = text.partition(f"{_MARK}\n")
    allocations = parse_checkpoint(record)
    return NodeEvidence(_simulated(config) or _real(allocations, nvml or Nvml()), allocations)


def _simulated(config: str) -> tuple[QueriedDevice, ...]:
    """The GPUs in nvml.conf (format: kind/nvml/nvml_config.c, which skips unknown keys too)."""
    failed = failures_in(config)
    found = []
    for line in config.splitlines():
        if line.startswith("gpu "):
            words, _, model = line.partition(" name=")
            value: Mapping[str, str] = dict(_PAIR.findall(words))
            index = _whole(value.get("index"))
            trouble = str(failed[index]) if index is not None and index in failed else ""
            memory = _whole(value.get("memory"))
            found.append(QueriedDevice(value.get("uuid", ""), index, model.strip(), memory, trouble))
    return tuple(found)


def _real(allocations: Allocations, nvml: Nvml) -> tuple[QueriedDevice, ...]:
    """The GPUs that the kubelet offers, with their data from NVML of this machine."""
    known = {gpu.uuid: QueriedDevice(gpu.uuid, gpu.index, gpu.name, gpu.memory_mib) for gpu in nvml.gpus}
    found = [known.get(uuid, QueriedDevice(uuid)) for uuid in sorted(allocations.offered or ())]
    return tuple(sorted(found, key=lambda gpu: (gpu.index is None, gpu.index or 0)))


def _whole(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None

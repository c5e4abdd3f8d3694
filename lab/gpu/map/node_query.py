"""What the nodes themselves say of their GPUs: the kubelet's record and, where they are simulated, NVML's config.

Only nodes of the lab are asked, by one command in each node container. Nothing is asked of an existing cluster.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from lab.errors import Interrupted, LabError
from lab.gpu.map.kubelet import CHECKPOINT, Allocations, parse_checkpoint
from lab.gpu.nodes import on_nodes
from lab.gpu.simulated.health import failures_in
from lab.gpu.simulated.node_files import NVML_CONFIG
from lab.host.nvml import Nvml, query
from lab.session.context import LabContext
from lab.tools.container import ContainerEngine

SECONDS = 15.0
"""How long one node may take to answer."""

_MARK = "--- kubelet"
_LOOK = f"cat {NVML_CONFIG} 2>/dev/null; echo '{_MARK}'; cat {CHECKPOINT} 2>/dev/null; true"
_PAIR = re.compile(r"(\w+)=(\S*)")


@dataclass(frozen=True)
class QueriedDevice:
    """One GPU of a node; ``memory`` in MiB; ``index`` as NVML counts."""

    uuid: str
    index: int | None = None
    model: str = ""
    memory: int | None = None
    trouble: str = ""
    """What NVML says is wrong: an XID error, or that it fell off the bus."""


@dataclass(frozen=True)
class NodeEvidence:
    """What one node said; ``why`` says why it said nothing."""

    devices: tuple[QueriedDevice, ...] = ()
    allocations: Allocations = field(default_factory=Allocations)
    why: str = ""


Ask = Callable[[Sequence[str]], Mapping[str, NodeEvidence]]
"""Asks nodes by their names. Those that do not answer are evidence of that, not an error."""


def lab_nodes(ctx: LabContext) -> Ask:
    """Asks the node containers of a lab, all at once; of a cluster that the lab did not make, nobody.

    Nodes that are no containers of its kind cluster (KWOK's) are passed over.

    What it returns raises Interrupted when the run was cancelled.
    """
    if ctx.spec.cluster.provider != "kind":
        return nobody
    nvml = query() if ctx.spec.gpu.mode == "nvidia" else Nvml()

    def ask(names: Sequence[str]) -> Mapping[str, NodeEvidence]:
        containers = (name for name in names if name.startswith(f"{ctx.kind_name}-"))
        return on_nodes(containers, partial(_ask, ctx.engine, nvml))

    return ask


def nobody(names: Sequence[str]) -> Mapping[str, NodeEvidence]:
    """Asks nobody."""
    return {}


def parse(text: str, nvml: Nvml | None = None) -> NodeEvidence:
    """Read what a node printed."""
    config, _, record = text.partition(f"{_MARK}\n")
    allocations = parse_checkpoint(record)
    devices = _simulated(config) or _real(allocations, nvml or Nvml())
    return NodeEvidence(devices, allocations)


def _ask(engine: ContainerEngine, nvml: Nvml, node: str) -> NodeEvidence:
    try:
        return parse(engine.exec(node, ["sh", "-c", _LOOK], timeout=SECONDS).out, nvml)
    except Interrupted:
        raise
    except LabError as error:
        return NodeEvidence(why=error.what)


def _simulated(config: str) -> tuple[QueriedDevice, ...]:
    """The GPUs in nvml.conf (format: kind/nvml/nvml_config.c); unknown keys are skipped there too."""
    failed = failures_in(config)
    found = [_gpu(line) for line in config.splitlines() if line.startswith("gpu ")]
    return tuple(
        replace(gpu, trouble=str(failed[gpu.index])) if gpu.index is not None and gpu.index in failed else gpu
        for gpu in found
    )


def _gpu(line: str) -> QueriedDevice:
    words, _, model = line.partition(" name=")
    value: Mapping[str, str] = dict(_PAIR.findall(words))
    return QueriedDevice(value.get("uuid", ""), _whole(value.get("index")), model.strip(), _whole(value.get("memory")))


def _real(allocations: Allocations, nvml: Nvml) -> tuple[QueriedDevice, ...]:
    """The GPUs that the kubelet offers, as NVML of this machine describes them."""
    known = {gpu.uuid: gpu for gpu in nvml.gpus}
    found = [
        QueriedDevice(uuid, known[uuid].index, known[uuid].name, known[uuid].memory_mib)
        if uuid in known
        else QueriedDevice(uuid)
        for uuid in sorted(allocations.offered or ())
    ]
    return tuple(sorted(found, key=lambda gpu: (gpu.index is None, gpu.index or 0)))


def _whole(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None

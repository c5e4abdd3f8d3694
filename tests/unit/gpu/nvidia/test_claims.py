"""Assignment of real GPUs to nodes: each GPU to one node at most."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest

from lab.config import LabSpec
from lab.errors import SpecError
from lab.gpu.nvidia.claims import assign
from lab.host.nvml import GpuDevice

UUIDS = [f"GPU-00000000-0000-0000-0000-{index:012}" for index in range(8)]


def machine(count: int) -> list[GpuDevice]:
    """GPUs whose minor numbers are not their indices."""
    return [GpuDevice(index, count - 1 - index, UUIDS[index], "NVIDIA L4", 23034) for index in range(count)]


def shared(workers: int, gpus: int, **gpu: Any) -> dict[str, list[int]]:
    spec = LabSpec.model_validate({"cluster": {"workers": workers}, "gpu": {"mode": "nvidia", **gpu}})
    shares = assign(spec, machine(gpus))
    assigned = list(chain.from_iterable(shares.values()))
    assert len(assigned) == len({gpu.uuid for gpu in assigned}), "a GPU is on two nodes"
    return {node.removeprefix("kailab-demo-"): [gpu.index for gpu in held] for node, held in shares.items()}


def pool(name: str, devices: object = None, workers: int = 1) -> dict[str, object]:
    return {"name": name, "workers": workers, **({} if devices is None else {"devices": devices})}


@pytest.mark.parametrize(
    ("workers", "gpus", "shares"),
    [
        (1, 4, {"worker": [0, 1, 2, 3]}),
        (2, 4, {"worker": [0, 1], "worker2": [2, 3]}),
        (3, 4, {"worker": [0, 1], "worker2": [2], "worker3": [3]}),
        (3, 8, {"worker": [0, 1, 2], "worker2": [3, 4, 5], "worker3": [6, 7]}),
        (2, 1, {"worker": [0], "worker2": []}),
        (0, 2, {"control-plane": [0, 1]}),
    ],
)
def test_gpus_are_distributed_evenly(workers: int, gpus: int, shares: dict[str, list[int]]) -> None:
    assert shared(workers, gpus) == shares


def test_count_assigns_the_lowest_free_indices() -> None:
    assert shared(2, 5, devices=2) == {"worker": [0, 1], "worker2": [2, 3]}


def test_named_gpus_are_assigned_first_then_counts_then_all() -> None:
    pools = [pool("rest", "all"), pool("two", 2), pool("named", [3, UUIDS[0]]), pool("more", "all")]
    assert shared(4, 7, pools=pools) == {"worker": [4, 5], "worker2": [1, 2], "worker3": [0, 3], "worker4": [6]}


def test_worker_outside_pools_gets_no_gpu() -> None:
    assert shared(3, 2, pools=[pool("a", workers=2)]) == {"worker": [0], "worker2": [1]}


@pytest.mark.parametrize(
    ("gpus", "pools", "message"),
    [
        (0, [pool("a")], "NVML reports no GPU"),
        (2, [pool("a", [2])], "worker: this machine has no GPU 2"),
        (2, [pool("a", [UUIDS[7]])], f"no GPU {UUIDS[7]}"),
        (2, [pool("a", [0]), pool("b", [UUIDS[0]])], "worker2: GPU .*000 is already assigned"),
        (2, [pool("a", [0, UUIDS[0]])], "already assigned"),
        (3, [pool("a", 2, workers=2)], "worker2: 2 are requested, and 1 of 3 are left"),
    ],
)
def test_unavailable_gpus_are_refused(gpus: int, pools: list[dict[str, object]], message: str) -> None:
    with pytest.raises(SpecError, match=message) as refused:
        shared(2, gpus, pools=pools)
    assert refused.value.fix
    assert len(refused.value.evidence) == gpus

"""Real GPUs shared out to nodes: never one to two nodes."""

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
    given = list(chain.from_iterable(shares.values()))
    assert len(given) == len({gpu.uuid for gpu in given}), "a GPU is on two nodes"
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
def test_all_is_shared_out_evenly(workers: int, gpus: int, shares: dict[str, list[int]]) -> None:
    assert shared(workers, gpus) == shares


def test_a_number_takes_the_lowest_that_are_free() -> None:
    assert shared(2, 5, devices=2) == {"worker": [0, 1], "worker2": [2, 3]}


def test_named_ones_first_then_numbers_then_the_rest() -> None:
    pools = [pool("rest", "all"), pool("two", 2), pool("named", [3, UUIDS[0]]), pool("more", "all")]
    assert shared(4, 7, pools=pools) == {"worker": [4, 5], "worker2": [1, 2], "worker3": [0, 3], "worker4": [6]}


def test_a_worker_behind_the_pools_gets_nothing() -> None:
    assert shared(3, 2, pools=[pool("a", workers=2)]) == {"worker": [0], "worker2": [1]}


@pytest.mark.parametrize(
    ("gpus", "pools", "says"),
    [
        (0, [pool("a")], "NVML reports no GPU"),
        (2, [pool("a", [2])], "worker: this machine has no GPU 2"),
        (2, [pool("a", [UUIDS[7]])], f"no GPU {UUIDS[7]}"),
        (2, [pool("a", [0]), pool("b", [UUIDS[0]])], "worker2: GPU .*000 is already assigned"),
        (2, [pool("a", [0, UUIDS[0]])], "already assigned"),
        (3, [pool("a", 2, workers=2)], "worker2: 2 are requested, and 1 of 3 are left"),
    ],
)
def test_what_the_machine_cannot_give_is_refused(gpus: int, pools: list[dict[str, object]], says: str) -> None:
    with pytest.raises(SpecError, match=says) as refused:
        shared(2, gpus, pools=pools)
    assert refused.value.fix
    assert len(refused.value.evidence) == gpus

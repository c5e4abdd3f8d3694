"""The table of GPU models, and node pools with resolved values."""

from __future__ import annotations

import re

import pytest

from lab.config import LabSpec
from lab.config.gpu_models import architecture, find_model, gpu_models, model_of

SHORT = [model.short for model in gpu_models()]


def lab(workers: int = 4, **gpu: object) -> LabSpec:
    return LabSpec.model_validate({"cluster": {"workers": workers}, "gpu": gpu})


@pytest.mark.parametrize("short", SHORT)
def test_model_has_all_figures(short: str) -> None:
    model = find_model(short.lower())
    assert model is not None
    assert model is find_model(model.name.upper())
    assert re.fullmatch(r"(NVIDIA|Tesla) \S.*", model.name)
    assert 15_000 < model.memory < 200_000
    assert architecture(model.compute) == model.arch
    assert model.pci_id & 0xFFFF == model.pci_subsystem_id & 0xFFFF == 0x10DE
    assert model.device
    assert model.watts >= 70


def test_models_have_unique_names_and_ids() -> None:
    assert {"T4", "L4", "A10", "A100-40", "A100-80", "H100", "H200", "B200"} <= set(SHORT)
    for figure in ("short", "name", "pci_id", "pci_subsystem_id"):
        values = [getattr(model, figure) for model in gpu_models()]
        assert len({*values}) == len(values), figure


def test_figures_of_h100() -> None:
    h100 = find_model("H100")
    assert h100 is not None
    assert (h100.name, h100.memory, h100.compute, h100.arch) == ("NVIDIA H100 80GB HBM3", 81559, "9.0", "hopper")
    assert (h100.pci_id, h100.pci_subsystem_id) == (0x233010DE, 0x16C110DE)


@pytest.mark.parametrize(
    ("name", "compute", "arch"),
    [
        ("NVIDIA L40", "8.9", "ada"),
        ("NVIDIA A10G", "8.6", "ampere"),
        ("NVIDIA A30", "8.0", "ampere"),
        ("Tesla V100-SXM2-16GB", "7.0", "volta"),
        ("NVIDIA GB200", "10.0", "blackwell"),
        ("NVIDIA GeForce RTX 4090", "8.9", "ada"),
        ("NVIDIA RTX A6000", "8.6", "ampere"),
        ("NVIDIA RTX 6000 Ada Generation", "8.9", "ada"),
        ("Tesla P40", "6.1", "pascal"),
        ("Something else", "8.0", "ampere"),
    ],
)
def test_unknown_model_gets_the_figures_of_its_family(name: str, compute: str, arch: str) -> None:
    model = model_of(name, 12345)
    assert (model.name, model.memory, model.compute, model.arch) == (name, 12345, compute, arch)
    assert (model.short, model.device, model.pci_subsystem_id) == ("", 0, 0)


def test_lab_file_can_override_the_memory_of_a_model() -> None:
    model = model_of("t4", 8000)
    assert (model.name, model.memory, model.device) == ("Tesla T4", 8000, 0x1EB8)


def test_all_workers_are_one_pool_by_default() -> None:
    (pool,) = lab(3, model="L4", perNode=1).gpu_pools
    assert (pool.name, pool.nodes, pool.per_node, pool.model, pool.memory) == ("", 3, 1, "NVIDIA L4", 23034)
    (pool,) = LabSpec.model_validate({"cluster": {"workers": 0, "controlPlanes": 3}}).gpu_pools
    assert pool.nodes == 3
    assert lab(mode="none").gpu_pools == ()


def test_pool_inherits_missing_values_from_the_section() -> None:
    pools = lab(
        model="T4",
        memoryMiB=8000,
        perNode=3,
        devices=2,
        pools=[
            {"name": "same"},
            {"name": "alias", "model": "Tesla T4"},
            {"name": "other", "model": "L4", "perNode": 0, "devices": [1]},
            {"name": "own", "memoryMiB": 9000, "labels": {"a": "b"}},
        ],
    ).gpu_pools
    assert [(p.model, p.memory, p.per_node, p.devices) for p in pools] == [
        ("Tesla T4", 8000, 3, 2),
        ("Tesla T4", 8000, 3, 2),
        ("NVIDIA L4", 23034, 0, (1,)),
        ("Tesla T4", 9000, 3, 2),
    ]
    assert pools[3].labels == {"a": "b"}

"""Assignment of dedicated workers to tenants, and labs with KAI on the host and in tenants."""

from __future__ import annotations

import pytest

from lab.config import LabSpec, beside_host_kai, tenant_nodes, worker_names

EXISTING = {"provider": "existing", "kubeconfig": "/k", "context": "c"}
BUDGET = {"gpus": 4}


def lab(workers: int, *tenants: dict[str, object], scheduler: str = "default", **cluster: object) -> LabSpec:
    """A lab without validation: the assignment must not depend on its rules."""
    base = LabSpec.model_validate(
        {"scheduler": scheduler, "cluster": {"workers": workers, **cluster}, "budget": BUDGET}
    )
    named = [{"name": f"t{number}", "mode": "default", **tenant} for number, tenant in enumerate(tenants)]
    specs = LabSpec.model_validate({"scheduler": "default", "cluster": {"workers": 16}, "tenants": named}).tenants
    return base.model_copy(update={"tenants": specs})


def own(**more: object) -> dict[str, object]:
    return {"mode": "own-kai", "kaiVersion": "0.16.8", **more}


@pytest.mark.parametrize(("workers", "names"), [(0, ()), (1, ("worker",)), (3, ("worker", "worker2", "worker3"))])
def test_workers_have_the_names_of_kind(workers: int, names: tuple[str, ...]) -> None:
    assert worker_names(lab(workers)) == names


def test_existing_cluster_has_only_nodes_that_the_lab_file_names() -> None:
    spec = lab(2, own(), **EXISTING)
    assert (worker_names(spec), tenant_nodes(spec)) == ((), {})
    spec = lab(2, own(nodes=["worker4", "worker3"]), own(nodes=["worker9"]), **EXISTING)
    assert tenant_nodes(spec) == {"t0": ("worker4", "worker3"), "t1": ("worker9",)}


@pytest.mark.parametrize(
    ("workers", "tenants", "assigned"),
    [
        (2, [{}], {}),
        (2, [own()], {"t0": ("worker2",)}),
        (3, [own(), {}, own()], {"t0": ("worker3",), "t2": ("worker2",)}),
        (4, [own(nodes=2), own()], {"t0": ("worker3", "worker4"), "t1": ("worker2",)}),
        (3, [{"nodes": 1}], {"t0": ("worker3",)}),
        # named nodes are assigned before counts, in any order of the file
        (4, [own(nodes=2), own(nodes=["worker4"])], {"t0": ("worker2", "worker3"), "t1": ("worker4",)}),
        (12, [{"nodes": ["worker10", "worker2"]}], {"t0": ("worker2", "worker10")}),
        # validation refuses these; only existing nodes are assigned, each once
        (1, [own(), own()], {"t0": ("worker",)}),
        (0, [own()], {}),
        (2, [own(nodes=["worker2", "worker9"])], {"t0": ("worker2",)}),
    ],
)
def test_nodes_are_assigned(
    workers: int, tenants: list[dict[str, object]], assigned: dict[str, tuple[str, ...]]
) -> None:
    assert tenant_nodes(lab(workers, *tenants)) == assigned


def test_order_follows_the_lab_file() -> None:
    spec = lab(4, own(), own(nodes=["worker4"]), own())
    assert list(tenant_nodes(spec)) == ["t0", "t1", "t2"]


@pytest.mark.parametrize(
    ("scheduler", "tenants", "beside"),
    [
        ("kai", [own()], True),
        ("auto", [{}, own()], True),
        ("default", [own()], False),
        ("kai", [{"mode": "host-kai"}, {}], False),
        ("kai", [], False),
    ],
)
def test_own_kai_tenants_run_beside_host_kai(scheduler: str, tenants: list[dict[str, object]], beside: bool) -> None:
    for tenant in tenants:
        tenant.pop("mode") if tenant.get("mode") == "host-kai" else None
    assert beside_host_kai(lab(3, *tenants, scheduler=scheduler)) is beside

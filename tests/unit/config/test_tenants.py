"""Tenants in the lab file: valid values and combinations. config_cases/ has the invalid ones."""

from __future__ import annotations

import jsonschema
import pytest

from lab.config import LabSpec, TenantSpec, dump_spec, load_dumped, load_profile, schema
from lab.errors import SpecError
from lab.kai import line_of

THREE = {"workers": 3}
EXISTING = {
    "cluster": {"provider": "existing", "kubeconfig": "/k", "context": "c"},
    "gpu": {"mode": "present"},
    "budget": {"gpus": 4},
}


def lab(*tenants: dict[str, object], **sections: object) -> LabSpec:
    return LabSpec.model_validate({"cluster": THREE, "gpu": {"mode": "simulated"}, "tenants": tenants, **sections})


def own(name: str = "own", **more: object) -> dict[str, object]:
    return {"name": name, "mode": "own-kai", "kaiVersion": "0.16.8", **more}


def test_tenant_defaults() -> None:
    plain = TenantSpec(name="a")
    assert (plain.mode, plain.vcluster, plain.kubernetes) == ("host-kai", "0.36.1", "1.34.4")
    assert (plain.kai_version, plain.kai_values, plain.gpu_sharing, plain.queues) == (None, {}, True, ())
    assert (plain.nodes, plain.values) == (None, {})
    assert set(plain.quota.model_dump().values()) == {None}


FULL = own(
    kaiValues={"global": {"clusterAutoscaling": True}},
    gpuSharing=False,
    queues=[{"name": "top"}, {"name": "leaf", "parent": "top", "gpu": {"quota": 1}}],
    nodes=["worker2", "worker"],
    quota={"gpus": 4, "cpu": 8, "memory": "16Gi", "pods": 20},
    values={"sync": {}},
)


def test_every_value_is_read_and_dumped() -> None:
    spec = lab(FULL)
    tenant = spec.tenants[0]
    assert (tenant.nodes, tenant.gpu_sharing) == (("worker2", "worker"), False)
    assert (tenant.quota.gpus, tenant.quota.cpu, tenant.quota.memory, tenant.quota.pods) == (4, "8", "16Gi", 20)
    assert [queue.name for queue in tenant.queues] == ["top", "leaf"]
    assert load_dumped(dump_spec(spec)) == spec


@pytest.mark.parametrize("cpu", [4, "4", "500m", "0.5", "2k", "16Gi"])
def test_quantity_is_accepted(cpu: object) -> None:
    tenant = {"name": "a", "mode": "default", "quota": {"cpu": cpu}}
    assert lab(tenant).tenants[0].quota.cpu == str(cpu)
    jsonschema.validate({"tenants": [tenant]}, schema())


@pytest.mark.parametrize("cpu", [-1, 1.5, True, "", "4 cores", "1GiB"])
def test_invalid_quantity_is_refused(cpu: object) -> None:
    tenant = {"name": "a", "mode": "default", "quota": {"cpu": cpu}}
    with pytest.raises(ValueError, match="must be a quantity such as 4, 500m or 16Gi"):
        lab(tenant)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"tenants": [tenant]}, schema())


@pytest.mark.parametrize("nodes", [1, ["worker"], ["worker2", "worker3"]])
def test_nodes_are_accepted(nodes: object) -> None:
    tenant = own(nodes=nodes)
    assert lab(tenant, scheduler="default").tenants[0].nodes == (tuple(nodes) if isinstance(nodes, list) else nodes)
    jsonschema.validate({"tenants": [tenant]}, schema())


@pytest.mark.parametrize("nodes", [0, -1, True, "worker", [], [1], ["worker", "worker"], [""]])
def test_invalid_nodes_are_refused(nodes: object) -> None:
    with pytest.raises(ValueError, match=r"must be a number of workers, or a list|must not name a node twice"):
        lab(own(nodes=nodes), scheduler="default")


@pytest.mark.parametrize(
    ("tenants", "sections"),
    [
        # tenants may use every worker if the host has no KAI
        ([own("a"), own("b"), own("c")], {"scheduler": "default"}),
        ([own(nodes=["worker", "worker2", "worker3"])], {"scheduler": "default"}),
        ([own(nodes=2)], {"scheduler": "kai"}),
        ([own(nodes=["worker", "worker2"])], {"scheduler": "kai"}),
        ([own()], {"kai": {"version": "0.16.3"}}),
        ([own()], {"kai": {"version": "0.17.0"}}),
        ([own(kaiVersion="0.9.3", kubernetes="1.33.13")], {}),
        ([own(quota={"gpus": 2})], {}),
        ([own(nodes=2, quota={"gpus": 4})], {}),
        ([{"name": "a", "quota": {"gpus": 6}}], {}),
        ([{"name": "a", "quota": {"gpus": 99}}], {"gpu": {"mode": "nvidia"}}),
        # host-kai tenants may have dedicated nodes if no tenant has its own KAI
        ([{"name": "a", "nodes": 1}], {"scheduler": "kai"}),
        # other modes may have options of own-kai at their defaults
        ([{"name": "a", "kaiValues": {}, "gpuSharing": True, "queues": []}], {}),
        ([own(nodes=["gpu-1.example.com"], quota={"gpus": 1})], {**EXISTING, "scheduler": "default"}),
        ([own(nodes=["gpu-1"], quota={"gpus": 1})], EXISTING),
        ([{"name": "a", "quota": {"gpus": 2}}, {"name": "b", "quota": {"gpus": 2}}], EXISTING),
        ([{"name": "a"}], {**EXISTING, "gpu": {"mode": "none"}}),
    ],
)
def test_combination_is_valid(tenants: list[dict[str, object]], sections: dict[str, object]) -> None:
    assert [tenant.name for tenant in lab(*tenants, **sections).tenants] == [tenant["name"] for tenant in tenants]


@pytest.mark.parametrize(
    ("workers", "tenants", "message"),
    [
        (0, [own()], "mode 'own-kai' needs 1 dedicated worker, but 0 of 0 workers are free"),
        (2, [own(), own("b"), own("c")], "mode 'own-kai' needs 1 dedicated worker, but 0 of 2 workers are free"),
        (3, [own(nodes=4)], "needs 4 dedicated workers, but 3 of 3 workers are free"),
        (3, [own(nodes=["worker"]), own("b", nodes=3)], "needs 3 dedicated workers, but 2 of 3 workers are free"),
    ],
)
def test_too_few_workers_are_refused(workers: int, tenants: list[dict[str, object]], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        lab(*tenants, scheduler="default", cluster={"workers": workers})
    assert str(caught.value).startswith("1 validation error")


@pytest.mark.parametrize("version", ["0.9.8", "0.12.23", "0.14.7", "0.16.2"])
def test_own_kai_beside_a_host_kai_without_node_pools_is_refused(version: str) -> None:
    assert line_of(version).helm.node_pool_key == ""
    queues = [{"name": "default"}, {"name": "test", "parent": "default"}]
    with pytest.raises(ValueError, match=r"tenants.0.mode\n +own-kai beside KAI .* set kai.version to 0.16.3 or newer"):
        lab(own(), kai={"version": version}, queues=queues)


def test_gpu_quota_is_limited_by_the_pools() -> None:
    pools = [{"name": "few", "workers": 2, "perNode": 1}, {"name": "many", "perNode": 8}]
    spec = lab(own(quota={"gpus": 8}), gpu={"mode": "simulated", "pools": pools})
    assert spec.tenants[0].quota.gpus == 8
    with pytest.raises(ValueError, match="9 is more than worker3 has: 8"):
        lab(own(quota={"gpus": 9}), gpu={"mode": "simulated", "pools": pools})
    with pytest.raises(ValueError, match="1 is more than the nodes have: 0"):
        lab({"name": "a", "quota": {"gpus": 1}}, gpu={"mode": "none"})


@pytest.mark.parametrize(
    ("tenants", "sections", "warnings"),
    [
        (
            [own(quota={"gpus": 3})],
            {"gpu": {"mode": "auto"}},
            ("tenants.0.quota.gpus: 3 is more than worker3 has: 2, if they are simulated",),
        ),
        (
            [
                own(
                    queues=[
                        {"name": "top", "gpu": {"quota": 1}},
                        {"name": "low", "parent": "top", "gpu": {"quota": 2}},
                        {"name": "cpu", "parent": "top", "gpu": {"quota": 0}},
                    ]
                )
            ],
            {},
            ("tenants.0.queues: 'top' has a gpu quota of 1, its children together 2",),
        ),
        ([own(kaiVersion="0.16.9")], {"scheduler": "default"}, (f"tenants.0.kaiVersion: {line_of('0.16.9').warning}",)),
        ([own()], {}, ()),
    ],
)
def test_combination_has_warnings(
    tenants: list[dict[str, object]], sections: dict[str, object], warnings: tuple[str, ...]
) -> None:
    assert lab(*tenants, **sections).warnings() == warnings


def test_overrides_apply_to_tenants() -> None:
    settings = [
        "tenants.team-own.nodes=[worker2]",
        "tenants.team-own.quota.gpus=2",
        "tenants.team-own.queues=[{name: a}]",
    ]
    tenant = load_profile("tenants", settings, {}).tenants[1]
    assert (tenant.nodes, tenant.quota.gpus, [queue.name for queue in tenant.queues]) == (("worker2",), 2, ["a"])
    with pytest.raises(SpecError, match="unknown worker 'worker4'"):
        load_profile("tenants", ["tenants.team-own.nodes=[worker4]"], {})

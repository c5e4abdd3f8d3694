"""What the lab file leaves open about an existing cluster."""

from __future__ import annotations

from typing import Any

import pytest

from lab.config import LabSpec
from lab.errors import ApiFailed, SpecError
from lab.operations.existing import resolve_existing
from lab.steps.kai.step import NAMESPACE
from tests.support.builders import node
from tests.support.fake_api_server import FakeApiServer
from tests.support.kai_install import add_kai_of_others
from tests.support.specs import BUDGET, EXISTING, lab_spec

L4 = {"nvidia.com/gpu.product": "NVIDIA-L4"}


def spec(**sections: Any) -> LabSpec:
    return LabSpec.model_validate({"cluster": EXISTING, "budget": BUDGET, **sections})


def resolved(api: FakeApiServer, **sections: Any) -> LabSpec:
    return resolve_existing(spec(**sections), api.cluster)[0]


@pytest.fixture
def api() -> FakeApiServer:
    return FakeApiServer(node("a", gpus=2, labels=L4), node("b"))


def test_gpus_and_versions_come_from_the_cluster(api: FakeApiServer) -> None:
    api.version = "v1.31.4-eks-aeac579"
    found, facts = resolve_existing(spec(), api.cluster)
    assert (found.gpu.mode, found.gpu.runtime_class, found.cluster.kubernetes) == ("present", None, "1.31.4")
    assert facts == {"context": "c", "server": api.server, "nodes": "2", "gpus": "1 node × 2 NVIDIA L4"}
    assert [queue.name for queue in found.queues] == ["demo", "demo-default"]
    assert api.log == []


@pytest.mark.parametrize("version", ["v1.31.4", "v1.31.4+k3s1", "v1.31.4-gke.1022000"])
def test_build_of_kubernetes_does_not_matter(api: FakeApiServer, version: str) -> None:
    api.version = version
    assert resolved(api).cluster.kubernetes == "1.31.4"


def test_cluster_without_gpus_has_mode_none(api: FakeApiServer) -> None:
    api.add(node("a", gpus=0))
    found, facts = resolve_existing(spec(), api.cluster)
    assert found.gpu.mode == "none"
    assert "gpus" not in facts
    assert resolved(api, gpu={"mode": "present"}).gpu.mode == "present", "the step reports that none is there"


def test_runtime_class_is_the_files_or_nvidias(api: FakeApiServer) -> None:
    api.put("RuntimeClass", "nvidia")
    assert resolved(api).gpu.runtime_class == "nvidia"
    assert resolved(api, gpu={"runtimeClass": "theirs"}).gpu.runtime_class == "theirs"
    assert resolved(api, gpu={"mode": "none"}).gpu.runtime_class is None


def test_adopted_kai_has_the_version_that_runs(api: FakeApiServer) -> None:
    add_kai_of_others(api, "0.14.2")
    found = resolved(api, kai={"manage": "adopt", "version": "0.16.8"})
    assert (found.kai.version, found.kai.manage) == ("0.14.2", "adopt")


def test_kai_that_does_not_exist_is_not_adopted(api: FakeApiServer) -> None:
    with pytest.raises(SpecError, match="'adopt', but the cluster has no KAI") as refused:
        resolved(api, kai={"manage": "adopt"})
    assert "kai.manage: install" in refused.value.fix


def test_kai_of_an_unknown_version_is_not_adopted(api: FakeApiServer) -> None:
    add_kai_of_others(api, "0.14.2")
    for deployment in api.of_kind("Deployment"):
        for container in deployment["spec"]["template"]["spec"]["containers"]:
            container["image"] = "registry.kailab.dev/kai@sha256:0"
    with pytest.raises(SpecError, match="the version of the KAI in namespace kai-scheduler is unknown"):
        resolved(api, kai={"manage": "adopt"})


def test_second_kai_is_not_installed(api: FakeApiServer) -> None:
    add_kai_of_others(api, "0.14.2")
    with pytest.raises(SpecError) as refused:
        resolved(api)
    assert refused.value.what == (
        "the cluster has KAI 0.14.2 in namespace kai-scheduler, which belongs to Helm release kai-scheduler/theirs"
    )
    assert refused.value.fix == "set kai.manage: adopt to use it as it is"


def test_kai_of_the_lab_is_installed_again(api: FakeApiServer) -> None:
    add_kai_of_others(api, "0.14.2")
    api.put("Namespace", NAMESPACE, metadata={"labels": {"kailab": "demo"}})
    assert resolved(api).kai.version == "0.16.8"


@pytest.mark.parametrize("sections", [{"scheduler": "default"}, {"kai": {"manage": "none"}}])
def test_kai_is_not_looked_for_without_need(api: FakeApiServer, sections: dict[str, Any]) -> None:
    add_kai_of_others(api, "0.14.2")
    found = resolved(api, **sections)
    assert (found.kai, found.queues) == (spec(**sections).kai, ())
    assert api.calls_of("list", "Deployment") == []


def test_kai_that_does_not_run_on_the_clusters_kubernetes_is_refused(api: FakeApiServer) -> None:
    with pytest.raises(SpecError, match=r"kai\.version: .*0\.9\.3"):
        resolved(api, kai={"version": "0.9.3"})
    api.version = "v1.33.4"
    assert resolved(api, kai={"version": "0.9.3"}).kai.version == "0.9.3"


def test_old_kai_has_two_levels_of_queues_with_the_budgets(api: FakeApiServer) -> None:
    add_kai_of_others(api, "0.9.8")
    adopt = {"manage": "adopt"}
    assert len(resolved(api, kai=adopt).queues) == 2
    assert len(resolved(api, kai=adopt, queues=[{"name": "a"}, {"name": "b"}]).queues) == 3
    with pytest.raises(
        SpecError, match=r"queues: 'test' is on level 3, but KAI 0\.9\.8 supports exactly two"
    ) as refused:
        resolved(api, kai=adopt, queues=lab_spec().model_dump()["queues"])
    assert refused.value.fix == "give no queue of the lab file a parent"


def test_refusal_of_the_cluster_is_an_error(api: FakeApiServer) -> None:
    api.fail("list", "Node", (403, "nodes is forbidden"))
    with pytest.raises(ApiFailed, match="forbidden"):
        resolved(api)

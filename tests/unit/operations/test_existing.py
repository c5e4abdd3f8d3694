"""What the lab file leaves open about an existing cluster."""

from __future__ import annotations

from typing import Any

import pytest

from lab.config import LabSpec
from lab.errors import ApiFailed, SpecError
from lab.operations.existing import resolve_existing
from lab.session.lab import KAI_SERVES
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
    found, facts, _ = resolve_existing(spec(), api.cluster)
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
    found, facts, _ = resolve_existing(spec(), api.cluster)
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


ADOPT = {"manage": "adopt"}
ON = {"admission": ("--gpu-sharing-enabled=true",)}


def test_adopted_kai_with_all_settings_is_used_as_it_is(api: FakeApiServer) -> None:
    api.put("RuntimeClass", "nvidia")
    add_kai_of_others(api, "0.16.8", args=ON)
    found, facts, notices = resolve_existing(spec(kai=ADOPT), api.cluster)
    assert (found.kai.gpu_sharing, notices) == (True, ())
    assert KAI_SERVES not in facts


def test_setting_that_an_adopted_kai_lacks_is_named_with_the_command(api: FakeApiServer) -> None:
    api.put("RuntimeClass", "nvidia")
    add_kai_of_others(api, "0.16.8")
    found, _, (notice,) = resolve_existing(spec(kai=ADOPT), api.cluster)
    assert not found.kai.gpu_sharing, "lint and the image of simulated GPUs follow the KAI that runs"
    assert notice == (
        "the KAI in namespace kai-scheduler refuses pods with a part of a GPU; kai.gpuSharing is true. Its owner can"
        " run: helm upgrade theirs oci://ghcr.io/kai-scheduler/kai-scheduler/kai-scheduler --version v0.16.8"
        " -n kai-scheduler --reuse-values --set global.gpuSharing=true"
    )
    assert resolve_existing(spec(kai={**ADOPT, "gpuSharing": False}), api.cluster)[2] == ()
    api.put("Config", "kai-config", spec={"admission": {"gpuSharing": True}})
    assert resolve_existing(spec(kai=ADOPT), api.cluster)[2] == ()


@pytest.mark.parametrize(
    ("version", "options", "advice"),
    [
        ("0.16.8", (), "--reuse-values --set admission.gpuFractionRuntimeClassName="),
        ("0.16.8", ("--gpu-fraction-runtime-class-name=theirs",), "RuntimeClass theirs"),
        ("0.12.23", (), "Its owner can create it"),  # an empty name becomes nvidia again
        ("0.16.8", ("--gpu-fraction-runtime-class-name", ""), ""),
    ],
)
def test_runtime_class_that_the_cluster_lacks(
    api: FakeApiServer, version: str, options: tuple[str, ...], advice: str
) -> None:
    add_kai_of_others(api, version, args={"admission": (*ON["admission"], *options)})
    notices = resolve_existing(spec(kai=ADOPT), api.cluster)[2]
    assert [advice in notice for notice in notices] == ([True] if advice else [])


def test_kai_without_a_release_is_for_its_owner_to_change(api: FakeApiServer) -> None:
    add_kai_of_others(api, "0.16.8")
    for one in api.of_kind("Deployment"):
        one["metadata"].pop("annotations")
    (notice,) = resolve_existing(spec(kai=ADOPT), api.cluster)[2]
    assert notice.endswith("Its owner can set global.gpuSharing=true")


def test_kai_that_serves_labelled_namespaces_or_other_names(api: FakeApiServer) -> None:
    grouper = ("--namespace-label-selector=team=ml,kai=on", "--queue-label-key=runai/queue")
    args = {"pod-grouper": grouper, "kai-scheduler-default": ("--scheduler-name=theirs",), **ON}
    api.put("RuntimeClass", "nvidia")
    add_kai_of_others(api, "0.16.8", args=args)
    _, facts, notices = resolve_existing(spec(kai=ADOPT), api.cluster)
    assert facts[KAI_SERVES] == "team=ml,kai=on"
    labels, name, queue = notices
    assert "kubectl label namespace NAME team=ml kai=on" in labels
    assert "schedulerName theirs, and the lab's pods have kai-scheduler" in name
    assert "label runai/queue, and the lab's pods have kai.scheduler/queue" in queue


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

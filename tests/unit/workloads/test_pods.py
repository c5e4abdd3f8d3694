"""The pod manifests, and the changes by their builders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from lab.errors import LabError
from lab.objects.views import PodView
from lab.paths import assets
from lab.workloads.pods import IMAGE, cpu_pod, fraction_pod, gpu_memory_pod, gpu_pod

MANIFESTS = [
    path
    for path in sorted((assets("manifests") / "workloads").glob("*.yaml"))
    if yaml.safe_load(path.read_text())["kind"] == "Pod"
]
BUILDERS: list[Callable[..., dict[str, Any]]] = [cpu_pod, gpu_pod, fraction_pod, gpu_memory_pod]

# All keys from which KAI 0.7.11 to 0.17.0 reads requests (pkg/common/constants/constants.go).
# KAI schedules a pod with any other key as if it requested nothing.
KAI_ANNOTATIONS = {"gpu-fraction", "gpu-memory", "gpu-fraction-num-devices", "gpu-fraction-container-name"}


def test_each_kind_of_request_has_a_manifest() -> None:
    assert {path.stem for path in MANIFESTS} == {"cpu", "fraction", "gpu", "gpu-memory"}


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_manifest_has_only_keys_that_kai_reads(path: Any) -> None:
    pod = yaml.safe_load(path.read_text())
    assert pod["metadata"]["labels"] == {"kai.scheduler/queue": "test"}
    assert set(pod["metadata"].get("annotations", {})) <= KAI_ANNOTATIONS
    assert pod["spec"]["schedulerName"] == "kai-scheduler"


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_manifest_needs_no_registry_and_exits_on_sigterm(path: Any) -> None:
    (container,) = yaml.safe_load(path.read_text())["spec"]["containers"]
    assert container["image"] == IMAGE
    assert container["imagePullPolicy"] == "IfNotPresent"
    assert "trap" in container["command"][-1]
    assert "TERM" in container["command"][-1]


@pytest.mark.parametrize("build", BUILDERS)
def test_builders_set_name_namespace_and_queue(build: Callable[..., dict[str, Any]]) -> None:
    view = PodView.of(build("mine", namespace="team", queue="leaf"))
    assert (view.name, view.namespace, view.queue) == ("mine", "team", "leaf")
    assert view.scheduler_name == "kai-scheduler"
    bare = build("mine", queue=None)
    assert "namespace" not in bare["metadata"]
    assert PodView.of(bare).queue == ""


@pytest.mark.parametrize("build", [cpu_pod, gpu_pod])
def test_pod_of_the_default_scheduler_has_no_scheduler_name_or_queue(build: Callable[..., dict[str, Any]]) -> None:
    pod = build("plain", scheduler=None, queue="leaf")
    assert "schedulerName" not in pod["spec"]
    assert pod["metadata"]["labels"] == {}


def test_whole_gpus_have_equal_requests_and_limits() -> None:
    pod = gpu_pod("two", gpus=2)
    resources = pod["spec"]["containers"][0]["resources"]
    assert resources["requests"] == resources["limits"] == {"nvidia.com/gpu": 2}
    assert PodView.of(pod).runtime_class == "nvidia"


@pytest.mark.parametrize(("fraction", "text"), [(0.5, "0.5"), (0.25, "0.25"), (1 / 3, None), (0.00001, "0.00001")])
def test_fraction_is_written_as_a_decimal(fraction: float, text: str | None) -> None:
    pod = fraction_pod("part", fraction=fraction)
    written = pod["metadata"]["annotations"]["gpu-fraction"]
    assert "e" not in written
    assert float(written) == fraction
    assert text in (None, written)
    assert PodView.of(pod).requests.gpus == 0


def test_fraction_of_several_gpus_has_a_device_count() -> None:
    one, two = fraction_pod("one"), fraction_pod("two", devices=2)
    assert two["metadata"]["annotations"]["gpu-fraction-num-devices"] == "2"
    assert "gpu-fraction-num-devices" not in one["metadata"]["annotations"]


def test_gpu_memory_is_requested_in_mib() -> None:
    view = PodView.of(gpu_memory_pod("part", mib=4096))
    assert (view.requests.gpu_memory, view.requests.fraction) == (4096, None)


@pytest.mark.parametrize(
    "build",
    [
        lambda: fraction_pod("p", fraction=1),
        lambda: fraction_pod("p", fraction=0),
        lambda: fraction_pod("p", devices=0),
        lambda: gpu_pod("p", gpus=0),
        lambda: gpu_memory_pod("p", mib=0),
    ],
)
def test_impossible_requests_are_refused(build: Callable[[], object]) -> None:
    with pytest.raises(LabError, match=r"^pod p requests ") as caught:
        build()
    assert caught.value.fix


def test_builders_do_not_share_their_documents() -> None:
    first = cpu_pod("a")
    first["metadata"]["labels"]["kai.scheduler/queue"] = "changed"
    assert cpu_pod("b")["metadata"]["labels"]["kai.scheduler/queue"] == "test"

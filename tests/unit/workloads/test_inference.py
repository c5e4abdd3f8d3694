"""Inference servers: the choice of the server, and its manifests."""

from __future__ import annotations

import pytest
import yaml

from lab.config import InferenceSpec
from lab.errors import LabError
from lab.objects.views import PodView
from lab.paths import assets
from lab.workloads.inference import MODEL, InferenceServer, inference
from lab.workloads.pods import IMAGE

VLLM = InferenceSpec(
    image="vllm/vllm-openai:v0.11.0",
    args=("--model={model}", "--gpu-memory-utilization", "{fraction}"),
    model="Qwen/Qwen2.5-0.5B-Instruct",
)


def test_real_gpus_run_the_server_of_the_lab_file() -> None:
    server = InferenceServer.of(VLLM, "nvidia")
    assert (server.image, server.stand_in, server.model) == (VLLM.image, False, VLLM.model)
    assert server.arguments("0.7") == ["--model=Qwen/Qwen2.5-0.5B-Instruct", "--gpu-memory-utilization", "0.7"]


@pytest.mark.parametrize(
    ("spec", "mode", "model"),
    [(VLLM, "simulated", VLLM.model), (InferenceSpec(), "nvidia", MODEL), (InferenceSpec(), "simulated", MODEL)],
)
def test_other_labs_run_the_stand_in(spec: InferenceSpec, mode: str, model: str) -> None:
    server = InferenceServer.of(spec, mode)
    assert (server.image, server.stand_in, server.model) == (IMAGE, True, model)
    assert server.arguments("0.2")[:2] == ["serve", model]


def test_service_selects_the_deployment() -> None:
    server = InferenceServer.of(VLLM, "nvidia")
    deployment, service = inference("vllm-test-07", server, fraction=0.7, queue="leaf")
    assert deployment["metadata"]["name"] == service["metadata"]["name"] == "vllm-test-07"
    template = deployment["spec"]["template"]
    assert deployment["spec"]["selector"]["matchLabels"] == service["spec"]["selector"] == {"app": "vllm-test-07"}
    view = PodView.of(template)
    assert (view.labels["app"], view.queue, view.requests.fraction) == ("vllm-test-07", "leaf", 0.7)
    assert "priorityClassName" not in view.labels  # KAI gives Deployments priority inference, which the suites test
    (container,) = template["spec"]["containers"]
    assert (container["image"], container["args"]) == (server.image, server.arguments("0.7"))
    (port,) = service["spec"]["ports"]
    assert (port["port"], port["targetPort"]) == (80, container["ports"][0]["name"])


@pytest.mark.parametrize("mode", ["simulated", "nvidia"])
def test_startup_probe_and_deadline_allow_the_start_time(mode: str) -> None:
    server = InferenceServer.of(VLLM, mode)
    deployment, _ = inference("a", server, fraction=0.5, queue="leaf")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    probe = container["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] == server.seconds
    assert deployment["spec"]["progressDeadlineSeconds"] == server.seconds


@pytest.mark.parametrize("fraction", [0, 1, -0.5, 2])
def test_impossible_fractions_are_refused(fraction: float) -> None:
    with pytest.raises(LabError, match=r"inference server a requests .* of a GPU"):
        inference("a", InferenceServer.of(InferenceSpec(), "simulated"), fraction=fraction, queue="leaf")


def test_fraction_is_written_as_a_decimal() -> None:
    deployment, _ = inference("a", InferenceServer.of(InferenceSpec(), "simulated"), fraction=0.00001, queue="leaf")
    assert deployment["spec"]["template"]["metadata"]["annotations"]["gpu-fraction"] == "0.00001"


def test_manifests_can_be_applied_unchanged() -> None:
    folder = assets("manifests") / "workloads"
    deployment = yaml.safe_load((folder / "inference.yaml").read_text())
    service = yaml.safe_load((folder / "inference-service.yaml").read_text())
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert deployment["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert service["spec"]["selector"].items() <= labels.items()
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert (container["image"], container["imagePullPolicy"]) == (IMAGE, "IfNotPresent")
    assert labels["kai.scheduler/queue"] == "test"


def test_builders_do_not_share_their_documents() -> None:
    server = InferenceServer.of(InferenceSpec(), "simulated")
    first, _ = inference("a", server, fraction=0.5, queue="leaf")
    first["spec"]["template"]["metadata"]["labels"]["app"] = "changed"
    second, _ = inference("b", server, fraction=0.5, queue="leaf")
    assert second["spec"]["template"]["metadata"]["labels"]["app"] == "b"

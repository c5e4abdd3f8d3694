"""Inference servers on fractions of a GPU: a Deployment and a Service each; vLLM on real GPUs, else a stand-in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lab.config import InferenceSpec
from lab.kai.names import FRACTION_ANNOTATION, QUEUE_LABEL
from lab.kube.proxy import Proxy
from lab.workloads.controllers import APP_LABEL
from lab.workloads.namespace import WorkloadNamespace
from lab.workloads.pods import IMAGE, gpu_share, manifest

PORT = 80  # port of the Services; the servers listen on 8000, like vLLM

MODEL = "Qwen/Qwen2.5-1.5B-Instruct"  # default model. The stand-in only repeats its name

STAND_IN_SECONDS = 150.0  # time until the stand-in is ready on a busy machine; it starts in milliseconds

REAL_SECONDS = 1500.0  # time until a real server is ready: image pull, model download and load

Json = dict[str, Any]


@dataclass(frozen=True)
class InferenceServer:
    """A server's container."""

    image: str
    args: tuple[str, ...]  # arguments with the placeholders ``{model}`` and ``{fraction}``
    model: str  # model named in requests
    stand_in: bool  # whether it is the probe, which needs no CUDA and echoes requests
    seconds: float  # limit for its start

    @classmethod
    def of(cls, spec: InferenceSpec, gpu_mode: str) -> InferenceServer:
        """The server of a lab file: its image on real GPUs (mode ``nvidia``), otherwise the stand-in."""
        model = spec.model or MODEL
        if gpu_mode == "nvidia" and spec.image:
            return cls(spec.image, spec.args, model, stand_in=False, seconds=REAL_SECONDS)
        # the stand-in logs vLLM's option and ignores it
        args = ("serve", "{model}", "--gpu-memory-utilization={fraction}")
        return cls(IMAGE, args, model, stand_in=True, seconds=STAND_IN_SECONDS)

    def arguments(self, fraction: str) -> list[str]:
        return [arg.replace("{model}", self.model).replace("{fraction}", fraction) for arg in self.args]


def inference(name: str, server: InferenceServer, *, fraction: float, queue: str) -> tuple[Json, Json]:
    """A Deployment of a server on a fraction (0 to 1) of a GPU, and its Service, both called ``name``.

    The quota of ``queue`` must suffice, as such workloads never exceed it. Raises LabError for an invalid fraction.
    """
    share = gpu_share(f"inference server {name}", fraction)
    deployment, service = manifest("inference"), manifest("inference-service")
    template = deployment["spec"]["template"]
    for meta in (deployment["metadata"], service["metadata"]):
        meta["name"] = name
    for labels in (
        deployment["metadata"]["labels"],
        deployment["spec"]["selector"]["matchLabels"],
        template["metadata"]["labels"],
        service["spec"]["selector"],
    ):
        labels[APP_LABEL] = name
    template["metadata"]["labels"][QUEUE_LABEL] = queue
    template["metadata"]["annotations"][FRACTION_ANNOTATION] = share
    (container,) = template["spec"]["containers"]
    container |= {"image": server.image, "args": server.arguments(share)}
    probe = container["startupProbe"]
    probe["failureThreshold"] = int(server.seconds / probe["periodSeconds"])
    deployment["spec"]["progressDeadlineSeconds"] = int(server.seconds)
    return deployment, service


def service(place: WorkloadNamespace, name: str) -> Proxy:
    """Access to an inference server's Service through the API server."""
    return Proxy(place.cluster, "Service", place.namespace, name, PORT)

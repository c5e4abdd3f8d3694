"""Inference servers on parts of a GPU: a Deployment and a Service each; vLLM on real GPUs, else the lab's stand-in."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from lab.config import InferenceSpec
from lab.errors import LabError
from lab.kai.names import FRACTION_ANNOTATION, QUEUE_LABEL
from lab.kube.proxy import Proxy
from lab.paths import assets
from lab.workloads.controllers import APP_LABEL
from lab.workloads.namespace import WorkloadNamespace
from lab.workloads.pods import IMAGE

PORT = 80
"""Of the Services; the servers listen on 8000, as vLLM does."""

MODEL = "Qwen/Qwen2.5-1.5B-Instruct"
"""The model that is asked for where the lab file names none. The stand-in only repeats its name."""

STAND_IN_SECONDS = 150.0
"""Until the stand-in is ready, on a busy machine; it starts in milliseconds."""

REAL_SECONDS = 1500.0
"""Until a real server is ready: its image is pulled, its model downloaded and loaded."""

Json = dict[str, Any]


@dataclass(frozen=True)
class InferenceServer:
    """What runs in the Deployments.

    Attributes:
        image: its image.
        args: arguments; in each ``{model}`` and ``{fraction}`` stand for the model and the part of the GPU.
        model: the name it is asked by.
        stand_in: whether it is the probe, which needs no CUDA and repeats what it is asked.
        seconds: how long its start may take.
    """

    image: str
    args: tuple[str, ...]
    model: str
    stand_in: bool
    seconds: float

    @classmethod
    def of(cls, spec: InferenceSpec, gpu_mode: str) -> InferenceServer:
        """The server of a lab file: its image where the GPUs are real (mode ``nvidia``), otherwise the stand-in."""
        model = spec.model or MODEL
        if gpu_mode == "nvidia" and spec.image:
            return cls(spec.image, spec.args, model, stand_in=False, seconds=REAL_SECONDS)
        # vLLM's option stays in sight; the stand-in names it in its log and does nothing with it.
        args = ("serve", "{model}", "--gpu-memory-utilization={fraction}")
        return cls(IMAGE, args, model, stand_in=True, seconds=STAND_IN_SECONDS)

    def arguments(self, fraction: str) -> list[str]:
        return [arg.replace("{model}", self.model).replace("{fraction}", fraction) for arg in self.args]


def inference(name: str, server: InferenceServer, *, fraction: float, queue: str) -> tuple[Json, Json]:
    """A Deployment of one server on a part of a GPU, and the Service in front of it; both have that name.

    Args:
        name: of both, and the value of the pods' label ``app``.
        server: what runs.
        fraction: share of one GPU, above 0 and below 1.
        queue: KAI queue; its quota must have room, as such workloads never go over it.

    Raises:
        LabError: the fraction is out of range.
    """
    if not 0 < fraction < 1:
        raise LabError(
            f"inference server {name}: {fraction:g} is no fraction of a GPU", fix="choose a value above 0 and below 1"
        )
    share = f"{Decimal(str(fraction)):f}"
    deployment, service = _manifest("inference"), _manifest("inference-service")
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
    """The Service of an inference server in a place, through the API server."""
    return Proxy(place.cluster, "Service", place.namespace, name, PORT)


def _manifest(name: str) -> Json:
    import yaml

    doc: Json = yaml.safe_load((assets("manifests") / "workloads" / f"{name}.yaml").read_text())
    return doc

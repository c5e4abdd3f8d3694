"""``kailab try``: two pods that share a GPU, and a third that has to wait."""

from __future__ import annotations

from dataclasses import dataclass

from lab.explain import Explanation, explained
from lab.gpu.map.model import GpuMap
from lab.gpu.map.watch import GpuSource
from lab.kube import OWNER_LABEL
from lab.objects.views import PodView
from lab.operations.explain import read
from lab.session.lab import Lab
from lab.workloads.namespace import WorkloadNamespace
from lab.workloads.pods import fraction_pod

PROFILE = "minimal"
"""One node with one GPU: two halves fill it."""

NAMESPACE = "try"
SHARING, WAITING = ("first", "second"), "third"
SHARE = 0.5
"""Of a GPU, for each of the pods."""

_DECIDED_SECONDS = 60.0


@dataclass(frozen=True)
class Trial:
    """The GPUs while two pods share one, and why the third pod does not run."""

    gpus: GpuMap
    explanation: Explanation


def try_out(lab: Lab) -> Trial:
    """Submit three pods of half a GPU to a lab with one GPU; those of an earlier call stay.

    Raises WaitTimeout when two of them do not run, or KAI does not decide about the third one.
    """
    meta = {"name": NAMESPACE, "labels": {OWNER_LABEL: lab.spec.name}}
    lab.cluster.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": meta}])
    space = WorkloadNamespace(lab.spec.name, lab.cluster, lab.cluster, NAMESPACE)
    there = {pod.name for pod in space.host_pods()}
    space.submit(*(fraction_pod(name, fraction=SHARE) for name in SHARING if name not in there))
    space.running(*SHARING)
    if WAITING not in there:
        space.submit(fraction_pod(WAITING, fraction=SHARE))
    space.on_host(_refused, WAITING, timeout=_DECIDED_SECONDS, what="refused by the scheduler")
    gpus = GpuSource.of(lab.context("gpus")).read()
    return Trial(gpus, explained(read(lab), WAITING, NAMESPACE))


def _refused(pod: PodView) -> bool:
    return any(one.type == "PodScheduled" and one.status == "False" for one in pod.conditions)

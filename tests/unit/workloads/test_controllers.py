"""Deployments, Jobs and PodGroups: the shipped manifests, and the changes by their builders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from lab.errors import LabError
from lab.objects.kai import PodGroupView
from lab.objects.views import PodView
from lab.paths import assets
from lab.workloads.controllers import deployment, job, pod_group
from lab.workloads.modifiers import among_nodes, bound_to, brief, in_group, of_priority, on_node
from lab.workloads.pods import IMAGE, fraction_pod, gpu_pod

WORKLOADS = assets("manifests") / "workloads"


@pytest.mark.parametrize("name", ["deployment", "job"])
def test_manifest_can_be_applied_unchanged(name: str) -> None:
    doc = yaml.safe_load((WORKLOADS / f"{name}.yaml").read_text())
    template = doc["spec"]["template"]
    (container,) = template["spec"]["containers"]
    assert (container["image"], container["imagePullPolicy"]) == (IMAGE, "IfNotPresent")
    assert template["spec"]["schedulerName"] == "kai-scheduler"
    assert template["metadata"]["labels"]["kai.scheduler/queue"] == "test"
    selector = doc["spec"].get("selector", {}).get("matchLabels", {})
    assert selector.items() <= template["metadata"]["labels"].items()


def test_deployment_selects_its_pods() -> None:
    pod = of_priority(fraction_pod("unused", fraction=0.5, namespace="team", queue="leaf"), "train")
    doc = deployment("serving", pod, replicas=2)
    template = doc["spec"]["template"]
    assert (doc["metadata"]["name"], doc["spec"]["replicas"]) == ("serving", 2)
    assert doc["spec"]["selector"] == {"matchLabels": {"app": "serving"}}
    assert template["metadata"]["labels"] == {
        "app": "serving",
        "kai.scheduler/queue": "leaf",
        "priorityClassName": "train",
    }
    assert template["metadata"]["annotations"] == {"gpu-fraction": "0.5"}
    assert not {"name", "namespace"} & set(template["metadata"])
    assert template["spec"] == pod["spec"]


def test_job_runs_all_pods_at_once_and_never_restarts_them() -> None:
    doc = job("training", gpu_pod(), pods=3)
    assert (doc["spec"]["completions"], doc["spec"]["parallelism"]) == (3, 3)
    assert doc["spec"]["template"]["spec"]["restartPolicy"] == "Never"
    assert "annotations" not in doc["metadata"]
    gang = job("training", gpu_pod(), pods=3, minimum=2)
    assert gang["metadata"]["annotations"] == {"kai.scheduler/batch-min-member": "2"}


def test_pod_group_has_queue_minimum_and_topology() -> None:
    doc = pod_group("gang", queue="leaf", minimum=2)
    view = PodGroupView.of(doc)
    assert (view.name, view.queue, view.min_member, view.priority_class) == ("gang", "leaf", 2, "train")
    assert "topologyConstraint" not in doc["spec"]
    constrained = pod_group("gang", queue="leaf", minimum=2, topology="racks", required="rack")
    assert constrained["spec"]["topologyConstraint"] == {"topology": "racks", "requiredTopologyLevel": "rack"}


def test_group_members_have_its_annotation() -> None:
    assert PodView.of(in_group(gpu_pod("member"), "gang")).pod_group == "gang"


@pytest.mark.parametrize(
    "build",
    [
        lambda: deployment("w", gpu_pod(), replicas=0),
        lambda: job("w", gpu_pod(), pods=0),
        lambda: job("w", gpu_pod(), pods=2, minimum=3),
        lambda: job("w", gpu_pod(), pods=2, minimum=0),
        lambda: pod_group("w", queue="q", minimum=0),
    ],
)
def test_impossible_sizes_are_refused(build: Callable[[], object]) -> None:
    with pytest.raises(LabError, match=r" w(:| has 0 pods)") as caught:
        build()
    assert caught.value.fix


def test_modifiers_do_not_change_their_input() -> None:
    pod = gpu_pod("p")
    before = gpu_pod("p")
    changed: list[dict[str, Any]] = [
        brief(pod),
        of_priority(pod, "build"),
        on_node(pod, "worker"),
        bound_to(pod, "worker"),
        among_nodes(pod, "worker", "worker2"),
        in_group(pod, "gang"),
    ]
    assert pod == before
    assert all(other != before for other in changed)
    short, urgent, pinned, bound, among, _ = changed
    assert short["spec"]["terminationGracePeriodSeconds"] == 1
    assert urgent["metadata"]["labels"]["priorityClassName"] == "build"
    assert pinned["spec"]["nodeSelector"] == {"kubernetes.io/hostname": "worker"}
    assert bound["spec"]["nodeName"] == "worker"
    required = among["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (term,) = required["nodeSelectorTerms"]
    assert term["matchExpressions"][0]["values"] == ["worker", "worker2"]

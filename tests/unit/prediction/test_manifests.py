"""Workloads of manifests: every kind of the table of lint is read, with its pods, gang, queue and priority."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
import yaml

from lab.lint import parse
from lab.lint.workloads import PodPath, kinds
from lab.prediction import read_world
from lab.prediction.manifests import Workload, workloads
from lab.snapshot.cluster_snapshot import ClusterSnapshot

POD: dict[str, Any] = {
    "spec": {"schedulerName": "kai-scheduler", "containers": [{"resources": {"limits": {"nvidia.com/gpu": 2}}}]}
}
WORLD = read_world(ClusterSnapshot(datetime.now(UTC), {}))


def read(text: str) -> list[Workload]:
    return list(workloads(parse(text), WORLD, "space"))


def of(api: str, spec: Any, **more: Any) -> Workload:
    kind, _, version = api.partition(" ")
    doc = {"apiVersion": version, "kind": kind, "metadata": {"name": "w", **more}, "spec": spec}
    (found,) = read(yaml.safe_dump(doc))
    return found


def nested(path: str, value: Any) -> Any:
    """The value at a dotted path, in which * is the only item of a list."""
    for word in reversed(path.split(".") if path else ()):
        value = [value] if word == "*" else {word: value}
    return value


def manifest(name: str, path: PodPath) -> str:
    kind, _, group = name.partition(".")
    meta = nested(path.meta, {"name": "w", "annotations": {"gpu-fraction": "0.5"}})
    doc = {"apiVersion": f"{group}/v1" if group else "v1", "kind": kind, "metadata": {"name": "w"}}
    return yaml.safe_dump(doc | nested(path.at, nested(path.spec, POD["spec"]) | meta))


PLACES = [(name, path) for name, kind in kinds().items() for path in kind.pods]


@pytest.mark.parametrize(("name", "path"), PLACES, ids=lambda value: value if isinstance(value, str) else value.at)
def test_each_template_of_each_kind_is_read(name: str, path: PodPath) -> None:
    found = read(manifest(name, path))
    if path.at == "spec.submitterPodTemplate":
        assert found == []  # starts after the cluster
        return
    (one,) = found
    assert (one.title, one.tasks) == (f"{name.partition('.')[0]} space/w", 1)
    assert one.jobs[0].tasks[0].requests.fraction == 0.5


JOB = {"parallelism": 3, "completions": 2, "template": POD}


@pytest.mark.parametrize(
    ("api", "spec", "pods", "minimum"),
    [
        ("StatefulSet apps/v1", {"replicas": 3, "template": POD}, 3, 1),
        ("Job batch/v1", JOB, 2, 1),
        ("CronJob batch/v1", {"jobTemplate": {"spec": JOB}}, 2, 1),
        ("JobSet jobset.x-k8s.io/v1alpha2", {"replicatedJobs": [{"replicas": 2, "template": {"spec": JOB}}]}, 4, 4),
        ("JobSet jobset.x-k8s.io/v9", {"replicatedJobs": [{"replicas": 2, "template": {"spec": JOB}}]}, 4, 1),
        (
            "LeaderWorkerSet leaderworkerset.x-k8s.io/v1",
            {"leaderWorkerTemplate": {"size": 4, "leaderTemplate": POD, "workerTemplate": POD}},
            4,
            4,
        ),
        (
            "LeaderWorkerSet leaderworkerset.x-k8s.io/v1",
            {"replicas": 2, "leaderWorkerTemplate": {"size": 4, "workerTemplate": POD}},
            4,
            4,
        ),
        (
            "PyTorchJob kubeflow.org/v1",
            {
                "runPolicy": {"schedulingPolicy": {"minAvailable": 2}},
                "pytorchReplicaSpecs": {"Worker": {"replicas": 3, "template": POD}, "Master": {"template": POD}},
            },
            4,
            2,
        ),
        (
            "RayJob ray.io/v1",
            {
                "submitterPodTemplate": POD,
                "rayClusterSpec": {
                    "headGroupSpec": {"template": POD},
                    "workerGroupSpecs": [{"replicas": 2, "numOfHosts": 2, "template": POD}],
                },
            },
            5,
            5,
        ),
        (
            "PodCliqueSet grove.io/v1alpha1",
            {"replicas": 2, "template": {"cliques": [{"spec": {"replicas": 3, "podSpec": POD["spec"]}}]}},
            3,
            3,
        ),
        ("SparkApplication sparkoperator.k8s.io/v1", {"executor": {**POD["spec"], "instances": 3}}, 3, 1),
        ("Workflow argoproj.io/v1", {"parallelism": 9, "templates": [{"schedulerName": "kai-scheduler"}]}, 1, 1),
        ("Trainer example.com/v1", {"replicas": 2, "template": POD}, 2, 1),
    ],
)
def test_pods_and_gang(api: str, spec: Any, pods: int, minimum: int) -> None:
    (job,) = of(api, spec).jobs
    assert (len(job.tasks), job.minimum) == (pods, {"": minimum})


def test_one_of_several_replicas_of_a_gang_is_an_estimate() -> None:
    clique = {"name": "c", "spec": {"replicas": 3, "podSpec": POD["spec"]}}
    found = of("PodCliqueSet grove.io/v1alpha1", {"replicas": 2, "template": {"cliques": [clique]}})
    assert "one of the 2 replicas counts" in found.notes


def test_workloads_with_the_same_generated_name_are_several() -> None:
    doc = {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "run-"}, **POD}
    jobs = [job for one in read(yaml.safe_dump_all([doc, doc])) for job in one.jobs]
    assert len({job.id for job in jobs}) == len({task.id for job in jobs for task in job.tasks}) == 2


def test_deployment_is_a_job_per_pod_with_the_priority_of_inference() -> None:
    found = of("Deployment apps/v1", {"replicas": 2, "template": POD})
    assert [(len(job.tasks), job.priority, job.preemptible) for job in found.jobs] == [(1, 125, False)] * 2


def test_an_argo_template_has_one_container() -> None:
    steps = [{"steps": []}, {"container": POD["spec"]["containers"][0]}]
    found = of("Workflow argoproj.io/v1", {"schedulerName": "kai-scheduler", "templates": steps})
    assert [task.requests.gpus for task in found.jobs[0].tasks] == [2]
    assert found.notes == ("the manifest of a Workflow does not give the number of pods: one per template counts",)


def test_pods_without_containers_are_an_estimate() -> None:
    found = of("VirtualMachine kubevirt.io/v1", {"template": {"spec": {"schedulerName": "kai-scheduler"}}})
    assert found.notes == ("pods whose manifest lists no containers count as ones without requests",)


def test_labels_of_the_workload_precede_those_of_its_pods_unless_kai_reads_them_last() -> None:
    pod = {**POD, "metadata": {"labels": {"kai.scheduler/queue": "pod"}}}
    own = {"labels": {"kai.scheduler/queue": "own"}}
    assert of("Job batch/v1", {"template": pod}, **own).jobs[0].queue == "own"
    assert of("CronJob batch/v1", {"jobTemplate": {"spec": {"template": pod}}}, **own).jobs[0].queue == "pod"
    assert of("Job batch/v1", {"template": POD}).jobs[0].queue == "default-queue"

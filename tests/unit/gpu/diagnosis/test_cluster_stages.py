"""GPU path in the cluster, and evidence from its pods: snapshots with one fault each."""

from __future__ import annotations

from typing import Any

import pytest

from lab.errors import ApiFailed
from lab.gpu.diagnosis.cluster_stages import cluster_stages, gpu_nodes_of
from lab.gpu.diagnosis.pods import LogRef, pod_evidence, read_logs, wanted_logs
from lab.gpu.diagnosis.symptoms import Evidence, match
from lab.snapshot.cluster_snapshot import ClusterSnapshot
from tests.support.diagnose_world import NODE, daemon_set, event, gpu_node, plugin_pod, runtime_class, world
from tests.support.explain_world import pod

Json = dict[str, Any]
GPUS = {NODE: 2}
RESERVATIONS = "kai-resource-reservation"


def found(seen: ClusterSnapshot, gpus: dict[str, int] | None = None, *more: Evidence) -> list[str]:
    stages = cluster_stages(seen, GPUS if gpus is None else gpus)
    evidence = [line for stage in stages for line in stage.evidence()]
    return [symptom.rule for symptom in match([*evidence, *pod_evidence(seen), *more])]


def reservation(name: str = "gpu-reservation-x", **more: Any) -> Json:
    labels = {"app": RESERVATIONS, "runai-gpu-group": "g"}
    return pod(name, RESERVATIONS, labels=labels, gpus=1, node=NODE, queue=None, **more)


def failed(obj: Json, reason: str, message: str = "") -> Json:
    obj["status"] |= {"phase": "Failed", "reason": reason, "message": message}
    return obj


def test_healthy_cluster_has_only_ok_findings() -> None:
    seen = world(reservation(ready=True), pod("half", fraction=0.5, node=NODE, ready=True))
    assert found(seen) == []
    findings = [stage.finding("w") for stage in cluster_stages(seen, GPUS)]
    assert {finding.severity for finding in findings} == {"ok"}
    messages = {finding.rule.partition(".")[2]: finding.what for finding in findings}
    assert messages["allocatable"] == "2 of 2"
    assert messages["reservations"] == "1, all of them run"
    assert messages["labels"] == "nvidia.com/gpu.present, nvidia.com/gpu.memory=15360"


CASES: dict[str, tuple[ClusterSnapshot, list[str]]] = {
    "runtime class missing": (world(drop=["RuntimeClass"]), ["runtime-class-missing"]),
    "runtime class with another handler": (world(runtime_class("runc")), ["runtime-class-handler"]),
    "plugin missing": (world(gpu_node(gpus=0), drop=["Pod"]), ["plugin-missing", "allocatable-short"]),
    "plugin crashes": (
        world(gpu_node(gpus=0), plugin_pod(ready=False, waiting="CrashLoopBackOff")),
        ["plugin-crashes", "plugin-missing", "allocatable-short"],
    ),
    "plugin starts, GPUs offered": (world(gpu_node(), plugin_pod(ready=False, waiting="ContainerCreating", ago=2)), []),
    "plugin starts, no GPU offered": (
        world(gpu_node(gpus=0), plugin_pod(ready=False, waiting="ContainerCreating", ago=2)),
        ["plugin-missing", "allocatable-short"],
    ),
    "plugin is slow": (
        world(gpu_node(), plugin_pod(ready=False, waiting="ContainerCreating", ago=20)),
        ["plugin-missing"],
    ),
    "not labelled": (
        world(gpu_node(gpus=0, present=""), daemon_set(0), drop=["Pod"]),
        ["plugin-unwanted", "gpu-present-label"],
    ),
    "one GPU not allocatable": (world(gpu_node(gpus=1)), ["allocatable-short"]),
    "time-slicing": (world(gpu_node(gpus=8)), ["gpus-multiplied"]),
    "memory label missing": (world(gpu_node(memory="")), ["gpu-memory-label"]),
    "fake GPUs": (world(gpu_node(fake="true")), ["fake-gpu-label"]),
    "fake GPUs on another node": (world(gpu_node("other", fake="true")), ["fake-gpu-label"]),
    "reservation refused": (
        world(failed(reservation(), "UnexpectedAdmissionError")),
        ["kubelet-refused", "reservation-failed"],
    ),
    "reservation image not pulled": (world(reservation(waiting="ImagePullBackOff")), ["reservation-image"]),
    "reservation crashes": (world(reservation(waiting="CrashLoopBackOff")), ["reservation-waits"]),
    "reservation starts": (world(reservation(ago=2, waiting="ContainerCreating")), []),
    "reservation is slow": (world(reservation(ago=20, waiting="ContainerCreating")), ["reservation-waits"]),
}


@pytest.mark.parametrize("case", CASES)
def test_symptoms_of_the_objects(case: str) -> None:
    seen, expected = CASES[case]
    assert found(seen) == expected


def test_runtime_class_and_labels_are_optional_on_existing_clusters() -> None:
    seen = world(gpu_node(present="", memory=""), drop=["RuntimeClass", "DaemonSet", "Pod"])
    gpus = gpu_nodes_of(seen)
    assert gpus == {NODE: 2}
    levels = {stage.id: stage.finding("").severity for stage in cluster_stages(seen, gpus, ours=False)}
    assert (levels["class"], levels["labels"], levels["plugin"], levels["allocatable"]) == (
        "warning",
        "warning",
        "ok",
        "ok",
    )


def test_missing_node_is_an_error() -> None:
    levels = {(stage.id, stage.where): stage.finding("").severity for stage in cluster_stages(world(), {"gone": 1})}
    assert levels["allocatable", "gone"] == "error"


def test_only_events_of_waiting_gpu_pods_are_evidence() -> None:
    stuck = pod("stuck", gpus=1, node=NODE, waiting="ContainerCreating", spec={"runtimeClassName": "nvidia"})
    fine = pod("fine", gpus=1, node=NODE, ready=True)
    no_gpu = pod("web", node=NODE, waiting="ContainerCreating")
    text = 'Failed to create pod sandbox: no runtime for "nvidia" is configured'
    assert found(world(stuck, event(stuck, "FailedCreatePodSandBox", text))) == ["handler-missing"]
    assert found(world(fine, event(fine, "FailedCreatePodSandBox", text))) == []
    assert found(world(no_gpu, event(no_gpu, "FailedCreatePodSandBox", text))) == []
    assert found(world(stuck, event(stuck, "FailedCreatePodSandBox", text, kind="Normal"))) == []


def test_conditions_and_bind_requests_are_evidence() -> None:
    late = pod("late", fraction=0.5)
    late["status"]["conditions"].append(
        {
            "type": "PodBound",
            "status": "False",
            "reason": "BindingError",
            "message": "failed waiting for GPU reservation pod to allocate: kai-resource-reservation/gpu-reservation-x",
        }
    )
    assert found(world(late)) == ["reservation-timeout"]
    bound = pod("bound", fraction=0.5)
    request = {
        "kind": "BindRequest",
        "metadata": {"name": "bound", "namespace": "team"},
        "spec": {"podName": "bound"},
        "status": {"phase": "Failed", "reason": 'is forbidden: RuntimeClass "nvidia" not found'},
    }
    assert found(world(bound, request)) == ["runtime-class-missing"]
    smi = pod(
        "smi",
        scheduler="default-scheduler",
        node=NODE,
        waiting="RunContainerError",
        message='exec: "nvidia-smi": executable file not found in $PATH',
    )
    smi["spec"]["containers"][0]["command"] = ["nvidia-smi"]
    assert found(world(smi)) == ["smi-not-found"]


def test_recent_events_of_deleted_reservation_pods_are_evidence() -> None:
    gone = reservation("gpu-reservation-gone")
    waits = pod("waits", fraction=0.5)
    recent = event(gone, "Failed", 'exec: "nvidia-smi": executable file not found')
    old = event(gone, "Failed", 'exec: "nvidia-smi": executable file not found', ago=600)
    assert found(world(waits, recent)) == ["smi-not-found"]
    assert found(world(waits, old)) == []
    assert found(world(recent)) == []


def test_recent_failures_to_create_pods_are_evidence() -> None:
    meta = {"name": "wants", "namespace": "team", "uid": "rs"}
    text = 'Error creating: pods "wants-" is forbidden: pod rejected: RuntimeClass "nvidia" not found'

    def seen(replicas: int, ago: float = 5.0) -> ClusterSnapshot:
        replica_set = {
            "kind": "ReplicaSet",
            "metadata": meta,
            "spec": {"replicas": 1},
            "status": {"replicas": replicas},
        }
        return world(replica_set, event(replica_set, "FailedCreate", text, ago=ago))

    assert found(seen(0)) == ["runtime-class-missing"]
    assert found(seen(1)) == []
    assert found(seen(0, ago=600)) == []


def crashed(obj: Json, **state: Any) -> Json:
    obj["status"]["containerStatuses"] = [{"name": "main", "ready": False, **state}]
    return obj


def test_logs_of_failed_gpu_pods_are_wanted() -> None:
    terminated = {"state": {"terminated": {"exitCode": 1, "reason": "Error"}}, "restartCount": 0}
    restarting = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "restartCount": 3}
    seen = world(
        crashed(reservation(), **restarting),
        crashed(pod("cuda", gpus=1, node=NODE), **terminated),
        pod("fine", gpus=1, node=NODE, ready=True),
        crashed(pod("web", node=NODE), **terminated),
    )
    assert {(ref.stream, ref.pod, ref.previous) for ref in wanted_logs(seen)} == {
        ("plugin-log", "plugin-x", False),
        ("reservation-log", "gpu-reservation-x", True),
        ("pod-log", "cuda", False),
    }


class Logs:
    """A cluster with logs of some pods."""

    def __init__(self, **texts: str) -> None:
        self.texts = texts

    def logs(self, name: str, namespace: str, container: str, tail: int, previous: bool) -> str:
        if name not in self.texts:
            raise ApiFailed(f"no log of {name}")
        return self.texts[name]


def test_each_log_line_is_evidence_and_missing_logs_are_skipped() -> None:
    refs = [LogRef("plugin-log", "kube-system", name, "c", NODE) for name in ("a", "b")]
    lines = read_logs(Logs(a="one\nIncompatible strategy detected auto"), refs, 5)  # type: ignore[arg-type]
    assert [(line.where, line.text, line.node) for line in lines] == [
        ("kube-system/a", "one", NODE),
        ("kube-system/a", "Incompatible strategy detected auto", NODE),
    ]
    assert [symptom.rule for symptom in match(lines)] == ["plugin-strategy"]

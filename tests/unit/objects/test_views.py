"""Views and redaction, on objects as servers send them."""

from __future__ import annotations

import ast
from dataclasses import FrozenInstanceError
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import lab.kube
from lab.kube import redact
from lab.kube.describe import state_of
from lab.objects.fields import quantity
from lab.objects.kai import PodGroupView, QueueShare, QueueView, Refusal
from lab.objects.views import EventView, NodeView, PodView
from tests.support.kube_fake import pod

TOKEN = "vcluster.loft.sh/token-abcd1234"


def test_pod_view_of_a_fraction() -> None:
    view = PodView.of(
        pod(
            "half",
            "Running",
            metadata={
                "labels": {"kai.scheduler/queue": "test", "runai-gpu-group": "g-1"},
                "annotations": {
                    "gpu-fraction": "0.5",
                    "pod-group-name": "pg-half-1",
                    "received-resource-type": "Fraction",
                    TOKEN: "eyJhbGciOi",
                },
                "ownerReferences": [
                    {"kind": "Service", "name": "vc"},
                    {"kind": "ReplicaSet", "name": "rs", "controller": True},
                ],
            },
            spec={"nodeName": "n1", "runtimeClassName": "nvidia"},
        )
    )
    assert (view.name, view.namespace, view.uid, view.phase, view.node) == ("half", "ns", "uid-half", "Running", "n1")
    requests = view.requests
    assert (requests.fraction, requests.gpu_memory, requests.gpus, view.gpu_groups) == (0.5, None, 0, ("g-1",))
    assert (view.pod_group, view.received_resource_type, view.queue) == ("pg-half-1", "Fraction", "test")
    assert (view.ready, view.deleting, view.ended) == (True, False, False)
    assert (view.owner, view.runtime_class, view.scheduler_name) == ("ReplicaSet/rs", "nvidia", "kai-scheduler")
    assert "eyJhbGciOi" not in repr(view)
    with pytest.raises(FrozenInstanceError):
        view.node = "n2"  # type: ignore[misc]


def test_pod_view_of_whole_gpus_and_several_groups() -> None:
    containers = [{"name": n, "resources": {"limits": {"nvidia.com/gpu": "1"}}} for n in ("a", "b")]
    view = PodView.of(
        pod(
            "p",
            metadata={
                "labels": {"runai-gpu-group/y": "y", "runai-gpu-group/x": "x"},
                "annotations": {"gpu-fraction": "abc", "gpu-memory": "2000"},
            },
            spec={"containers": containers},
            status={
                "initContainerStatuses": [
                    {"name": "i", "restartCount": 1, "state": {"waiting": {"reason": "Pulling"}}}
                ],
                "containerStatuses": [{"name": "a", "restartCount": 2, "state": {"running": {}}}],
            },
        )
    )
    requests = view.requests
    assert (requests.gpus, requests.fraction, requests.gpu_memory) == (2, None, 2000)
    assert view.gpu_groups == ("x", "y")
    assert [(waiting.name, waiting.reason) for waiting in view.waiting] == [("i", "Pulling")]
    assert view.waiting_reasons == ("Pulling",)
    assert view.restarts == 3


def test_pod_view_of_a_reservation_pod() -> None:
    raw = pod(
        "gpu-reservation-1",
        "Running",
        metadata={"labels": {"runai-gpu-group": "g-1"}, "annotations": {"run.ai/reserve_for_gpu_index": "GPU-0"}},
        spec={"nodeName": "n1"},
    )
    view = PodView.of(raw)
    assert (view.node, view.gpu_groups, view.reserved_gpu) == ("n1", ("g-1",), "GPU-0")
    assert (view.phase, view.ready, view.deleting) == ("Running", True, False)
    assert PodView.of(pod("fresh")).reserved_gpu == ""


def test_pod_group_view() -> None:
    over_limit = {"reason": "OverLimit", "message": "test quota has reached the allowable limit"}
    raw: dict[str, Any] = {
        "kind": "PodGroup",
        "metadata": {"name": "pg-a", "namespace": "ns", "uid": "u", "ownerReferences": [{"kind": "Pod", "name": "a"}]},
        "spec": {"queue": "test", "minMember": 2, "priorityClassName": "train"},
        "status": {
            "schedulingConditions": [
                {"status": "True", "reason": "Unschedulable", "reasons": [over_limit]},
                {"status": "False", "reason": "Old"},
                {"status": "True", "reason": "Unschedulable", "message": "no nodes"},
            ],
            "resourcesStatus": {"allocated": {"nvidia.com/gpu": "250m"}},
        },
    }
    view = PodGroupView.of(raw)
    assert (view.queue, view.min_member, view.priority_class, view.owner) == ("test", 2, "train", "Pod/a")
    assert view.refusals == (
        Refusal("OverLimit", "test quota has reached the allowable limit"),
        Refusal("Unschedulable", "no nodes"),
    )
    assert view.gpus_allocated == 0.25
    assert state_of(raw).startswith("queue test; OverLimit (test quota")
    assert PodGroupView.of({}).min_member == 1


def test_queue_view_has_the_defaults_of_kai() -> None:
    view = QueueView.of(
        {
            "metadata": {"name": "test", "uid": "u"},
            "spec": {
                "parentQueue": "default",
                "resources": {"gpu": {"quota": 1.5, "limit": -1, "overQuotaWeight": 2}, "cpu": {"quota": -1}},
            },
            "status": {"childQueues": ["b", "a"], "allocated": {"nvidia.com/gpu": "1500m"}},
        }
    )
    assert (view.parent, view.priority, view.children) == ("default", 100, ("a", "b"))
    assert (view.gpu, view.cpu, view.memory) == (QueueShare(1.5, -1, 2), QueueShare(-1, 0, 0), QueueShare(0, 0, 0))
    assert (view.allocated.gpu, view.allocated_non_preemptible.gpu) == (1.5, 0)


def test_node_view() -> None:
    raw = {
        "kind": "Node",
        "metadata": {"name": "n1", "labels": {"nvidia.com/gpu.memory": "40960", "nvidia.com/gpu.product": "A100"}},
        "spec": {
            "unschedulable": True,
            "taints": [
                {"key": "a", "value": "b", "effect": "NoSchedule"},
                {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"},
            ],
        },
        "status": {
            "allocatable": {"nvidia.com/gpu": "2"},
            "nodeInfo": {"kubeletVersion": "v1.34.4"},
            "conditions": [
                {"type": "DiskPressure", "status": "True"},
                {"type": "Ready", "status": "False", "reason": "KubeletNotReady", "message": "cni not ready"},
            ],
        },
    }
    view = NodeView.of(raw)
    assert (view.ready, view.unschedulable, view.gpus, view.gpu_memory) == (False, True, 2, 40960)
    assert (view.gpu_product, view.kubelet_version) == ("A100", "v1.34.4")
    assert view.taints == ("a=b:NoSchedule", "node.kubernetes.io/not-ready:NoExecute")
    assert state_of(raw) == (
        "not Ready; 2 GPUs; DiskPressure; KubeletNotReady (cni not ready);"
        " taints a=b:NoSchedule, node.kubernetes.io/not-ready:NoExecute"
    )
    assert NodeView.of({"metadata": {"name": "bare"}}).gpu_memory is None


def test_event_view_reads_old_and_new_style() -> None:
    involved = {"kind": "Pod", "name": "a", "namespace": "ns", "uid": "u"}
    old = EventView.of(
        {
            "type": "Warning",
            "reason": "R",
            "message": "m",
            "involvedObject": involved,
            "count": 3,
            "lastTimestamp": "2026-01-01T10:00:00Z",
            "source": {"component": "kubelet"},
        }
    )
    new = EventView.of(
        {
            "involvedObject": involved,
            "lastTimestamp": None,
            "eventTime": "2026-01-01T10:00:00.123456Z",
            "reportingComponent": "kai-scheduler",
        }
    )
    assert (old.reporter, old.count, old.last) == ("kubelet", 3, datetime(2026, 1, 1, 10, tzinfo=UTC))
    assert (new.reporter, new.count, new.last and new.last.microsecond) == ("kai-scheduler", 1, 123456)
    assert EventView.of({}).last is None


@pytest.mark.parametrize(
    ("text", "number"),
    [("250m", 0.25), ("1", 1.0), (2, 2.0), ("1Gi", 1073741824.0), ("2k", 2000.0), ("1e3", 1000.0), ("0.5", 0.5)],
)
def test_quantity(text: object, number: float) -> None:
    assert quantity(text) == number


def test_invalid_quantity_is_refused() -> None:
    with pytest.raises(ValueError, match="lots"):
        quantity("lots")


# --- redaction and imports


def test_redaction_covers_nested_objects_and_keeps_the_original() -> None:
    applied = "kubectl.kubernetes.io/last-applied-configuration"
    template = {"metadata": {"annotations": {TOKEN: "secret-1", "keep": "me", applied: "secret-2"}}}
    original = [
        {"kind": "Deployment", "spec": {"template": template}},
        {"kind": "Secret", "data": {"config": "secret-3"}},
    ]
    copy = redact(original)
    assert "secret-" not in repr(copy)
    assert copy[0]["spec"]["template"]["metadata"]["annotations"]["keep"] == "me"  # type: ignore[index]
    assert list(copy[1]["data"]) == ["config"]  # type: ignore[arg-type]
    assert repr(original).count("secret-") == 3
    assert redact({"kind": "ConfigMap", "data": {"k": "v"}}) == {"kind": "ConfigMap", "data": {"k": "v"}}


def test_importing_lab_kube_loads_no_heavy_library() -> None:
    heavy = {"kubernetes", "urllib3", "tenacity", "yaml", "pydantic", "websocket"}
    package = Path(lab.kube.__file__).parent
    for file in package.glob("*.py"):
        for statement in ast.parse(file.read_text()).body:
            names = [alias.name for alias in statement.names] if isinstance(statement, ast.Import) else []
            if isinstance(statement, ast.ImportFrom):
                names = [statement.module or ""]
            assert not heavy & {name.partition(".")[0] for name in names}, f"{file.name}:{statement.lineno}"
    assert (package / "client.py").exists()

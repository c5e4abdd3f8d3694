"""Whether an object is ready, or can no longer become ready."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lab.objects.views import Condition, PodView, is_true

HOPELESS = frozenset({"ErrImageNeverPull", "InvalidImageName"})
"""Waiting reasons that are final. CreateContainerConfigError is not, because KAI creates its ConfigMaps after the pod;
ImagePullBackOff is not either."""

Obj = Mapping[str, Any]


def is_ready(obj: Obj) -> bool:
    """Whether a pod is Ready, a workload rolled out, a CRD established, and so on by kind."""
    kind, conditions = obj.get("kind"), Condition.all_of(obj)
    if obj.get("metadata", {}).get("deletionTimestamp"):
        return False
    if kind in ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"):
        have, want = rollout(obj)
        return _observed(obj) and have == want
    if kind == "Job":
        return is_true(conditions, "Complete")
    if kind == "CustomResourceDefinition":
        return is_true(conditions, "Established")
    if kind == "Namespace":
        return bool(obj.get("status", {}).get("phase") == "Active")
    if kind == "PersistentVolumeClaim":
        return bool(obj.get("status", {}).get("phase") == "Bound")
    return is_true(conditions, "Ready")


def why_never(obj: Obj) -> str | None:
    """The reason why the object can no longer become ready, or None."""
    kind, name = obj.get("kind"), obj.get("metadata", {}).get("name", "")
    if kind == "Pod":
        pod = PodView.of(obj)
        if pod.ended:
            return f"pod {name} has ended: {pod.phase}{f', {pod.reason}' if pod.reason else ''}"
        for waiting in pod.waiting:
            if waiting.reason in HOPELESS:
                return f"pod {name}, container {waiting.name}: {waiting.reason}: {waiting.message}"
    for condition in Condition.all_of(obj):
        late = kind == "Deployment" and condition.reason == "ProgressDeadlineExceeded"
        failed = kind == "Job" and (condition.type, condition.status) == ("Failed", "True")
        if (late and _observed(obj)) or failed:
            return f"{kind} {name}: {condition.reason}: {condition.message}"
    return None


def replaced(obj: Obj) -> bool:
    """Whether a pod is being deleted, or has ended and its controller replaces it."""
    if obj.get("kind") != "Pod":
        return False
    pod = PodView.of(obj)
    return pod.deleting or (pod.ended and bool(pod.owner))


def rollout(obj: Obj) -> tuple[int, int]:
    """The number of a workload's pods that are up to date and available, and the desired number."""
    spec, status = obj.get("spec", {}), obj.get("status", {})
    if obj.get("kind") == "DaemonSet":
        want = status.get("desiredNumberScheduled", 0)
        have = min(status.get("updatedNumberScheduled", 0), status.get("numberAvailable", 0))
        return have, want
    want = 1 if spec.get("replicas") is None else spec["replicas"]
    available = status.get("availableReplicas", 0)
    if obj.get("kind") == "ReplicaSet":
        return available, want
    # With more replicas than desired, pods of the old revision still run.
    if status.get("replicas", 0) > want:
        return min(status.get("updatedReplicas", 0), available, want - 1), want
    return min(status.get("updatedReplicas", 0), available), want


def _observed(obj: Obj) -> bool:
    """Whether the controller has seen the latest generation; before that the status is out of date."""
    generation = obj.get("metadata", {}).get("generation", 0)
    return bool(obj.get("status", {}).get("observedGeneration", 0) >= generation)

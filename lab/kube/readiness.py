"""When an object is ready, and when it never will be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lab.objects.views import Condition, PodView

HOPELESS = frozenset({"ErrImageNeverPull", "InvalidImageName"})
"""Waiting reasons that no amount of waiting cures. CreateContainerConfigError is not one, because KAI's
ConfigMaps come after the pod; nor is ImagePullBackOff, which may end."""

Obj = Mapping[str, Any]


def is_ready(obj: Obj) -> bool:
    """Whether the object does what it is for: a pod Ready, a workload rolled out, a CRD established."""
    kind = obj.get("kind")
    if obj.get("metadata", {}).get("deletionTimestamp"):
        return False
    if kind in ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"):
        have, want = rollout(obj)
        return _observed(obj) and have == want
    if kind == "Job":
        return _true(obj, "Complete")
    if kind == "CustomResourceDefinition":
        return _true(obj, "Established")
    if kind == "Namespace":
        return bool(obj.get("status", {}).get("phase") == "Active")
    if kind == "PersistentVolumeClaim":
        return bool(obj.get("status", {}).get("phase") == "Bound")
    return _true(obj, "Ready")


def why_never(obj: Obj) -> str | None:
    """Why the object will not become ready any more, or None while there is hope."""
    kind, name = obj.get("kind"), obj.get("metadata", {}).get("name", "")
    if kind == "Pod":
        pod = PodView.of(obj)
        if pod.ended:
            return f"pod {name} has ended: {pod.phase}{f', {pod.reason}' if pod.reason else ''}"
        for waiting in pod.waiting:
            if waiting.reason in HOPELESS:
                return f"pod {name}, container {waiting.container}: {waiting.reason}: {waiting.message}"
    for condition in Condition.all_of(obj):
        late = kind == "Deployment" and condition.reason == "ProgressDeadlineExceeded"
        failed = kind == "Job" and (condition.type, condition.status) == ("Failed", "True")
        if (late and _observed(obj)) or failed:
            return f"{kind} {name}: {condition.reason}: {condition.message}"
    return None


def replaced(obj: Obj) -> bool:
    """Whether a pod is on its way out and its controller makes, or has made, another one."""
    if obj.get("kind") != "Pod":
        return False
    pod = PodView.of(obj)
    return pod.deleting or (pod.ended and bool(pod.owner))


def rollout(obj: Obj) -> tuple[int, int]:
    """How many pods of a workload are up to date and available, and how many it wants."""
    spec, status = obj.get("spec", {}), obj.get("status", {})
    if obj.get("kind") == "DaemonSet":
        want = status.get("desiredNumberScheduled", 0)
        have = min(status.get("updatedNumberScheduled", 0), status.get("numberAvailable", 0))
        return have, want
    want = 1 if spec.get("replicas") is None else spec["replicas"]
    available = status.get("availableReplicas", 0)
    if obj.get("kind") == "ReplicaSet":
        return available, want
    # More replicas than wanted means that pods of the old revision still run.
    if status.get("replicas", 0) > want:
        return min(status.get("updatedReplicas", 0), available, want - 1), want
    return min(status.get("updatedReplicas", 0), available), want


def _observed(obj: Obj) -> bool:
    """Whether the controller has seen the latest change; before that its status speaks of the past."""
    generation = obj.get("metadata", {}).get("generation", 0)
    return bool(obj.get("status", {}).get("observedGeneration", 0) >= generation)


def _true(obj: Obj, kind: str) -> bool:
    return any(c.type == kind and c.status == "True" for c in Condition.all_of(obj))

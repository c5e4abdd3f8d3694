"""Whether an object is ready, or can no longer become ready."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lab.objects.views import Condition, PodView, is_true

_HOPELESS = frozenset({"ErrImageNeverPull", "InvalidImageName"})
"""Waiting reasons that are final. CreateContainerConfigError is not: KAI creates its ConfigMaps after the pod, and a
kubelet that has just started has not read the Services. ImagePullBackOff is not either."""

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
            if waiting.reason in _HOPELESS:
                return f"pod {name}, container {waiting.name}: {waiting.reason}: {waiting.message}"
    for condition in Condition.all_of(obj):
        late = kind == "Deployment" and condition.reason == "ProgressDeadlineExceeded"
        failed = kind == "Job" and (condition.type, condition.status) == ("Failed", "True")
        if (late and _observed(obj)) or failed:
            return f"{kind} {name}: {condition.reason}: {condition.message}"
    return None


class StuckPods:
    """Says why pods cannot start, to end a wait for them early.

    Only crashes during the wait count: the pods of a stopped lab come back with the restarts of their whole life, and
    crash until what they need is there again. Five, after back-offs of 150 s, are more than a matter of start order.
    With ``images_present`` in the nodes, a failed image pull is final.
    """

    def __init__(self, *, images_present: bool, crashes: int = 5) -> None:
        self._images_present = images_present
        self._crashes = crashes
        self._restarts_before: dict[tuple[str, str], int] = {}

    def __call__(self, pods: Sequence[Obj]) -> str | None:
        for view in map(PodView.of, pods):
            if view.deleting:
                continue
            for waiting in view.waiting:
                before = self._restarts_before.setdefault((view.uid, waiting.name), waiting.restarts)
                hopeless = waiting.reason in _HOPELESS
                missing = self._images_present and waiting.reason == "ImagePullBackOff"
                crashing = waiting.reason == "CrashLoopBackOff" and waiting.restarts - before >= self._crashes
                if hopeless or missing or crashing:
                    where = f" on {view.node}" if view.node else ""
                    return f"pod {view.name}{where}, container {waiting.name}: {waiting.reason}: {waiting.message}"
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

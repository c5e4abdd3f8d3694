"""Trims a ClusterSnapshot to a few namespaces, for fixtures without addresses, environment values and container ids."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from lab.kai.names import KAI_SCHEDULER, RESERVATION_APP
from lab.objects.fields import Obj
from lab.objects.redact import REDACTED
from lab.snapshot.cluster_snapshot import ClusterSnapshot

_DROPPED = frozenset({"Service", "ServiceAccount", "Endpoints", "PersistentVolume"})
_NAMES_ONLY = frozenset(
    {
        "Lease",
        "CustomResourceDefinition",
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    }
)
_GPU_WORDS = ("NVIDIA", "RUNAI", "GPU", "CUDA")
_LOG_LINES = 8
_LOG_WIDTH = 600
_MODULES = re.compile(r"/\S*?/go/pkg/mod/")
"""Build paths in the stack traces of programs."""

Json = dict[str, Any]


def trimmed(world: ClusterSnapshot, namespaces: Collection[str]) -> ClusterSnapshot:
    """All objects of ``namespaces`` and of KAI, and of the others what they use on nodes."""
    near = {*namespaces, KAI_SCHEDULER, RESERVATION_APP}
    objects = {
        kind: tuple(_kept(kind, obj, near) for obj in objs if _wanted(kind, obj, near))
        for kind, objs in world.objects.items()
        if kind not in _DROPPED
    }
    objects["Event"] = tuple(_told(objects, set(namespaces)))
    logs = {
        name: tuple(_MODULES.sub("/go/pkg/mod/", line)[:_LOG_WIDTH] for line in lines[-_LOG_LINES:])
        for name, lines in world.logs.items()
        if "/" not in name or name.partition("/")[0] in near
    }
    return replace(world, objects=objects, logs=logs)


def _told(objects: Mapping[str, tuple[Json, ...]], namespaces: Collection[str]) -> Iterator[Json]:
    """Events of the namespaces, and of KAI's objects that still exist."""
    there = {(obj.get("metadata") or {}).get("uid") for objs in objects.values() for obj in objs}
    for event in objects.get("Event", ()):
        about = event.get("involvedObject") or event.get("regarding") or {}
        if (event.get("metadata") or {}).get("namespace") in namespaces or about.get("uid") in there:
            yield event


def _wanted(kind: str, obj: Obj, near: Collection[str]) -> bool:
    space = (obj.get("metadata") or {}).get("namespace")
    if kind in ("Pod", "Lease") or space is None:
        return kind != "Namespace" or obj["metadata"]["name"] in near
    if kind == "ConfigMap":
        return False
    return space in near


def _kept(kind: str, obj: Obj, near: Collection[str]) -> Json:
    meta = obj.get("metadata") or {}
    if kind in _NAMES_ONLY:
        return {"kind": kind, "metadata": {key: meta[key] for key in ("name", "namespace") if key in meta}}
    if kind == "Pod":
        return _pod(obj, whole=meta.get("namespace") in near)
    if kind == "Node":
        return _node(obj)
    kept = {key: value for key, value in obj.items() if key != "apiVersion"}
    if kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job"):
        kept = _edit(kept, ("spec", "template", "spec"), _pod_spec)
    return kept


def _node(obj: Obj) -> Json:
    meta, status = obj["metadata"], obj.get("status") or {}
    info = status.get("nodeInfo") or {}
    return {
        "kind": "Node",
        "metadata": {key: meta[key] for key in ("name", "uid", "labels", "creationTimestamp") if key in meta},
        "spec": {key: obj["spec"][key] for key in ("taints", "unschedulable") if key in (obj.get("spec") or {})},
        "status": {
            **{key: status[key] for key in ("allocatable", "capacity", "conditions") if key in status},
            "nodeInfo": {"kubeletVersion": info.get("kubeletVersion", "")},
        },
    }


def _pod(obj: Obj, *, whole: bool) -> Json:
    meta, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    addresses = ("podIP", "podIPs", "hostIP", "hostIPs")
    kept = {key: value for key, value in status.items() if key not in addresses}
    if whole:
        for kind in ("containerStatuses", "initContainerStatuses"):
            if kind in kept:
                kept[kind] = [_without_ids(state) for state in kept[kind]]
        return {"kind": "Pod", "metadata": meta, "spec": _pod_spec(spec), "status": kept}
    sizes = [{"name": c.get("name"), "resources": c.get("resources") or {}} for c in spec.get("containers") or []]
    return {
        "kind": "Pod",
        "metadata": {
            key: meta[key] for key in ("name", "namespace", "uid", "labels", "creationTimestamp") if key in meta
        },
        "spec": {**{key: spec[key] for key in ("nodeName", "schedulerName") if key in spec}, "containers": sizes},
        "status": {key: kept[key] for key in ("phase", "reason", "conditions") if key in kept},
    }


def _pod_spec(spec: Obj) -> Json:
    kept = dict(spec)
    for kind in ("containers", "initContainers"):
        if kind in kept:
            kept[kind] = [_container(container) for container in kept[kind]]
    if "volumes" in kept:
        kept["volumes"] = [
            volume for volume in kept["volumes"] if not str(volume.get("name", "")).startswith("kube-api-access")
        ]
    return kept


def _container(container: Obj) -> Json:
    kept = {
        key: value
        for key, value in container.items()
        if key not in ("terminationMessagePath", "terminationMessagePolicy")
    }
    if "env" in kept:
        kept["env"] = [
            row if "value" not in row or any(word in row["name"] for word in _GPU_WORDS) else {**row, "value": REDACTED}
            for row in kept["env"]
        ]
    return kept


def _without_ids(value: Any) -> Any:
    """Remove image ids and container ids, which name registries and change with every run."""
    if isinstance(value, Mapping):
        return {key: _without_ids(inner) for key, inner in value.items() if key not in ("imageID", "containerID")}
    return value


def _edit(obj: Json, path: tuple[str, ...], change: Callable[[Obj], Json]) -> Json:
    """A copy with the value under ``path`` changed, if it exists."""
    key, rest = path[0], path[1:]
    inner = obj.get(key)
    if not isinstance(inner, dict):
        return obj
    return {**obj, key: _edit(inner, rest, change) if rest else change(inner)}

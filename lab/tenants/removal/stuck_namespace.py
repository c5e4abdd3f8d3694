"""Diagnoses a namespace stuck in Terminating: remaining objects, their finalizers, and unavailable APIs.

Nothing is forced: a finalizer that is stripped leaves behind what its controller would have cleaned up.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from lab.errors import ApiFailed, WaitTimeout
from lab.kube import Cluster
from lab.kube.describe import title_of
from lab.kube.rest_mapper import KNOWN
from lab.objects.fields import parts
from lab.objects.views import Condition, NodeView, PodView, is_true

Json = dict[str, Any]

_DISCOVERY_FAILS = "NamespaceDeletionDiscoveryFailure"
_CONTENT_REMAINS = "NamespaceContentRemaining"
_CONDITIONS = (
    _DISCOVERY_FAILS,
    "NamespaceDeletionGroupVersionParsingFailure",
    "NamespaceDeletionContentFailure",
    _CONTENT_REMAINS,
    "NamespaceFinalizersRemaining",
)
"""Conditions of a namespace that is being deleted (k8s.io/api/core/v1, NamespaceConditionType)."""

_REMAINING = re.compile(r"(\S+) has \d+ resource instances")
"""A resource in the message of NamespaceContentRemaining (kubernetes 1.34, pkg/controller/namespace/deletion)."""

_MAX_OBJECTS = 20


class StuckNamespace(WaitTimeout):
    """A namespace stays in Terminating; the evidence says why."""

    title = "stuck namespace"


def stuck_namespace(cluster: Cluster, namespace: str, seconds: float) -> StuckNamespace:
    """The error for a namespace that still exists ``seconds`` after its deletion."""
    return StuckNamespace(
        f"namespace {namespace} still exists {seconds:g} s after its deletion",
        evidence=diagnose(cluster, namespace) or ("its status has no reason: the namespace controller may not run",),
        fix=_fix(cluster, namespace),
    )


def diagnose(cluster: Cluster, namespace: str) -> tuple[str, ...]:
    """Why a namespace stays in Terminating, one line each: its conditions, unavailable APIs, then objects.

    Empty for a namespace that does not exist or is not being deleted.
    """
    space = cluster.get("Namespace", namespace)
    if space is None or "deletionTimestamp" not in space["metadata"]:
        return ()
    lines = [
        f"{condition.type}: {' '.join(condition.message.split())}"
        for condition in Condition.all_of(space)
        if condition.type in _CONDITIONS and condition.status == "True"
    ]
    lines += [_unavailable_line(service) for service in _unavailable(cluster)]
    meta, spec, _ = parts(space)
    finalizers = [*(meta.get("finalizers") or []), *(spec.get("finalizers") or [])]
    lines += [f"Namespace {namespace} itself has the finalizer {one}" for one in finalizers if one != "kubernetes"]
    objects = list(_remaining(cluster, space))
    lines += [_object_line(cluster, obj) for obj in objects[:_MAX_OBJECTS]]
    if len(objects) > _MAX_OBJECTS:
        lines.append(f"… and {len(objects) - _MAX_OBJECTS} more objects")
    return tuple(lines)


def _fix(cluster: Cluster, namespace: str) -> str:
    """The next action: an unavailable API first, since without it nothing can be listed."""
    space = cluster.get("Namespace", namespace) or {}
    for service in _unavailable(cluster):
        name, backend = service["metadata"]["name"], parts(service)[1].get("service") or {}
        if backend and cluster.get("Namespace", backend.get("namespace", "")) is None:
            return f"delete the API, which has no server any more: {cluster.kubectl('delete', 'apiservice', name)}"
        if is_true(Condition.all_of(space), _DISCOVERY_FAILS):
            return f"make the API available: {cluster.kubectl('describe', 'apiservice', name)}"
    for obj in _remaining(cluster, space):
        meta = obj["metadata"]
        if finalizers := meta.get("finalizers"):
            command = cluster.kubectl("get", obj["kind"].lower(), meta["name"], "-n", namespace, "-o", "yaml")
            return f"start the controller that removes the finalizer {finalizers[0]}: {command}"
    return f"inspect the namespace: {cluster.kubectl('describe', 'namespace', namespace)}"


def _remaining(cluster: Cluster, space: Json) -> Iterator[Json]:
    """Objects in the namespace: of the kinds that its status names, otherwise pods and objects with a finalizer."""
    namespace = parts(space)[0].get("name", "")
    messages = " ".join(c.message for c in Condition.all_of(space) if c.type == _CONTENT_REMAINS)
    named = list(dict.fromkeys(_REMAINING.findall(messages)))
    for resource in named or [r.kind for r in KNOWN if r.namespaced and r.kind != "Event"]:
        try:
            kind = cluster.kinds.kind_for(resource) if named else resource
            found = cluster.list(kind, namespace)
        except ApiFailed:
            continue
        for obj in found:
            if named or obj["metadata"].get("finalizers") or kind == "Pod":
                yield {**obj, "kind": obj.get("kind") or kind.partition(".")[0]}


def _object_line(cluster: Cluster, obj: Json) -> str:
    meta, title = obj["metadata"], title_of(obj)
    if finalizers := meta.get("finalizers"):
        return f"{title} has the finalizer {', '.join(finalizers)}"
    if obj["kind"] != "Pod":
        return f"{title} still exists" + (", being deleted" if meta.get("deletionTimestamp") else "")
    pod = PodView.of(obj)
    grace = f"being deleted with {meta.get('deletionGracePeriodSeconds')} s of grace"
    line = f"{title}: {grace if pod.deleting else 'not being deleted'}"
    if not pod.node:
        return line
    node = cluster.get("Node", pod.node)
    state = "gone" if node is None else "Ready" if NodeView.of(node).ready else "not Ready"
    return f"{line}, its node {pod.node} is {state}"


def _unavailable(cluster: Cluster) -> list[Json]:
    return [
        service
        for service in cluster.list("APIService")
        if any(c.type == "Available" and c.status != "True" for c in Condition.all_of(service))
    ]


def _unavailable_line(service: Json) -> str:
    backend = parts(service)[1].get("service") or {}
    server = f", served by Service {backend.get('namespace')}/{backend.get('name')}" if backend else ""
    condition = next(c for c in Condition.all_of(service) if c.type == "Available")
    name, message = service["metadata"]["name"], " ".join(condition.message.split())
    return f"APIService {name} is unavailable: {condition.reason}: {message}{server}"

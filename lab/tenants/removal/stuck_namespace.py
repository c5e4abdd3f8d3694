"""Why a namespace does not go: what is left in it, which finalizer holds that, and which API is unavailable.

Only told, never cured by force: a finalizer that is stripped leaves behind what its controller would have cleaned up.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from lab.errors import ApiFailed, WaitTimeout
from lab.kube import Cluster
from lab.kube.rest_mapper import KNOWN
from lab.objects.views import Condition, NodeView, PodView

Json = dict[str, Any]

_TELLING = (
    "NamespaceDeletionDiscoveryFailure",
    "NamespaceDeletionGroupVersionParsingFailure",
    "NamespaceDeletionContentFailure",
    "NamespaceContentRemaining",
    "NamespaceFinalizersRemaining",
)
"""Conditions of a namespace that is being deleted (k8s.io/api/core/v1, NamespaceConditionType)."""

_REMAINING = re.compile(r"(\S+) has \d+ resource instances")
"""How NamespaceContentRemaining words what is left (kubernetes 1.34, pkg/controller/namespace/deletion)."""

_OBJECTS = 20
"""How many objects are told."""

_DISCOVERY_FAILS = "NamespaceDeletionDiscoveryFailure"


class StuckNamespace(WaitTimeout):
    """A namespace is being deleted and does not go; the evidence says what holds it."""

    title = "namespace hangs"


def hangs(cluster: Cluster, namespace: str, seconds: float) -> StuckNamespace:
    """The error for a namespace that was not gone after ``seconds``."""
    lines = why_hanging(cluster, namespace)
    return StuckNamespace(
        f"namespace {namespace} is still there after {seconds:g} s",
        evidence=lines or ("it says nothing about why: the namespace controller may not run",),
        fix=_next(cluster, namespace),
    )


def why_hanging(cluster: Cluster, namespace: str) -> tuple[str, ...]:
    """What holds a namespace that is being deleted, one line each: its own words, APIs, then objects. Read only.

    Nothing for a namespace that is gone, or that nobody deletes.
    """
    space = cluster.get("Namespace", namespace)
    if space is None or not _meta(space).get("deletionTimestamp"):
        return ()
    lines = [
        f"{condition.type}: {' '.join(condition.message.split())}"
        for condition in Condition.all_of(space)
        if condition.type in _TELLING and condition.status == "True"
    ]
    lines += [f"{_title(service)} is unavailable: {_why(service)}" for service in _unavailable(cluster)]
    own = [*(_meta(space).get("finalizers") or []), *((space.get("spec") or {}).get("finalizers") or [])]
    lines += [f"Namespace {namespace} itself has the finalizer {one}" for one in own if one != "kubernetes"]
    objects = list(_remaining(cluster, space))
    lines += [_held(cluster, obj) for obj in objects[:_OBJECTS]]
    if len(objects) > _OBJECTS:
        lines.append(f"… and {len(objects) - _OBJECTS} more objects")
    return tuple(lines)


def _next(cluster: Cluster, namespace: str) -> str:
    """The one thing to do about it: an API first, since without it nothing can even be listed."""
    space = cluster.get("Namespace", namespace) or {}
    for service in _unavailable(cluster):
        name, backend = _meta(service)["name"], (service.get("spec") or {}).get("service") or {}
        if backend and cluster.get("Namespace", backend.get("namespace", "")) is None:
            return f"nobody serves it any more: {cluster.kubectl('delete', 'apiservice', name)}"
        if any(c.type == _DISCOVERY_FAILS and c.status == "True" for c in Condition.all_of(space)):
            return f"get that API to answer: {cluster.kubectl('describe', 'apiservice', name)}"
    for obj in _remaining(cluster, space):
        meta = _meta(obj)
        if held := meta.get("finalizers"):
            what = [obj["kind"].lower(), meta["name"], "-n", namespace, "-o", "yaml"]
            return f"let the controller of {held[0]} run until it has let go of it: {cluster.kubectl('get', *what)}"
    return f"look at what is left: {cluster.kubectl('describe', 'namespace', namespace)}"


def _remaining(cluster: Cluster, space: Json) -> Iterator[Json]:
    """Objects that are still in the namespace: of the kinds it names, or else whatever carries a finalizer."""
    namespace = _meta(space).get("name", "")
    said = " ".join(c.message for c in Condition.all_of(space) if c.type == "NamespaceContentRemaining")
    named = _REMAINING.findall(said)
    for kind in [*_kinds(cluster, named)] if named else [r.kind for r in KNOWN if r.namespaced and r.kind != "Event"]:
        try:
            found = cluster.list(kind, namespace)
        except ApiFailed:
            continue
        for obj in found:
            if named or _meta(obj).get("finalizers") or kind == "Pod":
                yield {**obj, "kind": obj.get("kind") or kind.partition(".")[0]}


def _kinds(cluster: Cluster, resources: list[str]) -> Iterator[str]:
    for resource in dict.fromkeys(resources):
        try:
            yield cluster.kinds.in_words(resource)
        except ApiFailed:
            continue


def _held(cluster: Cluster, obj: Json) -> str:
    meta = _meta(obj)
    title = f"{obj['kind']} {meta.get('namespace', '')}/{meta.get('name', '')}"
    if finalizers := meta.get("finalizers"):
        return f"{title} has the finalizer {', '.join(finalizers)}"
    if obj["kind"] != "Pod":
        return f"{title} is still there" + (", being deleted" if meta.get("deletionTimestamp") else "")
    pod = PodView.of(obj)
    node = cluster.get("Node", pod.node) if pod.node else None
    grace = meta.get("deletionGracePeriodSeconds")
    words = [f"being deleted with {grace} s of grace" if pod.deleting else "nobody deletes it"]
    if pod.node:
        there = "is gone" if node is None else "is Ready" if NodeView.of(node).ready else "is not Ready"
        words.append(f"its node {pod.node} {there}")
    return f"{title}: {', '.join(words)}"


def _unavailable(cluster: Cluster) -> list[Json]:
    return [
        service
        for service in cluster.list("APIService")
        if any(c.type == "Available" and c.status != "True" for c in Condition.all_of(service))
    ]


def _why(service: Json) -> str:
    backend = (service.get("spec") or {}).get("service") or {}
    served = f", served by Service {backend.get('namespace')}/{backend.get('name')}" if backend else ""
    condition = next(c for c in Condition.all_of(service) if c.type == "Available")
    return f"{condition.reason}: {' '.join(condition.message.split())}{served}"


def _title(obj: Json) -> str:
    return f"APIService {_meta(obj).get('name', '')}"


def _meta(obj: Json) -> Json:
    return dict(obj.get("metadata") or {})

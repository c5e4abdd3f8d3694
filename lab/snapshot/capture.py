"""The parts of objects that a cluster snapshot keeps, and log tails of components and crashing containers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from lab.errors import ApiFailed
from lab.kai.names import KAI_SCHEDULER, RESERVATION_APP
from lab.kube import Cluster
from lab.objects.fields import Obj, labels_of, parts
from lab.objects.redact import redact_text

LOG_LINES = 120
SHARED_GPU = "-shared-gpu"
"""Part of the names of the ConfigMaps by which KAI's binder gives a container its GPU (KAI 0.7.11 to 0.17.0)."""

Json = dict[str, Any]


def slim(obj: Json) -> Json:
    """The object without managedFields, schemas of CRDs, images of nodes, and values of ConfigMaps except KAI's."""
    meta = {key: value for key, value in (obj.get("metadata") or {}).items() if key != "managedFields"}
    kept = {**obj, "metadata": meta}
    if obj.get("kind") == "ConfigMap" and SHARED_GPU not in meta.get("name", ""):
        kept.pop("binaryData", None)
        kept["data"] = dict.fromkeys(obj.get("data") or {}, "")
    elif obj.get("kind") == "CustomResourceDefinition":
        spec = obj.get("spec") or {}
        versions = [
            {key: version[key] for key in ("name", "served", "storage") if key in version}
            for version in spec.get("versions") or []
        ]
        kept["spec"] = {key: spec[key] for key in ("group", "names", "scope") if key in spec}
        kept["spec"]["versions"] = versions
    elif obj.get("kind") == "Node":
        kept["status"] = {key: value for key, value in (obj.get("status") or {}).items() if key != "images"}
    return kept


def log_tails(cluster: Cluster, pods: Iterable[Obj]) -> Mapping[str, tuple[str, ...]]:
    """Last lines of KAI's components by their ``app``, and of crashing containers by ``namespace/pod``.

    Unreadable logs are left out.
    """
    wanted = {title: log for pod in pods for title, log in _logs(pod)}
    with ThreadPoolExecutor(max_workers=8, thread_name_prefix="logs") as pool:
        texts = pool.map(lambda log: _tail(cluster, *log), wanted.values())
        return {title: lines for title, lines in zip(wanted, texts, strict=True) if lines}


def _logs(pod: Obj) -> list[tuple[str, tuple[str, str, str, bool]]]:
    """Title of each useful log, with its namespace, pod, container and whether it is of the previous run."""
    meta, _, status = parts(pod)
    namespace, name = meta.get("namespace", ""), meta["name"]
    states = status.get("containerStatuses") or []
    if namespace == KAI_SCHEDULER and states:
        return [(labels_of(meta).get("app") or name, (namespace, name, states[0]["name"], False))]
    for container in states:
        state = container.get("state") or {}
        previous = state.get("waiting") is not None and bool((container.get("lastState") or {}).get("terminated"))
        if previous or (state.get("terminated") or {}).get("exitCode"):
            return [(f"{namespace}/{name}", (namespace, name, container["name"], previous))]
    if namespace == RESERVATION_APP and states:
        return [(f"{namespace}/{name}", (namespace, name, states[0]["name"], False))]
    return []


def _tail(cluster: Cluster, namespace: str, pod: str, container: str, previous: bool) -> tuple[str, ...]:
    try:
        text = cluster.logs(pod, namespace, container, tail=LOG_LINES, previous=previous)
    except ApiFailed:  # the container has not started, or the kubelet has deleted its log
        return ()
    return tuple(redact_text(text).splitlines()[-LOG_LINES:])

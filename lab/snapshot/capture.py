"""What of a cluster is kept when it is read as a whole: objects without ballast, and last words of components."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from lab.errors import ApiFailed
from lab.kai.names import KAI_SCHEDULER, RESERVATION_APP
from lab.kube import Cluster
from lab.objects.fields import Obj
from lab.objects.redact import redact_text

LOG_LINES = 120
SHARED_GPU = "-shared-gpu"
"""In the names of the ConfigMaps by which KAI's binder tells a container its GPU (KAI 0.7.11 to 0.17.0)."""

Json = dict[str, Any]


def slim(obj: Json) -> Json:
    """The object without what nobody explains by: managedFields, schemas of CRDs, values of ConfigMaps.

    The values of KAI's own ConfigMaps of shared GPUs stay.
    """
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


def last_words(cluster: Cluster, pods: Iterable[Obj]) -> Mapping[str, tuple[str, ...]]:
    """The last lines of KAI's components (by their ``app``), and of containers that crash (``namespace/pod``).

    What cannot be read is left out.
    """
    wanted = {title: place for pod in pods for title, place in _talkers(pod)}
    with ThreadPoolExecutor(max_workers=8, thread_name_prefix="logs") as pool:
        texts = pool.map(lambda place: _tail(cluster, *place), wanted.values())
        return {title: lines for title, lines in zip(wanted, texts, strict=True) if lines}


def _talkers(pod: Obj) -> list[tuple[str, tuple[str, str, str, bool]]]:
    """Title, and namespace, pod, container and whether its previous run, of the logs worth reading."""
    meta = pod["metadata"]
    space, name = meta.get("namespace", ""), meta["name"]
    states = (pod.get("status") or {}).get("containerStatuses") or []
    if space == KAI_SCHEDULER and states:
        app = (meta.get("labels") or {}).get("app") or name
        return [(app, (space, name, states[0]["name"], False))]
    for state in states:
        now = state.get("state") or {}
        if now.get("waiting") is not None and (state.get("lastState") or {}).get("terminated"):
            return [(f"{space}/{name}", (space, name, state["name"], True))]
        if (now.get("terminated") or {}).get("exitCode"):
            return [(f"{space}/{name}", (space, name, state["name"], False))]
    if space == RESERVATION_APP and states:
        return [(f"{space}/{name}", (space, name, states[0]["name"], False))]
    return []


def _tail(cluster: Cluster, namespace: str, pod: str, container: str, previous: bool) -> tuple[str, ...]:
    try:
        text = cluster.logs(pod, namespace, container, tail=LOG_LINES, previous=previous)
    except ApiFailed:  # a container that has not started, or whose log the kubelet has thrown away
        return ()
    return tuple(redact_text(line) for line in text.splitlines()[-LOG_LINES:])

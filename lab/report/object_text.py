"""Objects of a cluster as text: YAML, a summary of pods and events, the GPU map."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from lab.gpu.map.build import KINDS, map_of
from lab.gpu.map.text import gpu_lines
from lab.kube import Cluster
from lab.kube.describe import state_of, title_of
from lab.objects.redact import redact
from lab.objects.views import EventView, PodView
from lab.snapshot.cluster_snapshot import ClusterSnapshot

Json = dict[str, Any]


def dump(objects: Iterable[Json]) -> str:
    """Objects as YAML documents without secrets and managed fields; empty without objects."""
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    documents = []
    for obj in objects:
        meta = {key: value for key, value in obj.get("metadata", {}).items() if key != "managedFields"}
        documents.append(redact({**obj, "metadata": meta}))
    return str(yaml.dump_all(documents, Dumper=dumper, sort_keys=False, width=120)) if documents else ""


def summary(pods: Iterable[Json], events: Iterable[EventView]) -> str:
    """Pods in a few lines each, with the fields that matter to KAI, and the events in order."""
    lines: list[str] = []
    for obj in pods:
        pod = PodView.of(obj)
        facts = {
            "node": pod.node,
            "scheduler": pod.scheduler_name,
            "queue": pod.queue,
            "pod group": pod.pod_group,
            "received": pod.received_resource_type,
            "gpu groups": " ".join(pod.gpu_groups),
            "gpus": pod.requests.gpus,
            "fraction": pod.requests.fraction,
            "gpu memory": pod.requests.gpu_memory,
            "runtime class": pod.runtime_class,
        }
        lines.append(f"{title_of(obj)}: {state_of(obj)}")
        lines += [f"    {key}: {value}" for key, value in facts.items() if value]
    found = [_line(event) for event in events]
    return "\n".join([*lines, *(["", "events:"] if found else []), *found, ""]) if lines or found else ""


def events_of(cluster: Cluster, spaces: Iterable[str | None]) -> list[EventView]:
    """The events of namespaces, oldest first; None means all namespaces."""
    events = [EventView.of(obj) for space in spaces for obj in cluster.list("Event", space)]
    return sorted(events, key=lambda event: event.last.timestamp() if event.last else 0.0)


def _line(event: EventView) -> str:
    when = f"{event.last:%H:%M:%S}" if event.last else "--:--:--"
    often = f" ×{event.count}" if event.count > 1 else ""
    text = " ".join(event.message.split())
    about = f"{event.kind}/{event.name} {event.reason}{often}"
    return f"{when} {event.type:7} {event.reporter or '-'} {about}: {text}"


def gpus_of(cluster: Cluster) -> str:
    """The GPU map according to the API server; empty if there are neither GPUs nor pods that wait for one."""
    found = map_of(ClusterSnapshot(datetime.now(UTC), {kind: tuple(cluster.list(kind)) for kind in KINDS}))
    return "\n".join([*gpu_lines(found), ""]) if found.nodes or found.waiting else ""

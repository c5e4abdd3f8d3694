"""Evidence of a failed wait: a line of state for each object and its pods, and the newest events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from lab.errors import ApiFailed
from lab.kube.api import Api
from lab.kube.readiness import is_ready, rollout
from lab.objects.kai import PodGroupView
from lab.objects.redact import redact_text
from lab.objects.views import Condition, EventView, NodeView, PodView
from lab.text import count

OBJECTS = 12
EVENTS = 10
LOGS = 2
LOG_LINES = 4

Obj = Mapping[str, Any]

_BAD_WHEN_TRUE = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable", "ReplicaFailure", "Failed")

_IGNORED_REASONS = ("", "PodCompleted")


def title_of(obj: Obj) -> str:
    """``Kind namespace/name``."""
    meta = obj.get("metadata", {})
    prefix = f"{meta['namespace']}/" if meta.get("namespace") else ""
    return f"{obj.get('kind', 'object')} {prefix}{meta.get('name', '')}"


def state_of(obj: Obj) -> str:
    """The state of an object in one line; it differs only after a relevant change."""
    kind = obj.get("kind")
    if kind == "Pod":
        words = _pod(PodView.of(obj))
    elif kind == "Node":
        words = _node(NodeView.of(obj))
    elif kind == "PodGroup":
        group = PodGroupView.of(obj)
        words = [f"queue {group.queue or '-'}", *(_because(r.reason, r.message) for r in group.refusals)]
    elif kind in ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"):
        have, want = rollout(obj)
        words = [f"{have} of {want} available", *_bad_conditions(obj)]
    else:
        phase = obj.get("status", {}).get("phase") if isinstance(obj.get("status"), dict) else None
        words = [str(phase)] if phase else ["ready" if is_ready(obj) else "exists"]
        words += _bad_conditions(obj)
    if kind != "Pod" and obj.get("metadata", {}).get("deletionTimestamp"):
        words.append("being deleted")
    return "; ".join(words)


def gather(api: Api, kind: str, objects: Sequence[Obj], namespace: str | None, where: str) -> list[str]:
    """The evidence lines for a set of objects of one kind, unready ones first. Never raises ApiFailed.

    Reads events, logs of crashing containers, and the pods of workloads. ``where`` is the selection in words, shown
    when nothing matches.
    """
    ordered = sorted(objects, key=is_ready)
    lines = [f"{title_of(obj)}: {state_of(obj)}" for obj in ordered[:OBJECTS]]
    if len(ordered) > OBJECTS:
        lines.append(f"… and {len(ordered) - OBJECTS} more")
    if not ordered:
        lines.append(f"no {kind} {where}".rstrip())
    try:
        pods = [pod for obj in ordered[:3] if not is_ready(obj) for pod in _pods_of(api, obj)]
        lines += [f"  {title_of(pod)}: {state_of(pod)}" for pod in pods[:OBJECTS]]
        every = [*ordered, *pods]
        lines += _log_tails(api, [PodView.of(o) for o in every if o.get("kind") == "Pod"])
        lines += _events(api, every, namespace)
    except ApiFailed as error:
        lines.append(f"more evidence is not available: {error.what}")
    return redact_text("\n".join(lines)).splitlines()


def _pod(pod: PodView) -> list[str]:
    words = [pod.phase or "no phase", "ready" if pod.ready else "not ready"]
    if pod.reason:
        words[0] += f" ({pod.reason})"
    if pod.deleting:
        words.append("being deleted")
    words.append(f"on {pod.node}" if pod.node else f"not bound, scheduler {pod.scheduler_name or '-'}")
    words += [f"{w.name} waits: {_because(w.reason, w.message)}" for w in pod.waiting]
    # The Ready conditions only repeat the containers' states.
    ignored = ("Ready", "ContainersReady") if pod.waiting else ("ContainersReady",)
    words += [
        f"{c.type}={c.status}: {_because(c.reason, c.message)}"
        for c in pod.conditions
        if not pod.ready and c.status != "True" and c.type not in ignored and c.reason not in _IGNORED_REASONS
    ]
    if pod.restarts:
        words.append(f"{pod.restarts} restarts")
    return words


def _node(node: NodeView) -> list[str]:
    words = ["Ready" if node.ready else "not Ready", count(node.gpus, "GPU")]
    for condition in node.conditions:
        if condition.type == "Ready" and condition.status != "True":
            words.append(_because(condition.reason, condition.message))
        elif condition.type in _BAD_WHEN_TRUE and condition.status == "True":
            words.append(condition.type)
    if node.taints:
        words.append(f"taints {', '.join(node.taints)}")
    return words


def _bad_conditions(obj: Obj) -> list[str]:
    # a Namespace has conditions only while it is being deleted, each for something that prevents it
    reversed_sense = obj.get("kind") == "Namespace"
    return [
        f"{c.type}={c.status}: {_because(c.reason, c.message)}"
        for c in Condition.all_of(obj)
        if (c.status == "True") == (reversed_sense or c.type in _BAD_WHEN_TRUE)
    ]


def _because(reason: str, message: str) -> str:
    text = " ".join(message.split())
    if len(text) > 240:
        text = text[:240] + "…"
    return f"{reason} ({text})" if reason and text else reason or text or "no reason given"


def _pods_of(api: Api, obj: Obj) -> list[dict[str, Any]]:
    """The unready pods that a workload selects, or all that are left in a namespace."""
    if obj.get("kind") == "Namespace":
        return api.list("Pod", obj["metadata"]["name"])
    chosen = obj.get("spec", {}).get("selector")
    labels = chosen.get("matchLabels") if isinstance(chosen, dict) else None
    if obj.get("kind") == "Pod" or not labels:
        return []
    selector = ",".join(f"{key}={value}" for key, value in labels.items())
    pods = api.list("Pod", obj.get("metadata", {}).get("namespace"), labels=selector)
    return [pod for pod in pods if not is_ready(pod)]


def _log_tails(api: Api, pods: Iterable[PodView]) -> list[str]:
    """The last log lines of containers in CrashLoopBackOff, which mostly show the cause."""
    lines: list[str] = []
    crashing = [(p, w.name) for p in pods for w in p.waiting if w.reason == "CrashLoopBackOff"]
    for pod, container in crashing[:LOGS]:
        try:
            text = api.logs(pod.name, pod.namespace, container, tail=LOG_LINES, previous=True)
        except ApiFailed:  # the kubelet keeps the log of the previous run only for a while
            continue
        lines += [f"log of {pod.name}/{container}: {line}" for line in text.splitlines()[-LOG_LINES:]]
    return lines


def _events(api: Api, objects: Sequence[Obj], namespace: str | None) -> list[str]:
    """The newest events about these objects; without objects, the namespace's newest warnings."""
    spaces = sorted({obj.get("metadata", {}).get("namespace") or "default" for obj in objects})
    spaces = spaces or ([namespace] if namespace else [])
    events = [EventView.of(raw) for space in spaces[:3] for raw in api.list("Event", space)]
    if objects:
        uids = {obj.get("metadata", {}).get("uid") for obj in objects}
        names = {(obj.get("kind"), obj.get("metadata", {}).get("name")) for obj in objects}
        events = [e for e in events if e.uid in uids or (not e.namespace and (e.kind, e.name) in names)]
    else:
        events = [e for e in events if e.type == "Warning"]
    never = datetime.min.replace(tzinfo=UTC)
    events.sort(key=lambda e: e.last or never)
    return [_event(e) for e in events[-EVENTS:]]


def _event(event: EventView) -> str:
    when = f" {event.last:%H:%M:%S}" if event.last else ""
    times = f" ×{event.count}" if event.count > 1 and event.last else ""
    return f"event{when}{times} {event.kind}/{event.name} {event.reason}: {' '.join(event.message.split())}"

"""Evidence from GPU pods that do not run: status, events, BindRequests and logs. Pure, except for reading logs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

from lab.errors import ApiFailed
from lab.gpu.diagnosis.cluster_stages import is_plugin, title_of
from lab.gpu.diagnosis.node_facts import HANDLER
from lab.gpu.diagnosis.symptoms import Evidence
from lab.kai.names import RESERVATION_APP
from lab.kube import Cluster
from lab.objects.fields import Obj, parts
from lab.objects.kai import is_reservation
from lab.objects.pod_requests import PodRequests
from lab.objects.views import ContainerView, EventView, PodView
from lab.snapshot.cluster_snapshot import ClusterSnapshot
from lab.tools.background import within

LINES = 200
"""Last lines of a log that are read."""

_AT_ONCE = 8
"""Logs that are read at the same time."""

_EVENTS = 6
"""Newest warnings about one pod that are read."""

_RECENT = timedelta(minutes=2)
"""For events about objects that may be gone: a rejected pod, a reservation pod that the binder deleted."""

_WORKLOADS = ("ReplicaSet", "StatefulSet", "DaemonSet", "Job")


@dataclass(frozen=True)
class LogRef:
    """A log to read."""

    stream: str
    namespace: str
    pod: str
    container: str
    node: str
    previous: bool = False


def uses_gpus(obj: Obj) -> bool:
    """Return whether a pod requests GPUs, or belongs to the software that provides them."""
    needs, view = PodRequests.of(obj), PodView.of(obj)
    if needs.wants_gpu or view.runtime_class == HANDLER or view.namespace == RESERVATION_APP:
        return True
    boxes = parts(obj)[1].get("containers") or []
    words = [str(word) for box in boxes for word in (*(box.get("command") or ()), *(box.get("args") or ()))]
    return is_plugin(obj) or any("nvidia-smi" in word for word in words)


def unhealthy(obj: Obj) -> bool:
    """Return whether a pod is neither ready nor succeeded nor being deleted."""
    view = PodView.of(obj)
    return not view.deleting and not view.ready and view.phase != "Succeeded"


def pod_evidence(snapshot: ClusterSnapshot) -> tuple[Evidence, ...]:
    """Return evidence about GPU pods that do not run, and about those that cannot be created."""
    pods = [obj for obj in snapshot.of("Pod") if uses_gpus(obj) and unhealthy(obj)]
    found = [line for obj in pods for line in _of_pod(snapshot, obj)]
    shares = any(PodRequests.of(obj).shares_gpu for obj in pods)
    since = snapshot.at - _RECENT
    recent = [event for event in snapshot.events if event.type == "Warning" and event.last and event.last > since]
    return (*found, *(_of_gone(recent, snapshot) if shares else ()), *_of_workloads(recent, snapshot))


def wanted_logs(snapshot: ClusterSnapshot) -> tuple[LogRef, ...]:
    """Return the logs of device plugins, reservation pods and crashed GPU pods."""
    return tuple(ref for obj in snapshot.of("Pod") if uses_gpus(obj) for ref in _logs(obj))


def read_logs(cluster: Cluster, refs: Iterable[LogRef], timeout: float) -> tuple[Evidence, ...]:
    """Read logs, all at once, within ``timeout`` seconds; those that take longer or fail are left out."""
    lines = within(timeout, {ref: partial(_read, cluster, ref) for ref in refs}, at_once=_AT_ONCE)
    return tuple(
        Evidence(ref.stream, f"{ref.namespace}/{ref.pod}", line, ref.node) for ref, log in lines.items() for line in log
    )


def _of_pod(snapshot: ClusterSnapshot, obj: Obj) -> Iterator[Evidence]:
    view = PodView.of(obj)

    def line(stream: str, reason: str, message: str) -> Evidence:
        return Evidence(stream, title_of(view), " ".join(f"{reason}: {message}".split()), view.node)

    if view.reason:
        yield line("pod-status", view.reason, parts(obj)[2].get("message", ""))
    for box in ContainerView.all_of(obj):
        for reason, message in ((box.reason, box.message), (box.last_reason, box.last_message)):
            if reason or message:
                yield line("pod-status", reason, message)
    for condition in view.conditions:
        if condition.type in ("PodScheduled", "PodBound") and condition.status == "False" and condition.message:
            yield line("pod-status", condition.reason, condition.message)
    for bind in snapshot.bind_requests:
        if (bind.namespace, bind.pod) == (view.namespace, view.name) and bind.reason:
            yield line("pod-status", "BindRequest", bind.reason)
    warnings = [event for event in snapshot.events_about(view.uid) if event.type == "Warning"]
    for event in warnings[-_EVENTS:]:
        yield line("event", event.reason, event.message)


def _of_gone(events: Iterable[EventView], snapshot: ClusterSnapshot) -> Iterator[Evidence]:
    """Events of reservation pods that the binder has already deleted."""
    existing = {PodView.of(obj).uid for obj in snapshot.of("Pod")}
    return (_of_event(event) for event in events if event.namespace == RESERVATION_APP and event.uid not in existing)


def _of_workloads(events: Iterable[EventView], snapshot: ClusterSnapshot) -> Iterator[Evidence]:
    """Events of workloads that cannot create their pods."""
    lacking = {parts(obj)[0].get("uid") for kind in _WORKLOADS for obj in snapshot.of(kind) if _lacks_pods(obj)}
    return (_of_event(event) for event in events if event.uid in lacking and event.reason == "FailedCreate")


def _of_event(event: EventView) -> Evidence:
    text = " ".join(f"{event.reason}: {event.message}".split())
    return Evidence("event", f"{event.namespace}/{event.name}", text)


def _lacks_pods(obj: Obj) -> bool:
    spec, status = parts(obj)[1:]
    wanted = spec.get("replicas", spec.get("parallelism", status.get("desiredNumberScheduled", 0))) or 0
    seen = status.get("replicas", status.get("active", status.get("currentNumberScheduled", 0))) or 0
    return int(wanted) > int(seen) and not status.get("succeeded")


def _logs(obj: Obj) -> Iterator[LogRef]:
    view = PodView.of(obj)
    plugin, reservation = is_plugin(obj), is_reservation(obj) or view.namespace == RESERVATION_APP
    stream = "plugin-log" if plugin else "reservation-log" if reservation else "pod-log"
    for box in ContainerView.all_of(obj):
        ref = LogRef(stream, view.namespace, view.name, box.name, view.node)
        if box.state in ("running", "terminated") and (plugin or reservation or (unhealthy(obj) and box.exit_code)):
            yield ref
        if box.restarts and unhealthy(obj):
            yield replace(ref, previous=True)


def _read(cluster: Cluster, ref: LogRef) -> tuple[str, ...]:
    try:
        text = cluster.logs(ref.pod, ref.namespace, ref.container, tail=LINES, previous=ref.previous)
    except ApiFailed:  # the container has not started, or the kubelet deleted the log
        return ()
    return tuple(text.splitlines()[-LINES:])

"""What pods with GPUs that do not run say about it: status, events, binds and logs. Pure, but for reading logs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import timedelta

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

LINES = 200
"""Last lines of a log that are looked at."""

_EVENTS = 6
"""Newest warnings about one pod that are looked at."""

_RECENT = timedelta(minutes=2)
"""For what is told of objects that may be gone: a refused pod, a reservation pod that the binder deleted."""

_MAKERS = ("ReplicaSet", "StatefulSet", "DaemonSet", "Job")


@dataclass(frozen=True)
class LogRef:
    """A log worth reading."""

    stream: str
    namespace: str
    pod: str
    container: str
    node: str
    previous: bool = False


def concerned(obj: Obj) -> bool:
    """Whether a pod has to do with GPUs."""
    needs, view = PodRequests.of(obj), PodView.of(obj)
    if needs.wants_gpu or view.runtime_class == HANDLER or view.namespace == RESERVATION_APP:
        return True
    return is_plugin(obj) or any("nvidia-smi" in word for word in _words(obj))


def unwell(obj: Obj) -> bool:
    """Whether a pod neither runs as it should nor has ended well."""
    view = PodView.of(obj)
    return not view.deleting and not view.ready and view.phase != "Succeeded"


def pod_evidence(world: ClusterSnapshot) -> tuple[Evidence, ...]:
    """What the cluster's objects say of GPU pods that do not run, and of those that may not be made."""
    sick = [obj for obj in world.of("Pod") if concerned(obj) and unwell(obj)]
    found = [line for obj in sick for line in _of_pod(world, obj)]
    shares = any(PodRequests.of(obj).shares_gpu for obj in sick)
    return (*found, *(_of_gone(world) if shares else ()), *_of_makers(world))


def wanted_logs(world: ClusterSnapshot) -> tuple[LogRef, ...]:
    """The logs worth reading: device plugins, reservation pods and whatever of GPU pods has crashed."""
    return tuple(ref for obj in world.of("Pod") if concerned(obj) for ref in _logs(obj))


def read_logs(cluster: Cluster, refs: Iterable[LogRef], timeout: float) -> tuple[Evidence, ...]:
    """Read logs, all at once, for at most ``timeout`` seconds; what cannot be read in time is left out."""
    pool = ThreadPoolExecutor(max_workers=8, thread_name_prefix="diagnose")
    try:
        asked = {ref: pool.submit(_read, cluster, ref) for ref in refs}
        wait(asked.values(), timeout=max(timeout, 0))
        lines = {ref: future.result() for ref, future in asked.items() if future.done()}
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    return tuple(
        Evidence(ref.stream, f"{ref.namespace}/{ref.pod}", line, ref.node)
        for ref, told in lines.items()
        for line in told
    )


def _of_pod(world: ClusterSnapshot, obj: Obj) -> Iterator[Evidence]:
    view, status = PodView.of(obj), parts(obj)[2]
    where = title_of(view)

    def say(stream: str, text: str) -> Evidence:
        return Evidence(stream, where, " ".join(text.split()), view.node)

    if view.reason:
        yield say("pod-status", f"{view.reason}: {status.get('message', '')}")
    for entry in [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]:
        for state in (entry.get("state") or {}, entry.get("lastState") or {}):
            for told in (state.get("waiting"), state.get("terminated")):
                if told and (told.get("message") or told.get("reason")):
                    yield say("pod-status", f"{told.get('reason', '')}: {told.get('message', '')}")
    for condition in view.conditions:
        if condition.type in ("PodScheduled", "PodBound") and condition.status == "False" and condition.message:
            yield say("pod-status", f"{condition.reason}: {condition.message}")
    for bind in world.bind_requests:
        if (bind.namespace, bind.pod) == (view.namespace, view.name) and bind.reason:
            yield say("pod-status", f"BindRequest: {bind.reason}")
    warnings = [event for event in world.events_about(view.uid) if event.type == "Warning"]
    for event in warnings[-_EVENTS:]:
        yield say("event", f"{event.reason}: {event.message}")


def _of_gone(world: ClusterSnapshot) -> Iterator[Evidence]:
    """Events of reservation pods that the binder has deleted already."""
    there = {PodView.of(obj).uid for obj in world.of("Pod")}
    for event in world.events:
        if event.namespace == RESERVATION_APP and event.uid not in there and _recent_warning(world, event):
            yield Evidence("event", f"{event.namespace}/{event.name}", f"{event.reason}: {event.message}")


def _of_makers(world: ClusterSnapshot) -> Iterator[Evidence]:
    """Why workloads that lack pods may not make them."""
    lacking = {parts(obj)[0].get("uid") for kind in _MAKERS for obj in world.of(kind) if _lacks(obj)}
    for event in world.events:
        if event.uid in lacking and event.reason == "FailedCreate" and _recent_warning(world, event):
            text = " ".join(event.message.split())
            yield Evidence("event", f"{event.namespace}/{event.name}", f"{event.reason}: {text}")


def _lacks(obj: Obj) -> bool:
    spec, status = parts(obj)[1:]
    wanted = spec.get("replicas", spec.get("parallelism", status.get("desiredNumberScheduled", 0))) or 0
    seen = status.get("replicas", status.get("active", status.get("currentNumberScheduled", 0))) or 0
    return int(wanted) > int(seen) and not status.get("succeeded")


def _recent_warning(world: ClusterSnapshot, event: EventView) -> bool:
    return event.type == "Warning" and event.last is not None and world.at - event.last < _RECENT


def _logs(obj: Obj) -> Iterator[LogRef]:
    view = PodView.of(obj)
    plugin, reservation = is_plugin(obj), is_reservation(obj) or view.namespace == RESERVATION_APP
    stream = "plugin-log" if plugin else "reservation-log" if reservation else "pod-log"
    for box in ContainerView.all_of(obj):
        ref = LogRef(stream, view.namespace, view.name, box.name, view.node)
        if box.state in ("running", "terminated") and (plugin or reservation or (unwell(obj) and box.exit_code)):
            yield ref
        if box.restarts and unwell(obj):
            yield LogRef(stream, view.namespace, view.name, box.name, view.node, previous=True)


def _read(cluster: Cluster, ref: LogRef) -> tuple[str, ...]:
    try:
        text = cluster.logs(ref.pod, ref.namespace, ref.container, tail=LINES, previous=ref.previous)
    except ApiFailed:  # a container that has not started, or a log that the kubelet threw away
        return ()
    return tuple(text.splitlines()[-LINES:])


def _words(obj: Obj) -> list[str]:
    boxes = parts(obj)[1].get("containers") or []
    return [str(word) for box in boxes for word in (*(box.get("command") or ()), *(box.get("args") or ()))]

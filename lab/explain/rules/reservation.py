"""Parts of GPUs: the reservation pod that holds the GPU, and the ConfigMaps that tell the container which one."""

from __future__ import annotations

import re
from datetime import timedelta

from lab.explain.component_messages import of_event
from lab.explain.explanation import PodStage
from lab.explain.pod_context import PodContext
from lab.explain.rule import UNBOUND, WAITING, rule
from lab.findings import Certainty, Finding
from lab.kai.names import CONFIGMAP_ANNOTATION, RESERVATION_APP
from lab.objects.views import ContainerView

_RECENT = timedelta(minutes=10)
_CLASS = re.compile(r'RuntimeClass "([^"]+)" not found|no runtime for "([^"]+)" is configured')
_IMAGE = re.compile(r"ErrImagePull|ImagePullBackOff|ErrImageNeverPull|InvalidImageName|Failed to pull image")
_NVML = re.compile(r"unable to initialize NVML: ?(.*)|found (\d+) devices, 1 was expected|unable to get device")
_SILENT = re.compile(r"reservation pod to allocate|annotation on reservation pod")
_SOURCE = "pkg/binder/binding/resourcereservation/resource_reservation.go"


def _voices(case: PodContext) -> list[str]:
    """All that was said about the reservation pods of this pod, or of late about any."""
    lines = [saying.line for saying in case.bind_errors]
    lines += [
        f"reservation pod {pod.name}: {w.name} waits: {w.reason}: {w.message}"
        for pod in case.reservations
        for w in pod.waiting
    ]
    for pod in case.reservations:
        obj = case.world.get("Pod", pod.name, pod.namespace) or {}
        lines += [
            f"reservation pod {pod.name}: {c.last_reason} with exit code {c.last_exit}"
            for c in ContainerView.all_of(obj)
            if c.last_reason
        ]
        lines += [f"log of {pod.name}: {line}" for line in case.world.logs.get(f"{pod.namespace}/{pod.name}", ())[-4:]]
    # The binder deletes a reservation pod that does not answer after 40 s: its events stay.
    events = [
        e
        for e in case.world.events
        if e.namespace == RESERVATION_APP and e.type == "Warning" and e.last and case.world.at - e.last < _RECENT
    ]
    return [*lines, *(f"reservation pod {e.name}: {of_event(e).line}" for e in reversed(events))]


def _stuck(case: PodContext) -> bool:
    """The pod waits for a GPU that it shares: it is being bound, or the binder failed."""
    if not case.needs.shares_gpu or not case.by_kai:
        return False
    ready = [r for r in case.reservations if r.reserved_gpu and r.phase == "Running"]
    groups = case.request.gpu_groups if case.request else ()
    return bool(case.bind_errors) or (bool(groups) and len(ready) < len(groups))


def _find(case: PodContext, pattern: re.Pattern[str]) -> tuple[re.Match[str], list[str]] | None:
    if not _stuck(case):
        return None
    lines = _voices(case)
    hits = [(match, line) for line in lines if (match := pattern.search(line))]
    return (hits[0][0], list(dict.fromkeys(line for _, line in hits))[:4]) if hits else None


@rule(
    "shared.reservation-class",
    "The reservation pod's RuntimeClass does not work",
    UNBOUND,
    f"{_SOURCE}; issues #340, #360, #575, #636",
)
def reservation_class(case: PodContext) -> Finding | None:
    """The class is hard-coded, a default or empty, by version."""
    found = _find(case, _CLASS)
    if found is None:
        return None
    match, lines = found
    key = case.kai.line.helm.reservation_class if case.kai else ""
    return Finding(
        f"the reservation pod for the GPU has RuntimeClass {match[1] or match[2]}, which does not work here",
        "create that RuntimeClass with a handler that containerd has"
        + (f", or set {key} in KAI's values" if key else ""),
        tuple(lines),
    )


@rule("shared.reservation-image", "The reservation pod's image cannot be pulled", UNBOUND, _SOURCE)
def reservation_image(case: PodContext) -> Finding | None:
    """Its image is resourcereservation of KAI's registry."""
    found = _find(case, _IMAGE)
    if found is None:
        return None
    return Finding(
        "the image of the reservation pod, which holds the GPU for the fraction, cannot be pulled",
        "put KAI's image resourcereservation of the same version where the nodes find it",
        tuple(found[1]),
    )


@rule(
    "shared.reservation-nvml",
    "The reservation pod finds no GPU",
    UNBOUND,
    "pkg/resourcereservation/discovery/discovery.go; issues #261, #349, #522, #65",
)
def reservation_nvml(case: PodContext) -> Finding | None:
    """It asks NVML for exactly one device: the runtime must be NVIDIA's."""
    found = _find(case, _NVML)
    if found is None:
        return None
    key = case.kai.line.helm.reservation_class if case.kai else ""
    return Finding(
        "the reservation pod does not see its one GPU by NVML, so it cannot say which GPU it holds",
        f"make it run with NVIDIA's runtime: {f'{key}=nvidia in the values' if key else 'default runtime of the node'}",
        tuple(found[1]),
    )


@rule(
    "shared.reservation-no-gpu",
    "The node gave the reservation pod no GPU",
    WAITING,
    "kubelet: UnexpectedAdmissionError, OutOfnvidia.com/gpu; seen after a node's restart",
)
def reservation_no_gpu(case: PodContext) -> Finding | None:
    """Failed reservation pods stay, and KAI and the kubelet then count GPUs differently."""
    if not case.needs.shares_gpu or not case.by_kai:
        return None
    failed = [r for r in case.reservations if r.phase == "Failed"]
    if not failed:
        return None
    return Finding(
        f"reservation pod {failed[0].name} has failed, so nobody holds the GPU for {case.title}",
        f"delete it and the pods of its GPU: {case.kubectl('delete', 'pod', failed[0].name, '-n', RESERVATION_APP)}",
        tuple(f"reservation pod {pod.name} on {pod.node}: {pod.phase} {pod.reason}" for pod in failed),
    )


@rule("shared.reservation-refused", "The reservation pod may not be created", UNBOUND, _SOURCE)
def reservation_refused(case: PodContext) -> Finding | None:
    """A quota or Pod Security in kai-resource-reservation, or a webhook."""
    found = _find(case, re.compile(r'gpu-reservation\S* is forbidden|pods "gpu-reservation[^"]*"|denied the request'))
    if found is None or any(_CLASS.search(line) for line in found[1]):
        return None
    return Finding(
        f"the binder may not create the reservation pod in {RESERVATION_APP}",
        f"take away what forbids it: {case.kubectl('get', 'resourcequota,limitrange', '-n', RESERVATION_APP)}",
        tuple(found[1]),
    )


_CAUSES = (reservation_class, reservation_image, reservation_nvml, reservation_no_gpu, reservation_refused)


@rule(
    "shared.reservation-stuck",
    "The reservation pod does not say which GPU it holds",
    UNBOUND,
    f"{_SOURCE}: waits 40 s, then deletes it",
)
def reservation_stuck(case: PodContext) -> Finding | None:
    """Without the annotation there is no binding; told where none of the causes above is found."""
    if not _stuck(case) or any(cause(case) is not None for cause in _CAUSES):
        return None
    waiting = [r for r in case.reservations if not r.reserved_gpu]
    failed = [s for s in case.bind_errors if _SILENT.search(s.text)]
    if not waiting and not failed:
        return None
    return Finding(
        f"{case.title} waits for the reservation pod of its GPU, which does not say which GPU it holds",
        f"see it while it lives: {case.kubectl('get', 'pods,events', '-n', RESERVATION_APP)}",
        (*(f"reservation pod {r.name} on {r.node}: {r.phase or 'new'}" for r in waiting), *_voices(case)[:4]),
        Certainty.CERTAIN if failed else Certainty.LIKELY,
    )


@rule(
    "shared.reservation-missing",
    "A shared GPU without a reservation pod",
    (PodStage.BOUND, PodStage.RUNNING),
    f"{_SOURCE}, deleteNonReservedPods",
)
def reservation_missing(case: PodContext) -> Finding | None:
    """The binder deletes such pods at its next look at the node."""
    if not case.by_kai or not case.pod.gpu_groups or not case.world.has("Pod"):
        return None
    held = {group for r in case.reservations if not r.ended for group in r.gpu_groups}
    bare = sorted(set(case.pod.gpu_groups) - held)
    if not bare:
        return None
    return Finding(
        f"no reservation pod holds the GPU that {case.title} shares: KAI's binder will delete the pod",
        "make the pod anew; find out who deleted the reservation pod",
        tuple(f"GPU group {group}: no live pod in {RESERVATION_APP}" for group in bare),
    )


@rule(
    "shared.configmaps",
    "KAI's ConfigMaps for the GPU are missing",
    (PodStage.BOUND,),
    "pkg/binder/common/gpu_access.go: the reference is not optional; a short wait is normal",
)
def configmaps(case: PodContext) -> Finding | None:
    """The container waits until the binder's ConfigMaps exist."""
    told = [s for s in case.kubelet if "shared-gpu" in s.text and "not found" in s.text]
    if not told or (case.twin is not None and not case.schedules):
        return None
    wanted = case.annotation(CONFIGMAP_ANNOTATION)
    return Finding(
        f"{case.title} waits for the ConfigMaps by which KAI tells it its GPU",
        f"if they do not come, see the binder: {case.kubectl('get', 'configmaps', '-n', case.pod.namespace)}",
        (told[0].line, f"annotation {CONFIGMAP_ANNOTATION}: {wanted or 'missing'}"),
    )

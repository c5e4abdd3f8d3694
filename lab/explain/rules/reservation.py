"""Rules about shared GPUs: the reservation pod that holds the GPU, and the ConfigMaps that name it to the container."""

from __future__ import annotations

import re
from datetime import timedelta

from lab.explain.component_messages import of_event
from lab.explain.pod_context import PodContext
from lab.explain.rule import ALIVE, BOUND, STARTED, UNBOUND, rule
from lab.findings import Certainty, Finding
from lab.kai.names import CONFIGMAP_ANNOTATION, RESERVATION_APP
from lab.objects.views import ContainerView

_RECENT = timedelta(minutes=10)
_CLASS = re.compile(r'RuntimeClass "([^"]+)" not found|no runtime for "([^"]+)" is configured')
_IMAGE = re.compile(r"ErrImagePull|ImagePullBackOff|ErrImageNeverPull|InvalidImageName|Failed to pull image")
_NVML = re.compile(r"unable to initialize NVML: ?(.*)|found (\d+) devices, 1 was expected|unable to get device")
_REFUSED = re.compile(r'gpu-reservation\S* is forbidden|pods "gpu-reservation[^"]*"|denied the request')
_NO_ANSWER = re.compile(r"reservation pod to allocate|annotation on reservation pod")
_LOG = "log of "
_SOURCE = "pkg/binder/binding/resourcereservation/resource_reservation.go"


def _lines(ctx: PodContext) -> list[str]:
    """Return all messages about the reservation pods of this pod, and recent ones about any."""
    lines = [message.line for message in ctx.bind_errors]
    lines += [
        f"reservation pod {pod.name}: {w.name} waits: {w.reason}: {w.message}"
        for pod in ctx.reservations
        for w in pod.waiting
    ]
    for pod in ctx.reservations:
        obj = ctx.snapshot.get("Pod", pod.name, pod.namespace) or {}
        lines += [
            f"reservation pod {pod.name}: {c.last_reason} with exit code {c.last_exit}"
            for c in ContainerView.all_of(obj)
            if c.last_reason
        ]
        lines += [f"{_LOG}{pod.name}: {line}" for line in ctx.snapshot.logs.get(f"{pod.namespace}/{pod.name}", ())[-4:]]
    # The binder deletes a reservation pod that does not answer after 40 s; its events remain. Older ones than the pod
    # are of others.
    events = [e for e in ctx.snapshot.events if e.namespace == RESERVATION_APP and e.type == "Warning" and e.last]
    recent = [e for e in reversed(events) if e.last and ctx.snapshot.at - e.last < min(_RECENT, ctx.age)]
    return [*lines, *(f"reservation pod {e.name}: {of_event(e).line}" for e in recent)]


def _stuck(ctx: PodContext) -> bool:
    """Whether the pod waits for a GPU that it shares: its bind is in progress or failed."""
    if not ctx.requests.shares_gpu or not ctx.by_kai:
        return False
    ready = [r for r in ctx.reservations if r.reserved_gpu and r.phase == "Running"]
    groups = ctx.bind_request.gpu_groups if ctx.bind_request else ()
    return bool(ctx.bind_errors) or (bool(groups) and len(ready) < len(groups))


def _matches(ctx: PodContext, pattern: re.Pattern[str], *, logs: bool = True) -> dict[str, re.Match[str]]:
    """Return up to four messages that match, with their matches."""
    lines = dict.fromkeys(line for line in (_lines(ctx) if _stuck(ctx) else ()) if logs or not line.startswith(_LOG))
    return dict([(line, match) for line in lines if (match := pattern.search(line))][:4])


def _class_key(ctx: PodContext) -> str:
    return ctx.kai.line.helm.reservation_class if ctx.kai else ""


@rule("shared.reservation-class", UNBOUND, f"{_SOURCE}; issues #340, #360, #575, #636")
def reservation_class(ctx: PodContext) -> Finding | None:
    """The reservation pod's RuntimeClass does not work. By version it is hard-coded, a default or empty."""
    found = _matches(ctx, _CLASS)
    if not found:
        return None
    match, key = next(iter(found.values())), _class_key(ctx)
    value = f", or set {key} in KAI's values" if key else ""
    return Finding(
        f"the reservation pod for the GPU has RuntimeClass {match[1] or match[2]}, which does not work here",
        f"create that RuntimeClass with a handler of containerd{value}",
        tuple(found),
    )


@rule("shared.reservation-image", UNBOUND, _SOURCE)
def reservation_image(ctx: PodContext) -> Finding | None:
    """The reservation pod's image cannot be pulled. It is resourcereservation of KAI's registry."""
    if not (found := _matches(ctx, _IMAGE)):
        return None
    return Finding(
        "the image of the reservation pod, which holds the GPU for the fraction, cannot be pulled",
        "make KAI's image resourcereservation of the same version available to the nodes",
        tuple(found),
    )


@rule(
    "shared.reservation-nvml", UNBOUND, "pkg/resourcereservation/discovery/discovery.go; issues #261, #349, #522, #65"
)
def reservation_nvml(ctx: PodContext) -> Finding | None:
    """The reservation pod finds no GPU. It expects exactly one device from NVML, under NVIDIA's runtime."""
    if not (found := _matches(ctx, _NVML)):
        return None
    key = _class_key(ctx)
    return Finding(
        "the reservation pod does not find its one GPU by NVML, so it cannot report which GPU it holds",
        f"run it with NVIDIA's runtime: {f'{key}=nvidia in the values' if key else 'default runtime of the node'}",
        tuple(found),
    )


@rule(
    "shared.reservation-no-gpu",
    ALIVE,
    "kubelet: UnexpectedAdmissionError, OutOfnvidia.com/gpu; observed after a node's restart",
)
def reservation_no_gpu(ctx: PodContext) -> Finding | None:
    """The node gave the reservation pod no GPU: it remains as Failed, and KAI and the kubelet disagree on GPUs."""
    if not ctx.requests.shares_gpu or not ctx.by_kai:
        return None
    failed = [r for r in ctx.reservations if r.phase == "Failed"]
    if not failed:
        return None
    return Finding(
        f"reservation pod {failed[0].name} has failed, so nothing holds the GPU for {ctx.title}",
        f"delete it and the pods of its GPU: {ctx.kubectl('delete', 'pod', failed[0].name, '-n', RESERVATION_APP)}",
        tuple(f"reservation pod {pod.name} on {pod.node}: {pod.phase} {pod.reason}" for pod in failed),
    )


@rule("shared.reservation-refused", UNBOUND, _SOURCE)
def reservation_refused(ctx: PodContext) -> Finding | None:
    """The reservation pod may not be created: a quota, Pod Security or a webhook forbids it."""
    found = _matches(ctx, _REFUSED, logs=False)
    if not found or any(_CLASS.search(line) for line in found):
        return None
    return Finding(
        f"the binder may not create the reservation pod in {RESERVATION_APP}",
        f"remove what forbids it: {ctx.kubectl('get', 'resourcequota,limitrange', '-n', RESERVATION_APP)}",
        tuple(found),
    )


_CAUSES = (reservation_class, reservation_image, reservation_nvml, reservation_no_gpu, reservation_refused)


@rule("shared.reservation-stuck", UNBOUND, f"{_SOURCE}: waits 40 s, then deletes it")
def reservation_stuck(ctx: PodContext) -> Finding | None:
    """The reservation pod does not report which GPU it holds: none of the rules above gives a cause."""
    if not _stuck(ctx) or any(cause(ctx) is not None for cause in _CAUSES):
        return None
    waiting = [r for r in ctx.reservations if not r.reserved_gpu]
    failed = [message for message in ctx.bind_errors if _NO_ANSWER.search(message.text)]
    if not waiting and not failed:
        return None
    return Finding(
        f"{ctx.title} waits for the reservation pod of its GPU, which does not report which GPU it holds",
        f"inspect it while it exists: {ctx.kubectl('get', 'pods,events', '-n', RESERVATION_APP)}",
        (*(f"reservation pod {r.name} on {r.node}: {r.phase or 'new'}" for r in waiting), *_lines(ctx)[:4]),
        Certainty.CERTAIN if failed else Certainty.LIKELY,
    )


@rule("shared.reservation-missing", STARTED, f"{_SOURCE}, deleteNonReservedPods")
def reservation_missing(ctx: PodContext) -> Finding | None:
    """A shared GPU has no reservation pod; the binder deletes such pods in its next check of the node."""
    if not ctx.by_kai or not ctx.pod.gpu_groups or not ctx.snapshot.has("Pod"):
        return None
    held = {group for r in ctx.reservations if not r.ended for group in r.gpu_groups}
    bare = sorted(set(ctx.pod.gpu_groups) - held)
    if not bare or any(r.phase == "Failed" for r in ctx.reservations):
        return None
    return Finding(
        f"no reservation pod holds the GPU that {ctx.title} shares: KAI's binder will delete the pod",
        "recreate the pod; find out who deleted the reservation pod",
        tuple(f"GPU group {group}: no live pod in {RESERVATION_APP}" for group in bare),
    )


@rule(
    "shared.configmaps", BOUND, "pkg/binder/common/gpu_access.go: the reference is not optional; a short wait is normal"
)
def configmaps(ctx: PodContext) -> Finding | None:
    """KAI's ConfigMaps for the GPU are missing: the container waits for them."""
    messages = [m for m in ctx.kubelet if "shared-gpu" in m.text and "not found" in m.text]
    if not messages or (ctx.counterpart is not None and not ctx.schedules):
        return None
    annotation = ctx.pod.annotations.get(CONFIGMAP_ANNOTATION) or "missing"
    return Finding(
        f"{ctx.title} waits for the ConfigMaps in which KAI names its GPU",
        f"if they do not appear, check the binder: {ctx.kubectl('get', 'configmaps', '-n', ctx.pod.namespace)}",
        (messages[0].line, f"annotation {CONFIGMAP_ANNOTATION}: {annotation}"),
    )

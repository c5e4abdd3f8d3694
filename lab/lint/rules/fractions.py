"""Rules about fractions of GPUs and GPU memory: what admission refuses, and what never fits."""

from __future__ import annotations

import math
from collections.abc import Iterator

from lab.findings import Finding
from lab.kai.names import GPU_RESOURCE
from lab.lint.document import Loc
from lab.lint.model import LintContext, Manifest, finding, resources_of, rule
from lab.objects.fields import number

_VALIDATOR = "KAI v0.16.8, pkg/binder/plugins/gpusharing/gpu-request/gpu_request_validator.go"
_REFUSES = "admission refuses the pod"

_Keys = dict[str, tuple[Loc, str]]


def _keys(manifest: Manifest, ctx: LintContext) -> _Keys:
    """Return the GPU annotations of the pod: name of the key → location and value."""
    pod = manifest.pod
    if pod is None:
        return {}
    return {
        name: ((*pod.meta_at, "annotations", key), pod.annotations[key])
        for name in ("fraction", "gpu_memory", "num_devices", "fraction_container", "mps")
        if (key := getattr(ctx.line.keys, name)) and key in pod.annotations
    }


def _share(keys: _Keys) -> str:
    """Return which key asks for a share; empty if none does."""
    return next((name for name in ("fraction", "gpu_memory") if name in keys), "")


@rule("fraction-out-of-range", _VALIDATOR)
def fraction_range(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """A gpu-fraction outside 0 to 1."""
    if found := _keys(manifest, ctx).get("fraction"):
        at, text = found
        value = number(text)
        if value is None or not 0 < value < 1:
            fix = 'write a number above 0 and below 1, such as "0.5"'
            if value is not None and math.isfinite(value) and value >= 1 and value == int(value):
                fix = f"for {value:.0f} whole GPU(s) remove it and set limits nvidia.com/gpu: {value:.0f}"
            yield finding(at, f"gpu-fraction {text!r}: {_REFUSES} (it must be above 0 and below 1)", fix)


@rule("fraction-with-whole-gpu", _VALIDATOR)
def with_whole_gpu(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """A fraction together with a whole GPU."""
    share = _share(_keys(manifest, ctx))
    for at, container in manifest.containers():
        if share and GPU_RESOURCE in resources_of(container, "limits"):
            yield finding(
                (*at, "resources", "limits", GPU_RESOURCE),
                f"gpu-{share.removeprefix('gpu_')} and a limit of whole GPUs: {_REFUSES}",
                f"remove {GPU_RESOURCE} for a shared GPU, or the annotation for a whole one",
            )


@rule("fraction-and-memory", _VALIDATOR)
def both(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """Both gpu-fraction and gpu-memory on one pod."""
    keys = _keys(manifest, ctx)
    if {"fraction", "gpu_memory"} <= keys.keys():
        yield finding(keys["gpu_memory"][0], f"gpu-fraction and gpu-memory together: {_REFUSES}", "keep one")


@rule("gpu-memory-not-a-number", _VALIDATOR)
def memory_number(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """A gpu-memory that is not a whole number of MiB."""
    at, text = _keys(manifest, ctx).get("gpu_memory", ((), "1"))
    if not (text.isdigit() and int(text) > 0):
        yield finding(at, f"gpu-memory {text!r}: {_REFUSES} (it must be MiB, digits only)", 'such as "2000"')


@rule("gpu-memory-over-gpu", "KAI v0.16.8: a share never spans GPUs")
def memory_over(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """More GPU memory than a GPU has."""
    at, text = _keys(manifest, ctx).get("gpu_memory", ((), ""))
    if text.isdigit() and ctx.gpu_memory and int(text) > ctx.gpu_memory:
        yield finding(
            at,
            f"gpu-memory {text} MiB exceeds the {ctx.gpu_memory} MiB of the largest GPU: the pod stays Pending",
            "ask for less, or for several devices with gpu-fraction-num-devices",
        )


@rule("devices-without-share", _VALIDATOR)
def devices(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """An invalid gpu-fraction-num-devices, or one without a share of each device."""
    keys = _keys(manifest, ctx)
    if "num_devices" not in keys:
        return
    at, text = keys["num_devices"]
    if not _share(keys):
        yield finding(at, f"several devices without a share of them: {_REFUSES}", "add gpu-fraction")
    elif not text.isdigit() or int(text) == 0:
        yield finding(at, f"{text!r} devices: {_REFUSES}", "write a whole number above 0")
    elif ctx.gpus_per_node and int(text) > ctx.gpus_per_node:
        yield finding(
            at,
            f"the pod wants {text} devices, and no node has more than {ctx.gpus_per_node}: it stays Pending",
            "ask for fewer",
        )


@rule("mps-without-share", _VALIDATOR)
def mps(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """An annotation mps without a fraction: CUDA MPS is for shared GPUs only."""
    keys = _keys(manifest, ctx)
    at, text = keys.get("mps", ((), ""))
    if text == "true" and not _share(keys):
        yield finding(at, f"mps without gpu-fraction: {_REFUSES}", "add gpu-fraction")


@rule("sharing-off", "KAI, chart value global.gpuSharing (false unless set); admission refuses the pod")
def sharing_off(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """A fraction while GPU sharing is off."""
    pod, keys = manifest.pod, _keys(manifest, ctx)
    if pod and ctx.gpu_sharing is False and _share(keys) and pod.scheduler == ctx.line.scheduler_name:
        yield finding(
            keys[_share(keys)][0], f"GPU sharing is off: {_REFUSES}", "set kai.gpuSharing (global.gpuSharing)"
        )


@rule("share-without-kai", "KAI's webhooks and scheduler handle only pods with schedulerName kai-scheduler")
def without_kai(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """A GPU share on a pod of another scheduler."""
    pod, keys = manifest.pod, _keys(manifest, ctx)
    share = _share(keys)
    if pod and share and pod.scheduled_by(ctx.line.scheduler_name) is False:
        scheduler = pod.scheduler or "the default scheduler"
        yield finding(
            keys[share][0],
            f"the pod's scheduler, {scheduler}, ignores {getattr(ctx.line.keys, share)}: the pod gets no GPU",
            f"set schedulerName: {ctx.line.scheduler_name} in the pod's spec",
        )


@rule("container-of-share-unknown", "KAI 0.10 and newer: annotation gpu-fraction-container-name")
def container_unknown(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """The container for the fraction does not exist."""
    names = [str(container.get("name")) for _, container in manifest.containers()]
    at, wanted = _keys(manifest, ctx).get("fraction_container", ((), ""))
    if wanted and wanted not in names:
        yield finding(at, f"the pod has no container {wanted}", f"name one of {', '.join(names)}")


@rule("dotted-name-with-share", "KAI #1728")
def dotted(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """A dot in the name of a pod with a share."""
    if "dotted-pod-names" not in {defect.id for defect in ctx.line.defects}:
        return
    if "." in manifest.name and _share(_keys(manifest, ctx)):
        yield finding(
            ("metadata", "name"),
            f"KAI {ctx.line.version} derives volume names from {manifest.name!r}, in which dots are invalid",
            "use a name without dots",
        )

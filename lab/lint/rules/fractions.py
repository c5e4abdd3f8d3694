"""Fractions of GPUs and GPU memory: what admission refuses, and what never fits."""

from __future__ import annotations

import math
from collections.abc import Iterator

from lab.findings import Finding
from lab.kai.names import GPU_RESOURCE
from lab.lint.document import Loc
from lab.lint.model import LintContext, Manifest, PodPart, found, resources_of, rule

_VALIDATOR = "KAI v0.16.8, pkg/binder/plugins/gpusharing/gpu-request/gpu_request_validator.go"


def _shared(manifest: Manifest, setting: LintContext) -> Iterator[tuple[PodPart, dict[str, tuple[Loc, str]]]]:
    """The pod with the GPU annotations it has: name of the key → place and value."""
    pod = manifest.pod
    if pod is None:
        return
    found = {
        name: ((*pod.at, "metadata", "annotations", key), pod.annotations[key])
        for name in ("fraction", "gpu_memory", "num_devices", "fraction_container", "mps")
        if (key := getattr(setting.line.keys, name)) and key in pod.annotations
    }
    yield pod, found


@rule("fraction-out-of-range", "gpu-fraction outside 0 to 1", _VALIDATOR)
def fraction_range(manifest: Manifest, setting: LintContext) -> Iterator[Finding]:
    """Admission takes a number above 0 and below 1."""
    for _, keys in _shared(manifest, setting):
        if "fraction" not in keys:
            continue
        at, text = keys["fraction"]
        value = _number(text)
        if value is None or not 0 < value < 1:
            whole = value is not None and value >= 1 and value == int(value)
            fix = (
                f"for {int(value or 1)} whole GPU(s) leave it out and set limits nvidia.com/gpu: {int(value or 1)}"
                if whole
                else 'write a number above 0 and below 1, such as "0.5"'
            )
            yield found(at, f"gpu-fraction {text!r}: admission refuses the pod (it must be above 0 and below 1)", fix)


@rule("fraction-with-whole-gpu", "a fraction together with a whole GPU", _VALIDATOR)
def with_whole_gpu(manifest: Manifest, setting: LintContext) -> Iterator[Finding]:
    """A share and a limit of nvidia.com/gpu exclude each other."""
    for pod, keys in _shared(manifest, setting):
        for at, container in pod.containers():
            if GPU_RESOURCE in resources_of(container, "limits") and {"fraction", "gpu_memory"} & keys.keys():
                name = "gpu-fraction" if "fraction" in keys else "gpu-memory"
                yield found(
                    (*at, "resources", "limits", GPU_RESOURCE),
                    f"{name} and a limit of whole GPUs: admission refuses the pod",
                    f"leave out {GPU_RESOURCE} for a shared GPU, or the annotation for a whole one",
                )


@rule("fraction-and-memory", "gpu-fraction and gpu-memory on one pod", _VALIDATOR)
def both(manifest: Manifest, setting: LintContext) -> Iterator[Finding]:
    """Only one of them can say how much."""
    for _, keys in _shared(manifest, setting):
        if {"fraction", "gpu_memory"} <= keys.keys():
            yield found(
                keys["gpu_memory"][0], "gpu-fraction and gpu-memory together: admission refuses the pod", "keep one"
            )


@rule("gpu-memory-not-a-number", "gpu-memory that is no whole number of MiB", _VALIDATOR)
def memory_number(manifest: Manifest, setting: LintContext) -> Iterator[Finding]:
    """Admission takes digits only: no unit, no fraction."""
    for _, keys in _shared(manifest, setting):
        if "gpu_memory" in keys and not (keys["gpu_memory"][1].isdigit() and int(keys["gpu_memory"][1]) > 0):
            at, text = keys["gpu_memory"]
            yield found(
                at, f"gpu-memory {text!r}: admission refuses the pod (it must be MiB, digits only)", 'such as "2000"'
            )


@rule("gpu-memory-over-gpu", "more GPU memory than a GPU has", "KAI v0.16.8: a share never spans GPUs")
def memory_over(manifest: Manifest, setting: LintContext) -> Iterator[Finding]:
    """The pod stays Pending for ever."""
    for _, keys in _shared(manifest, setting):
        at, text = keys.get("gpu_memory", ((), ""))
        if text.isdigit() and setting.gpu_memory and int(text) > setting.gpu_memory:
            yield found(
                at,
                f"gpu-memory {text} MiB is more than the largest GPU has ({setting.gpu_memory} MiB): Pending for ever",
                "ask for less, or for several devices with gpu-fraction-num-devices",
            )


@rule("devices-without-share", "gpu-fraction-num-devices without a share", _VALIDATOR)
def devices(manifest: Manifest, setting: LintContext) -> Iterator[Finding]:
    """It says on how many GPUs the pod gets its fraction or memory."""
    for _, keys in _shared(manifest, setting):
        if "num_devices" not in keys:
            continue
        at, text = keys["num_devices"]
        if not {"fraction", "gpu_memory"} & keys.keys():
            yield found(at, "several devices without a share of them: admission refuses the pod", "add gpu-fraction")
        elif not text.isdigit() or int(text) == 0:
            yield found(at, f"{text!r} devices: admission refuses the pod", "write a whole number above 0")
        elif setting.gpus_per_node and int(text) > setting.gpus_per_node:
            yield found(
                at,
                f"{text} devices, and no node has more than {setting.gpus_per_node}: Pending for ever",
                "ask for fewer",
            )


@rule("mps-without-share", "mps without a fraction", _VALIDATOR)
def mps(manifest: Manifest, setting: LintContext) -> Iterator[Finding]:
    """CUDA MPS is for shared GPUs only."""
    for _, keys in _shared(manifest, setting):
        if keys.get("mps", ((), ""))[1] == "true" and not {"fraction", "gpu_memory"} & keys.keys():
            yield found(keys["mps"][0], "mps without gpu-fraction: admission refuses the pod", "add gpu-fraction")


@rule(
    "sharing-off",
    "a fraction where GPU sharing is off",
    "KAI, chart value global.gpuSharing (false unless set); admission refuses the pod",
)
def sharing_off(manifest: Manifest, setting: LintContext) -> Iterator[Finding]:
    """Without global.gpuSharing admission refuses every share."""
    for pod, keys in _shared(manifest, setting):
        name = next((name for name in ("fraction", "gpu_memory") if name in keys), None)
        if setting.gpu_sharing is False and name and pod.scheduler == setting.line.scheduler_name:
            yield found(
                keys[name][0], "GPU sharing is off: admission refuses the pod", "set kai.gpuSharing (global.gpuSharing)"
            )


@rule(
    "share-without-kai",
    "a GPU share on a pod of another scheduler",
    "KAI webhooks and scheduler look at pods with schedulerName kai-scheduler only",
)
def without_kai(manifest: Manifest, setting: LintContext) -> Iterator[Finding]:
    """The annotation means nothing to other schedulers: the pod runs without a GPU."""
    for pod, keys in _shared(manifest, setting):
        name = next((name for name in ("fraction", "gpu_memory") if name in keys), None)
        if name and pod.scheduler != setting.line.scheduler_name:
            who = pod.scheduler or "the default scheduler"
            yield found(
                keys[name][0],
                f"the pod goes to {who}, which does not know {getattr(setting.line.keys, name)}: it gets no GPU",
                f"set schedulerName: {setting.line.scheduler_name} in the pod's spec",
            )


@rule(
    "container-of-share-unknown",
    "the container that gets the fraction does not exist",
    "KAI 0.10 and newer: annotation gpu-fraction-container-name",
)
def container_unknown(manifest: Manifest, setting: LintContext) -> Iterator[Finding]:
    """The binder finds no container to give the GPU to."""
    for pod, keys in _shared(manifest, setting):
        names = [str(container.get("name")) for _, container in pod.containers()]
        at, wanted = keys.get("fraction_container", ((), ""))
        if wanted and wanted not in names:
            yield found(at, f"no container is called {wanted}", f"name one of {', '.join(names)}")


@rule("dotted-name-with-share", "a dot in the name of a pod with a share", "KAI #1728")
def dotted(manifest: Manifest, setting: LintContext) -> Iterator[Finding]:
    """The names of its volumes are made from it, and a dot is not allowed there."""
    if "dotted-pod-names" not in {defect.id for defect in setting.line.open_defects}:
        return
    for _, keys in _shared(manifest, setting):
        if "." in manifest.name and {"fraction", "gpu_memory"} & keys.keys():
            yield found(
                ("metadata", "name"),
                f"KAI {setting.line.version} makes volume names of {manifest.name!r}, and the dot is refused there",
                "take a name without dots",
            )


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None

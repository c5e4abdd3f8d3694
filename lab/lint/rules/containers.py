"""Rules about whole GPUs in containers and the runtime that provides them."""

from __future__ import annotations

from collections.abc import Iterator

from lab.findings import Finding
from lab.kai.names import GPU_RESOURCE
from lab.lint.model import LintContext, Manifest, finding, resources_of, rule

_KUBERNETES = "Kubernetes: extended resources are whole, and requests equal limits"


@rule("gpu-not-whole", _KUBERNETES)
def not_whole(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """A part of a GPU as a resource: the API server accepts only whole numbers."""
    for at, container in manifest.containers():
        for side in ("limits", "requests"):
            text = str(resources_of(container, side).get(GPU_RESOURCE, "0"))
            if not text.isdigit():
                yield finding(
                    (*at, "resources", side, GPU_RESOURCE),
                    f"the API server refuses {GPU_RESOURCE}: {text}, because it counts whole GPUs",
                    f'remove it and write the annotation {ctx.line.keys.fraction}: "{text}" on the pod',
                )


@rule("gpu-request-without-limit", _KUBERNETES)
def without_limit(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """A request for GPUs without the same limit."""
    for at, container in manifest.containers():
        request, limit = (resources_of(container, side).get(GPU_RESOURCE, "nothing") for side in ("requests", "limits"))
        if request != "nothing" and str(request) != str(limit):
            yield finding(
                (*at, "resources", "requests", GPU_RESOURCE),
                f"the API server refuses {GPU_RESOURCE}: requests {request}, limits {limit}",
                f"set limits {GPU_RESOURCE}: {request}",
            )


@rule("more-gpus-than-a-node", "Kubernetes: a pod runs on one node")
def more_than_a_node(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """More GPUs than a node has."""
    if not ctx.gpus_per_node:
        return
    counts = [
        (at, int(text))
        for at, container in manifest.containers()
        if (text := str(resources_of(container, "limits").get(GPU_RESOURCE, ""))).isdigit() and "containers" in at
    ]
    total = sum(count for _, count in counts)
    if total > ctx.gpus_per_node:
        yield finding(
            (*counts[0][0], "resources", "limits", GPU_RESOURCE),
            f"the pod wants {total} GPUs, and no node has more than {ctx.gpus_per_node}: it stays Pending",
            "ask for fewer, or distribute the work over several pods",
        )


@rule(
    "whole-gpu-without-runtime-class",
    "KAI 0.16: admission adds the class nvidia to fractions only; before 0.9.7 to no pod",
)
def runtime_class(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """A GPU pod without RuntimeClass: under runc it holds a GPU that its container does not see."""
    pod = manifest.pod
    if pod is None or pod.spec.get("runtimeClassName"):
        return
    if ctx.line.workload_class_pods == "gpu" and pod.scheduler == ctx.line.scheduler_name:
        return  # KAI adds the class
    for at, container in manifest.containers():
        if GPU_RESOURCE in resources_of(container, "limits"):
            pods = "fractions only" if ctx.line.workload_class_pods == "fraction" else "no pod of this kind"
            yield finding(
                (*at, "resources", "limits", GPU_RESOURCE),
                "without runtimeClassName the container sees no GPU where the node's default runtime is runc, unless by"
                f" CDI (KAI {ctx.line.version} adds the class to {pods})",
                "set runtimeClassName: nvidia in the pod's spec",
                "note" if ctx.runtime_classes is None else "warning",
            )
            return


@rule("runtime-class-unknown", "Kubernetes: admission refuses the pod; aws-samples/aws-do-eks#96")
def class_unknown(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """A RuntimeClass that does not exist."""
    pod = manifest.pod
    wanted = str(pod.spec.get("runtimeClassName") or "") if pod else ""
    if pod and wanted and ctx.runtime_classes is not None and wanted not in ctx.runtime_classes:
        known = ", ".join(sorted(ctx.runtime_classes)) or "none"
        yield finding(
            (*pod.spec_at, "runtimeClassName"),
            f"RuntimeClass {wanted!r} does not exist (known: {known}): the API server refuses the pod",
            "name one that exists",
        )


@rule("visible-devices-set", "NVIDIA container toolkit: the variable chooses the GPUs, whatever was scheduled")
def visible_devices(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """NVIDIA_VISIBLE_DEVICES set by hand: the container may see GPUs of other pods."""
    for at, container in manifest.containers():
        variables = container.get("env")
        for number, variable in enumerate(variables if isinstance(variables, list) else []):
            if isinstance(variable, dict) and variable.get("name") == "NVIDIA_VISIBLE_DEVICES":
                value = variable.get("value")
                yield finding(
                    (*at, "env", number),
                    f"NVIDIA_VISIBLE_DEVICES is set to {value!r}: the container sees those GPUs, not its own",
                    "remove it: the device plugin or KAI sets it",
                    "note" if value in ("none", "void") else "warning",
                )

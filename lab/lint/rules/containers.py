"""Whole GPUs in containers, and how they get there."""

from __future__ import annotations

from collections.abc import Iterator

from lab.findings import Finding
from lab.kai.names import GPU_RESOURCE
from lab.lint.model import LintContext, Manifest, found, resources_of, rule

_KUBERNETES = "Kubernetes: extended resources are whole, and requests equal limits"


@rule("gpu-not-whole", "part of a GPU as a resource", _KUBERNETES)
def not_whole(manifest: Manifest, setting: LintContext) -> Iterator[Finding]:
    """The API server takes whole numbers only; a part of a GPU is an annotation."""
    pod = manifest.pod
    for at, container in pod.containers() if pod else ():
        for side in ("limits", "requests"):
            text = str(resources_of(container, side).get(GPU_RESOURCE, "0"))
            if not text.isdigit():
                yield found(
                    (*at, "resources", side, GPU_RESOURCE),
                    f"{GPU_RESOURCE}: {text} is refused by the API server: the resource comes in whole GPUs",
                    f'leave it out and write the annotation {setting.line.keys.fraction}: "{text}" on the pod',
                )


@rule("gpu-request-without-limit", "a request of GPUs without the same limit", _KUBERNETES)
def without_limit(manifest: Manifest, setting: LintContext) -> Iterator[Finding]:
    """The API server refuses a request of an extended resource that is not its limit."""
    pod = manifest.pod
    for at, container in pod.containers() if pod else ():
        asked, most = (resources_of(container, side).get(GPU_RESOURCE) for side in ("requests", "limits"))
        if asked is not None and str(asked) != str(most):
            yield found(
                (*at, "resources", "requests", GPU_RESOURCE),
                f"{GPU_RESOURCE}: requests {asked}, limits {'nothing' if most is None else most}:"
                " the API server refuses it",
                f"set limits {GPU_RESOURCE}: {asked}",
            )


@rule("more-gpus-than-a-node", "more GPUs than a node has", "Kubernetes: a pod runs on one node")
def more_than_a_node(manifest: Manifest, setting: LintContext) -> Iterator[Finding]:
    """The pod stays Pending for ever."""
    pod = manifest.pod
    if pod is None or not setting.gpus_per_node:
        return
    counts = [
        (at, int(text))
        for at, container in pod.containers()
        if (text := str(resources_of(container, "limits").get(GPU_RESOURCE, ""))).isdigit() and "containers" in at
    ]
    total = sum(count for _, count in counts)
    if total > setting.gpus_per_node:
        yield found(
            (*counts[0][0], "resources", "limits", GPU_RESOURCE),
            f"{total} GPUs, and no node has more than {setting.gpus_per_node}: Pending for ever",
            "ask for fewer, or spread the work over several pods",
        )


@rule(
    "whole-gpu-without-runtime-class",
    "a GPU pod without RuntimeClass",
    "KAI 0.16: admission adds the class nvidia to fractions only; before 0.9.7 to no pod",
)
def runtime_class(manifest: Manifest, setting: LintContext) -> Iterator[Finding]:
    """Where the nodes' default runtime is not NVIDIA's, the container gets the GPU's record but no GPU."""
    pod = manifest.pod
    if pod is None or setting.default_runtime_is_nvidia or pod.spec.get("runtimeClassName"):
        return
    added = setting.line.workload_class_pods == "gpu" and pod.scheduler == setting.line.scheduler_name
    for at, container in pod.containers():
        if GPU_RESOURCE in resources_of(container, "limits") and not added:
            yield found(
                (*at, "resources", "limits", GPU_RESOURCE),
                "no runtimeClassName: where the node's default runtime is runc, the container sees no GPU"
                f" (KAI {setting.line.version} adds the class to"
                f" {'fractions only' if setting.line.workload_class_pods == 'fraction' else 'no pod of this kind'})",
                "set runtimeClassName: nvidia in the pod's spec",
                "warning",
            )
            return


@rule(
    "runtime-class-unknown",
    "a RuntimeClass that does not exist",
    "Kubernetes: admission refuses the pod; aws-samples/aws-do-eks#96",
)
def class_unknown(manifest: Manifest, setting: LintContext) -> Iterator[Finding]:
    """The API server refuses the pod."""
    pod = manifest.pod
    wanted = str(pod.spec.get("runtimeClassName") or "") if pod else ""
    if pod and wanted and setting.runtime_classes is not None and wanted not in setting.runtime_classes:
        known = ", ".join(sorted(setting.runtime_classes)) or "none"
        yield found(
            (*pod.at, "spec", "runtimeClassName"),
            f"RuntimeClass {wanted!r} does not exist (there are: {known}): the API server refuses the pod",
            "name one that exists",
        )


@rule(
    "visible-devices-set",
    "NVIDIA_VISIBLE_DEVICES set by hand",
    "NVIDIA container toolkit: the variable chooses the GPUs, whatever was scheduled",
)
def visible_devices(manifest: Manifest, setting: LintContext) -> Iterator[Finding]:
    """The container may see GPUs that were given to others."""
    pod = manifest.pod
    for at, container in pod.containers() if pod else ():
        variables = container.get("env")
        for number, variable in enumerate(variables if isinstance(variables, list) else []):
            if isinstance(variable, dict) and variable.get("name") == "NVIDIA_VISIBLE_DEVICES":
                yield found(
                    (*at, "env", number),
                    f"NVIDIA_VISIBLE_DEVICES is set to {variable.get('value')!r} by hand: the container sees those"
                    " GPUs, not the ones that it was given",
                    "leave it out: the device plugin or KAI sets it",
                    "note" if variable.get("value") in ("none", "void") else "warning",
                )

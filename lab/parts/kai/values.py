"""Helm values, images and expected Deployments of KAI, from the lab file. Pure."""

from __future__ import annotations

from typing import Any

from lab.parts.cluster.config import has_gpus
from lab.parts.kai.versions import Line, line_of
from lab.parts.releases import base_values, merged, value_at, with_value
from lab.spec import LabSpec

RUNTIME_CLASS = "nvidia"
"""RuntimeClass of the lab's GPU nodes."""

CHART = "kai-scheduler"
"""Name of the chart in the lab's supply."""


def kai_values(spec: LabSpec) -> dict[str, Any]:
    """The values KAI is installed with; ``kai.values`` of the lab file is merged last.

    Raises:
        SpecError: the lab does not know that KAI version.
    """
    line = line_of(spec.kai.version)
    # Registry and tag are the published chart's own defaults. Written out, because the .tgz of some GitHub
    # releases names a registry that never got their images (0.9.16 to 0.9.20, 0.12.18 to 0.12.23).
    images = {"global": {"registry": line.registry, "tag": line.tag, "gpuSharing": spec.kai.gpu_sharing}}
    base = base_values("kai", line.base) if line.base else {}
    return merged(base, images, _runtime_classes(spec, line), spec.kai.values)


def _runtime_classes(spec: LabSpec, line: Line) -> dict[str, Any]:
    """RuntimeClasses of reservation pods and of fractional pods.

    The lab's nodes run pods by runc unless their RuntimeClass says otherwise, so reservation pods, which ask
    NVML for their GPU, must name it. Without GPUs there is no such RuntimeClass, and a pod that names it is
    refused.
    """
    name = RUNTIME_CLASS if has_gpus(spec) else ""
    reservation = with_value(line.reservation_class_key, name) if line.reservation_class_key and name else {}
    sets = line.workload_class_key and (name or line.workload_class_clearable)
    return merged(reservation, with_value(line.workload_class_key, name) if sets else {})


def own_hooks(spec: LabSpec) -> bool:
    """Whether the lab does by the API what the chart's hook Jobs would do.

    Each hook Job costs a pod start, one after the other: most of what an install takes. On a cluster of the
    lab's own their outcome is known: crd-upgrader applies the chart's crds/, topology-migration finds no
    Kueue to migrate from, and kai-config-deployer applies the Config that the chart itself renders. In
    somebody else's cluster (Kueue, OpenShift) the Jobs run as the chart has them.
    """
    return spec.cluster.provider == "kind" and line_of(spec.kai.version).hooks == "lab"


def release_values(spec: LabSpec) -> dict[str, Any]:
    """What helm is given: ``kai_values``, without the default queues where the lab makes them itself."""
    values = kai_values(spec)
    return merged(values, with_value("defaultQueue.createDefaultQueue", False)) if own_hooks(spec) else values


def kai_images(spec: LabSpec) -> tuple[str, ...]:
    """The images that KAI's pods will run, as full references.

    Raises:
        SpecError: the lab does not know that KAI version.
    """
    line, values = line_of(spec.kai.version), kai_values(spec)
    names = set(line.images)
    if not own_hooks(spec):
        names.update(line.hook_images)
    if value_at(values, "global.clusterAutoscaling"):
        names.update(("nodescaleadjuster", "scalingpod"))
    registry, tag = value_at(values, "global.registry"), value_at(values, "global.tag") or line.tag
    suffix = "-fips" if value_at(values, "global.fips") else ""
    return tuple(f"{registry}/{name}:{tag}{suffix}" for name in sorted(names))


def kai_deployments(spec: LabSpec) -> tuple[str, ...]:
    """The Deployments that must be Available; components that the values switch off are left out."""
    line, values = line_of(spec.kai.version), kai_values(spec)
    off = {name for name, key in line.deployments.items() if value_at(values, f"{key}.enabled") is False}
    if line.has_shards and value_at(values, "defaultShard.enabled") is False:
        off.add(line.scheduler_app)
    more = ("node-scale-adjuster",) if value_at(values, "global.clusterAutoscaling") else ()
    return (*(name for name in line.deployments if name not in off), *more)

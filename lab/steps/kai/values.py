"""Helm values, images and expected Deployments of KAI, from the lab file. Pure."""

from __future__ import annotations

from typing import Any

from lab.config import LabSpec
from lab.config.labels import HOST_KAI, NODE_LABEL
from lab.config.node_assignment import beside_host_kai
from lab.gpu.pools import RUNTIME_CLASS
from lab.kai import VersionLine, line_of
from lab.steps.cluster.config import has_gpus
from lab.steps.helm_release import base_values, merged, value_at, with_value


def kai_values(spec: LabSpec) -> dict[str, Any]:
    """The values KAI is installed with; ``kai.values`` of the lab file is merged last.

    Raises:
        SpecError: that KAI version is older than all that the lab knows.
    """
    line = line_of(spec.kai.version)
    # Registry and tag are the published chart's own defaults. Written out, because the .tgz of some GitHub
    # releases names a registry that never got their images (defect registry-of-release-asset).
    images = merged(with_value(line.helm.registry, line.registry), _set(line.helm.tag, line.tag))
    sharing = with_value(line.helm.gpu_sharing, spec.kai.gpu_sharing)
    base = base_values("kai", line.base) if line.base else {}
    return merged(base, images, sharing, _runtime_classes(spec, line), _own_ground(spec, line), spec.kai.values)


def _own_ground(spec: LabSpec, line: VersionLine) -> dict[str, Any]:
    """Keeps the host's KAI to its own namespaces and nodes, where a tenant has a KAI of its own beside it.

    The selector reaches the webhooks' namespaceSelector and the pod-grouper; the node pool key leaves the nodes that
    carry it to others (seen on 0.16.8). Without them the host's webhook mutates a tenant's synced pods again, and both
    schedulers give the same GPUs away.
    """
    if not beside_host_kai(spec):
        return {}
    return merged(_set(line.helm.namespace_selector, HOST_KAI), _set(line.helm.node_pool_key, NODE_LABEL))


def _runtime_classes(spec: LabSpec, line: VersionLine) -> dict[str, Any]:
    """RuntimeClasses of reservation pods and of fractional pods.

    The lab's nodes run pods by runc unless their RuntimeClass says otherwise, so reservation pods, which ask
    NVML for their GPU, must name it. Without GPUs there is no such RuntimeClass, and a pod that names it is
    refused.
    """
    name = RUNTIME_CLASS if has_gpus(spec) else ""
    reservation = _set(line.helm.reservation_class, name) if name else {}
    workload = _set(line.helm.workload_class, name) if name or line.workload_class_clearable else {}
    return merged(reservation, workload)


def _set(key: str, value: object) -> dict[str, Any]:
    """The value under a key of the chart; nothing where this version has no such key."""
    return with_value(key, value) if key else {}


def _value(values: dict[str, Any], key: str) -> Any:
    """The value under a key of the chart; None where this version has no such key."""
    return value_at(values, key) if key else None


def own_hooks(spec: LabSpec) -> bool:
    """Whether the lab does by the API what the chart's hook Jobs would do.

    Each hook Job costs a pod start, one after the other: most of what an install takes. On a cluster of the
    lab's own their outcome is known: crd-upgrader applies the chart's crds/ (and Kueue's Topology in 0.9, see
    ``needed``), topology-migration finds no Kueue to migrate from, and the Config that kai-config-deployer applies is
    rendered by the chart itself. In somebody else's cluster (Kueue, OpenShift) the Jobs run as the chart has them.
    """
    return spec.cluster.provider == "kind" and line_of(spec.kai.version).hooks == "lab"


def makes_default_queues(spec: LabSpec) -> bool:
    """Whether this chart, with these values, makes queues of its own."""
    line = line_of(spec.kai.version)
    return bool(line.default_queues) and _value(kai_values(spec), line.helm.default_queues) is not False


def release_values(spec: LabSpec) -> dict[str, Any]:
    """What helm is given: ``kai_values``, without the default queues where the lab makes them itself."""
    values = kai_values(spec)
    key = line_of(spec.kai.version).helm.default_queues
    return merged(values, _set(key, value=False)) if own_hooks(spec) else values


def kai_images(spec: LabSpec) -> tuple[str, ...]:
    """The images that KAI's pods will run, as full references.

    Raises:
        SpecError: that KAI version is older than all that the lab knows.
    """
    line, values = line_of(spec.kai.version), kai_values(spec)
    names = set(line.images)
    if not own_hooks(spec):
        names.update(line.hook_images)
    if _value(values, line.helm.cluster_autoscaling):
        names.update(line.scaling_images)
    registry, tag = _value(values, line.helm.registry), _value(values, line.helm.tag) or line.tag
    suffix = "-fips" if _value(values, line.helm.fips) else ""
    return tuple(f"{registry}/{name}:{tag}{suffix}" for name in sorted(names))


def kai_deployments(spec: LabSpec) -> tuple[str, ...]:
    """The Deployments that must be Available; components that the values switch off are left out."""
    line, values = line_of(spec.kai.version), kai_values(spec)
    off = set()
    if line.component_switch:
        keys = {name: line.deployments[name] for name in line.deployments if name in line.by_operator}
        off = {name for name, key in keys.items() if value_at(values, f"{key}.enabled") is False}
    if _value(values, line.helm.default_shard) is False:
        off.add(line.scheduler_app)
    more = (line.scaling_deployment,) if _value(values, line.helm.cluster_autoscaling) else ()
    return (*(name for name in line.deployments if name not in off), *more)

"""Helm values, images and expected Deployments of KAI, from the lab file. Pure."""

from __future__ import annotations

from typing import Any

from lab.config import LabSpec
from lab.config.node_assignment import beside_host_kai
from lab.gpu.pools import runtime_class
from lab.kai import VersionLine, line_of
from lab.objects.isolation_labels import HOST_KAI, NODE_LABEL
from lab.steps.helm_release import base_values, merged, value_at, with_value
from lab.supply.registry import mirrored


def kai_values(spec: LabSpec) -> dict[str, Any]:
    """KAI's Helm values; ``kai.values`` of the lab file is merged last. Raises SpecError if the version is too old."""
    line = line_of(spec.kai.version)
    # Registry and tag equal the published chart's defaults. They are set because the .tgz of some GitHub releases names
    # a registry that lacks their images (defect registry-of-release-asset).
    images = merged(with_value(line.helm.registry, line.registry), with_value(line.helm.tag, line.tag))
    sharing = with_value(line.helm.gpu_sharing, spec.kai.gpu_sharing)
    base = base_values("kai", line.base) if line.base else {}
    from_here = {} if spec.cluster.own else merged(mirrored_registry(spec), _pull_secrets(spec))
    classes = _runtime_classes(spec, line)
    return merged(base, images, from_here, sharing, classes, _isolation(spec, line), spec.kai.values)


def mirrored_registry(spec: LabSpec) -> dict[str, Any]:
    """KAI's registry by the mirrors of the lab file, which the nodes of an existing cluster do not know."""
    line = line_of(spec.kai.version)
    registry = mirrored(line.registry, spec.supply.mirrors)
    return with_value(line.helm.registry, registry) if registry != line.registry else {}


def _pull_secrets(spec: LabSpec) -> dict[str, Any]:
    names = [{"name": name} for name in spec.supply.pull_secrets]
    return {"global": {"imagePullSecrets": names}} if names else {}


def _isolation(spec: LabSpec, line: VersionLine) -> dict[str, Any]:
    """Limits the host's KAI to its own namespaces and nodes beside an own-kai tenant.

    The selector applies to the webhooks' namespaceSelector and the pod-grouper; nodes with the node pool key are
    ignored (measured with 0.16.8). Without them the host's webhook mutates a tenant's synced pods again, and both
    schedulers assign the same GPUs.
    """
    if not beside_host_kai(spec):
        return {}
    return merged(with_value(line.helm.namespace_selector, HOST_KAI), with_value(line.helm.node_pool_key, NODE_LABEL))


def _runtime_classes(spec: LabSpec, line: VersionLine) -> dict[str, Any]:
    """RuntimeClasses of reservation pods and of fractional pods.

    The lab's nodes run pods with runc unless they have a RuntimeClass, which reservation pods need because they query
    NVML. Without GPUs that RuntimeClass does not exist, and pods that name it are refused.
    """
    name = runtime_class(spec)
    reservation = with_value(line.helm.reservation_class, name) if name else {}
    workload = with_value(line.helm.workload_class, name) if name or line.workload_class_clearable else {}
    return merged(reservation, workload)


def own_hooks(spec: LabSpec) -> bool:
    """Whether the lab replaces the chart's hook Jobs by API calls.

    The hook Jobs start a pod each, one after the other, which is most of the time of an install. On the lab's own
    cluster their outcome is known: crd-upgrader applies the chart's crds/ (and Kueue's Topology in 0.9, see
    ``required_crds``), topology-migration finds no Kueue, and the chart itself renders the Config,
    as a hook or for kai-config-deployer. In existing clusters (Kueue, OpenShift) the Jobs run.
    """
    return spec.cluster.own and bool(line_of(spec.kai.version).config_template)


def makes_default_queues(spec: LabSpec) -> bool:
    """Whether this chart creates default queues with these values."""
    line = line_of(spec.kai.version)
    return bool(line.default_queues) and value_at(kai_values(spec), line.helm.default_queues) is not False


def release_values(spec: LabSpec) -> dict[str, Any]:
    """The release's values: ``kai_values``, without the default queues, which the lab creates in its own clusters.

    Helm refuses to install a chart with queues that exist already, such as those of another version.
    """
    values, line = kai_values(spec), line_of(spec.kai.version)
    by_lab = spec.cluster.own and line.default_queues and line.exact
    return merged(values, with_value(line.helm.default_queues, value=False)) if by_lab else values


def kai_images(spec: LabSpec) -> tuple[str, ...]:
    """References of the images of KAI's pods. Raises SpecError if the version is too old."""
    line, values = line_of(spec.kai.version), kai_values(spec)
    names = set(line.images)
    if not own_hooks(spec):
        names.update(line.hook_images)
    if value_at(values, line.helm.cluster_autoscaling):
        names.update(line.scaling_images)
    registry, tag = value_at(values, line.helm.registry), value_at(values, line.helm.tag) or line.tag
    suffix = "-fips" if value_at(values, line.helm.fips) else ""
    return tuple(f"{registry}/{name}:{tag}{suffix}" for name in sorted(names))


def kai_deployments(spec: LabSpec) -> tuple[str, ...]:
    """The Deployments that must be Available, without components that the values disable."""
    line, values = line_of(spec.kai.version), kai_values(spec)
    off = set()
    if line.component_switch:
        keys = {name: line.deployments[name] for name in line.deployments if name in line.by_operator}
        off = {name for name, key in keys.items() if value_at(values, f"{key}.enabled") is False}
    if value_at(values, line.helm.default_shard) is False:
        off.add(line.scheduler_app)
    more = (line.scaling_deployment,) if value_at(values, line.helm.cluster_autoscaling) else ()
    return (*(name for name in line.deployments if name not in off), *more)

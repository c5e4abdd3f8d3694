"""What a tenant's values must fulfil, checked before anything is installed. Pure.

Helm accepts whatever the chart's schema allows, and the control plane then ends in a crash loop with one log
line. So the values are checked against the chart's own JSON Schema, and against the rules that vCluster
checks only at start (loft-sh/vcluster v0.36.1, pkg/config/validation.go) or that the open-source image does
not fulfil (config/config.go, IsProFeatureEnabled).
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.config import LabSpec, TenantSpec, tenant_nodes
from lab.errors import LabError, SpecError
from lab.steps.helm_release import merged, read_chart, value_at
from lab.tenants.vcluster.access import Port
from lab.tenants.vcluster.mode_validation import mode_doubts, mode_problems
from lab.tenants.vcluster.values import ACCESS_KEYS, release_values, tenant_values
from lab.text import perhaps

if TYPE_CHECKING:
    from jsonschema import ValidationError

Values = Mapping[str, Any]

_KUBERNETES = ((1, 30), (1, 36))
"""Oldest and newest minor in vCluster 0.36's K8SVersionMap."""

_PRO = (
    "controlPlane.advanced.kubeVip.enabled",
    "controlPlane.backingStore.database.external.enabled",
    "controlPlane.backingStore.etcd.embedded.enabled",
    "controlPlane.coredns.embedded",
    "controlPlane.hostPathMapper.central",
    "deletion",
    "experimental.denyProxyRequests",
    "experimental.proxy.customResources",
    "integrations.certManager.enabled",
    "integrations.externalSecrets.enabled",
    "integrations.istio.enabled",
    "integrations.kubeVirt.enabled",
    "networking.resolveDNS",
    "platform",
    "policies.centralAdmission.mutatingWebhooks",
    "policies.centralAdmission.validatingWebhooks",
    "privateNodes.enabled",
    "sleep",
    "snapshots",
    "sync.fromHost.deviceClasses.enabled",
    "sync.toHost.namespaces.enabled",
    "sync.toHost.pods.hybridScheduling.enabled",
    "sync.toHost.resourceClaimTemplates.enabled",
    "sync.toHost.resourceClaims.enabled",
)
"""Keys that need vCluster Pro when they are set to anything but false or empty."""

_REMOVED = (
    "deploy.volumeSnapshotController",
    "rbac.enableVolumeSnapshotRules",
    "sync.fromHost.volumeSnapshotClasses",
    "sync.toHost.volumeSnapshotContents",
    "sync.toHost.volumeSnapshots",
)
"""Keys that the schema still knows and the chart refuses since 0.36."""

_POD_SECURITY = ("privileged", "baseline", "restricted")


@dataclass(frozen=True)
class VClusterChart:
    """What validation needs of a vCluster chart."""

    version: str
    schema: dict[str, Any]
    defaults: dict[str, Any]


@functools.lru_cache(maxsize=4)
def read_vcluster_chart(path: Path) -> VClusterChart:
    """Read version, schema and default values from a chart's .tgz.

    Raises:
        LabError: it is no vCluster chart.
    """
    import yaml

    texts = read_chart(path, lambda inside: inside in ("Chart.yaml", "values.schema.json", "values.yaml"))
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return VClusterChart(
            version=str(yaml.load(texts["Chart.yaml"], Loader=loader)["version"]),  # noqa: S506 - a safe loader
            schema=json.loads(texts["values.schema.json"]),
            defaults=yaml.load(texts["values.yaml"], Loader=loader),  # noqa: S506 - a safe loader
        )
    except (KeyError, ValueError, TypeError, yaml.YAMLError) as error:
        raise LabError(
            f"{path} is not a vCluster chart: {error}", fix="remove that file and run the command again"
        ) from error


def validate_tenants(spec: LabSpec, chart: Path) -> tuple[str, ...]:
    """Check every tenant of the lab file against the chart it will be installed with.

    Args:
        spec: the lab file.
        chart: the vCluster chart (.tgz).

    Returns:
        What is allowed and probably not meant, one sentence each.

    Raises:
        SpecError: with every problem of every tenant.
        LabError: the chart cannot be read.
    """
    if not spec.tenants:
        return ()
    content = read_vcluster_chart(chart)
    problems, doubts = [*_lab_problems(spec)], []
    for tenant in spec.tenants:
        problems += [f"tenant {tenant.name}: {what}" for what in problems_of(spec, tenant, content)]
        doubts += [f"tenant {tenant.name}: {what}" for what in doubts_of(tenant)]
    if problems:
        many = f"{len(problems)} problems with tenants" if len(problems) > 1 else problems[0]
        raise SpecError(
            many,
            evidence=problems if len(problems) > 1 else (),
            fix="correct tenants[] in the lab file; 'helm show values' of the vCluster chart lists all keys",
        )
    return tuple(doubts)


def problems_of(spec: LabSpec, tenant: TenantSpec, chart: VClusterChart) -> Iterator[str]:
    """All problems of one tenant, each with the path of its key."""
    if tenant.vcluster != chart.version.removeprefix("v"):
        yield f"vcluster: the lab has the chart {chart.version}, not {tenant.vcluster}"
    major, minor = (int(number) for number in tenant.kubernetes.split(".")[:2])
    if not _KUBERNETES[0] <= (major, minor) <= _KUBERNETES[1]:
        oldest, newest = (".".join(map(str, pair)) for pair in _KUBERNETES)
        yield f"kubernetes: {tenant.kubernetes}, but vCluster {chart.version} runs {oldest} to {newest}"
    for path in ACCESS_KEYS:
        if value_at(tenant.values, path) is not None:
            yield f"values.{path}: set by the lab, which publishes the port; leave it out"
    values = release_values(spec, tenant, Port(host=1024, node=30000))
    flaws = list(schema_problems(values, chart.schema))
    yield from flaws
    if not flaws:  # rules over values of the wrong type would only repeat it
        whole = merged(chart.defaults, values)
        yield from _rules(tenant, whole)
        yield from mode_problems(tenant, whole, own_nodes=tenant.name in tenant_nodes(spec))


def schema_problems(values: Values, schema: Values) -> Iterator[str]:
    """Where values break the chart's schema, by path, with the known key that a wrong one resembles."""
    from jsonschema import Draft202012Validator

    errors = Draft202012Validator(schema).iter_errors(values)
    for error in sorted(errors, key=lambda found: [str(word) for word in found.absolute_path]):
        yield from _explained(error)


def _explained(error: ValidationError) -> Iterator[str]:
    at = ".".join(["values", *(str(word) for word in error.absolute_path)])
    known = list((error.schema.get("properties") or {}) if isinstance(error.schema, Mapping) else {})
    if error.validator == "additionalProperties" and isinstance(error.instance, Mapping):
        for key in [key for key in error.instance if key not in known]:
            yield f"{at}.{key}: unknown key{perhaps(key, known)}"
    elif error.validator == "type":
        value = json.dumps(error.instance, default=str)
        yield f"{at}: must be of type {_words(error.validator_value)}, not {value}"
    elif error.validator == "enum":
        yield f"{at}: must be {_words(error.validator_value)}, not {error.instance!r}"
    else:
        yield f"{at}: {error.message}"


def _words(value: object) -> str:
    return " or ".join(map(str, value)) if isinstance(value, list) else str(value)


def _rules(tenant: TenantSpec, values: Values) -> Iterator[str]:
    def on(path: str) -> bool:
        value = value_at(values, path)
        return value not in (None, False, "false", "auto", "") and value != {} and value != []

    yield from _scheduling(tenant, on)
    yield from _custom_resources(values)
    repository = str(value_at(values, "controlPlane.statefulSet.image.repository"))
    if repository.endswith("-oss"):
        for path in [*(key for key in _PRO if on(key)), *_patches(value_at(values, "sync") or {}, "sync")]:
            yield f"values.{path}: needs vCluster Pro and a licence; the lab runs {repository}"
    for path in _REMOVED:
        if value_at(tenant.values, path) is not None:
            yield f"values.{path}: removed in vCluster 0.36; the chart refuses it"
    for one, other in (
        ("sync.fromHost.priorityClasses.enabled", "sync.toHost.priorityClasses.enabled"),
        ("sync.fromHost.storageClasses.enabled", "sync.toHost.storageClasses.enabled"),
    ):
        if on(one) and on(other):
            yield f"values.{other}: cannot be on together with {one}"
    embedded = not on("controlPlane.backingStore.etcd.deploy.enabled")
    replicas = "controlPlane.statefulSet.highAvailability.replicas"
    if embedded and int(value_at(values, replicas) or 1) > 1:
        yield f"values.{replicas}: the embedded database serves one replica only"
    if on("policies.podSecurityStandard") and values["policies"]["podSecurityStandard"] not in _POD_SECURITY:
        yield f"values.policies.podSecurityStandard: must be one of {', '.join(_POD_SECURITY)}"
    for kind in ("configMaps", "secrets"):
        if on(f"sync.fromHost.{kind}.enabled") and not on(f"sync.fromHost.{kind}.mappings.byName"):
            yield f"values.sync.fromHost.{kind}.mappings.byName: is missing; say what is synced where"
    if on("exportKubeConfig.secret.name") and on("exportKubeConfig.additionalSecrets"):
        yield "values.exportKubeConfig.secret: cannot be set together with additionalSecrets"
    if on("controlPlane.endpoint"):
        yield "values.controlPlane.endpoint: belongs to private nodes, which need vCluster Pro"


def _scheduling(tenant: TenantSpec, on: Any) -> Iterator[str]:
    keys = ("controlPlane.distro.k8s.scheduler.enabled", "controlPlane.advanced.virtualScheduler.enabled")
    for key in (key for key in keys if on(key)):
        if tenant.mode == "host-kai":
            # pods then wait for a nodeName, whatever their schedulerName (controllers/resources/pods)
            yield f"values.{key}: with a scheduler inside, the host's KAI never sees the pods; use default"
        elif not on("sync.fromHost.nodes.enabled"):
            yield f"values.{key}: a scheduler inside needs values.sync.fromHost.nodes.enabled: true"


def _custom_resources(values: Values) -> Iterator[str]:
    for side in ("fromHost", "toHost"):
        for name in value_at(values, f"sync.{side}.customResources") or {}:
            at = f"values.sync.{side}.customResources.{name}"
            if name == "podgroups.scheduling.run.ai":
                yield (
                    f"{at}: remove it. KAI makes the PodGroups on the host by itself, and vCluster's guide"
                    " dropped this block in July 2025 (loft-sh/vcluster-docs#886); it needs Pro, and without"
                    " mappings the control plane crashes at start"
                )
            else:
                yield f"{at}: syncing custom resources needs vCluster Pro and a licence"


def _patches(values: Values, at: str) -> Iterator[str]:
    for key, value in values.items():
        if key == "patches" and value:
            yield f"{at}.{key}"
        elif isinstance(value, Mapping):
            yield from _patches(value, f"{at}.{key}")


def _lab_problems(spec: LabSpec) -> Iterator[str]:
    if spec.cluster.provider == "existing":
        yield "tenants: not in this release with provider 'existing', which publishes no ports for them"


def doubts_of(tenant: TenantSpec) -> Iterator[str]:
    """What is allowed and probably not meant."""
    values = tenant_values(tenant)
    yield from mode_doubts(tenant, values)
    if not str(value_at(values, "controlPlane.statefulSet.image.repository")).endswith("-oss"):
        yield "values.controlPlane.statefulSet.image: not the open-source image; Pro keys are not checked"

"""Validates the chart values of tenants before anything is installed. Pure.

Helm accepts all values that fit the chart's schema, and the control plane then ends in a crash loop with one log line.
So values are checked against the chart's JSON Schema, against rules that vCluster checks only when it starts
(loft-sh/vcluster v0.36.1, pkg/config/validation.go), and for features that the open-source image does not have
(config/config.go, IsProFeatureEnabled).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.config import LabSpec, TenantSpec, tenant_nodes
from lab.errors import SpecError
from lab.steps.helm_release import merged, value_at
from lab.tenants.vcluster.access import Endpoint
from lab.tenants.vcluster.chart import VClusterChart, read_vcluster_chart, shipped_chart
from lab.tenants.vcluster.mode_validation import SCHEDULERS, mode_problems, mode_warnings
from lab.tenants.vcluster.values import ACCESS_KEYS, REPLICAS, release_values, tenant_values
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
"""Keys that need vCluster Pro unless they are false or empty."""

_REMOVED = (
    "deploy.volumeSnapshotController",
    "rbac.enableVolumeSnapshotRules",
    "sync.fromHost.volumeSnapshotClasses",
    "sync.toHost.volumeSnapshotContents",
    "sync.toHost.volumeSnapshots",
)
"""Keys that the schema still has and the chart refuses since 0.36."""

_POD_SECURITY = ("privileged", "baseline", "restricted")


def validate_tenants(spec: LabSpec, chart: Path | None) -> tuple[str, ...]:
    """Validate every tenant of the lab file against its chart (.tgz); returns warnings.

    Without a chart at hand, validates against the one that kailab ships, if the tenants are of its version.

    Raises:
        SpecError: with every problem of every tenant.
        LabError: the chart cannot be read.
    """
    if not spec.tenants:
        return ()
    content = shipped_chart() if chart is None else read_vcluster_chart(chart)
    if chart is None and any(tenant.vcluster != content.version for tenant in spec.tenants):
        return ()
    problems, warnings = [], []
    for tenant in spec.tenants:
        problems += [f"tenant {tenant.name}: {what}" for what in problems_of(spec, tenant, content)]
        warnings += [f"tenant {tenant.name}: {what}" for what in _warnings(tenant)]
    if problems:
        raise SpecError(
            problems[0] if len(problems) == 1 else f"{len(problems)} problems with tenants",
            evidence=problems if len(problems) > 1 else (),
            fix="correct tenants[] in the lab file; 'helm show values' of the vCluster chart lists all keys",
        )
    return tuple(warnings)


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
            yield f"values.{path}: set by the lab, which makes the tenant reachable; remove it"
    port = Endpoint("https://127.0.0.1:1024", node_port=30000) if spec.cluster.own else None
    values = release_values(spec, tenant, port)
    invalid = list(_schema_problems(values, chart.schema))
    yield from invalid
    if not invalid:  # rules over values of the wrong type would only repeat it
        whole = merged(chart.defaults, values)
        yield from _rules(tenant, whole)
        yield from mode_problems(tenant, whole, dedicated=tenant.name in tenant_nodes(spec))


def _schema_problems(values: Values, schema: Values) -> Iterator[str]:
    """Violations of the chart's schema by path, with the known key that an unknown one resembles."""
    from jsonschema import Draft202012Validator

    errors = Draft202012Validator(schema).iter_errors(values)
    for error in sorted(errors, key=lambda found: [str(word) for word in found.absolute_path]):
        yield from _describe(error)


def _describe(error: ValidationError) -> Iterator[str]:
    at = ".".join(["values", *(str(word) for word in error.absolute_path)])
    known = list((error.schema.get("properties") or {}) if isinstance(error.schema, Mapping) else {})
    if error.validator == "additionalProperties" and isinstance(error.instance, Mapping):
        for key in [key for key in error.instance if key not in known]:
            yield f"{at}.{key}: unknown key{perhaps(key, known)}"
    elif error.validator in ("type", "enum"):
        expected = error.validator_value if isinstance(error.validator_value, list) else [error.validator_value]
        kind = "of type " if error.validator == "type" else ""
        yield f"{at}: must be {kind}{' or '.join(map(str, expected))}, not {json.dumps(error.instance, default=str)}"
    else:
        yield f"{at}: {error.message}"


def _rules(tenant: TenantSpec, values: Values) -> Iterator[str]:
    def on(path: str) -> bool:
        value = value_at(values, path)
        return value not in (None, False, "false", "auto", "") and value != {} and value != []

    for key in filter(on, SCHEDULERS):
        if tenant.mode == "host-kai":
            # pods then wait for a nodeName, whatever their schedulerName (controllers/resources/pods)
            yield f"values.{key}: with a scheduler inside, the host's KAI never sees the pods; use mode default"
        elif not on("sync.fromHost.nodes.enabled"):
            yield f"values.{key}: a scheduler inside needs values.sync.fromHost.nodes.enabled: true"
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
    if embedded and int(value_at(values, REPLICAS) or 1) > 1:
        yield f"values.{REPLICAS}: the embedded database serves one replica only"
    if on("policies.podSecurityStandard") and values["policies"]["podSecurityStandard"] not in _POD_SECURITY:
        yield f"values.policies.podSecurityStandard: must be one of {', '.join(_POD_SECURITY)}"
    for kind in ("configMaps", "secrets"):
        if on(f"sync.fromHost.{kind}.enabled") and not on(f"sync.fromHost.{kind}.mappings.byName"):
            yield f"values.sync.fromHost.{kind}.mappings.byName: is missing; map each object to its target"
    if on("exportKubeConfig.secret.name") and on("exportKubeConfig.additionalSecrets"):
        yield "values.exportKubeConfig.secret: cannot be set together with additionalSecrets"
    if on("controlPlane.endpoint"):
        yield "values.controlPlane.endpoint: belongs to private nodes, which need vCluster Pro"


def _custom_resources(values: Values) -> Iterator[str]:
    for side in ("fromHost", "toHost"):
        for name in value_at(values, f"sync.{side}.customResources") or {}:
            at = f"values.sync.{side}.customResources.{name}"
            if name == "podgroups.scheduling.run.ai":
                yield (
                    f"{at}: remove it. KAI creates the PodGroups on the host itself, and vCluster's guide"
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


def _warnings(tenant: TenantSpec) -> Iterator[str]:
    """Settings that are valid but probably not intended."""
    values = tenant_values(tenant)
    yield from mode_warnings(tenant, values)
    if not str(value_at(values, "controlPlane.statefulSet.image.repository")).endswith("-oss"):
        yield "values.controlPlane.statefulSet.image: not the open-source image; Pro keys are not checked"

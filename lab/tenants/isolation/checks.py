"""The three measures that let a KAI on the host and one in a tenant run in one cluster, and checks for each. Pure.

Measured with KAI 0.16.8 on both sides and vCluster 0.36.1: without any one of them the tenant loses pods, with all
three it loses none (tests/e2e/test_isolation.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lab.config import LabSpec
from lab.kube import OWNER_LABEL
from lab.kube.readiness import is_ready
from lab.objects.fields import labels_of
from lab.objects.isolation_labels import HOST_KAI, HOST_KAI_LABEL, NODE_LABEL, OWN_KAI_LABEL, tenant_namespace
from lab.snapshot.cluster_snapshot import ClusterSnapshot
from lab.snapshot.kai_installation import GROUPER, SCHEDULER, KaiInstallation, installation
from lab.steps import admission_policy
from lab.tenants.isolation.dedicated_nodes import owners, taint

_WEBHOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
KINDS = ("Namespace", "Node", "Pod", "Deployment", *_WEBHOOKS, admission_policy.POLICY, admission_policy.BINDING)
"""Kinds that ``missing_measures`` reads."""

OWN_KAI = {OWN_KAI_LABEL: "true"}


@dataclass(frozen=True)
class Measure:
    """One of the three."""

    id: str
    how: str
    """Action of the lab."""
    without: str
    """Effect of its absence."""


NAMESPACE_OPT_IN = Measure(
    "namespace-opt-in",
    f"the host's KAI handles only namespaces labelled {HOST_KAI_LABEL}=host (webhooks, pod-grouper)",
    "its webhook mutates the tenant's fractional pods a second time, and they stay in CreateContainerConfigError",
)
DEDICATED_NODES = Measure(
    "dedicated-nodes",
    f"nodes labelled {NODE_LABEL}, the node pool key of the host's KAI, are outside the host's KAI",
    "both schedulers assign the same GPUs, and the second pod fails with UnexpectedAdmissionError",
)
DENY_HOST_KAI = Measure(
    "deny-host-kai",
    f"ValidatingAdmissionPolicy {admission_policy.NAME}: the host's KAI may not change or delete pods of these tenants",
    "the host's binder deletes the other running fractions of a GPU as soon as one of them ends",
)
MEASURES = (NAMESPACE_OPT_IN, DEDICATED_NODES, DENY_HOST_KAI)


@dataclass(frozen=True)
class MissingMeasure:
    """A measure, and a missing part of it."""

    measure: Measure
    what: str

    def __str__(self) -> str:
        return f"{self.measure.id}: {self.what}; without it {self.measure.without}"


def missing_measures(spec: LabSpec, snapshot: ClusterSnapshot) -> tuple[MissingMeasure, ...]:
    """The missing parts of the three measures on the lab's own cluster, from a snapshot with ``KINDS``."""
    kai = installation(snapshot)
    if kai is None:
        return (MissingMeasure(NAMESPACE_OPT_IN, "the host's KAI is not found"),)
    return (
        *(MissingMeasure(NAMESPACE_OPT_IN, what) for what in _namespace_opt_in(spec, snapshot, kai)),
        *(MissingMeasure(DEDICATED_NODES, what) for what in _dedicated_nodes(spec, snapshot, kai)),
        *(MissingMeasure(DENY_HOST_KAI, what) for what in _deny_host_kai(spec, snapshot)),
    )


def own_kai_namespaces(spec: LabSpec, snapshot: ClusterSnapshot) -> dict[str, dict[str, str]]:
    """Namespaces of own-kai tenants with their labels: the lab's own by the lab file, and others by their label."""
    named = {tenant_namespace(tenant.name) for tenant in spec.tenants if tenant.mode == "own-kai"}
    labels = {obj["metadata"]["name"]: labels_of(obj["metadata"]) for obj in snapshot.of("Namespace")}
    named = {name for name in named if labels.get(name, {}).get(OWNER_LABEL) == spec.name}
    return {name: own for name, own in labels.items() if name in named or OWN_KAI.items() <= own.items()}


def _namespace_opt_in(spec: LabSpec, snapshot: ClusterSnapshot, kai: KaiInstallation) -> Iterator[str]:
    for obj in (obj for kind in _WEBHOOKS for obj in snapshot.of(kind)):
        name = obj["metadata"]["name"]
        for webhook in obj.get("webhooks") or [] if name in kai.line.webhooks else []:
            selected = (webhook.get("namespaceSelector") or {}).get("matchLabels") or {}
            matches_pods = any("pods" in (rule.get("resources") or []) for rule in webhook.get("rules") or [])
            if matches_pods and not HOST_KAI.items() <= selected.items():
                yield f"webhook configuration {name} matches the pods of all namespaces"
    if not HOST_KAI.items() <= kai.namespace_selector.items():
        yield "the pod-grouper handles the pods of all namespaces"
    yield from _rollout(snapshot, kai, GROUPER)
    for name, labels in own_kai_namespaces(spec, snapshot).items():
        if HOST_KAI.items() <= labels.items():
            yield f"namespace {name} has the label {HOST_KAI_LABEL}=host"
    default = snapshot.get("Namespace", "default")
    if default is not None and not HOST_KAI.items() <= labels_of(default["metadata"]).items():
        yield f"namespace default is not labelled {HOST_KAI_LABEL}=host, so the host's KAI ignores it"


def _dedicated_nodes(spec: LabSpec, snapshot: ClusterSnapshot, kai: KaiInstallation) -> Iterator[str]:
    if kai.pool_key != NODE_LABEL:
        yield f"the node pool key of the host's scheduler is {kai.pool_key}, not {NODE_LABEL}"
    yield from _rollout(snapshot, kai, SCHEDULER)
    nodes = {node.name: node for node in snapshot.nodes}
    for name, tenant in owners(spec).items():
        if name not in nodes:
            yield f"node {name} of tenant {tenant} is missing"
        elif nodes[name].labels.get(NODE_LABEL) != tenant:
            yield f"node {name} lacks the label {NODE_LABEL}={tenant}"
        elif taint(tenant) not in nodes[name].taints:
            yield f"node {name} lacks the taint {taint(tenant)}"
    if shards := sorted(kai.pools & set(owners(spec).values())):
        yield f"the host's KAI has a SchedulingShard for the nodes of {', '.join(shards)}"


def _deny_host_kai(spec: LabSpec, snapshot: ClusterSnapshot) -> Iterator[str]:
    yield from admission_policy.differences(snapshot, spec.name)
    for name, labels in own_kai_namespaces(spec, snapshot).items():
        if not OWN_KAI.items() <= labels.items():
            yield f"namespace {name} lacks the label {OWN_KAI_LABEL}=true, by which the policy selects"


def _rollout(snapshot: ClusterSnapshot, kai: KaiInstallation, role: str) -> Iterator[str]:
    """A component with the right arguments in its Deployment while old pods still run."""
    component = kai.component(role)
    obj = snapshot.get("Deployment", component.deployment, component.namespace) if component else None
    if obj is not None and not is_ready({**obj, "kind": "Deployment"}):
        yield f"{obj['metadata']['name']} of the host's KAI is not rolled out"

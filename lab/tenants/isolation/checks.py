"""The three measures that let a KAI on the host and one in a tenant run in one cluster, and which of them is missing.

Seen with KAI 0.16.8 on both sides and vCluster 0.36.1: with any one of them left out the tenant loses pods, with all
three nothing is lost (tests/e2e/test_isolation.py). Pure functions over a World.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lab.config import LabSpec
from lab.config.labels import HOST_KAI, HOST_KAI_LABEL, NODE_LABEL, OWN_KAI_LABEL, tenant_namespace
from lab.explain.installation import GROUPER, SCHEDULER, Component, KaiInstallation, installation
from lab.kai import line_of
from lab.kube.readiness import is_ready
from lab.snapshot.cluster_snapshot import ClusterSnapshot
from lab.tenants.isolation import admission_policy
from lab.tenants.isolation.dedicated_nodes import owners

KINDS = (
    "Namespace",
    "Node",
    "Pod",
    "Deployment",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
    admission_policy.POLICY,
    admission_policy.BINDING,
)
"""What ``missing_measures`` looks at."""

OWN_KAI = {OWN_KAI_LABEL: "true"}


@dataclass(frozen=True)
class Measure:
    """One of the three."""

    id: str
    how: str
    """What the lab does."""
    without: str
    """What happens where it is missing."""


OPT_IN = Measure(
    "opt-in",
    f"the host's KAI looks only at namespaces labelled {HOST_KAI_LABEL}=host (webhooks, pod-grouper)",
    "its webhook changes the tenant's fractional pods once more, and they stay in CreateContainerConfigError",
)
OWN_NODES = Measure(
    "own-nodes",
    f"nodes labelled {NODE_LABEL}, the host's KAI's node pool key, are no nodes of the host's KAI",
    "both schedulers give the same GPUs away, and the second pod fails with UnexpectedAdmissionError",
)
KEEPS_OFF = Measure(
    "keeps-off",
    f"ValidatingAdmissionPolicy {admission_policy.NAME}: the host's KAI may not change or delete pods of these tenants",
    "the host's binder deletes the other running fractions of a GPU as soon as one of them ends",
)
MEASURES = (OPT_IN, OWN_NODES, KEEPS_OFF)


@dataclass(frozen=True)
class MissingMeasure:
    """Something of a measure that is not there."""

    measure: Measure
    what: str

    def __str__(self) -> str:
        return f"{self.measure.id}: {self.what}; without it {self.measure.without}"


def missing_measures(spec: LabSpec, world: ClusterSnapshot) -> tuple[MissingMeasure, ...]:
    """What is missing of the three measures on the lab's own cluster; nothing for a lab that needs none of them.

    Args:
        spec: a lab with KAI on the host and tenants with a KAI of their own.
        world: that cluster, with ``KINDS`` read.
    """
    kai = installation(world)
    if kai is None:
        return (MissingMeasure(OPT_IN, "the host's KAI is not found"),)
    return (
        *(MissingMeasure(OPT_IN, what) for what in _opt_in(spec, world, kai)),
        *(MissingMeasure(OWN_NODES, what) for what in _own_nodes(spec, world, kai)),
        *(MissingMeasure(KEEPS_OFF, what) for what in _keeps_off(spec, world)),
    )


def tenant_spaces(spec: LabSpec, world: ClusterSnapshot) -> dict[str, Mapping[str, str]]:
    """Labels of the namespaces of tenants with a KAI of their own: by the lab file, or by their label."""
    named = {tenant_namespace(tenant.name) for tenant in spec.tenants if tenant.mode == "own-kai"}
    every = {obj["metadata"]["name"]: _labels(obj) for obj in world.of("Namespace")}
    return {name: labels for name, labels in every.items() if name in named or OWN_KAI.items() <= labels.items()}


def _opt_in(spec: LabSpec, world: ClusterSnapshot, kai: KaiInstallation) -> Iterator[str]:
    line = line_of(spec.kai.version)
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        for obj in world.of(kind):
            name = obj["metadata"]["name"]
            if name not in line.webhooks:
                continue
            for webhook in obj.get("webhooks") or []:
                chosen = (webhook.get("namespaceSelector") or {}).get("matchLabels") or {}
                if _sees_pods(webhook) and not HOST_KAI.items() <= chosen.items():
                    yield f"webhook configuration {name} sees the pods of all namespaces"
    if not HOST_KAI.items() <= kai.namespace_selector.items():
        yield "the pod-grouper sees the pods of all namespaces"
    yield from _behind(world, kai, GROUPER)
    for name, labels in tenant_spaces(spec, world).items():
        if HOST_KAI.items() <= labels.items():
            yield f"namespace {name} is labelled as one of the host's KAI"
    default = world.get("Namespace", "default")
    if default is not None and not HOST_KAI.items() <= _labels(default).items():
        yield f"namespace default is not labelled {HOST_KAI_LABEL}=host, so that the host's KAI leaves it out"


def _own_nodes(spec: LabSpec, world: ClusterSnapshot, kai: KaiInstallation) -> Iterator[str]:
    if kai.pool_key != NODE_LABEL:
        yield f"the host's scheduler divides nodes by {kai.pool_key}, not by {NODE_LABEL}"
    yield from _behind(world, kai, SCHEDULER)
    for name, tenant in owners(spec).items():
        node = next((node for node in world.nodes if node.name == name), None)
        if node is None:
            yield f"node {name} of tenant {tenant} is missing"
        elif node.labels.get(NODE_LABEL) != tenant:
            yield f"node {name} is not labelled as tenant {tenant}'s"
        elif f"{NODE_LABEL}={tenant}:NoSchedule" not in node.taints:
            yield f"node {name} has no taint that keeps others than tenant {tenant} away"
    if shards := sorted(kai.pools & set(owners(spec).values())):
        yield f"the host's KAI has a shard of its own for the nodes of {', '.join(shards)}"


def _keeps_off(spec: LabSpec, world: ClusterSnapshot) -> Iterator[str]:
    yield from admission_policy.missing(world, spec.name)
    for name, labels in tenant_spaces(spec, world).items():
        if not OWN_KAI.items() <= labels.items():
            yield f"namespace {name} lacks the label {OWN_KAI_LABEL}=true, by which the policy selects"


def _behind(world: ClusterSnapshot, kai: KaiInstallation, role: str) -> Iterator[str]:
    """A component whose Deployment says the right thing while pods of before still run."""
    component: Component | None = kai.component(role)
    obj = world.get("Deployment", component.deployment, component.namespace) if component else None
    if obj is not None and not is_ready({**obj, "kind": "Deployment"}):
        yield f"{obj['metadata']['name']} of the host's KAI is not rolled out"


def _sees_pods(webhook: Mapping[str, Any]) -> bool:
    return any("pods" in (rule.get("resources") or []) for rule in webhook.get("rules") or [])


def _labels(obj: Mapping[str, Any]) -> Mapping[str, str]:
    return obj["metadata"].get("labels") or {}

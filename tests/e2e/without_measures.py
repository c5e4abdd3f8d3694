"""Remove the isolation measures one at a time, and restore them at the end of each block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from lab.errors import ApiFailed, WaitTimeout
from lab.kai import line_of
from lab.kube import Cluster
from lab.kube.readiness import is_ready
from lab.objects.isolation_labels import HOST_KAI_LABEL, NODE_LABEL, tenant_namespace
from lab.objects.views import NodeView
from lab.session.lab import Lab
from lab.steps import admission_policy
from lab.steps.kai.step import NAMESPACE
from lab.tenants.isolation.dedicated_nodes import TenantNodes, owners
from lab.tenants.isolation.step import Isolation
from lab.workloads.temporary import absent, changed

from .scheduling_decisions import WAIT

CONFIG = ("Config.kai.scheduler", "kai-config")
KAIS_OWN_POOL_KEY = "kai.scheduler/node-pool"
"""KAI's default for ``nodePoolLabelKey``: a label that no node of a lab has."""

Json = dict[str, Any]


@contextmanager
def without_namespace_opt_in(lab: Lab, tenant: str) -> Iterator[None]:
    """Label the tenant's namespace as one of the host's KAI, so that its webhooks see the tenant's pods."""
    cluster, space = lab.cluster, tenant_namespace(tenant)
    try:
        with changed(cluster, lab.spec.name, "Namespace", space, {"metadata": {"labels": {HOST_KAI_LABEL: "host"}}}):
            until(cluster, lambda: seen_by_host_webhooks(lab, space), f"the host's webhooks see namespace {space}")
            yield
    finally:
        until(cluster, lambda: not seen_by_host_webhooks(lab, space), f"the host's webhooks ignore namespace {space}")
        settled(lab)


@contextmanager
def without_dedicated_nodes(lab: Lab, node: str) -> Iterator[None]:
    """Make the host's KAI use the dedicated node, and remove its taint.

    This changes KAI's node pool key, not the node's label: without the label vCluster would remove the node from the
    tenant.
    """
    cluster = lab.cluster
    config = cluster.get(*CONFIG) or {}
    before = config["spec"]["global"]["nodePoolLabelKey"]
    taints = cluster.get("Node", node) or {}
    others = [taint for taint in taints["spec"].get("taints") or [] if taint["key"] != NODE_LABEL]
    key = {"spec": {"global": {"nodePoolLabelKey": KAIS_OWN_POOL_KEY}}}
    try:
        with (
            changed(cluster, lab.spec.name, "Node", node, {"spec": {"taints": others}}),
            changed(cluster, lab.spec.name, *CONFIG, key),
        ):
            _divides_by(lab, KAIS_OWN_POOL_KEY)
            yield
    finally:
        _divides_by(lab, before)
        TenantNodes(lab.spec).apply(lab.context("tenant-nodes"))
        settled(lab)


@contextmanager
def without_policy(lab: Lab, tenant: str) -> Iterator[None]:
    """Remove the binding of the policy, and wait until the API server has noticed."""
    cluster, space = lab.cluster, tenant_namespace(tenant)
    binding = cluster.get(admission_policy.BINDING, admission_policy.NAME) or {}
    try:
        with absent(cluster, lab.spec.name, [binding]):
            cluster.delete(admission_policy.BINDING, admission_policy.NAME, wait=WAIT)
            until(cluster, lambda: not admission_policy.in_force(cluster, space), "the policy is out of force")
            yield
    finally:
        Isolation(lab.spec).apply(lab.context("isolation"))
        settled(lab)


def settled(lab: Lab) -> None:
    """Wait until all measures are restored and in force. Raises StepFailed."""
    Isolation(lab.spec).verify(lab.context("isolation"))


def node_of(lab: Lab, tenant: str) -> NodeView:
    """Return the tenant's dedicated node with the most GPUs."""
    mine = {node for node, owner in owners(lab.spec).items() if owner == tenant}
    nodes = [NodeView.of(obj) for obj in lab.cluster.list("Node")]
    return max((node for node in nodes if node.name in mine), key=lambda node: node.gpus)


def seen_by_host_webhooks(lab: Lab, namespace: str) -> bool:
    """Whether the webhooks of the host's KAI see pods of a namespace: dry-runs a pod that they refuse."""
    line = line_of(str(lab.kai_version))
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "judged", "namespace": namespace, "annotations": {line.keys.fraction: "1.5"}},
        "spec": {"schedulerName": line.scheduler_name, "containers": [{"name": "none", "image": "none"}]},
    }
    path = lab.cluster.kinds.named("Pod").path(namespace)
    try:
        lab.cluster.calls.json("POST", path, title="dry run of a pod", query={"dryRun": "All"}, body=pod)
    except ApiFailed as error:
        if "denied the request" in error.what and "gpu" in error.what.lower():
            return True
        raise
    return False


def until(cluster: Cluster, holds: Callable[[], bool], what: str) -> None:
    """Poll for a condition that no watch shows. Raises WaitTimeout."""
    if not cluster.poll(holds, timeout=WAIT):
        raise WaitTimeout(f"{what}: not within {WAIT:g} s")


def _divides_by(lab: Lab, key: str) -> None:
    """Wait until KAI's scheduler uses a node pool label key."""

    def rolled_out(deployments: list[Json]) -> bool:
        return any(is_ready(one) and f"--nodepool-label-key={key}" in _args(one) for one in deployments)

    name = line_of(str(lab.kai_version)).scheduler_app
    lab.cluster.wait(
        "Deployment",
        rolled_out,
        namespace=NAMESPACE,
        fields=f"metadata.name={name}",
        timeout=WAIT,
        what=f"KAI's scheduler divides nodes by {key}",
    )


def _args(deployment: Json) -> list[str]:
    return [arg for one in deployment["spec"]["template"]["spec"]["containers"] for arg in one.get("args") or []]

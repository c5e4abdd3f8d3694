"""Scenarios in tenants."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml

from lab.errors import ApiFailed
from lab.kube.readiness import is_ready
from lab.objects.isolation_labels import HOST_KAI_LABEL, tenant_namespace
from lab.objects.synced import SyncedObject
from lab.session.lab import Lab
from lab.workloads.pods import cpu_pod, fraction_pod
from scripts.scenarios.cluster_changes import SECONDS, Patched
from scripts.scenarios.manifests import cpu, main, one, over, queue, sized
from scripts.scenarios.model import Scenario

if TYPE_CHECKING:
    from lab.kube import Cluster

Json = dict[str, Any]
_NONE = {"matchLabels": {"kailab.dev/scenario": "none"}}


def queue_crd() -> Json:
    """KAI's CRD of queues, without a schema."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v2", "served": True, "storage": True, "schema": schema}
    names = {"plural": "queues", "singular": "queue", "kind": "Queue", "listKind": "QueueList"}
    spec = {"group": "scheduling.run.ai", "scope": "Cluster", "names": names, "versions": [version]}
    meta = {"name": "queues.scheduling.run.ai"}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": meta, "spec": spec}


@dataclass(frozen=True)
class HostPodDeleted:
    """The host's pod for the tenant's pod p of a namespace is deleted."""

    space: str

    def do(self, cluster: Cluster) -> None:
        def running() -> list[Json]:
            synced = [(SyncedObject.of(pod), pod) for pod in cluster.list("Pod")]
            found = [pod for of, pod in synced if (of.namespace, of.name) == (self.space, "p")]
            return [pod for pod in found if (pod.get("status") or {}).get("phase") == "Running"]

        for pod in cluster.poll(running, timeout=60, interval=1.0):
            cluster.delete("Pod", pod["metadata"]["name"], pod["metadata"]["namespace"])

    def undo(self, cluster: Cluster) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class TenantSettings:
    """Settings of a tenant's vCluster, changed as by a Helm upgrade of somebody else, and changed back."""

    change: Json
    tenant: str = "team-a"
    before: list[str] = field(default_factory=list, compare=False)

    def do(self, cluster: Cluster) -> None:
        secret = cluster.get("Secret", f"vc-config-{self.tenant}", tenant_namespace(self.tenant)) or {}
        self.before[:] = [secret["data"]["config.yaml"]]
        settings = over(yaml.safe_load(base64.b64decode(self.before[0])), self.change)
        self._use(cluster, base64.b64encode(yaml.safe_dump(settings).encode()).decode())

    def undo(self, cluster: Cluster) -> None:
        for text in self.before:
            self._use(cluster, text)

    def _use(self, cluster: Cluster, text: str) -> None:
        space, name = tenant_namespace(self.tenant), f"{self.tenant}-0"
        cluster.patch("Secret", f"vc-config-{self.tenant}", {"data": {"config.yaml": text}}, space)
        old = (cluster.get("Pod", name, space) or {}).get("metadata", {}).get("uid")

        def ready_anew(pods: list[Json]) -> bool:
            return any(pod["metadata"]["uid"] != old and is_ready(pod) for pod in pods)

        cluster.delete("Pod", name, space, grace=1)
        what, labels = f"vCluster {self.tenant} is ready again", f"app=vcluster,release={self.tenant}"
        cluster.wait("Pod", ready_anew, namespace=space, labels=labels, timeout=SECONDS, what=what)


@dataclass(frozen=True)
class SyncerMayNotCreatePods:
    """The syncer of a tenant has lost a permission on the host."""

    tenant: str = "team-a"
    before: list[Json] = field(default_factory=list, compare=False)

    def do(self, cluster: Cluster) -> None:
        role = cluster.get("Role", f"vc-{self.tenant}", tenant_namespace(self.tenant)) or {}
        self.before[:] = role["rules"]
        rules = [
            {**rule, "verbs": [verb for verb in rule["verbs"] if verb != "create"]}
            if "pods" in rule["resources"]
            else rule
            for rule in role["rules"]
        ]
        self._use(cluster, rules)

    def undo(self, cluster: Cluster) -> None:
        if self.before:
            self._use(cluster, self.before)

    def _use(self, cluster: Cluster, rules: list[Json]) -> None:
        cluster.patch("Role", f"vc-{self.tenant}", {"rules": rules}, tenant_namespace(self.tenant))


def _denied(name: str, operation: str, resource: str) -> list[Json]:
    """A policy of the tenant's users that denies an operation on a resource."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": [operation], "resources": [resource]}
    policy = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "false", "message": "denied in a scenario"}],
    }
    binding = {"policyName": name, "validationActions": ["Deny"]}
    kinds = {"ValidatingAdmissionPolicy": policy, "ValidatingAdmissionPolicyBinding": binding}
    head = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": name}}
    return [{**head, "kind": kind, "spec": spec} for kind, spec in kinds.items()]


@dataclass(frozen=True)
class NodesDenied:
    """A policy of the tenant's users denies nodes, and those that the tenant had are gone."""

    tenant: str = "team-a"

    def do(self, cluster: Cluster) -> None:
        inside = self._tenant(cluster)
        inside.apply(self._docs)
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "s-node"}}
        inside.poll(lambda: _is_denied(inside, node), timeout=SECONDS)
        for known in inside.list("Node"):
            inside.delete("Node", known["metadata"]["name"])

    def undo(self, cluster: Cluster) -> None:
        inside = self._tenant(cluster)
        for doc in self._docs:
            inside.delete(doc["kind"], doc["metadata"]["name"], wait=SECONDS)

    @property
    def _docs(self) -> list[Json]:
        return _denied("s-nodes", "CREATE", "nodes")

    def _tenant(self, cluster: Cluster) -> Cluster:
        return Lab.attach(cluster.kubeconfig.parent.name).tenant(self.tenant)


def _is_denied(cluster: Cluster, doc: Json) -> bool:
    try:
        cluster.apply([doc], dry_run=True)
    except ApiFailed as error:
        return "denied in a scenario" in error.what
    return False


def _host_kai(value: str | None) -> Json:
    """A namespace's label for the host's KAI, which the namespaces of own-kai tenants must not have."""
    return {"metadata": {"labels": {HOST_KAI_LABEL: value}}}


def _own_class() -> Json:
    """A priority class that only the tenant has."""
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "s-own"}, "value": 60}


TENANTS = (
    Scenario(
        "tenant-unsynced",
        "tenant.not-synced",
        one(cpu),
        tenant="host-kai",
        changes=(TenantSettings({"sync": {"toHost": {"pods": {"enabled": False}}}}),),
    ),
    Scenario("tenant-forbidden", "tenant.sync-error", one(cpu), tenant="host-kai", changes=(SyncerMayNotCreatePods(),)),
    Scenario(
        "tenant-class-selected",
        "tenant.class-not-synced",
        one(lambda s: cpu(s, spec={"priorityClassName": "build-preemptible"})),
        tenant="host-kai",
        changes=(SyncerMayNotCreatePods(),),
        then=(TenantSettings({"sync": {"fromHost": {"priorityClasses": {"enabled": True, "selector": _NONE}}}}),),
    ),
    Scenario(
        "tenant-two-kais",
        "tenant.two-kais",
        one(lambda s: fraction_pod("p", fraction=0.5, queue="test")),
        tenant="own-kai",
        changes=(Patched("Namespace", "vcluster-own", _host_kai("host"), _host_kai(None)),),
    ),
    Scenario(
        "tenant-class-lost",
        "nodes.cpu",
        one(lambda s: over(sized(s, cpu="1000"), {"spec": {"priorityClassName": "s-own"}})),
        tenant="host-kai",
        inside=one(lambda s: _own_class()),
        changes=(TenantSettings({"sync": {"fromHost": {"priorityClasses": {"enabled": False}}}}),),
        also=("tenant.class-blanked",),
    ),
    Scenario("tenant-node-denied", "tenant.node-not-synced", one(cpu), tenant="host-kai", changes=(NodesDenied(),)),
    Scenario(
        "tenant-status-denied",
        "tenant.status-behind",
        one(cpu),
        tenant="host-kai",
        inside=lambda s: _denied("s-status", "UPDATE", "pods/status"),
        alone=True,
    ),
    Scenario(
        "tenant-queue-inside",
        "tenant.queue-only-inside",
        one(lambda s: cpu_pod("p", queue="s-inside")),
        tenant="host-kai",
        inside=lambda s: [queue_crd(), over(queue("s-inside", s), {"spec": {"parentQueue": ""}})],
    ),
    Scenario(
        "tenant-host-deleting",
        "tenant.host-deleting",
        one(
            lambda s: main(
                cpu(s, spec={"terminationGracePeriodSeconds": 60}),
                command=["sh", "-c", "trap '' TERM; while :; do sleep 1; done"],
            )
        ),
        tenant="host-kai",
        then=(HostPodDeleted("s-tenant-host-deleting"),),
    ),
)
"""Tenants whose pods the host's KAI schedules."""

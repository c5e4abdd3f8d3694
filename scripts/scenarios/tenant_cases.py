"""Scenarios in tenants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lab.objects.synced import SyncedObject
from lab.workloads.pods import cpu_pod
from scripts.scenarios.manifests import cpu, main, one, over, queue
from scripts.scenarios.model import Scenario

if TYPE_CHECKING:
    from lab.kube import Cluster

Json = dict[str, Any]


def _queue_crd() -> Json:
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


TENANTS = (
    Scenario(
        "tenant-queue-inside",
        "tenant.queue-only-inside",
        one(lambda s: cpu_pod("p", queue="s-inside")),
        tenant="host-kai",
        inside=lambda s: [_queue_crd(), over(queue("s-inside", s), {"spec": {"parentQueue": ""}})],
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

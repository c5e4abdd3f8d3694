"""Proof that a tenant's GPUs are free: pods of the host run on all of them.

On each node where the tenant held GPUs one pod asks for all that nobody else has there, so that it runs only when
every one of the tenant's is free; a pod with as many GPUs as the tenant had could run on others.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lab.config import LabSpec, TenantSpec
from lab.config.labels import NODE_LABEL
from lab.errors import WaitTimeout
from lab.kai.names import KAI_SCHEDULER
from lab.kube import OWNER_LABEL, Cluster
from lab.objects.views import PodView
from lab.snapshot.node_info import read_node_infos
from lab.workloads.pods import gpu_pod

_NAMESPACE = "default"
_GONE_SECONDS = 60.0

Json = dict[str, Any]


@dataclass
class GpuReleaseCheck:
    """The pods of one proof; ``prove`` makes them, ``clear`` takes them away.

    Args:
        cluster: the host.
        spec: the lab.
        tenant: whose GPUs they were. With KAI on the host its pods are KAI's, as the tenant's were; beside a
            tenant with a KAI of its own they are the default scheduler's, since the host's KAI keeps off its nodes.
        held: devices that the tenant held, by node.
    """

    cluster: Cluster
    spec: LabSpec
    tenant: TenantSpec
    held: Mapping[str, int]
    _made: list[str] = field(default_factory=list)

    def prove(self, seconds: float) -> str:
        """Wait until the pods run; says on what.

        Raises:
            WaitTimeout: one did not run within ``seconds``.
        """
        wanted = self._wanted()
        if not wanted:
            raise WaitTimeout(
                "no node offers the GPUs that the tenant held", fix="see with 'lab gpus' whether they have failed"
            )
        for node, gpus in sorted(wanted.items()):
            pod = self._pod(node, gpus)
            self._made.append(pod["metadata"]["name"])
            self.cluster.create(pod)
        names = set(self._made)
        self.cluster.wait(
            "Pod",
            lambda pods: names <= {pod.name for pod in map(PodView.of, pods) if pod.phase == "Running"},
            namespace=_NAMESPACE,
            labels=f"{OWNER_LABEL}={self.spec.name}",
            timeout=seconds,
            what=f"a pod of the host runs on the GPUs of tenant {self.tenant.name}",
        )
        return ", ".join(
            f"a pod with {gpus} GPU{'s' * (gpus > 1)} runs on {node}" for node, gpus in sorted(wanted.items())
        )

    def clear(self) -> None:
        """Delete the pods and wait until they are gone; those that were never made are as good as gone."""
        for name in self._made:
            self.cluster.delete("Pod", name, _NAMESPACE, grace=1)
        for name in self._made:
            self.cluster.delete("Pod", name, _NAMESPACE, grace=1, wait=_GONE_SECONDS)

    def _wanted(self) -> dict[str, int]:
        """All GPUs that nobody else has, by node."""
        free = {info.node.name: info.gpus_free for info in read_node_infos(self.cluster)}
        return {node: gpus for node, gpus in free.items() if node in self.held and gpus}

    def _pod(self, node: str, gpus: int) -> Json:
        by_kai = self.spec.scheduler == "kai" and self.tenant.mode != "own-kai"
        pod = gpu_pod(
            f"canary-{self.tenant.name[:40]}-{secrets.token_hex(3)}",
            gpus=gpus,
            namespace=_NAMESPACE,
            queue=next(iter(self.spec.leaf_queues), None) if by_kai else None,
            scheduler=KAI_SCHEDULER if by_kai else None,
        )
        pod["metadata"].setdefault("labels", {})[OWNER_LABEL] = self.spec.name
        pod["spec"]["nodeSelector"] = {"kubernetes.io/hostname": node}
        pod["spec"]["tolerations"] = [{"key": NODE_LABEL, "operator": "Exists", "effect": "NoSchedule"}]
        return pod

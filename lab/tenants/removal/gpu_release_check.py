"""Verifies that a removed tenant's GPUs were released by running host pods on all of them.

On each node where the tenant held GPUs, one pod requests all GPUs that nobody else holds there, so it runs only when
every GPU of the tenant is free. A pod with as many GPUs as the tenant had could run on others.
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
from lab.text import count
from lab.workloads.pods import gpu_pod

_NAMESPACE = "default"
_GONE_SECONDS = 60.0


@dataclass
class GpuReleaseCheck:
    """The pods of one check.

    KAI on the host schedules them, as it did the tenant's pods. Without it, or after an own-kai tenant, whose nodes the
    host's KAI ignores, kube-scheduler does.
    """

    cluster: Cluster
    spec: LabSpec
    tenant: TenantSpec
    held: Mapping[str, int]
    """Node → GPUs that the tenant held."""
    _names: list[str] = field(default_factory=list)

    def run(self, seconds: float) -> str:
        """Create the pods and wait until they run; returns which pods run where. Raises WaitTimeout."""
        free = {info.node.name: info.gpus_free for info in read_node_infos(self.cluster)}
        wanted = {node: gpus for node, gpus in sorted(free.items()) if node in self.held and gpus}
        if not wanted:
            raise WaitTimeout(
                "no node offers the GPUs that the tenant held", fix="check with 'lab gpus' whether they have failed"
            )
        for node, gpus in wanted.items():
            pod = self._pod(node, gpus)
            self._names.append(pod["metadata"]["name"])
            self.cluster.create(pod)
        names = set(self._names)
        self.cluster.wait(
            "Pod",
            lambda pods: names <= {pod.name for pod in map(PodView.of, pods) if pod.phase == "Running"},
            namespace=_NAMESPACE,
            labels=f"{OWNER_LABEL}={self.spec.name}",
            timeout=seconds,
            what=f"a pod of the host runs on the GPUs of tenant {self.tenant.name}",
        )
        return ", ".join(f"a pod with {count(gpus, 'GPU')} runs on {node}" for node, gpus in wanted.items())

    def delete_pods(self) -> None:
        """Delete the pods and wait until they are gone."""
        for wait in (None, _GONE_SECONDS):
            for name in self._names:
                self.cluster.delete("Pod", name, _NAMESPACE, grace=1, wait=wait)

    def _pod(self, node: str, gpus: int) -> dict[str, Any]:
        by_kai = self.spec.scheduler == "kai" and self.tenant.mode != "own-kai"
        pod = gpu_pod(
            f"gpu-release-{self.tenant.name[:40]}-{secrets.token_hex(3)}",
            gpus=gpus,
            namespace=_NAMESPACE,
            queue=next(iter(self.spec.leaf_queues), None) if by_kai else None,
            scheduler=KAI_SCHEDULER if by_kai else None,
        )
        pod["metadata"].setdefault("labels", {})[OWNER_LABEL] = self.spec.name
        pod["spec"]["nodeSelector"] = {"kubernetes.io/hostname": node}
        pod["spec"]["tolerations"] = [{"key": NODE_LABEL, "operator": "Exists", "effect": "NoSchedule"}]
        return pod

"""Verifies that a removed tenant's GPUs were released by running host pods with as many, of the same sizes.

On each node where the tenant held GPUs, one pod requests as many whole GPUs or MIG devices; for each share of a GPU
that others use too, one pod requests that share. No pod is created unless the node has room for it: KAI could
otherwise evict others, and a pod of others that has taken a GPU meanwhile is named instead.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lab.config import LabSpec, TenantSpec
from lab.errors import WaitTimeout
from lab.kai.names import DEVICES_ANNOTATION, FRACTION_ANNOTATION, GPU_RESOURCE, KAI_SCHEDULER, MEMORY_ANNOTATION
from lab.kube import OWNER_LABEL, Cluster
from lab.objects.isolation_labels import NODE_LABEL
from lab.objects.views import PodView
from lab.snapshot.node_info import NodeInfo, read_node_infos
from lab.snapshot.pod_info import PodInfo
from lab.supply.published import pulled_from
from lab.text import count
from lab.workloads.modifiers import as_cluster_has
from lab.workloads.pods import IMAGE, cpu_pod
from lab.workloads.temporary import owner_labels

_NAMESPACE = "default"
_GONE_SECONDS = 60.0


@dataclass
class GpuReleaseCheck:
    """The pods of one check.

    KAI on the host schedules them, as it did the tenant's pods. Without it, or after an own-kai tenant, whose nodes the
    host's KAI ignores, or where no queue may have that many GPUs, kube-scheduler does.
    """

    cluster: Cluster
    spec: LabSpec
    tenant: TenantSpec
    held: Mapping[str, Mapping[str, int]]
    """Node → resource → number that the tenant held."""
    shares: Sequence[PodInfo] = ()
    """The tenant's pods on GPUs that others share."""
    _names: list[str] = field(default_factory=list)

    def run(self, seconds: float) -> str:
        """Create the pods and wait until they run; returns which pods run where. Raises WaitTimeout."""
        infos = {info.node.name: info for info in read_node_infos(self.cluster)}
        wanted = list(self._wanted())
        for node, what, pod in wanted:
            if lacking := _lacking(infos.get(node), PodInfo.of(pod)):
                raise WaitTimeout(f"no room for a pod with {what} on {node}: {lacking}", fix="check with 'kailab gpus'")
        for _, _, pod in wanted:
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
        return ", ".join(f"a pod with {what} runs on {node}" for node, what, _ in wanted)

    def delete_pods(self) -> None:
        """Delete the pods and wait until they are gone."""
        for wait in (None, _GONE_SECONDS):
            for name in self._names:
                self.cluster.delete("Pod", name, _NAMESPACE, grace=1, wait=wait)

    def _wanted(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Node, GPUs in words, and the pod that requests them."""
        for node, held in sorted(self.held.items()):
            what = " and ".join(count(n, "GPU") if key == GPU_RESOURCE else f"{n} {key}" for key, n in held.items())
            yield node, what, self._pod(node, held.get(GPU_RESOURCE, 0), resources=held)
        for share in self.shares:
            asked, annotations = share.requests, {}
            if asked.fraction is not None:
                annotations[FRACTION_ANNOTATION] = share.view.annotations[FRACTION_ANNOTATION]
            else:
                annotations[MEMORY_ANNOTATION] = str(asked.gpu_memory)
            if asked.devices > 1:
                annotations[DEVICES_ANNOTATION] = str(asked.devices)
            what = f"{asked.fraction:g} of a GPU" if asked.fraction is not None else f"{asked.gpu_memory} MiB of a GPU"
            yield share.view.node, what, self._pod(share.view.node, asked.gpu_total, annotations=annotations)

    def _pod(
        self,
        node: str,
        gpus: float,
        *,
        resources: Mapping[str, int] | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        by_kai = self.spec.scheduler == "kai" and self.tenant.mode != "own-kai"
        queue = _queue(self.spec, gpus) if by_kai else None
        if queue is None and annotations:  # only KAI schedules shares
            queue = next(iter(self.spec.leaf_queues), None)
        pod = cpu_pod(
            f"gpu-release-{self.tenant.name[:40]}-{secrets.token_hex(3)}",
            namespace=_NAMESPACE,
            queue=queue,
            scheduler=KAI_SCHEDULER if queue else None,
        )
        meta, container = pod["metadata"], pod["spec"]["containers"][0]
        meta.setdefault("labels", {}).update({**owner_labels(self.spec.name), NODE_LABEL: self.tenant.name})
        meta.setdefault("annotations", {}).update(annotations or {})
        for side in ("requests", "limits"):
            container["resources"].setdefault(side, {}).update(resources or {})
        pod["spec"]["nodeSelector"] = {"kubernetes.io/hostname": node}
        pod["spec"]["tolerations"] = [{"key": NODE_LABEL, "operator": "Exists", "effect": "NoSchedule"}]
        return self._fitted(pod)

    def _fitted(self, pod: dict[str, Any]) -> dict[str, Any]:
        """The pod with the image that a cluster of others pulls; namespace ``default`` has the pull secrets."""
        if self.spec.cluster.own:
            return pod
        supply = self.spec.supply
        return as_cluster_has(pod, None, pulled_from(IMAGE, supply.mirrors), supply.pull_secrets)


def _lacking(info: NodeInfo | None, pod: PodInfo) -> str:
    """Why a node has no room for the GPUs of a pod; empty if it has."""
    if info is None:
        return "the node is gone"
    asked = pod.requests
    if asked.shares_gpu:
        share = pod.share(info.gpu_memory) or 0.0
        room = info.gpus_free + sum(gpu.free >= share for gpu in info.shared)
        fits = room >= asked.devices
    else:
        fits = all(info.free(key) >= n for key, n in {GPU_RESOURCE: asked.gpus, **asked.mig}.items())
    if fits:
        return ""
    holders = (
        ", ".join(f"{name} holds {count(gpus, 'GPU')}" for name, gpus in info.holders) or "no pod holds whole GPUs"
    )
    return f"{count(info.gpus_free, 'GPU')} of {info.node.gpus} free; {holders}"


def _queue(spec: LabSpec, gpus: float) -> str | None:
    """The first leaf queue that may have that many GPUs: it and its parents have no lower limit."""
    queues = {queue.name: queue for queue in spec.queues}

    def allows(name: str | None) -> bool:
        queue = queues.get(name or "")
        return queue is None or ((queue.gpu.limit < 0 or queue.gpu.limit >= gpus) and allows(queue.parent))

    return next((name for name in spec.leaf_queues if allows(name)), None)

"""One node of the GPU map while pods are placed on its GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from lab.gpu.map.model import Gpu, Holder, NodeGpus
from lab.gpu.map.node_query import NodeEvidence
from lab.kai.names import GPU_RESOURCE
from lab.objects.isolation_labels import NODE_LABEL
from lab.objects.views import NodeView
from lab.snapshot.pod_info import PodInfo


@dataclass
class NodeDraft:
    """A node and its GPUs, filled pod by pod. ``capacity`` and ``allocatable`` in GPUs, not in replicas."""

    view: NodeView
    capacity: int
    allocatable: int
    replicas: int
    evidence: NodeEvidence
    gpus: list[Gpu] = field(default_factory=list)
    unplaced: list[Holder] = field(default_factory=list)

    @classmethod
    def of(cls, view: NodeView, evidence: NodeEvidence) -> NodeDraft:
        """A node with the GPUs that it reported, and unnamed ones up to its capacity."""
        replicas = view.gpu_replicas
        most = max(int(view.capacity.get(GPU_RESOURCE, 0)), view.gpus)
        draft = cls(view, most // replicas, view.gpus // replicas, replicas, evidence)
        missing = draft.capacity - len(evidence.gpus)
        draft.gpus = [draft._described(gpu) for gpu in (*evidence.gpus, *[Gpu(view.name, None, "")] * missing)]
        return draft

    def place_of(self, uuid: str) -> int:
        """The place of a GPU by its UUID; an unreported one takes an unnamed place, or a new one."""
        known = next((number for number, gpu in enumerate(self.gpus) if gpu.uuid == uuid), None)
        if known is not None:
            return known
        unnamed = self.unnamed()
        if unnamed is None:
            self.gpus.append(self._described(Gpu(self.view.name, None, uuid)))
            return len(self.gpus) - 1
        self.gpus[unnamed] = replace(self.gpus[unnamed], uuid=uuid)
        return unnamed

    def unnamed(self) -> int | None:
        """The first GPU without a UUID that can take one more pod."""
        return next((n for n, gpu in enumerate(self.gpus) if not gpu.uuid and gpu.claims < self.replicas), None)

    def uuids_of(self, pod: PodInfo) -> tuple[str, ...]:
        """UUIDs of a pod's GPUs by the kubelet's record, or by the pod's status."""
        return self.evidence.by_pod.get(pod.view.uid) or pod.reported_gpus

    def reserve(self, number: int, pod: PodInfo) -> None:
        """Put a reservation pod on a GPU."""
        gpu = self.gpus[number]
        owned = f"{pod.synced.name} of tenant {pod.tenant}" if pod.tenant else pod.synced.name
        self.gpus[number] = replace(
            gpu,
            reservations=(*gpu.reservations, pod.key),
            reserved_by=(*gpu.reserved_by, owned),
            group=gpu.group or next(iter(pod.view.gpu_groups), ""),
            claims=gpu.claims + 1,
        )

    def place_whole(self, pod: PodInfo) -> None:
        """Put a pod on its whole GPUs; it is unplaced for each one that is not known."""
        whole = Holder.of(pod, 1 / self.replicas)
        known = [self.place_of(uuid) for uuid in self.uuids_of(pod)]
        for number in [*known, *[None] * (pod.requests.gpus - len(known))]:
            place = self.unnamed() if number is None else number
            if place is None:
                self.unplaced.append(whole)
            else:
                gpu = self.gpus[place]
                self.gpus[place] = replace(gpu, claims=gpu.claims + 1, holders=(*gpu.holders, whole))

    def place_sharing(self, pod: PodInfo, reserved: Mapping[tuple[str, str], int]) -> None:
        """Put a pod on the GPUs of its groups; ``reserved``: tenant and GPU group → place of the reserved GPU."""
        # A tenant's own KAI reserves inside the tenant; the host's KAI on the host, also for tenants.
        places = [reserved.get((pod.tenant, g), reserved.get(("", g))) for g in pod.view.gpu_groups]
        found = [place for place in places if place is not None]
        for place in found:
            gpu = self.gpus[place]
            self.gpus[place] = replace(gpu, holders=(*gpu.holders, Holder.of(pod, pod.share(gpu.memory))))
        if not found:
            self.unplaced.append(Holder.of(pod, pod.requests.fraction))

    def done(self) -> NodeGpus:
        """The node, with the GPUs that it does not offer marked."""
        gpus, withheld = self._offered()
        return NodeGpus(
            name=self.view.name,
            ready=self.view.ready,
            cordoned=self.view.unschedulable,
            model=next((gpu.model for gpu in gpus if gpu.model), ""),
            memory=next((gpu.memory for gpu in gpus if gpu.memory), None),
            capacity=self.capacity,
            allocatable=self.allocatable,
            gpus=gpus,
            unplaced=tuple(self.unplaced),
            withheld=withheld,
            tenant=self.view.labels.get(NODE_LABEL, ""),
        )

    def _offered(self) -> tuple[tuple[Gpu, ...], int]:
        """The GPUs, and the number of unidentified ones among them that are not offered."""
        offered = self.evidence.offered
        if not self.allocatable:  # the device plugin is gone; the kubelet's record keeps its last state
            return tuple(map(_withheld, self.gpus)), 0
        gpus = [gpu if offered is None or not gpu.uuid or gpu.uuid in offered else _withheld(gpu) for gpu in self.gpus]
        missing = sum(gpu.offered for gpu in gpus) - self.allocatable
        for number, gpu in enumerate(gpus):
            if missing > 0 and gpu.offered and not gpu.uuid and not gpu.claims:
                gpus[number], missing = _withheld(gpu), missing - 1
        return tuple(gpus), max(0, missing)

    def _described(self, gpu: Gpu) -> Gpu:
        """A GPU with model and memory by the node's labels, unless the node reported them."""
        model, memory = gpu.model or self.view.gpu_product, gpu.memory or self.view.gpu_memory
        return replace(gpu, model=model, memory=memory, replicas=self.replicas)


def _withheld(gpu: Gpu) -> Gpu:
    return replace(gpu, offered=False, trouble=gpu.trouble or "not offered by its node")

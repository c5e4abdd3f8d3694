"""Fake clusters with GPUs: nodes, KAI's reservation pods, pods, and the output of node queries."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from lab.gpu.map.build import map_of
from lab.gpu.map.model import GpuMap
from lab.gpu.map.node_query import NodeEvidence, parse
from lab.gpu.map.watch import GpuFollow
from lab.snapshot.cluster_snapshot import ClusterSnapshot
from tests.support import builders
from tests.support.builders import node

Json = dict[str, Any]
MODEL = "NVIDIA A100-SXM4-40GB"
MEMORY = 40960
AT = datetime(2026, 11, 21, 10, 0, 0, tzinfo=UTC)


def uuid_of(node: str, index: int) -> str:
    """The UUID of a GPU; the same at every call."""
    return f"GPU-{uuid.uuid5(uuid.NAMESPACE_DNS, f'{node}/{index}')}"


@dataclass
class Machine:
    """A node: its GPUs, and the checkpoint of its kubelet."""

    name: str
    gpus: int
    unhealthy: dict[int, str] = field(default_factory=dict)
    """Index → words in nvml.conf, such as ``xid=79``."""
    held: dict[str, list[int]] = field(default_factory=dict)
    """Uid of a pod → indices."""
    tenant: str = ""
    """The tenant to which the node is dedicated."""

    def uuid(self, index: int) -> str:
        """The UUID of one of its GPUs."""
        return uuid_of(self.name, index)

    def evidence(self) -> NodeEvidence:
        """The parsed output of the node query."""
        return parse(self.name, self.printed())

    def printed(self) -> str:
        """The output of the node query."""
        lines = [
            f"gpu index={n} minor={n} uuid={self.uuid(n)} memory={MEMORY} cc=8.0 pci=000000FF:{n + 1:02X}:00.0"
            + (f" {self.unhealthy[n]}" if n in self.unhealthy else "")
            + f" name={MODEL}"
            for n in range(self.gpus)
        ]
        entries = [
            {
                "PodUID": uid,
                "ContainerName": "main",
                "ResourceName": "nvidia.com/gpu",
                "AllocResp": "AA==",
                "DeviceIDs": {"-1": [self.uuid(n) for n in indices]},
            }
            for uid, indices in self.held.items()
        ]
        offered = [self.uuid(n) for n in range(self.gpus) if n not in self.unhealthy]
        data = {"Data": {"PodDeviceEntries": entries, "RegisteredDevices": {"nvidia.com/gpu": offered}}, "Checksum": 1}
        return "\n".join(["driver 580.65.06", *lines, "end", "--- kubelet", json.dumps(data)])

    def node(self) -> Json:
        """The Node object."""
        gpus = self.gpus - len(self.unhealthy) if self.gpus else None
        status = {"capacity": {"nvidia.com/gpu": str(self.gpus)}} if self.gpus else {}
        return node(self.name, gpus=gpus, tenant=self.tenant, status=status)


@dataclass
class GpuCluster:
    """A cluster built by a test."""

    machines: list[Machine] = field(default_factory=list)
    pods: list[Json] = field(default_factory=list)
    nodes: list[Json] = field(default_factory=list)
    """Nodes outside the lab, which are not queried."""
    inside: dict[str, list[Json] | None] = field(default_factory=dict)
    """Tenant with its own KAI → pods from its API; None if the API does not answer."""

    def machine(self, name: str, gpus: int = 2, **unhealthy: str) -> Machine:
        """Add a node with GPUs; ``gpu1="xid=79"`` breaks one."""
        broken = {int(key.removeprefix("gpu")): words for key, words in unhealthy.items()}
        self.machines.append(Machine(name, gpus, broken))
        return self.machines[-1]

    def share(self, machine: Machine, index: int, group: str, *users: Json, own: str = "") -> None:
        """Reserve a GPU for a group and let pods share it; ``own`` is a tenant with its own KAI."""
        reservation = reserved(machine, index, group, own)
        machine.held[reservation["metadata"]["uid"]] = [index]
        self.pods.append(reservation)
        for user in users:
            user["spec"]["nodeName"] = machine.name
            user["metadata"]["labels"]["runai-gpu-group"] = group
            self.pods.append(user)

    def whole(self, machine: Machine, indices: list[int], user: Json) -> None:
        """Give whole GPUs to a pod."""
        user["spec"]["nodeName"] = machine.name
        machine.held[user["metadata"]["uid"]] = indices
        self.pods.append(user)

    @property
    def world(self) -> ClusterSnapshot:
        """The objects of the API."""
        nodes = (*(machine.node() for machine in self.machines), *self.nodes)
        return ClusterSnapshot(AT, {"Node": nodes, "Pod": tuple(self.pods)})

    def map(self) -> GpuMap:
        """The map of GPUs."""
        return map_of(self.world, {machine.name: machine.evidence() for machine in self.machines}, self.inside)


def pod(
    name: str,
    *,
    ns: str = "default",
    queue: str = "test",
    tenant: str = "",
    phase: str = "Running",
    gpus: int = 0,
    fraction: str = "",
    memory: int = 0,
    devices: int = 0,
    node: str = "",
    scheduler: str = "kai-scheduler",
    why: str = "",
) -> Json:
    """A pod of the host; with ``tenant``, a synced pod."""
    notes = {"gpu-fraction": fraction, "gpu-memory": memory and str(memory)}
    annotations = {key: value for key, value in notes.items() if value}
    if devices:
        annotations["gpu-fraction-num-devices"] = str(devices)
    labels = {"kai.scheduler/queue": queue} if queue else {}
    space, full_name = ns, name
    if tenant:
        labels |= {"vcluster.loft.sh/managed-by": tenant, "vcluster.loft.sh/namespace": ns}
        annotations |= {"vcluster.loft.sh/object-name": name, "vcluster.loft.sh/object-namespace": ns}
        space, full_name = f"vcluster-{tenant}", f"{name}-x-{ns}-x-{tenant}"
    made = builders.pod(
        full_name,
        space,
        node=node,
        scheduler=scheduler,
        phase=phase,
        container={"resources": {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {}},
        uid=f"{tenant}/{ns}/{name}",
        labels=labels,
        annotations=annotations,
    )
    if why:
        refusal = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why}
        made["status"]["conditions"].append(refusal)
    return made


def reserved(machine: Machine, index: int, group: str, own: str = "") -> Json:
    """A reservation pod."""
    name = f"gpu-reservation-{uuid.uuid5(uuid.NAMESPACE_DNS, group).hex[:16]}"
    made = pod(name, ns="kai-resource-reservation", queue="", tenant=own, gpus=1, node=machine.name)
    made["metadata"]["labels"] |= {"app": "kai-resource-reservation", "runai-gpu-group": group}
    made["metadata"]["annotations"]["run.ai/reserve_for_gpu_index"] = machine.uuid(index)
    return made


def demo() -> GpuCluster:
    """Four GPUs: one shared, one whole, one broken, one free, and a pod that waits."""
    cluster = GpuCluster(nodes=[node("kailab-demo-control-plane")])
    first = cluster.machine("kailab-demo-worker")
    cluster.machine("kailab-demo-worker2", gpu0="xid=79")
    half = pod("train-0", tenant="my-vcluster", ns="team-a", fraction="0.5")
    cluster.share(first, 0, "g1", half, pod("infer", memory=10240))
    cluster.whole(
        first, [1], pod("research", tenant="research-cluster", queue="", gpus=1, scheduler="default-scheduler")
    )
    why = "no nodes with enough resources were found: 2 node(s) didn't have enough resources: GPUs."
    cluster.pods.append(pod("big", gpus=2, phase="Pending", why=why))
    return cluster


def many(nodes: int = 8, gpus: int = 8) -> GpuCluster:
    """A larger cluster with every state of a GPU."""
    cluster = GpuCluster()
    for n in range(nodes):
        machine = cluster.machine(f"gpu-node-{n}", gpus, **({f"gpu{gpus - 1}": "health=lost"} if n == 3 else {}))
        if n % 2 == 0:
            cluster.share(
                machine,
                0,
                f"g{n}a",
                pod(f"notebook-{n}", tenant="ml", fraction="0.25"),
                pod(f"infer-{n}", tenant="ops", queue="prod", memory=20480),
            )
            cluster.whole(machine, list(range(1, 5)), pod(f"train-{n}", queue="research", gpus=4))
        if n % 3 == 1:
            cluster.share(machine, 5 % gpus, f"g{n}b", *(pod(f"tiny-{n}-{k}", fraction="0.1") for k in range(6)))
        if n == 5:
            cluster.share(
                machine, 6 % gpus, "over", pod("greedy", fraction="0.75"), pod("late", tenant="ml", fraction="0.5")
            )
    cluster.pods += [pod(f"queued-{k}", gpus=8, phase="Pending", queue="research") for k in range(3)]
    return cluster


def next_of(maps: GpuFollow) -> GpuMap:
    """The next map within 10 s."""
    found = maps.next(10)
    assert found is not None
    return found

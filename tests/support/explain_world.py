"""A small cluster as a ClusterSnapshot: running KAI, two GPU nodes, a queue tree, and the objects of a test."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from lab.explain import Explanation, LabSnapshot, PodContext, TenantSnapshot, explain
from lab.kai import line_of
from lab.snapshot.cluster_snapshot import ClusterSnapshot
from tests.support import builders

Json = dict[str, Any]
NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
SPACE = "team"
GPU = "nvidia.com/gpu"
MEMORY = 15360
"""MiB of one GPU."""
UUID = "GPU-7f3c0000-0000-0000-0000-000000000001"
GROUP = "group-1"


def stamp(ago: float = 0.0) -> str:
    """A time in seconds before the cluster was read."""
    return (NOW - timedelta(seconds=ago)).isoformat().replace("+00:00", "Z")


def meta(name: str, namespace: str = "", *, ago: float = 30.0, **more: Any) -> Json:
    """Metadata with a uid and a creation time."""
    return builders.metadata(name, namespace, **{"creationTimestamp": stamp(ago), **more})


def queue(
    name: str, parent: str = "", *, allocated: Json | None = None, firm: Json | None = None, **shares: Json
) -> Json:
    """A queue; resources that are not given are unlimited."""
    free = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    resources = {kind: {**free, **shares.get(kind, {})} for kind in ("gpu", "cpu", "memory")}
    for kind, share in shares.items():
        resources[kind] = {key: value for key, value in resources[kind].items() if share.get(key, value) is not None}
    made = builders.queue(name, parent, resources=resources, creationTimestamp=stamp(30))
    return {**made, "status": {"allocated": allocated or {}, "allocatedNonPreemptible": firm or {}}}


def node(name: str, *, gpus: int = 2, capacity: int | None = None, taints: tuple[str, ...] = (), **more: Any) -> Json:
    """A node: 8 cores, 16 GiB, 110 pods."""
    labels = {"kubernetes.io/hostname": name}
    if gpus or capacity:
        labels |= {"nvidia.com/gpu.memory": str(MEMORY), "nvidia.com/gpu.product": "Tesla-T4"}
    rows = [text.rpartition(":") for text in taints]
    ready = {
        "type": "Ready",
        "status": more.get("ready", "True"),
        "reason": "KubeletReady",
        "message": "kubelet is posting status",
    }
    plain = {"cpu": "8", "memory": "16Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    return builders.node(
        name,
        labels={**labels, **more.get("labels", {})},
        creationTimestamp=stamp(30),
        spec={
            "taints": [
                {"key": body.partition("=")[0], "value": body.partition("=")[2], "effect": effect}
                for body, _, effect in rows
            ],
            "unschedulable": more.get("cordoned", False),
        },
        status={
            "capacity": {**plain, GPU: str(gpus if capacity is None else capacity)},
            "allocatable": {**plain, GPU: str(gpus)},
            "conditions": [ready, *more.get("conditions", [])],
            "nodeInfo": {"kubeletVersion": more.get("version", "v1.34.4")},
        },
    )


def pod(name: str = "p", namespace: str = SPACE, *, ago: float = 30.0, **more: Any) -> Json:
    """A Pending pod for KAI in queue ``test`` with a PodGroup of its own; ``more`` changes it.

    Keys: scheduler, queue, group, annotations, labels, gpus, fraction, memory, cpu, ram, node, phase, ready,
    waiting, message, spec, status, meta.
    """
    notes = {"pod-group-name": f"pg-{name}", **more.get("annotations", {})}
    if more.get("group", True) is None:
        notes.pop("pod-group-name")
    elif "group" in more:
        notes["pod-group-name"] = more["group"]
    for key, note in (("fraction", "gpu-fraction"), ("memory", "gpu-memory")):
        if key in more:
            notes[note] = str(more[key])
    labels = dict(more.get("labels", {}))
    if (label := more.get("queue", "test")) is not None:
        labels["kai.scheduler/queue"] = label
    asks = {"cpu": more.get("cpu", "100m"), "memory": more.get("ram", "128Mi")}
    limits = {GPU: str(more["gpus"])} if "gpus" in more else {}
    on = more.get("node", "")
    resources = {"requests": {**asks, **limits}, "limits": limits}
    ready = more.get("ready", False)
    phase = more.get("phase", "Running" if ready else "Pending")
    state: Json = {"running": {}} if ready else {}
    if "waiting" in more:
        state = {"waiting": {"reason": more["waiting"], "message": more.get("message", "")}}
    statuses = [{"name": "main", "ready": ready, "restartCount": 0, "state": state}] if on else []
    made = builders.pod(
        name,
        namespace,
        node=on,
        scheduler=more.get("scheduler", "kai-scheduler"),
        phase=phase,
        ready=ready,
        container={"image": "probe:1", "resources": resources},
        spec=more.get("spec", {}),
        status={"containerStatuses": statuses, **more.get("status", {})},
        **{"creationTimestamp": stamp(ago), "labels": labels, "annotations": notes, **more.get("meta", {})},
    )
    if on and "conditions" not in more.get("status", {}):
        made["status"]["conditions"].append({"type": "PodScheduled", "status": "True"})
    return made


def group(name: str, *, queue: str = "test", refusals: Mapping[str, str] | None = None, **spec: Any) -> Json:
    """A PodGroup; ``refusals`` are the scheduler's current reasons and messages."""
    reasons = [{"reason": reason, "message": text} for reason, text in (refusals or {}).items()]
    condition = {"type": "UnschedulableOnNodePool", "status": "True", "reasons": reasons}
    return {
        "kind": "PodGroup",
        "metadata": meta(name, SPACE, labels=spec.pop("labels", {})),
        "spec": {"minMember": 1, "queue": queue, "priorityClassName": "train", **spec},
        "status": {"schedulingConditions": [condition] if reasons else []},
    }


def reservation(name: str = "gpu-reservation-1", *, on: str = "worker-1", uuid: str = UUID, **more: Any) -> Json:
    """A reservation pod that holds a GPU of ``worker-1`` for GROUP."""
    notes = {"run.ai/reserve_for_gpu_index": uuid} if uuid else {}
    labels = {"app": "kai-resource-reservation", "runai-gpu-group": GROUP}
    return pod(
        name,
        "kai-resource-reservation",
        group=None,
        queue=None,
        scheduler="default-scheduler",
        gpus=1,
        node=on,
        **{"ready": bool(uuid), "labels": labels, "annotations": notes, **more},
    )


def deployment(
    name: str, namespace: str, image: str, *, want: int = 1, have: int = 1, args: tuple[str, ...] = ()
) -> Json:
    """A Deployment of KAI."""
    return {
        "kind": "Deployment",
        "metadata": {**meta(name, namespace), "generation": 1},
        "spec": {
            "replicas": want,
            "selector": {"matchLabels": {"app": name}},
            "template": {"spec": {"containers": [{"name": "main", "image": image, "args": list(args)}]}},
        },
        "status": {"observedGeneration": 1, "replicas": want, "updatedReplicas": have, "availableReplicas": have},
    }


class Scene:
    """A cluster that a test changes before it is frozen.

    Args:
        version: of KAI; empty for a cluster without it.
        down: Deployments of KAI that are not available.
    """

    def __init__(self, version: str = "0.16.8", down: tuple[str, ...] = ()) -> None:
        self.objects: dict[str, list[Json]] = {"Event": [], "Pod": [], "Lease": []}
        self.absent: set[str] = set()
        self.logs: dict[str, tuple[str, ...]] = {}
        self.kubelet = "v1.34.4"
        control = ("node-role.kubernetes.io/control-plane:NoSchedule",)
        self.add(node("control-plane", gpus=0, taints=control, version=self.kubelet))
        self.add(*(node(name, version=self.kubelet) for name in ("worker-1", "worker-2")))
        self.add({"kind": "Namespace", "metadata": meta(SPACE)})
        self.objects["Deployment"] = []
        if version:
            line = line_of(version)
            for name in line.deployments:
                image = f"registry.kailab.dev/{name}:v{version}"
                args = ("--gpu-sharing-enabled=true",) if name == "admission" else ()
                self.add(deployment(name, "kai-scheduler", image, have=0 if name in down else 1, args=args))
            self.add(queue("default"), queue("test", "default"))
            self.add(
                *(
                    {"kind": "CustomResourceDefinition", "metadata": meta(name)}
                    for name in (*line.crds, *line.needs_crds)
                )
            )
            self.add({"kind": "SchedulingShard", "metadata": meta("default")})
            for kind in ("PodGroup", "BindRequest"):
                self.objects.setdefault(kind, [])

    def add(self, *objs: Json) -> Scene:
        """Add objects, or replace those of the same name."""
        for obj in objs:
            here = self.objects.setdefault(obj["kind"], [])
            key = (obj["metadata"].get("namespace"), obj["metadata"]["name"])
            here[:] = [o for o in here if (o["metadata"].get("namespace"), o["metadata"]["name"]) != key]
            here.append(obj)
        return self

    def remove(self, kind: str, name: str) -> Scene:
        """Remove an object."""
        self.objects[kind] = [obj for obj in self.objects[kind] if obj["metadata"]["name"] != name]
        return self

    def event(
        self, about: Json, reason: str, message: str, *, by: str = "kai-scheduler", ago: float = 5.0, **more: Any
    ) -> Scene:
        """Add an event about an object."""
        where = about["metadata"]
        space = where.get("namespace", "default")
        self.objects["Event"].append(
            {
                "kind": "Event",
                "metadata": meta(f"event-{len(self.objects['Event'])}", space),
                "type": more.get("type", "Warning"),
                "reason": reason,
                "message": message,
                "reportingComponent": by,
                "lastTimestamp": stamp(ago),
                "involvedObject": {
                    "kind": about["kind"],
                    "name": where["name"],
                    "namespace": space,
                    "uid": where.get("uid", ""),
                },
            }
        )
        return self

    def pending(self, made: Json | None = None, *, says: str = "", **more: Any) -> Json:
        """Add a Pending pod with its PodGroup; ``says`` is the scheduler's message about it."""
        made = made or pod(**more)
        self.add(made)
        name = made["metadata"]["annotations"].get("pod-group-name")
        if name and not any(g["metadata"]["name"] == name for g in self.objects.get("PodGroup", [])):
            self.add(group(name, queue=made["metadata"]["labels"].get("kai.scheduler/queue", "default-queue")))
        if says:
            made["status"]["conditions"].append(
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": says}
            )
            self.event(made, "Unschedulable", says)
        return made

    @property
    def world(self) -> ClusterSnapshot:
        """The cluster, frozen."""
        objects = {kind: tuple(objs) for kind, objs in self.objects.items() if kind not in self.absent}
        return ClusterSnapshot(NOW, objects, frozenset(self.absent), self.logs)

    def explain(self, name: str = "p", namespace: str = SPACE) -> Explanation:
        """Explain why a pod of this cluster does not run."""
        return explain(*LabSnapshot(self.world).cases(name, namespace))

    def case(self, name: str = "p", namespace: str = SPACE) -> PodContext:
        """The context of a pod."""
        return LabSnapshot(self.world).cases(name, namespace)[0]


def ids(explanation: Explanation) -> list[str]:
    """Ids of the rules of the findings, in order."""
    return [finding.rule for finding in explanation.findings]


def synced(name: str, virtual: Json, tenant: str, **more: Any) -> Json:
    """The synced pod of a tenant's pod."""
    inside = virtual["metadata"]
    made = pod(name, f"vcluster-{tenant}", **more)
    made["metadata"]["labels"] |= {"vcluster.loft.sh/managed-by": tenant}
    made["metadata"]["annotations"] |= {
        "vcluster.loft.sh/object-name": inside["name"],
        "vcluster.loft.sh/object-namespace": inside["namespace"],
    }
    return made


def request(name: str = "p", *, phase: str = "", reason: str = "", on: str = "worker-1", **spec: Any) -> Json:
    """A BindRequest: the scheduler chose a node."""
    return {
        "kind": "BindRequest",
        "metadata": meta(name, SPACE),
        "spec": {"podName": name, "selectedNode": on, "receivedResourceType": "Regular", **spec},
        "status": {"phase": phase, "reason": reason, "failedAttempts": 1 if phase == "Failed" else 0},
    }


def explain_in_tenant(
    host: Scene, inside: Scene, *, own: bool = False, name: str = "p", tenant: str = "blue"
) -> Explanation:
    """Explain why a pod of a tenant does not run."""
    worlds = LabSnapshot(host.world, (TenantSnapshot(tenant, inside.world, own),))
    return explain(*worlds.cases(name, SPACE, tenant))

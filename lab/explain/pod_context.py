"""One pod in question, with everything in its cluster that belongs to it; what rules look at."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from lab.explain.component_messages import (
    BIND_ERRORS,
    PLACED,
    REFUSALS,
    VERDICTS,
    ComponentMessage,
    newest,
    of_conditions,
    of_event,
    unique,
)
from lab.explain.explanation import PodStage
from lab.explain.installation import KaiInstallation, installation
from lab.kai.names import QUEUE_LABEL
from lab.objects.fields import Obj, annotations_of, labels_of, parts
from lab.objects.kai import BindRequestView, PodGroupView, QueueView
from lab.objects.pod_requests import PodRequests
from lab.objects.views import ContainerView, EventView, NodeView, PodView
from lab.objects.workload import WORKLOADS, WorkloadView
from lab.snapshot.cluster_snapshot import ClusterSnapshot
from lab.snapshot.node_info import NodeInfo, node_infos

_KUBELET = (
    "Failed",
    "BackOff",
    "FailedMount",
    "FailedAttachVolume",
    "FailedMapVolume",
    "FailedCreatePodSandBox",
    "Unhealthy",
    "UnexpectedAdmissionError",
    "NodeNotReady",
    "TaintManagerEviction",
    "FailedPostStartHook",
    "InspectFailed",
    "ErrImageNeverPull",
    "FailedKillPod",
    "NetworkNotReady",
    "DNSConfigForming",
)
_PROGRESS = ("Pulled", "Created", "Started")


@dataclass(frozen=True)
class SyncedCounterpart:
    """The same pod on the other side of a vCluster."""

    world: ClusterSnapshot
    obj: Obj | None
    """None: it is not there."""
    side: str
    """``host`` or ``tenant NAME``."""
    tenant: str
    """Name of the vCluster."""

    @property
    def pod(self) -> PodView | None:
        return None if self.obj is None else PodView.of(self.obj)


@dataclass(frozen=True, eq=False)
class PodContext:
    """One pod, or a workload that lacks pods, in one cluster. Equal only to itself."""

    world: ClusterSnapshot
    obj: Obj
    """The Pod, or the workload whose pods are missing."""
    side: str = ""
    """``host`` or ``tenant NAME``; empty in a cluster without tenants."""
    twin: SyncedCounterpart | None = None
    schedules: bool = True
    """Whether a scheduler of this cluster places the pod: not for a tenant's pod that the host schedules."""
    command: tuple[str, ...] = ("kubectl",)
    """The kubectl command line for this cluster."""

    def kubectl(self, *args: str) -> str:
        """A kubectl command line for this cluster, for next actions."""
        return shlex.join([*self.command, *args])

    @cached_property
    def kind(self) -> str:
        """Pod, or the kind of the workload."""
        return str(self.obj.get("kind") or "Pod")

    @cached_property
    def pod_obj(self) -> Obj:
        """The Pod; for a workload, the pod that it would make."""
        if self.kind == "Pod":
            return self.obj
        meta = parts(self.obj)[0]
        template = WorkloadView.of(self.obj).template
        made = {
            **(template.get("metadata") or {}),
            "namespace": meta.get("namespace", ""),
            "name": meta.get("name", ""),
        }
        return {"kind": "Pod", "metadata": made, "spec": template.get("spec") or {}}

    @cached_property
    def pod(self) -> PodView:
        return PodView.of(self.pod_obj)

    @cached_property
    def title(self) -> str:
        return f"{self.kind} {self.pod.namespace}/{self.pod.name}"

    @cached_property
    def needs(self) -> PodRequests:
        return PodRequests.of(self.pod_obj)

    @cached_property
    def stage(self) -> PodStage:
        pod = self.pod
        if self.kind != "Pod":
            return PodStage.MISSING
        if pod.deleting:
            return PodStage.DELETING
        if pod.phase == "Succeeded":
            return PodStage.SUCCEEDED
        if pod.phase == "Failed":
            return PodStage.FAILED
        if not pod.node:
            return PodStage.UNBOUND
        return PodStage.RUNNING if pod.phase == "Running" and pod.ready else PodStage.BOUND

    @cached_property
    def age(self) -> timedelta:
        """How long it has existed when the cluster was read."""
        made = parts(self.obj)[0].get("creationTimestamp")
        return self.world.at - datetime.fromisoformat(made) if made else timedelta()

    @cached_property
    def kai(self) -> KaiInstallation | None:
        return installation(self.world)

    @cached_property
    def by_kai(self) -> bool:
        """Whether KAI of this cluster is to place the pod."""
        return self.schedules and self.kai is not None and self.pod.scheduler_name == self.kai.scheduler_name

    @cached_property
    def group(self) -> PodGroupView | None:
        found = self.world.get("PodGroup", self.pod.pod_group, self.pod.namespace) if self.pod.pod_group else None
        return None if found is None else PodGroupView.of(found)

    @cached_property
    def mates(self) -> tuple[PodView, ...]:
        """The pods of its PodGroup that have not ended, itself included."""
        if not self.pod.pod_group:
            return ()
        return tuple(
            pod
            for pod in self.world.pods
            if (pod.namespace, pod.pod_group) == (self.pod.namespace, self.pod.pod_group) and not pod.ended
        )

    @cached_property
    def queue_name(self) -> str:
        """The queue that it is in; before it has a PodGroup, the one it will get.

        The label of its workload, else its own, else ``default-queue``
        (podgrouper/plugins/defaultgrouper/default_grouper.go).
        """
        if self.group is not None:
            return self.group.queue
        key = self.kai.queue_key if self.kai else QUEUE_LABEL
        owner = self.workload
        own = labels_of(parts(self.pod_obj)[0])
        return (owner.labels.get(key) if owner else None) or own.get(key) or own.get("project") or "default-queue"

    @cached_property
    def queue(self) -> QueueView | None:
        """That queue, None where it does not exist."""
        found = self.world.get("Queue", self.queue_name)
        return None if found is None else QueueView.of(found)

    @cached_property
    def chain(self) -> tuple[QueueView, ...]:
        """The queue and its parents, as far as they exist; a loop is cut."""
        chain: list[QueueView] = []
        queue = self.queue
        while queue is not None and queue.name not in {above.name for above in chain}:
            chain.append(queue)
            above = self.world.get("Queue", queue.parent) if queue.parent else None
            queue = None if above is None else QueueView.of(above)
        return tuple(chain)

    @cached_property
    def request(self) -> BindRequestView | None:
        found = self.world.get("BindRequest", self.pod.name, self.pod.namespace)
        return None if found is None else BindRequestView.of(found)

    @cached_property
    def reservations(self) -> tuple[PodView, ...]:
        """The reservation pods of the GPUs that it shares, or is to share."""
        groups = {*self.pod.gpu_groups, *(self.request.gpu_groups if self.request else ())}
        return tuple(r for r in self.world.reservations if groups & {*r.gpu_groups})

    @cached_property
    def node(self) -> NodeView | None:
        """The node that it is bound to."""
        return next((node for node in self.world.nodes if node.name == self.pod.node), None)

    @cached_property
    def node_infos(self) -> tuple[NodeInfo, ...]:
        return node_infos(self.world)

    @cached_property
    def owners(self) -> tuple[WorkloadView, ...]:
        """Its controllers that are known, the nearest first; for a workload that one, then what controls it."""
        found = [] if self.kind == "Pod" else [WorkloadView.of(self.obj)]
        owner = found[0].owner if found else self.pod.owner
        while owner:
            kind, _, name = owner.partition("/")
            obj = self.world.get(kind, name, self.pod.namespace) if kind in WORKLOADS else None
            if obj is None:
                break
            found.append(WorkloadView.of({**obj, "kind": kind}))
            owner = found[-1].owner
        return tuple(found)

    @cached_property
    def workload(self) -> WorkloadView | None:
        """The workload on top: what a person made."""
        return self.owners[-1] if self.owners else None

    @cached_property
    def events(self) -> tuple[EventView, ...]:
        """Events about the pod, oldest first."""
        return self.world.events_about(self.pod.uid)

    @cached_property
    def refusals(self) -> tuple[ComponentMessage, ...]:
        """Why the API server did not take a pod: told by controllers, and by vCluster's syncer."""
        makers = [] if self.kind == "Pod" else [*self.owners[:1], *self._sets()]
        uids = [maker.uid for maker in makers] or [self.pod.uid]
        events = [event for uid in uids for event in self.world.events_about(uid)]
        told = [of_event(event) for event in newest(events, REFUSALS)]
        told += [
            ComponentMessage(f"{maker.kind} {maker.name}: condition {c.type}", c.message)
            for maker in makers
            for c in maker.conditions
            if c.type == "ReplicaFailure" and c.status == "True"
        ]
        return unique(told)

    @cached_property
    def verdicts(self) -> tuple[ComponentMessage, ...]:
        """What schedulers say now about the pod and its PodGroup."""
        told = list(of_conditions(self.pod, "PodScheduled"))
        about = list(self.events)
        if (group := self.group) is not None:
            told += [ComponentMessage(f"PodGroup {group.name}: {r.reason}", r.message) for r in group.refusals]
            about += self.world.events_about(group.uid)
        placed = max((e.last for e in about if e.reason in PLACED and e.last), default=None)
        about = [e for e in about if placed is None or e.last is None or e.last > placed]
        about.sort(key=lambda event: event.last.timestamp() if event.last else 0.0)
        return unique([*told, *map(of_event, newest(about, VERDICTS))])

    @cached_property
    def bind_errors(self) -> tuple[ComponentMessage, ...]:
        """Why the binder could not bind the pod."""
        told = list(of_conditions(self.pod, "PodBound"))
        if self.request is not None and self.request.phase == "Failed":
            told.append(ComponentMessage(f"BindRequest {self.request.name}: Failed", self.request.reason))
        return unique([*told, *map(of_event, newest(self.events, BIND_ERRORS))])

    @cached_property
    def kubelet(self) -> tuple[ComponentMessage, ...]:
        """What keeps its containers from running: their own states, then the kubelet's events."""
        waiting = [ComponentMessage(f"container {w.name}: {w.reason}", w.message) for w in self.pod.waiting]
        waiting += [
            ComponentMessage(f"container {c.name}, run before: {c.last_reason}", c.last_message)
            for c in ContainerView.all_of(self.pod_obj)
            if c.last_message
        ]
        # What failed before the containers got any further is over.
        further = max((e.last for e in self.events if e.reason in _PROGRESS and e.last), default=None)
        events = [e for e in self.events if not (further and e.last and e.last < further)]
        return unique([*waiting, *map(of_event, newest(events, _KUBELET))])

    def _sets(self) -> list[WorkloadView]:
        """The ReplicaSets of a Deployment that want pods: they are refused, not the Deployment."""
        if self.kind != "Deployment":
            return []
        sets = (WorkloadView.of({**obj, "kind": "ReplicaSet"}) for obj in self.world.of("ReplicaSet"))
        title = f"Deployment/{self.pod.name}"
        return [s for s in sets if (s.namespace, s.owner) == (self.pod.namespace, title) and s.want]

    def annotation(self, key: str) -> str:
        """An annotation of the pod; empty where it has none."""
        return annotations_of(parts(self.pod_obj)[0]).get(key, "")

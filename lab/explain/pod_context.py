"""One pod with the related objects of its cluster: the input of all rules."""

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
from lab.kai.names import QUEUE_LABEL
from lab.objects.fields import Obj, parts
from lab.objects.kai import BindRequestView, PodGroupView, QueueView
from lab.objects.pod_requests import PodRequests
from lab.objects.views import ContainerView, EventView, NodeView, PodView
from lab.objects.workload import WORKLOADS, WorkloadView
from lab.snapshot.cluster_snapshot import ClusterSnapshot
from lab.snapshot.kai_installation import Component, KaiInstallation, installation
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

    snapshot: ClusterSnapshot
    obj: Obj | None
    """None if it does not exist."""
    side: str
    """``host`` or ``tenant NAME``."""
    tenant: str
    """Name of the vCluster."""

    @property
    def pod(self) -> PodView | None:
        return None if self.obj is None else PodView.of(self.obj)


@dataclass(frozen=True, eq=False)
class PodContext:
    """A pod, or a workload that lacks pods, in one cluster. Compared by identity."""

    snapshot: ClusterSnapshot
    obj: Obj
    """The Pod, or the workload whose pods are missing."""
    side: str = ""
    """``host`` or ``tenant NAME``; empty in a cluster without tenants."""
    counterpart: SyncedCounterpart | None = None
    schedules: bool = True
    """Whether a scheduler of this cluster places the pod; false for a tenant's pod that the host schedules."""
    command: tuple[str, ...] = ("kubectl",)
    """The kubectl command line for this cluster."""

    def kubectl(self, *args: str) -> str:
        """Return a kubectl command line for this cluster."""
        return shlex.join([*self.command, *args])

    def kubectl_logs(self, container: str, *options: str) -> str:
        """Return the kubectl command line that prints the logs of a container of the pod."""
        return self.kubectl("logs", self.pod.name, "-n", self.pod.namespace, "-c", container, *options)

    @cached_property
    def kind(self) -> str:
        """Pod, or the kind of the workload."""
        return str(self.obj.get("kind") or "Pod")

    @cached_property
    def pod_obj(self) -> Obj:
        """The Pod; for a workload, the pod of its template."""
        if self.kind == "Pod":
            return self.obj
        meta, template = parts(self.obj)[0], WorkloadView.of(self.obj).template
        identity = {key: meta.get(key, "") for key in ("namespace", "name")}
        return {
            "kind": "Pod",
            "metadata": {**(template.get("metadata") or {}), **identity},
            "spec": template.get("spec") or {},
        }

    @cached_property
    def pod(self) -> PodView:
        meta = parts(self.obj)[0]
        name, namespace = meta.get("name", ""), meta.get("namespace", "")
        if self.kind == "Pod" and self.snapshot.get("Pod", name, namespace) is self.obj:
            return self.snapshot.pod(name, namespace) or PodView.of(self.obj)
        return PodView.of(self.pod_obj)

    @cached_property
    def spec(self) -> Obj:
        return parts(self.pod_obj)[1]

    @cached_property
    def containers(self) -> tuple[ContainerView, ...]:
        return ContainerView.all_of(self.pod_obj)

    @cached_property
    def title(self) -> str:
        return f"{self.kind} {self.pod.namespace}/{self.pod.name}"

    @cached_property
    def requests(self) -> PodRequests:
        return self.pod.requests

    @cached_property
    def stage(self) -> PodStage:
        pod = self.pod
        if self.kind != "Pod":
            return PodStage.MISSING
        if pod.deleting:
            return PodStage.DELETING
        if pod.phase in ("Succeeded", "Failed"):
            return PodStage(pod.phase.lower())
        if not pod.node:
            return PodStage.UNBOUND
        return PodStage.RUNNING if pod.phase == "Running" and pod.ready else PodStage.BOUND

    @cached_property
    def age(self) -> timedelta:
        """Time between its creation and the snapshot."""
        created = parts(self.obj)[0].get("creationTimestamp")
        return self.snapshot.at - datetime.fromisoformat(created) if created else timedelta()

    @cached_property
    def kai(self) -> KaiInstallation | None:
        return installation(self.snapshot)

    @cached_property
    def by_kai(self) -> bool:
        """Whether KAI of this cluster places the pod."""
        return self.schedules and self.kai is not None and self.pod.scheduler_name == self.kai.scheduler_name

    def kai_component(self, role: str) -> Component | None:
        """Return a component of the KAI that places the pod; None if KAI does not place it."""
        return self.kai.component(role) if self.kai and self.by_kai else None

    @cached_property
    def group(self) -> PodGroupView | None:
        found = self.snapshot.get("PodGroup", self.pod.pod_group, self.pod.namespace) if self.pod.pod_group else None
        return None if found is None else PodGroupView.of(found)

    @cached_property
    def group_pods(self) -> tuple[PodView, ...]:
        """The pods of its PodGroup that have not ended, itself included."""
        pods = self.snapshot.group_pods(self.pod.pod_group, self.pod.namespace)
        return tuple(pod for pod in pods if not pod.ended)

    @cached_property
    def queue_name(self) -> str:
        """Its PodGroup's queue; before it has one, the queue it will get.

        That is the label of its workload, else its own, else ``default-queue``
        (podgrouper/plugins/defaultgrouper/default_grouper.go).
        """
        if self.group is not None:
            return self.group.queue
        return next(iter(self.queue_labels), "default-queue")

    @cached_property
    def queue_labels(self) -> tuple[str, ...]:
        """The queues that labels name: its workload's, its own, and its own ``project``; the first decides."""
        key = self.kai.queue_key if self.kai else QUEUE_LABEL
        of_workload = self.workload.labels.get(key, "") if self.workload else ""
        return tuple(filter(None, (of_workload, self.pod.labels.get(key), self.pod.labels.get("project"))))

    @cached_property
    def queue(self) -> QueueView | None:
        return self.chain[0] if self.chain else None

    @cached_property
    def chain(self) -> tuple[QueueView, ...]:
        """The queue and its existing ancestors; a loop is cut."""
        return self.snapshot.queue_chain(self.queue_name)

    @cached_property
    def bind_request(self) -> BindRequestView | None:
        found = self.snapshot.get("BindRequest", self.pod.name, self.pod.namespace)
        return None if found is None else BindRequestView.of(found)

    @cached_property
    def reservations(self) -> tuple[PodView, ...]:
        """The reservation pods of the GPUs that it shares, or will share."""
        groups = {*self.pod.gpu_groups, *(self.bind_request.gpu_groups if self.bind_request else ())}
        return tuple(r for r in self.snapshot.reservations if groups & {*r.gpu_groups})

    @cached_property
    def node(self) -> NodeView | None:
        """The node that it is bound to."""
        return next((node for node in self.snapshot.nodes if node.name == self.pod.node), None)

    @cached_property
    def node_infos(self) -> tuple[NodeInfo, ...]:
        return node_infos(self.snapshot)

    @cached_property
    def owners(self) -> tuple[WorkloadView, ...]:
        """Its known controllers, the nearest first; for a workload, itself and its controllers."""
        found = [] if self.kind == "Pod" else [WorkloadView.of(self.obj)]
        owner = found[0].owner if found else self.pod.owner
        while owner:
            kind, _, name = owner.partition("/")
            obj = self.snapshot.get(kind, name, self.pod.namespace) if kind in WORKLOADS else None
            if obj is None:
                break
            found.append(WorkloadView.of({**obj, "kind": kind}))
            owner = found[-1].owner
        return tuple(found)

    @cached_property
    def workload(self) -> WorkloadView | None:
        """Its top-level controller."""
        return self.owners[-1] if self.owners else None

    @cached_property
    def events(self) -> tuple[EventView, ...]:
        """Events about the pod, oldest first."""
        return self.snapshot.events_about(self.pod.uid)

    @cached_property
    def refusals(self) -> tuple[ComponentMessage, ...]:
        """Why the API server refused a pod, from controllers and vCluster's syncer."""
        controllers = [] if self.kind == "Pod" else [*self.owners[:1], *self._replica_sets()]
        uids = [controller.uid for controller in controllers] or [self.pod.uid]
        events = [event for uid in uids for event in self.snapshot.events_about(uid)]
        messages = [of_event(event) for event in newest(events, REFUSALS)]
        messages += [
            ComponentMessage(f"{controller.kind} {controller.name}: condition {c.type}", c.message)
            for controller in controllers
            for c in controller.conditions
            if c.type == "ReplicaFailure" and c.status == "True"
        ]
        return unique(messages)

    @cached_property
    def verdicts(self) -> tuple[ComponentMessage, ...]:
        """Current messages of schedulers about the pod and its PodGroup."""
        messages = list(of_conditions(self.pod, "PodScheduled"))
        events = list(self.events)
        if (group := self.group) is not None:
            messages += [ComponentMessage(f"PodGroup {group.name}: {r.reason}", r.message) for r in group.refusals]
            events += self.snapshot.events_about(group.uid)
        placed = max((e.last for e in events if e.reason in PLACED and e.last), default=None)
        events = [e for e in events if placed is None or e.last is None or e.last > placed]
        events.sort(key=lambda event: event.last.timestamp() if event.last else 0.0)
        return unique([*messages, *map(of_event, newest(events, VERDICTS))])

    @cached_property
    def bind_errors(self) -> tuple[ComponentMessage, ...]:
        """Why the binder could not bind the pod."""
        messages = list(of_conditions(self.pod, "PodBound"))
        if self.bind_request is not None and self.bind_request.phase == "Failed":
            messages.append(ComponentMessage(f"BindRequest {self.bind_request.name}: Failed", self.bind_request.reason))
        return unique([*messages, *map(of_event, newest(self.events, BIND_ERRORS))])

    @cached_property
    def kubelet(self) -> tuple[ComponentMessage, ...]:
        """What prevents its containers from running: their own states, then the kubelet's events."""
        messages = [ComponentMessage(f"container {w.name}: {w.reason}", w.message) for w in self.pod.waiting]
        messages += [
            ComponentMessage(f"container {c.name}, previous run: {c.last_reason}", c.last_message)
            for c in self.containers
            if c.last_message
        ]
        # Events before the last progress of a container are outdated.
        progress = max((e.last for e in self.events if e.reason in _PROGRESS and e.last), default=None)
        events = [e for e in self.events if not (progress and e.last and e.last < progress)]
        return unique([*messages, *map(of_event, newest(events, _KUBELET))])

    @cached_property
    def failure(self) -> tuple[ComponentMessage, ...]:
        """The reason in the pod's status for which it failed as a whole."""
        message = parts(self.pod_obj)[2].get("message") or ""
        return (ComponentMessage("pod status", f"{self.pod.reason}: {message}"),) if self.pod.reason else ()

    def _replica_sets(self) -> list[WorkloadView]:
        """Return the ReplicaSets of a Deployment that want pods: the API server refuses theirs."""
        if self.kind != "Deployment":
            return []
        sets = (WorkloadView.of({**obj, "kind": "ReplicaSet"}) for obj in self.snapshot.of("ReplicaSet"))
        title = f"Deployment/{self.pod.name}"
        return [s for s in sets if (s.namespace, s.owner) == (self.pod.namespace, title) and s.want]

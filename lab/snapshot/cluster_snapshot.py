"""The objects of a cluster, read once and frozen, as input for pure rules."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from lab.errors import ApiFailed
from lab.kube import Cluster
from lab.objects.fields import Obj
from lab.objects.kai import BindRequestView, PodGroupView, QueueView, is_reservation, queue_path
from lab.objects.redact import redact
from lab.objects.views import EventView, NodeView, PodView
from lab.serialization import to_json
from lab.snapshot.capture import log_tails, slim
from lab.snapshot.scheduler_metrics import scheduler_records
from lab.tools.background import within

KINDS: tuple[str, ...] = (
    "Pod",
    "Node",
    "Namespace",
    "Event",
    "ConfigMap",
    "Service",
    "ServiceAccount",
    "Endpoints",
    "PersistentVolumeClaim",
    "PersistentVolume",
    "ResourceQuota",
    "LimitRange",
    "Deployment",
    "DaemonSet",
    "StatefulSet",
    "ReplicaSet",
    "Job",
    "Lease",
    "RuntimeClass",
    "StorageClass",
    "PriorityClass",
    "ResourceClaim",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "CustomResourceDefinition",
    "PodGroup",
    "BindRequest",
    "Queue",
    "Config",
    "SchedulingShard",
    "Topology",
)
"""The kinds that ``take`` reads. Secrets are never read, and values of ConfigMaps are removed (see ``slim``)."""

UNREAD = "unread"
"""The fact that names the kinds which the server did not list within the timeout."""


@dataclass(frozen=True, eq=False)
class ClusterSnapshot:
    """The objects of one cluster at one moment, without secrets and without managedFields.

    Equal only to itself, so that results computed from it can be cached.
    """

    at: datetime
    """Time of the read (UTC)."""
    objects: Mapping[str, tuple[Obj, ...]] = field(default_factory=dict)
    """Kind → its objects."""
    absent: frozenset[str] = frozenset()
    """Kinds that the server does not have, refuses to list, or did not list within the timeout."""
    logs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Component → its last lines; empty unless requested."""
    facts: Mapping[str, str] = field(default_factory=dict)
    metrics: tuple[str, ...] = ()
    """Samples of KAI's schedulers about queues and evictions; empty unless requested."""

    def of(self, kind: str) -> tuple[Obj, ...]:
        """The objects of a kind; empty where it is absent."""
        return self.objects.get(kind, ())

    def get(self, kind: str, name: str, namespace: str = "") -> Obj | None:
        return self._index.get((kind, namespace, name))

    def has(self, kind: str) -> bool:
        """Whether the kind was read, so that a missing object does not exist."""
        return kind in self.objects and kind not in self.absent

    @cached_property
    def pods(self) -> tuple[PodView, ...]:
        return tuple(PodView.of(obj) for obj in self.of("Pod"))

    @cached_property
    def nodes(self) -> tuple[NodeView, ...]:
        return tuple(NodeView.of(obj) for obj in self.of("Node"))

    @cached_property
    def pod_groups(self) -> tuple[PodGroupView, ...]:
        return tuple(PodGroupView.of(obj) for obj in self.of("PodGroup"))

    @cached_property
    def queues(self) -> tuple[QueueView, ...]:
        return tuple(QueueView.of(obj) for obj in self.of("Queue"))

    def queue_chain(self, name: str) -> tuple[QueueView, ...]:
        """A queue and its existing ancestors, nearest first; a loop is cut."""
        return tuple(self._queues[one] for one in queue_path(name, self._parents))

    @cached_property
    def reservations(self) -> tuple[PodView, ...]:
        return tuple(view for obj, view in zip(self.of("Pod"), self.pods, strict=True) if is_reservation(obj))

    @cached_property
    def bind_requests(self) -> tuple[BindRequestView, ...]:
        return tuple(BindRequestView.of(obj) for obj in self.of("BindRequest"))

    @cached_property
    def events(self) -> tuple[EventView, ...]:
        """All events, oldest first."""
        never = datetime.min.replace(tzinfo=UTC)
        return tuple(sorted(map(EventView.of, self.of("Event")), key=lambda event: event.last or never))

    def events_about(self, uid: str) -> tuple[EventView, ...]:
        """The events about one object, oldest first; the kubelet writes a node's name as the uid."""
        return self._events_by_uid.get(uid, ()) if uid else ()

    def pod(self, name: str, namespace: str) -> PodView | None:
        """A pod by name."""
        return self._pods_by_name.get((namespace, name))

    def group_pods(self, name: str, namespace: str) -> tuple[PodView, ...]:
        """The pods of a PodGroup, ended ones included."""
        return self._pods_by_group.get((namespace, name), ())

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ClusterSnapshot:
        return cls(
            at=datetime.fromisoformat(data["at"]),
            objects={kind: tuple(objs) for kind, objs in data["objects"].items()},
            absent=frozenset(data.get("absent") or ()),
            logs={name: tuple(lines) for name, lines in (data.get("logs") or {}).items()},
            facts=dict(data.get("facts") or {}),
            metrics=tuple(data.get("metrics") or ()),
        )

    def save(self, path: Path) -> None:
        """Write it as gzipped JSON; equal snapshots give equal bytes."""
        text = json.dumps(to_json(self), sort_keys=True, separators=(",", ":"))
        path.write_bytes(gzip.compress(text.encode(), mtime=0))

    @classmethod
    def load(cls, path: Path) -> ClusterSnapshot:
        return cls.from_json(json.loads(gzip.decompress(path.read_bytes())))

    @cached_property
    def _queues(self) -> dict[str, QueueView]:
        return {queue.name: queue for queue in self.queues}

    @cached_property
    def _parents(self) -> dict[str, str]:
        return {queue.name: queue.parent for queue in self.queues}

    @cached_property
    def _events_by_uid(self) -> dict[str, tuple[EventView, ...]]:
        found: dict[str, list[EventView]] = {}
        for event in self.events:
            found.setdefault(event.uid, []).append(event)
        return {uid: tuple(events) for uid, events in found.items()}

    @property
    def pod_names(self) -> Iterable[tuple[str, str]]:
        """Namespace and name of each pod."""
        return self._pods_by_name.keys()

    @cached_property
    def _pods_by_name(self) -> dict[tuple[str, str], PodView]:
        return {(pod.namespace, pod.name): pod for pod in self.pods}

    @cached_property
    def _pods_by_group(self) -> dict[tuple[str, str], tuple[PodView, ...]]:
        found: dict[tuple[str, str], list[PodView]] = {}
        for pod in self.pods:
            if pod.pod_group:
                found.setdefault((pod.namespace, pod.pod_group), []).append(pod)
        return {key: tuple(pods) for key, pods in found.items()}

    @cached_property
    def _index(self) -> dict[tuple[str, str, str], Obj]:
        return {
            (kind, obj["metadata"].get("namespace") or "", obj["metadata"]["name"]): obj
            for kind, objs in self.objects.items()
            for obj in objs
        }


_AT_ONCE = 12
"""Kinds that are listed at the same time."""


def take(
    cluster: Cluster,
    *,
    kinds: Iterable[str] = KINDS,
    logs: bool = False,
    scheduler: bool = False,
    timeout: float = 30.0,
) -> ClusterSnapshot:
    """Read all kinds of a cluster in parallel; ``logs`` adds those of KAI's components and of crashing containers.

    ``scheduler`` adds the schedulers' metrics, and their log lines about evictions as the log ``evictions``.

    Kinds that are not listed within ``timeout`` seconds are absent, and the fact ``unread`` names them. Raises
    ApiFailed when the server does not answer or rejects the credentials, and ValueError for Secret.
    """
    wanted = tuple(dict.fromkeys(kinds))
    if "Secret" in wanted:
        raise ValueError("a cluster snapshot never contains Secrets")
    read = within(timeout, {kind: partial(_list, cluster, kind) for kind in wanted}, at_once=_AT_ONCE)
    objects = {kind: objs for kind, objs in read.items() if objs is not None}
    late = sorted(set(wanted) - set(read))
    metrics, evictions = scheduler_records(cluster, objects.get("Pod", ())) if scheduler else ((), ())
    tails = log_tails(cluster, objects.get("Pod", ())) if logs else {}
    return ClusterSnapshot(
        at=datetime.now(UTC),
        objects=objects,
        absent=frozenset(wanted) - objects.keys(),
        logs={**tails, "evictions": evictions} if evictions else tails,
        facts={UNREAD: ", ".join(late)} if late else {},
        metrics=metrics,
    )


def _list(cluster: Cluster, kind: str) -> tuple[Obj, ...] | None:
    """The objects of a kind, or None where it is absent."""
    try:
        items, version = cluster.calls.collection(cluster.kinds.named(kind), None, {})
    except ApiFailed as error:
        if error.status in (403, 404, 405):
            return None
        raise
    # The list of a kind that the server does not have has no resourceVersion.
    return tuple(slim(redact(item)) for item in items) if version else None

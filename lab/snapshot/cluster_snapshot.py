"""Everything of one cluster that explains and checks need, read once and frozen: pure functions work on this."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from lab.errors import ApiFailed
from lab.kube import Cluster
from lab.objects.bind_request import BindRequestView
from lab.objects.fields import Obj
from lab.objects.kai import PodGroupView, QueueView, is_reservation
from lab.objects.node import EventView, NodeView
from lab.objects.pod import PodView
from lab.objects.redact import redact
from lab.serialization import to_json
from lab.snapshot.capture import last_words, slim

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
"""What ``take`` reads. Secret is no kind of a World, and values of ConfigMaps are left out (see ``slim``)."""

UNREAD = "unread"
"""The fact that names the kinds which the server has and did not give in time."""


@dataclass(frozen=True, eq=False)
class ClusterSnapshot:
    """The objects of one cluster at one moment, without secrets and without managedFields.

    Equal only to itself, so that what is worked out from it can be kept by it.
    """

    at: datetime
    """When it was read (UTC)."""
    objects: Mapping[str, tuple[Obj, ...]] = field(default_factory=dict)
    """Kind → its objects."""
    absent: frozenset[str] = frozenset()
    """Kinds that the server does not have, or that we may not read, or that did not come in time."""
    logs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Component → its last lines; empty unless asked for."""
    facts: Mapping[str, str] = field(default_factory=dict)

    def of(self, kind: str) -> tuple[Obj, ...]:
        """The objects of a kind; none where it is absent."""
        return self.objects.get(kind, ())

    def get(self, kind: str, name: str, namespace: str = "") -> Obj | None:
        """One object, or None where there is none."""
        return self._index.get((kind, namespace, name))

    def has(self, kind: str) -> bool:
        """Whether the kind was read, so that an object which is not here does not exist."""
        return kind in self.objects and kind not in self.absent

    @cached_property
    def pods(self) -> tuple[PodView, ...]:
        """All pods, reservation pods included."""
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

    @cached_property
    def reservations(self) -> tuple[PodView, ...]:
        return tuple(view for obj, view in zip(self.of("Pod"), self.pods, strict=True) if is_reservation(obj))

    @cached_property
    def bind_requests(self) -> tuple[BindRequestView, ...]:
        """The BindRequests that the binder has not cleaned up yet."""
        return tuple(BindRequestView.of(obj) for obj in self.of("BindRequest"))

    @cached_property
    def events(self) -> tuple[EventView, ...]:
        """All events, oldest first."""
        never = datetime.min.replace(tzinfo=UTC)
        return tuple(sorted(map(EventView.of, self.of("Event")), key=lambda event: event.last or never))

    def events_about(self, uid: str) -> tuple[EventView, ...]:
        """The events about one object, oldest first; the kubelet's events about a node carry its name as uid."""
        return self._events.get(uid, ()) if uid else ()

    def with_objects(self, kind: str, objs: Iterable[Obj]) -> ClusterSnapshot:
        """The same world with other objects of one kind."""
        return replace(self, objects={**self.objects, kind: tuple(objs)}, absent=self.absent - {kind})

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ClusterSnapshot:
        return cls(
            at=datetime.fromisoformat(data["at"]),
            objects={kind: tuple(objs) for kind, objs in data["objects"].items()},
            absent=frozenset(data.get("absent") or ()),
            logs={name: tuple(lines) for name, lines in (data.get("logs") or {}).items()},
            facts=dict(data.get("facts") or {}),
        )

    def save(self, path: Path) -> None:
        """Write it as gzipped JSON; the same world gives the same bytes."""
        text = json.dumps(to_json(self), sort_keys=True, separators=(",", ":"))
        path.write_bytes(gzip.compress(text.encode(), mtime=0))

    @classmethod
    def load(cls, path: Path) -> ClusterSnapshot:
        """Read what ``save`` wrote."""
        return cls.from_json(json.loads(gzip.decompress(path.read_bytes())))

    @cached_property
    def _index(self) -> dict[tuple[str, str, str], Obj]:
        return {
            (kind, obj["metadata"].get("namespace") or "", obj["metadata"]["name"]): obj
            for kind, objs in self.objects.items()
            for obj in objs
        }

    @cached_property
    def _events(self) -> dict[str, tuple[EventView, ...]]:
        found: dict[str, list[EventView]] = {}
        for event in self.events:
            found.setdefault(event.uid, []).append(event)
        return {uid: tuple(events) for uid, events in found.items()}


def take(
    cluster: Cluster, *, kinds: Iterable[str] = KINDS, logs: bool = False, timeout: float = 30.0
) -> ClusterSnapshot:
    """Read a cluster: all kinds at once, each in a thread of its own. Changes nothing.

    Args:
        cluster: which one.
        kinds: what to read.
        logs: also the last lines of KAI's components and of containers that crash.
        timeout: seconds for all kinds together; what has not come by then is absent, and a fact says so.

    Raises:
        ApiFailed: the server does not answer, or does not know who we are.
        ValueError: Secret is among the kinds.
    """
    wanted = tuple(dict.fromkeys(kinds))
    if "Secret" in wanted:
        raise ValueError("Secret is not a kind of a World")
    pool = ThreadPoolExecutor(max_workers=12, thread_name_prefix="take")
    try:
        asked = {kind: pool.submit(_list, cluster, kind) for kind in wanted}
        wait(asked.values(), timeout=timeout)
        read = {kind: _outcome(future) for kind, future in asked.items() if future.done()}
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    objects = {kind: objs for kind, objs in read.items() if objs is not None}
    late = sorted(set(wanted) - set(read))
    return ClusterSnapshot(
        at=datetime.now(UTC),
        objects=objects,
        absent=frozenset(wanted) - objects.keys(),
        logs=last_words(cluster, objects.get("Pod", ())) if logs else {},
        facts={UNREAD: ", ".join(late)} if late else {},
    )


def _list(cluster: Cluster, kind: str) -> tuple[Obj, ...] | None:
    """The objects of a kind, or None where it is absent."""
    try:
        items, version = cluster.calls.collection(cluster.kinds.named(kind), None, {})
    except ApiFailed as error:
        if error.status in (403, 404, 405):
            return None
        raise
    # A kind that the server does not have gives a list without a version.
    return tuple(slim(redact(item)) for item in items) if version else None


def _outcome(future: Future[tuple[Obj, ...] | None]) -> tuple[Obj, ...] | None:
    return future.result()

"""The owners of pods: from a pod over its controllers and its PodGroup to the workload that a user created."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from lab.objects.fields import Obj, parts
from lab.objects.views import PodView
from lab.snapshot.cluster_snapshot import KINDS, ClusterSnapshot

_SHORT: Mapping[str, str] = MappingProxyType(
    {
        "po": "Pod",
        "deploy": "Deployment",
        "ds": "DaemonSet",
        "rs": "ReplicaSet",
        "sts": "StatefulSet",
        "cj": "CronJob",
        "cronjob": "CronJob",
        "pg": "PodGroup",
        "queue": "Queue",
        "queues": "Queue",
    }
)
"""kubectl's short names; those of CRDs are read from the cluster."""


class Ref(NamedTuple):
    """An object by kind, namespace and name."""

    kind: str
    namespace: str
    name: str

    @property
    def title(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


@dataclass(frozen=True)
class Owners:
    """The owners of every pod of a cluster."""

    chains: Mapping[Ref, tuple[Ref, ...]]
    """Pod → its owners, the nearest first; owners of kinds that were not read end a chain."""
    pods: Mapping[Ref, tuple[Ref, ...]]
    """Owner or PodGroup → its pods."""

    def workload(self, pod: Ref) -> Ref:
        """Return the top owner of a pod; the pod itself without one."""
        return (self.chains.get(pod) or (pod,))[-1]


@functools.lru_cache(maxsize=4)
def owners(snapshot: ClusterSnapshot) -> Owners:
    """Return the owners of all pods of a cluster.

    Controllers are followed as far as their objects were read. KAI's pod-grouper makes the top owner of a workload the
    owner of its PodGroup (pkg/podgrouper/podgroup/handler.go, 0.7.11 to 0.17.0), which then ends the chain. Pods that
    share a PodGroup without an owner belong to the PodGroup.
    """
    members: dict[Ref, list[Ref]] = {}
    for pod in snapshot.pods:
        if pod.pod_group:
            members.setdefault(Ref("PodGroup", pod.namespace, pod.pod_group), []).append(_ref(pod))
    chains: dict[Ref, tuple[Ref, ...]] = {}
    below: dict[Ref, list[Ref]] = {group: list(pods) for group, pods in members.items()}
    for raw, pod in zip(snapshot.of("Pod"), snapshot.pods, strict=True):
        this = _ref(pod)
        chain = dict.fromkeys(_above(snapshot, raw, pod.namespace))
        group = Ref("PodGroup", pod.namespace, pod.pod_group)
        made = snapshot.get("PodGroup", pod.pod_group, pod.namespace) if pod.pod_group else None
        top = next(iter(_above(snapshot, made, pod.namespace)), None) if made else None
        if top is None and not chain and len(members.get(group, ())) > 1:
            top = group
        if top is not None and top != this:
            chain.setdefault(top)
        chains[this] = tuple(chain)
        for one in chain:
            if one != group:
                below.setdefault(one, []).append(this)
    return Owners(chains, {owner: tuple(pods) for owner, pods in below.items()})


def above(snapshot: ClusterSnapshot, ref: Ref) -> tuple[Ref, ...]:
    """Return the controllers of an object that was read, the nearest first."""
    obj = snapshot.get(ref.kind, ref.name, ref.namespace)
    return () if obj is None else tuple(_above(snapshot, obj, ref.namespace))


def kind_of(snapshot: ClusterSnapshot, word: str) -> str:
    """Return the kind that a user's word names, as kubectl reads it: kind, plural, short name; empty if unknown."""
    low = word.lower().partition(".")[0]
    if low in _SHORT:
        return _SHORT[low]
    for obj in snapshot.of("CustomResourceDefinition"):
        names = parts(obj)[1].get("names") or {}
        words = {names.get("plural"), names.get("singular"), *(names.get("shortNames") or ())}
        if names.get("kind") and (low in words or low == names["kind"].lower()):
            return str(names["kind"])
    known = {*KINDS, *snapshot.objects, *(ref.kind for ref in owners(snapshot).pods)}
    return next((kind for kind in sorted(known) if low in (kind.lower(), f"{kind.lower()}s")), "")


def _ref(pod: PodView) -> Ref:
    return Ref("Pod", pod.namespace, pod.name)


def _above(snapshot: ClusterSnapshot, obj: Obj, namespace: str) -> Iterator[Ref]:
    """Yield the controllers of an object; without a controller, its first owner."""
    seen: set[Ref] = set()
    current: Obj | None = obj
    while current is not None:
        rows = parts(current)[0].get("ownerReferences") or []
        row = next((row for row in rows if row.get("controller")), rows[0] if rows else None)
        if row is None:
            return
        ref = Ref(row["kind"], namespace, row["name"])
        if ref in seen:
            return
        seen.add(ref)
        yield ref
        current = snapshot.get(ref.kind, ref.name, namespace)

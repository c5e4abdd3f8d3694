"""What a tenant holds on the host before it is removed, and how everybody else stands. Pure, over Pod objects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lab.objects.views import PodView
from lab.snapshot.pod_info import PodInfo

OWN_GRACE = 30
"""Kubernetes' terminationGracePeriodSeconds of pods that do not say."""

Json = dict[str, Any]
Key = tuple[str, str]


@dataclass(frozen=True)
class OtherPod:
    """What must stay as it is of a pod that is Ready."""

    uid: str
    restarts: int
    ready_since: str
    """lastTransitionTime of the condition Ready: another one means that the pod was not Ready in between."""


@dataclass(frozen=True)
class Footprint:
    """A tenant's hold on the host.

    Attributes:
        pods: how many pods it has there.
        gpus: devices that its pods hold, reservation pods included, by node.
        groups: GPU groups of the host's KAI that only its pods use.
        graces: seconds of grace of its pods that run, by their name as ``namespace/name`` inside the tenant.
        others: everybody else's pods that are Ready.
    """

    pods: int
    gpus: Mapping[str, int]
    groups: frozenset[str]
    graces: Mapping[str, int]
    others: Mapping[Key, OtherPod]

    @classmethod
    def of(cls, pods: Iterable[Json], namespace: str) -> Footprint:
        """Sort out all pods of the host.

        Args:
            pods: Pod objects of all namespaces.
            namespace: where the tenant lives.
        """
        every = [(obj, PodInfo.of(obj)) for obj in pods]
        mine = [(obj, pod) for obj, pod in every if pod.view.namespace == namespace]
        rest = [(obj, pod) for obj, pod in every if pod.view.namespace != namespace]
        used = {group for _, pod in rest if not pod.is_reservation for group in pod.view.gpu_groups}
        groups = frozenset(group for _, pod in mine for group in pod.view.gpu_groups) - used
        reserving = [pod for _, pod in rest if pod.is_reservation and groups & set(pod.view.gpu_groups)]
        gpus: Counter[str] = Counter()
        for pod in (*(pod for _, pod in mine), *reserving):
            if pod.bound and pod.requests.gpus:
                gpus[pod.view.node] += pod.requests.gpus
        theirs = {(pod.view.namespace, pod.view.name) for pod in reserving}
        return cls(
            pods=len(mine),
            gpus=dict(gpus),
            groups=groups,
            graces={pod.synced.title: grace_of(obj) for obj, pod in mine if pod.bound},
            others={
                key: standing
                for obj, pod in rest
                if (key := (pod.view.namespace, pod.view.name)) not in theirs
                and (standing := _standing(obj, pod.view)) is not None
            },
        )

    def cut(self, grace: float | None) -> tuple[str, ...]:
        """The pods that get less than their own grace, with their own seconds; none for ``grace`` None."""
        if grace is None:
            return ()
        return tuple(f"{name} ({own} s)" for name, own in sorted(self.graces.items()) if own > grace)


def grace_of(pod: Json) -> int:
    """Seconds that a pod wants to have to stop."""
    own = (pod.get("spec") or {}).get("terminationGracePeriodSeconds")
    return OWN_GRACE if own is None else int(own)


def disturbed(before: Mapping[Key, OtherPod], pods: Iterable[Json]) -> tuple[str, ...]:
    """How pods that were Ready have changed since, one line each; a pod that has ended well is not told."""
    after = {(pod.namespace, pod.name): (obj, pod) for obj in pods for pod in [PodView.of(obj)]}
    lines = []
    for key, was in sorted(before.items()):
        title = f"Pod {'/'.join(key)}"
        if key not in after:
            lines.append(f"{title} is gone")
            continue
        obj, pod = after[key]
        if pod.phase == "Succeeded":
            continue
        if pod.uid != was.uid:
            lines.append(f"{title} is another one: it was deleted and made anew")
        elif pod.restarts != was.restarts:
            lines.append(f"{title} restarted: {was.restarts} → {pod.restarts} restarts")
        elif not pod.ready or pod.deleting:
            lines.append(f"{title} is not Ready any more")
        elif _ready_since(obj) != was.ready_since:
            lines.append(f"{title} was not Ready for a while")
    return tuple(lines)


def reserved(pods: Iterable[Json], groups: Iterable[str]) -> tuple[str, ...]:
    """Names of the reservation pods of the host's KAI for these GPU groups."""
    wanted = set(groups)
    return tuple(
        pod.view.name for pod in map(PodInfo.of, pods) if pod.is_reservation and wanted & set(pod.view.gpu_groups)
    )


def _standing(obj: Json, pod: PodView) -> OtherPod | None:
    if not pod.ready or pod.deleting or pod.ended:
        return None
    return OtherPod(pod.uid, pod.restarts, _ready_since(obj))


def _ready_since(obj: Json) -> str:
    conditions = (obj.get("status") or {}).get("conditions") or []
    return next((str(c.get("lastTransitionTime", "")) for c in conditions if c.get("type") == "Ready"), "")

"""The tenant's footprint on the host before removal, and the state of everyone else's pods. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from lab.kai.names import GPU_RESOURCE
from lab.objects.fields import parts
from lab.objects.views import PodView
from lab.snapshot.pod_info import PodInfo
from lab.steps.cluster.config import VOLUMES

_DEFAULT_GRACE = 30
"""Kubernetes' default of terminationGracePeriodSeconds."""

_VOLUMES = PurePosixPath(VOLUMES)

Json = dict[str, Any]
Key = tuple[str, str]
"""Namespace and name."""


@dataclass(frozen=True)
class OtherPod:
    """Properties of a Ready pod that a removal of others must not change."""

    uid: str
    restarts: int
    ready_since: str
    """lastTransitionTime of the condition Ready: a later one means that the pod was not Ready in between."""


@dataclass(frozen=True)
class Footprint:
    """Pods and GPUs of a tenant on the host, and the Ready pods of others."""

    pods: int
    gpus: Mapping[str, Mapping[str, int]]
    """Node → resource (whole GPUs, MIG devices) → number that its pods hold there, reservation pods included."""
    shares: tuple[PodInfo, ...]
    """Its bound pods on GPUs that others share."""
    groups: frozenset[str]
    """GPU groups of the host's KAI that only its pods use."""
    graces: Mapping[str, int]
    """Its bound pods, as ``namespace/name`` inside the tenant → their termination grace period in seconds."""
    others: Mapping[Key, OtherPod]
    """Ready pods of everyone else."""
    folders: tuple[str, ...] = ()
    """Names of the directories with the data of its volumes, in ``LabPaths.volumes``."""

    @classmethod
    def of(cls, pods: Iterable[Json], namespace: str, volumes: Iterable[Json] = ()) -> Footprint:
        """From the Pods of all namespaces and the PersistentVolumes, for the tenant that lives in ``namespace``."""
        every = [(obj, PodInfo.of(obj)) for obj in pods]
        own = [(obj, pod) for obj, pod in every if pod.view.namespace == namespace]
        rest = [(obj, pod) for obj, pod in every if pod.view.namespace != namespace]
        used = {group for _, pod in rest if not pod.is_reservation for group in pod.view.gpu_groups}
        groups = frozenset(group for _, pod in own for group in pod.view.gpu_groups) - used
        reserving = [pod for _, pod in rest if pod.is_reservation and groups & set(pod.view.gpu_groups)]
        gpus: dict[str, Counter[str]] = {}
        for pod in (*(pod for _, pod in own), *reserving):
            wanted = Counter({GPU_RESOURCE: pod.requests.gpus, **pod.requests.mig})
            if pod.bound and +wanted:
                gpus[pod.view.node] = gpus.get(pod.view.node, Counter()) + wanted
        return cls(
            pods=len(own),
            gpus=gpus,
            shares=tuple(pod for _, pod in own if pod.bound and used & set(pod.view.gpu_groups)),
            groups=groups,
            graces={
                pod.synced.title: parts(obj)[1].get("terminationGracePeriodSeconds", _DEFAULT_GRACE)
                for obj, pod in own
                if pod.bound
            },
            others={
                (pod.view.namespace, pod.view.name): OtherPod(pod.view.uid, pod.view.restarts, _ready_since(obj))
                for obj, pod in rest
                if pod.view.ready and not pod.view.deleting and not pod.view.ended and pod not in reserving
            },
            folders=tuple(
                path.name
                for volume in volumes
                if claimed_from(volume) == namespace
                and (path := PurePosixPath((volume["spec"].get("hostPath") or {}).get("path", ""))).parent == _VOLUMES
            ),
        )

    def cut(self, grace: float | None) -> tuple[str, ...]:
        """Pods with a longer grace period than ``grace``, with their seconds; none for None."""
        if grace is None:
            return ()
        return tuple(f"{name} ({own} s)" for name, own in sorted(self.graces.items()) if own > grace)


def disturbed(before: Mapping[Key, OtherPod], pods: Iterable[Json]) -> tuple[str, ...]:
    """How pods that were Ready have changed since, one line each; pods that have succeeded count as unchanged."""
    after = {(pod.namespace, pod.name): (obj, pod) for obj in pods for pod in [PodView.of(obj)]}
    lines = []
    for key, old in sorted(before.items()):
        title = f"Pod {'/'.join(key)}"
        if key not in after:
            lines.append(f"{title} is gone")
            continue
        obj, pod = after[key]
        if pod.phase == "Succeeded":
            continue
        if pod.uid != old.uid:
            lines.append(f"{title} was deleted and recreated")
        elif pod.restarts != old.restarts:
            lines.append(f"{title} restarted: {old.restarts} → {pod.restarts} restarts")
        elif not pod.ready or pod.deleting:
            lines.append(f"{title} is no longer Ready")
        elif _ready_since(obj) != old.ready_since:
            lines.append(f"{title} was not Ready for a while")
    return tuple(lines)


def claimed_from(volume: Json) -> str:
    """The namespace of a PersistentVolume's claim; empty: none."""
    return str((parts(volume)[1].get("claimRef") or {}).get("namespace", ""))


def reservation_pods(pods: Iterable[Json], groups: Iterable[str]) -> tuple[str, ...]:
    """Names of the reservation pods of the host's KAI for these GPU groups."""
    wanted = set(groups)
    infos = map(PodInfo.of, pods)
    return tuple(pod.view.name for pod in infos if pod.is_reservation and wanted & set(pod.view.gpu_groups))


def _ready_since(obj: Json) -> str:
    conditions = parts(obj)[2].get("conditions") or []
    return next((str(c.get("lastTransitionTime", "")) for c in conditions if c.get("type") == "Ready"), "")

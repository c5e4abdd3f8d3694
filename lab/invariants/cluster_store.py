"""The objects of one API server, kept up to date by its informer events."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from datetime import datetime

from lab.kai import lines, version_of
from lab.kai.names import ENOUGH_COMPONENTS
from lab.kube.informers import Cache, InformerEvent
from lab.kube.store import Store
from lab.objects.fields import Obj, labels_of
from lab.objects.redact import redact
from lab.objects.synced import SyncedObject
from lab.objects.views import NodeView
from lab.snapshot.capture import slim
from lab.snapshot.cluster_snapshot import ClusterSnapshot
from lab.snapshot.pod_info import PodInfo


class ClusterStore(Cache):
    """A cache with parsed nodes and pods."""

    def __init__(self, kinds: Iterable[str]) -> None:
        super().__init__(kinds, lambda obj: redact(slim(obj)))
        self.kai_version = ""
        """Version of the KAI that runs in the cluster itself, by its pods' images; empty: none is seen."""
        self.nodes: dict[str, NodeView] = {}
        self.pods = Store(
            PodInfo.of,
            {"node": lambda pod: (pod.view.node,) if pod.view.node else (), "group": lambda pod: pod.view.gpu_groups},
        )

    def apply(self, event: InformerEvent) -> list[PodInfo]:
        """Apply an event; returns the pods whose resources changed, as they were before and are after it."""
        changed: list[PodInfo] = []
        changes = self.update(event)
        if event.kind == "Pod" and any(_component(obj) for _, obj in changes):
            self.kai_version = _kai_version(self.objects("Pod"))
        for change in changes:
            if event.kind == "Pod":
                before, after = self.pods.update(change)
                if before is None or after is None or _resources(before) != _resources(after):
                    changed += [pod for pod in (before, after) if pod is not None]
            elif event.kind == "Node":
                view = NodeView.of(change[1])
                if change[0] == "DELETED":
                    self.nodes.pop(view.name, None)
                else:
                    self.nodes[view.name] = view
        return changed

    def related(self, pods: Iterable[PodInfo]) -> tuple[PodInfo, ...]:
        """All pods on the nodes and in the GPU groups of these pods."""
        places = {("node", pod.view.node): None for pod in pods if pod.view.node}
        places |= {("group", group): None for pod in pods for group in pod.view.gpu_groups}
        return tuple({key: pod for place in places for key, pod in self.pods.by_index(*place).items()}.values())

    def snapshot(self, at: datetime) -> ClusterSnapshot:
        read = {kind: self.objects(kind) for kind in self.kinds if not self.doubt(kind)}
        return ClusterSnapshot(at=at, objects=read, absent=frozenset(self.kinds) - read.keys())


@functools.cache
def _components() -> frozenset[str]:
    """Names of KAI's Deployments, in all versions."""
    return frozenset(name for line in lines().values() for name in line.deployments)


def _component(pod: Obj) -> str:
    """The component of KAI that a pod runs, by its label ``app``; empty: none, or one of a tenant."""
    app = str(labels_of(pod["metadata"]).get("app", ""))
    return app if app in _components() and not SyncedObject.of(pod).tenant else ""


def _kai_version(pods: Iterable[Obj]) -> str:
    """Version of the KAI in the namespace with most of its components; empty if none has enough of them."""
    found: dict[str, dict[str, list[str]]] = {}
    for pod in pods:
        if app := _component(pod):
            images = [str(container.get("image", "")) for container in pod["spec"]["containers"]]
            found.setdefault(pod["metadata"]["namespace"], {}).setdefault(app, []).extend(images)
    components = max(found.values(), key=len, default={})
    enough = len(components) >= ENOUGH_COMPONENTS
    return version_of(image for images in components.values() for image in images) if enough else ""


def _resources(pod: PodInfo) -> tuple[object, ...]:
    """The fields that rules without a grace period depend on."""
    view = pod.view
    return (
        view.node,
        view.ended,
        view.deleting,
        view.gpu_groups,
        view.received_resource_type,
        view.reserved_gpu,
        pod.reported_gpus,
    )

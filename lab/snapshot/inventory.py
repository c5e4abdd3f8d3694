"""What a cluster has, read at once and without a change: nodes, GPUs, KAI, queues, vClusters, pods of others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal

from lab.errors import ApiFailed
from lab.kube import OWNER_LABEL, Cluster
from lab.kube.access_review import user_of
from lab.kube.ownership import owner_of
from lab.objects import fields
from lab.objects.fields import Obj, annotations_of, labels_of, parts
from lab.objects.kai import QueueShare, QueueView
from lab.snapshot.cluster_nodes import ClusterNode, total_gpus, with_cgroups
from lab.snapshot.cluster_snapshot import ClusterSnapshot
from lab.snapshot.installed_software import (
    DevicePlugin,
    GpuOperator,
    InstalledKai,
    VCluster,
    device_plugins,
    gpu_operator,
    helm_releases,
    installed_kai,
    pod_networks,
    releases_named,
    vclusters,
)

PRODUCTION = "kailab.dev/production"
"""Annotation on namespace kube-system by which an administrator marks a cluster; any value but ``false``."""

FORBIDDEN: Final = "forbidden"
NOT_SERVED: Final = "not served"
Unread = Literal["", "forbidden", "not served"]

_CLUSTER_POLICY = "ClusterPolicy.nvidia.com"
_KINDS = (
    "Namespace",
    "Node",
    "Pod",
    "Deployment",
    "DaemonSet",
    "StatefulSet",
    "RuntimeClass",
    "StorageClass",
    "Queue",
    "Config",
    "SchedulingShard",
    _CLUSTER_POLICY,
)
_KUBERNETES = frozenset({"kube-system", "kube-public", "kube-node-lease"})
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


@dataclass(frozen=True)
class QueueNode:
    """A queue of KAI and the queues below it."""

    name: str
    owner: str
    """Who created it, such as ``belongs to Helm release ns/name``."""
    gpu: QueueShare
    allocated_gpus: float
    """In use by its pods and those of the queues below it."""
    children: tuple[QueueNode, ...] = ()


@dataclass(frozen=True)
class RuntimeClass:
    """A RuntimeClass."""

    name: str
    handler: str


@dataclass(frozen=True)
class StorageClass:
    """A StorageClass."""

    name: str
    provisioner: str
    default: bool


@dataclass(frozen=True)
class Inventory:
    """A cluster at one moment, as far as the user of the kubeconfig may read it."""

    context: str
    server: str
    """URL of the API server."""
    version: str
    """Of the API server, like v1.34.4."""
    user: str
    """The user as the API server names it; empty before Kubernetes 1.28."""
    uid: str
    """UID of namespace kube-system, which identifies the cluster; empty if namespaces cannot be read."""
    production: bool
    """Marked by the annotation kailab.dev/production on namespace kube-system."""
    nodes: tuple[ClusterNode, ...]
    gpus: Mapping[str, int]
    """Allocatable GPU resources of the nodes that are ready and not cordoned, each as what it is."""
    gpu_operator: GpuOperator | None
    device_plugins: tuple[DevicePlugin, ...]
    kai: InstalledKai | None
    queues: tuple[QueueNode, ...]
    """Queues without a parent, each with those below it."""
    runtime_classes: tuple[RuntimeClass, ...]
    storage_classes: tuple[StorageClass, ...]
    vclusters: tuple[VCluster, ...]
    pod_networks: tuple[str, ...]
    """CNI plugins, by the names of their DaemonSets; empty: none that is known."""
    labs: tuple[str, ...]
    """Labs of kailab with objects in the cluster."""
    foreign: Mapping[str, int]
    """Namespace → pods that run there, without Kubernetes' own, DaemonSets', KAI's and labs'."""
    unreadable: Mapping[str, Unread]
    """Kind → why it was not read: ``forbidden``, or ``not served`` if the cluster does not have the kind."""

    @property
    def forbidden(self) -> tuple[str, ...]:
        """What the user may not read, so that its absence proves nothing."""
        return tuple(kind for kind, why in self.unreadable.items() if why == FORBIDDEN)

    @property
    def foreign_pods(self) -> int:
        """Running pods of others."""
        return sum(self.foreign.values())

    @property
    def gpus_in_words(self) -> str:
        """The GPUs by their resources: ``8 nvidia.com/gpu``; empty without GPUs."""
        return ", ".join(f"{amount} {resource}" for resource, amount in self.gpus.items())

    @property
    def queue_names(self) -> tuple[str, ...]:
        """All queues, parents first."""
        return tuple(queue.name for queue in _walk(self.queues))


def inventory(cluster: Cluster) -> Inventory:
    """Read what a cluster has, in a few lists at once; kinds that the user may not read are left out and named.

    Reads the newest Secret of Helm for KAI, the GPU Operator and vClusters only, and the configuration and metrics of
    up to 8 kubelets. Raises ApiFailed when the server does not answer or rejects the credentials.
    """
    version = cluster.version()  # before the threads: one error instead of twelve
    with ThreadPoolExecutor(max_workers=len(_KINDS), thread_name_prefix="inventory") as pool:
        read = dict(zip(_KINDS, pool.map(lambda kind: _read(cluster, kind), _KINDS), strict=True))
    unreadable = {kind: why for kind, (_, why) in read.items() if why}
    objects = {kind: objs for kind, (objs, _) in read.items()}
    snapshot = ClusterSnapshot(datetime.now(UTC), objects, frozenset(unreadable))
    releases, refused = helm_releases(cluster, releases_named(snapshot))
    nodes, no_kubelet = with_cgroups(cluster, tuple(map(ClusterNode.of, snapshot.of("Node"))))
    kai = installed_kai(snapshot, releases)
    return Inventory(
        context=cluster.context or "",
        server=cluster.server,
        version=version,
        user=_user(cluster),
        uid=str(_kube_system(snapshot).get("uid", "")),
        production=annotations_of(_kube_system(snapshot)).get(PRODUCTION, "false") != "false",
        nodes=nodes,
        gpus=total_gpus(nodes),
        gpu_operator=gpu_operator(snapshot, releases, _CLUSTER_POLICY),
        device_plugins=device_plugins(snapshot),
        kai=kai,
        queues=queue_tree(snapshot.of("Queue")),
        runtime_classes=tuple(RuntimeClass(_name(o), o.get("handler", "")) for o in snapshot.of("RuntimeClass")),
        storage_classes=tuple(map(_storage_class, snapshot.of("StorageClass"))),
        vclusters=vclusters(snapshot, releases),
        pod_networks=pod_networks(snapshot),
        labs=_labs(snapshot),
        foreign=_foreign(snapshot, kai.namespaces if kai else ()),
        unreadable={
            **unreadable,
            **({"Secret": FORBIDDEN} if refused else {}),
            **({"Node (proxy)": FORBIDDEN} if no_kubelet else {}),
        },
    )


def queue_tree(queues: Iterable[Obj]) -> tuple[QueueNode, ...]:
    """Queues as a tree, by name; those of an unknown parent, or in a circle, are at the top."""
    views = {view.name: (view, owner_of(obj)) for obj in queues for view in (QueueView.of(obj),)}
    seen: set[str] = set()

    def node(name: str) -> QueueNode:
        seen.add(name)
        view, owner = views[name]
        below = [child for child, (other, _) in sorted(views.items()) if other.parent == name and child not in seen]
        return QueueNode(name, owner, view.gpu, view.allocated.gpu, tuple(map(node, below)))

    roots = [name for name, (view, _) in sorted(views.items()) if view.parent not in views]
    return tuple(node(name) for name in [*roots, *sorted(views)] if name not in seen)


def _read(cluster: Cluster, kind: str) -> tuple[tuple[Obj, ...], Unread]:
    """The objects of a kind, and why they could not be read."""
    try:
        items, version = cluster.calls.collection(cluster.kinds.named(kind), None, {})
    except ApiFailed as error:
        if error.status not in (403, 404, 405):
            raise
        return (), FORBIDDEN if error.status == 403 else NOT_SERVED
    # The list of a kind that the server does not have has no resourceVersion.
    return tuple(items), "" if version else NOT_SERVED


def _user(cluster: Cluster) -> str:
    try:
        return user_of(cluster)
    except ApiFailed as error:
        if not error.status:
            raise
        return ""


def _kube_system(snapshot: ClusterSnapshot) -> Obj:
    return parts(snapshot.get("Namespace", "kube-system") or {})[0]


def _storage_class(obj: Obj) -> StorageClass:
    default = annotations_of(obj["metadata"]).get(_DEFAULT_CLASS) == "true"
    return StorageClass(_name(obj), obj.get("provisioner", ""), default)


def _name(obj: Obj) -> str:
    return str(obj["metadata"]["name"])


def _labs(snapshot: ClusterSnapshot) -> tuple[str, ...]:
    labelled = (labels_of(obj["metadata"]).get(OWNER_LABEL) for objs in snapshot.objects.values() for obj in objs)
    return tuple(sorted(set(filter(None, labelled))))


def _foreign(snapshot: ClusterSnapshot, of_kai: Collection[str]) -> Mapping[str, int]:
    labs = {_name(obj) for obj in snapshot.of("Namespace") if OWNER_LABEL in labels_of(obj["metadata"])}
    skipped = {*_KUBERNETES, *of_kai, *labs}
    found = Counter(
        pod.namespace
        for obj, pod in zip(snapshot.of("Pod"), snapshot.pods, strict=True)
        if pod.namespace not in skipped
        and not pod.ended
        and OWNER_LABEL not in pod.labels
        and not fields.owner_of(obj["metadata"]).startswith("DaemonSet/")
    )
    return dict(found.most_common())


def _walk(queues: Iterable[QueueNode]) -> Iterable[QueueNode]:
    for queue in queues:
        yield queue
        yield from _walk(queue.children)

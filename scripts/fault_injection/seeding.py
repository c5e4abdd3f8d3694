"""Injects faults into a running lab: each is a context manager that undoes the fault at its end.

Some faults are a state (a component stopped, an object changed). Others tamper: a thread follows objects while the
suite runs and changes them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from lab.errors import ApiFailed
from lab.kube import Cluster
from lab.kube.readiness import is_ready
from lab.kube.reflector import Reflector
from lab.objects.views import NodeView
from lab.session.lab import Lab
from lab.tools.background import Background
from lab.workloads.temporary import absent, changed

SECONDS = 180.0
LOST_RACE = (404, 409, 422)
"""Status codes of a lost race: the suite or KAI has deleted or changed the object."""

Seed = Callable[[Lab], AbstractContextManager[Any]]


@dataclass(frozen=True)
class Fault:
    """One fault."""

    id: str
    what: str
    """The change of the running lab, undone afterwards."""
    seed: Seed
    reds: Mapping[str, str]
    kai: str = ""
    """KAI versions to which it applies; empty: all."""
    tenant: str = ""
    """The mode of a tenant that the lab must have; empty: none."""


Json = dict[str, Any]
Act = Callable[[Cluster, str, Json], None]
"""Reacts to a change (ADDED, MODIFIED or DELETED) of an object."""


@contextmanager
def patched(
    lab: Lab, kind: str, name: str, change: Json, *, namespace: str | None = None, rolls: tuple[str, str] | None = None
) -> Iterator[None]:
    """Merge ``change`` into an object; ``rolls`` is the Deployment (namespace, name) that must roll out with it."""
    cluster = lab.cluster

    def rolled_out(age: int) -> None:
        if rolls is not None:
            cluster.wait(
                "Deployment",
                lambda objects: any(is_ready(obj) and obj["metadata"]["generation"] > age for obj in objects),
                namespace=rolls[0],
                fields=f"metadata.name={rolls[1]}",
                timeout=SECONDS,
                what=f"{rolls[1]} runs with the change",
            )

    age = _generation(cluster, rolls)
    try:
        with changed(cluster, lab.spec.name, kind, name, change, namespace):
            rolled_out(age)
            try:
                yield
            finally:
                age = _generation(cluster, rolls)
    finally:
        rolled_out(age)


def _generation(cluster: Cluster, rolls: tuple[str, str] | None) -> int:
    if rolls is None:
        return 0
    return int((cluster.get("Deployment", rolls[1], rolls[0]) or {"metadata": {}})["metadata"].get("generation", 0))


@contextmanager
def removed(lab: Lab, kind: str, name: str) -> Iterator[None]:
    """Delete a cluster-scoped object and recreate it afterwards."""
    before = lab.cluster.get(kind, name)
    with absent(lab.cluster, lab.spec.name, [before] if before else []):
        lab.cluster.delete(kind, name, wait=SECONDS)
        yield


@contextmanager
def node_labels_removed(lab: Lab, *keys: str) -> Iterator[None]:
    """Remove labels from all nodes."""
    cluster = lab.cluster
    before = {node.name: {key: node.labels[key] for key in keys if key in node.labels} for node in _nodes(cluster)}
    with ExitStack() as stack:
        for node, labels in before.items():
            without = {"metadata": {"labels": dict.fromkeys(labels)}}
            stack.enter_context(changed(cluster, lab.spec.name, "Node", node, without))
        yield


@contextmanager
def device_plugin_stopped(lab: Lab) -> Iterator[None]:
    """Stop the device plugin on all nodes, so that no node offers GPUs."""
    cluster = lab.cluster
    (plugin,) = cluster.list("DaemonSet", "kube-system", fields="metadata.name=nvidia-device-plugin-daemonset")
    offered = {node.name: node.gpus for node in _nodes(cluster)}

    def wait(wanted: Mapping[str, int], what: str) -> None:
        cluster.wait(
            "Node",
            lambda nodes: {view.name: view.gpus for view in map(NodeView.of, nodes)} == wanted,
            timeout=SECONDS,
            what=what,
        )

    try:
        with patched(
            lab,
            "DaemonSet",
            plugin["metadata"]["name"],
            {"spec": {"template": {"spec": {"nodeSelector": {"kailab.dev/nowhere": "true"}}}}},
            namespace="kube-system",
        ):
            wait(dict.fromkeys(offered, 0), "no node offers GPUs")
            yield
    finally:
        wait(offered, "the nodes offer their GPUs again")


@contextmanager
def syncers_stopped(lab: Lab) -> Iterator[None]:
    """Stop the vClusters: nothing is synced to the host, and the tenants' APIs do not answer."""
    cluster = lab.cluster
    found = [
        (kind, tenant.name, f"vcluster-{tenant.name}")
        for tenant in lab.tenants
        for kind in ("StatefulSet", "Deployment")
        if cluster.get(kind, tenant.name, f"vcluster-{tenant.name}") is not None
    ]
    try:
        for kind, name, namespace in found:
            cluster.patch(kind, name, {"spec": {"replicas": 0}}, namespace)
            cluster.wait(
                "Pod",
                lambda pods: not pods,
                namespace=namespace,
                labels=f"app=vcluster,release={name}",
                timeout=SECONDS,
                what=f"tenant {name} is stopped",
            )
        yield
    finally:
        for kind, name, namespace in found:
            cluster.patch(kind, name, {"spec": {"replicas": 1}}, namespace)
        for kind, name, namespace in found:
            cluster.wait_ready(kind, name, namespace, SECONDS)


@contextmanager
def tampering(lab: Lab, kind: str, act: Act, after: Callable[[Lab], None] | None = None) -> Iterator[None]:
    """Call ``act`` with every change of a kind, in a thread; ``after`` repairs what it leaves.

    Raises:
        ApiFailed: at the end, when a request was refused for a reason other than a lost race.
    """
    cluster = lab.cluster

    def run(stopping: threading.Event) -> None:
        with Reflector(cluster.calls, cluster.kinds.named(kind), None, {}) as follower:
            while not stopping.is_set():
                for change, obj in follower.take(0.5) or []:
                    _try(act, cluster, change, obj)

    try:
        with Background(run, f"tampering with {kind}"):
            yield
    finally:
        if after is not None:
            after(lab)


def _try(act: Act, cluster: Cluster, change: str, obj: Json) -> None:
    try:
        act(cluster, change, obj)
    except ApiFailed as error:
        if error.status not in LOST_RACE:
            raise


def uncordon_all(lab: Lab) -> None:
    """Uncordon all nodes."""
    for node in _nodes(lab.cluster):
        if node.unschedulable:
            lab.cluster.patch("Node", node.name, {"spec": {"unschedulable": None}})


def _nodes(cluster: Cluster) -> list[NodeView]:
    return [NodeView.of(obj) for obj in cluster.list("Node")]

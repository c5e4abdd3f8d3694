"""Rules on GPU groups: group, reservation pod, node and UUID belong together.

What they must allow for is in KAI's binder (pkg/binder/binding/resourcereservation/resource_reservation.go).
"""

from __future__ import annotations

from collections.abc import Iterator

from lab.findings import Finding
from lab.invariants.cluster_state import ClusterState
from lab.invariants.gpus import lines
from lab.invariants.model import breach
from lab.kai.names import CONFIGMAP_ANNOTATION
from lab.snapshot.pod_info import PodInfo

VISIBLE_DEVICES = "NVIDIA_VISIBLE_DEVICES"


def one_each(scene: ClusterState) -> Iterator[Finding]:
    """A GPU group has one live reservation pod at most."""
    for group, pods in scene.gpus.reservations.items():
        if len(pods) > 1:
            yield breach(group, f"GPU group {group} has {len(pods)} reservation pods", lines(pods))


def reserved(scene: ClusterState) -> Iterator[Finding]:
    """A pod that shares a GPU has a live reservation pod."""
    for group, pods in scene.gpus.users.items():
        mine = [pod for pod in pods if scene.mine(pod) and pod.staying]
        if mine and group not in scene.gpus.reservations:
            yield breach(
                group,
                f"GPU group {group} has {len(mine)} pods and no reservation pod: its GPU is free to others",
                lines(mine),
            )


def one_node(scene: ClusterState) -> Iterator[Finding]:
    """A GPU group with its reservation pod is on one node."""
    for group, pods in scene.gpus.users.items():
        every = (*pods, *scene.gpus.reservations.get(group, ()))
        nodes = sorted({pod.view.node for pod in every})
        if len(nodes) > 1:
            yield breach(group, f"GPU group {group} is on {len(nodes)} nodes: {', '.join(nodes)}", lines(every))


def told(scene: ClusterState) -> Iterator[Finding]:
    """The reservation pod of a group in use has told its GPU's UUID; the binder binds nobody before.

    A tenant with a KAI of its own is judged by its own API: the syncer copies the UUID and the pod in two steps.
    """
    for group, pods in scene.gpus.users.items():
        silent = [pod for pod in scene.gpus.reservations.get(group, ()) if not pod.view.reserved_gpu]
        staying = [pod for pod in pods if pod.staying and pod.tenant not in scene.own_kai]
        if silent and staying:
            yield breach(
                group, f"GPU group {group} is in use, and nobody knows which GPU it is", lines((*silent, *staying))
            )


def used(scene: ClusterState) -> Iterator[Finding]:
    """A reservation pod has a user, or one that is being bound."""
    wanted = {
        group
        for request in scene.world.bind_requests
        if request.phase not in ("Succeeded", "Failed")
        for group in request.gpu_groups
    }
    # KAI labels a pod with its group before it binds it, and such a pod counts.
    wanted.update(
        group for pod in scene.pods if not pod.is_reservation and not pod.view.ended for group in pod.view.gpu_groups
    )
    for group, pods in scene.gpus.reservations.items():
        idle = [pod for pod in pods if pod.tenant not in scene.own_kai]
        if idle and group not in wanted:
            yield breach(group, f"GPU group {group} is held for nobody", lines(idle))


def given(scene: ClusterState) -> Iterator[Finding]:
    """The GPUs in a pod's environment are those that its groups' reservation pods hold."""
    told_to: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for obj in scene.world.of("ConfigMap"):
        meta, data = obj["metadata"], obj.get("data") or {}
        if VISIBLE_DEVICES in data and (prefix := meta["name"].rpartition("-")[0]):
            key = meta.get("namespace", ""), prefix
            told_to.setdefault(key, []).append((meta["name"], data[VISIBLE_DEVICES]))
    for pod in scene.pods:
        prefix = pod.view.annotations.get(CONFIGMAP_ANNOTATION, "")
        if not pod.staying or not scene.mine(pod) or not pod.view.gpu_groups or not prefix:
            continue
        held = _held(scene, pod)
        if held is None:
            continue
        for name, value in told_to.get((pod.view.namespace, prefix), ()):
            # With CDI each is kind=UUID.
            seen = {word.rpartition("=")[2].strip() for word in value.split(",") if word.strip()}
            if seen != held:
                yield breach(
                    f"{pod.view.namespace}/{pod.view.name}",
                    f"{pod.title} was given {_names(seen)}, and its reservation pods hold {_names(held)}",
                    (pod.line, f"ConfigMap {pod.view.namespace}/{name}: {VISIBLE_DEVICES}={value}"),
                )


def _held(scene: ClusterState, pod: PodInfo) -> set[str] | None:
    """The UUIDs of a pod's GPU groups; None where one is not known."""
    uuids = [
        next((r.view.reserved_gpu for r in scene.gpus.reservations.get(group, ())), "") for group in pod.view.gpu_groups
    ]
    return set(uuids) if all(uuids) else None


def _names(uuids: set[str]) -> str:
    return ", ".join(sorted(uuids)) or "no GPU"

"""Rules on GPU groups: group, reservation pod, node and UUID belong together.

Source of the exceptions: KAI's binder (pkg/binder/binding/resourcereservation/resource_reservation.go).
"""

from __future__ import annotations

from collections.abc import Iterator

from lab.findings import Finding
from lab.invariants.cluster_state import ClusterState
from lab.invariants.gpus import lines
from lab.invariants.model import breach
from lab.kai.names import CONFIGMAP_ANNOTATION
from lab.snapshot.pod_info import PodInfo
from lab.text import count

VISIBLE_DEVICES = "NVIDIA_VISIBLE_DEVICES"


def one_each(state: ClusterState) -> Iterator[Finding]:
    """A GPU group has at most one live reservation pod."""
    for group, pods in state.gpus.reservations.items():
        if len(pods) > 1:
            yield breach(group, f"GPU group {group} has {len(pods)} reservation pods", lines(pods))


def reserved(state: ClusterState) -> Iterator[Finding]:
    """A pod that shares a GPU has a live reservation pod."""
    for group, pods in state.gpus.users.items():
        mine = [pod for pod in pods if state.mine(pod) and pod.staying]
        if mine and group not in state.gpus.reservations:
            yield breach(
                group,
                f"GPU group {group} has {count(len(mine), 'pod')} but no reservation pod, so that its GPU looks free",
                lines(mine),
            )


def one_node(state: ClusterState) -> Iterator[Finding]:
    """A GPU group with its reservation pod is on one node."""
    for group, pods in state.gpus.users.items():
        every = (*pods, *state.gpus.reservations.get(group, ()))
        nodes = sorted({pod.view.node for pod in every})
        if len(nodes) > 1:
            yield breach(group, f"GPU group {group} is on {len(nodes)} nodes: {', '.join(nodes)}", lines(every))


def reported(state: ClusterState) -> Iterator[Finding]:
    """The reservation pod of a group in use reports its GPU's UUID; the binder binds no pod before.

    A tenant with its own KAI is verified by its own API: the syncer copies the UUID and the pod in two steps.
    """
    for group, pods in state.gpus.users.items():
        silent = [pod for pod in state.gpus.reservations.get(group, ()) if not pod.view.reserved_gpu]
        staying = [pod for pod in pods if pod.staying and pod.tenant not in state.own_kai]
        if silent and staying:
            what = f"GPU group {group} is in use, but its reservation pod does not report a GPU"
            yield breach(group, what, lines((*silent, *staying)))


def used(state: ClusterState) -> Iterator[Finding]:
    """A reservation pod has a user, or one that is being bound."""
    wanted = {
        group
        for request in state.snapshot.bind_requests
        if request.phase not in ("Succeeded", "Failed")
        for group in request.gpu_groups
    }
    # KAI labels a pod with its group before it binds the pod.
    wanted.update(
        group for pod in state.pods if not pod.is_reservation and not pod.view.ended for group in pod.view.gpu_groups
    )
    for group, pods in state.gpus.reservations.items():
        idle = [pod for pod in pods if pod.tenant not in state.own_kai]
        if idle and group not in wanted:
            yield breach(group, f"GPU group {group} has a reservation pod but no user", lines(idle))


def given(state: ClusterState) -> Iterator[Finding]:
    """The GPUs in a pod's environment are those that the reservation pods of its groups hold."""
    visible: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for obj in state.snapshot.of("ConfigMap"):
        meta, data = obj["metadata"], obj.get("data") or {}
        if VISIBLE_DEVICES in data and (prefix := meta["name"].rpartition("-")[0]):
            key = meta.get("namespace", ""), prefix
            visible.setdefault(key, []).append((meta["name"], data[VISIBLE_DEVICES]))
    for pod in state.pods:
        prefix = pod.view.annotations.get(CONFIGMAP_ANNOTATION, "")
        if not pod.staying or not state.mine(pod) or not pod.view.gpu_groups or not prefix:
            continue
        held = _held(state, pod)
        if held is None:
            continue
        for name, value in visible.get((pod.view.namespace, prefix), ()):
            # With CDI each word is kind=UUID.
            seen = {word.rpartition("=")[2].strip() for word in value.split(",") if word.strip()}
            if seen != held:
                yield breach(
                    pod.key,
                    f"{pod.title} was given {_names(seen)}, but its reservation pods hold {_names(held)}",
                    (pod.line, f"ConfigMap {pod.view.namespace}/{name}: {VISIBLE_DEVICES}={value}"),
                )


def _held(state: ClusterState, pod: PodInfo) -> set[str] | None:
    """The UUIDs of a pod's GPU groups; None where one is unknown."""
    uuids = [
        next((r.view.reserved_gpu for r in state.gpus.reservations.get(group, ())), "") for group in pod.view.gpu_groups
    ]
    return set(uuids) if all(uuids) else None


def _names(uuids: set[str]) -> str:
    return ", ".join(sorted(uuids)) or "no GPU"

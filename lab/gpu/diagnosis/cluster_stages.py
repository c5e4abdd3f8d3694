"""The way of a GPU as the cluster sees it: RuntimeClass, plugin, offers of kubelets, labels, reservations. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from lab.findings import Finding, Severity
from lab.gpu.diagnosis.node_facts import HANDLER
from lab.gpu.diagnosis.node_stages import GpuPathStage
from lab.kai.names import GPU_MEMORY_LABEL, GPU_PRESENT_LABEL
from lab.objects.fields import Obj, parts
from lab.objects.kai import is_reservation
from lab.objects.views import ContainerView, NodeView, PodView
from lab.snapshot.cluster_snapshot import ClusterSnapshot

KINDS = ("Pod", "Node", "Event", "DaemonSet", "ReplicaSet", "StatefulSet", "Job", "RuntimeClass", "BindRequest")
"""What is read of the cluster."""

PLUGIN_IMAGE = "k8s-device-plugin"
"""In the name of the image of NVIDIA's device plugin, wherever it comes from."""

FAKE_LABEL = "run.ai/fake.gpu"

_NEW = timedelta(seconds=8)
"""A pod of this age may still be starting."""


def is_plugin(pod: Obj) -> bool:
    """Whether a Pod, or a pod template, runs NVIDIA's device plugin."""
    containers = parts(pod)[1].get("containers") or []
    return any(PLUGIN_IMAGE in str(container.get("image", "")) for container in containers)


def title_of(pod: PodView) -> str:
    """``namespace/name``."""
    return f"{pod.namespace}/{pod.name}"


def state_of(obj: Obj) -> str:
    """Why a pod is not ready, in one word: why a container waits or has ended, else the pod's phase."""
    view = PodView.of(obj)
    reasons = [box.reason for box in ContainerView.all_of(obj) if box.state in ("waiting", "terminated") and box.reason]
    return view.reason or next(iter(reasons), "") or view.phase or "new"


def gpu_nodes_of(world: ClusterSnapshot) -> dict[str, int]:
    """The GPU nodes of a cluster that the lab did not make, and what they have: what the kubelet knows of."""
    return {node.name: node.gpus for node in world.nodes if node.gpus or node.labels.get(GPU_PRESENT_LABEL) == "true"}


def cluster_stages(world: ClusterSnapshot, gpus: Mapping[str, int], *, ours: bool = True) -> tuple[GpuPathStage, ...]:
    """The stages of the cluster and of each GPU node.

    Args:
        world: read with ``KINDS``.
        gpus: how many GPUs each GPU node has.
        ours: whether the lab made the cluster; another's may do without this RuntimeClass and these labels.
    """
    need: Severity = "error" if ours else "warning"
    nodes = {node.name: node for node in world.nodes}
    stages = [
        GpuPathStage(
            "class", "RuntimeClass", "", tuple(_runtime_class(world, need)), f"{HANDLER} leads to handler {HANDLER}"
        )
    ]
    wanted = tuple(_daemon_sets(world))
    for name, count in gpus.items():
        node = nodes.get(name)
        short = node is None or node.gpus < count or not node.gpus
        plugin = (*wanted, *_plugin(world, name, short=short))
        stages.append(GpuPathStage("plugin", "device plugin", name, plugin, "runs"))
        if node is None:
            stages.append(
                GpuPathStage("allocatable", "GPUs offered", name, (Finding(f"node {name} is not in the cluster"),), "")
            )
            continue
        stages.append(
            GpuPathStage("allocatable", "GPUs offered", name, tuple(_offered(node, count)), f"{node.gpus} of {count}")
        )
        told = f"{GPU_PRESENT_LABEL}, {GPU_MEMORY_LABEL}={node.gpu_memory}"
        stages.append(GpuPathStage("labels", "labels", name, tuple(_labels(node, need)), told))
    stages += [
        GpuPathStage("labels", "labels", node.name, (Finding(f"label {FAKE_LABEL} is true"),), "")
        for node in world.nodes
        if node.labels.get(FAKE_LABEL) == "true" and node.name not in gpus
    ]
    pods = [pod for pod in world.of("Pod") if is_reservation(pod)]
    told = f"{len(pods)}, all of them run" if pods else "none: no GPU is shared now"
    stages.append(GpuPathStage("reservations", "reservation pods", "", tuple(_reservations(pods, world.at)), told))
    return tuple(stages)


def _runtime_class(world: ClusterSnapshot, need: Severity) -> Iterator[Finding]:
    found = world.get("RuntimeClass", HANDLER)
    if found is None and world.has("RuntimeClass"):
        yield Finding(f"RuntimeClass {HANDLER} is missing", severity=need)
    elif found is not None and found.get("handler") != HANDLER:
        yield Finding(f"RuntimeClass {HANDLER} has handler {found.get('handler')}, should be {HANDLER}", severity=need)


def _daemon_sets(world: ClusterSnapshot) -> Iterator[Finding]:
    for obj in world.of("DaemonSet"):
        meta, spec, status = parts(obj)
        if is_plugin(spec.get("template") or {}) and not status.get("desiredNumberScheduled"):
            yield Finding(f"DaemonSet {meta.get('namespace')}/{meta.get('name')} wants no pod")


def _plugin(world: ClusterSnapshot, node: str, *, short: bool) -> Iterator[Finding]:
    pods = [(PodView.of(obj), obj) for obj in world.of("Pod") if is_plugin(obj)]
    mine = [(view, obj) for view, obj in pods if view.node == node and not view.deleting]
    # GPUs may be offered by something else in a cluster that is not ours
    if short and not any(view.ready for view, _ in mine):
        yield Finding(f"no device plugin runs on {node}")
    for view, obj in mine:
        # the kubelet tells of the GPUs first, and of the Ready plugin later
        if not view.ready and (short or not _starts(obj, world.at)):
            yield Finding(f"device plugin {title_of(view)} is not ready: {state_of(obj)}", subject=title_of(view))


def _offered(node: NodeView, gpus: int) -> Iterator[Finding]:
    if not node.ready:
        yield Finding(f"node {node.name} is not Ready")
    if node.gpus < gpus:
        yield Finding(f"{node.gpus} of {gpus} GPUs are allocatable")
    elif node.gpus > gpus:
        yield Finding(f"{node.gpus} GPUs are allocatable, and the node has {gpus}")


def _labels(node: NodeView, need: Severity) -> Iterator[Finding]:
    if node.labels.get(GPU_PRESENT_LABEL) != "true":
        yield Finding(f"label {GPU_PRESENT_LABEL} is missing", severity=need)
    if node.gpu_memory is None:
        yield Finding(f"label {GPU_MEMORY_LABEL} is missing", severity=need)
    if node.labels.get(FAKE_LABEL) == "true":
        yield Finding(f"label {FAKE_LABEL} is true")


def _reservations(pods: list[Obj], now: datetime) -> Iterator[Finding]:
    for obj in pods:
        view = PodView.of(obj)
        if view.ready or view.deleting or view.phase == "Succeeded":
            continue
        if view.phase == "Failed":
            yield Finding(f"reservation pod {view.name} has failed: {state_of(obj)}", subject=title_of(view))
        elif not _starts(obj, now):
            yield Finding(f"reservation pod {view.name} is not ready: {state_of(obj)}", subject=title_of(view))


def _starts(obj: Obj, now: datetime) -> bool:
    """Whether a pod that is not ready may only be new."""
    return state_of(obj) in ("Pending", "ContainerCreating", "new") and age(obj, now) <= _NEW


def age(obj: Obj, now: datetime) -> timedelta:
    """How old an object is; very old where it does not say."""
    made = (obj.get("metadata") or {}).get("creationTimestamp")
    return now - datetime.fromisoformat(made) if made else timedelta(days=1)

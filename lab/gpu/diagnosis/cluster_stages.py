"""Stages of the GPU path in the cluster: RuntimeClass, plugin, offers of kubelets, labels, reservation pods. Pure."""

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
"""Kinds that the diagnosis needs."""

PLUGIN_IMAGE = "k8s-device-plugin"
"""Part of the image name of NVIDIA's device plugin in every registry."""

FAKE_LABEL = "run.ai/fake.gpu"

_NEW = timedelta(seconds=8)
"""A pod of this age may still be starting."""


def is_plugin(pod: Obj) -> bool:
    """Return whether a Pod, or a pod template, runs NVIDIA's device plugin."""
    containers = parts(pod)[1].get("containers") or []
    return any(PLUGIN_IMAGE in str(container.get("image", "")) for container in containers)


def title_of(pod: PodView) -> str:
    """Return ``namespace/name``."""
    return f"{pod.namespace}/{pod.name}"


def gpu_nodes_of(snapshot: ClusterSnapshot) -> dict[str, int]:
    """Return the GPU nodes of a cluster that kailab did not create, with the allocatable GPUs of each."""
    return {
        node.name: node.gpus for node in snapshot.nodes if node.gpus or node.labels.get(GPU_PRESENT_LABEL) == "true"
    }


def cluster_stages(
    snapshot: ClusterSnapshot, gpus: Mapping[str, int], *, ours: bool = True
) -> tuple[GpuPathStage, ...]:
    """Return the stages of the cluster and of each GPU node.

    ``gpus`` has the number of GPUs of each GPU node. A cluster that is not ``ours`` may lack RuntimeClass and labels.
    """
    need: Severity = "error" if ours else "warning"
    nodes = {node.name: node for node in snapshot.nodes}
    runtime_class = tuple(_runtime_class(snapshot, need))
    stages = [GpuPathStage("class", "", runtime_class, f"{HANDLER} has handler {HANDLER}")]
    daemon_sets = tuple(_daemon_sets(snapshot))
    for name, count in gpus.items():
        node = nodes.get(name)
        short = node is None or node.gpus < count or not node.gpus
        plugin = (*daemon_sets, *_plugin(snapshot, name, short=short))
        stages.append(GpuPathStage("plugin", name, plugin, "runs"))
        if node is None:
            missing = (Finding(f"node {name} is not in the cluster"),)
            stages.append(GpuPathStage("allocatable", name, missing))
            continue
        offered = tuple(_offered(node, count))
        stages.append(GpuPathStage("allocatable", name, offered, f"{node.gpus} of {count}"))
        labels = f"{GPU_PRESENT_LABEL}, {GPU_MEMORY_LABEL}={node.gpu_memory}"
        stages.append(GpuPathStage("labels", name, tuple(_labels(node, need)), labels))
    stages += [
        GpuPathStage("labels", node.name, (Finding(f"label {FAKE_LABEL} is true"),))
        for node in snapshot.nodes
        if node.labels.get(FAKE_LABEL) == "true" and node.name not in gpus
    ]
    pods = [pod for pod in snapshot.of("Pod") if is_reservation(pod)]
    good = f"{len(pods)}, all of them run" if pods else "none: no GPU is shared now"
    stages.append(GpuPathStage("reservations", "", tuple(_reservations(pods, snapshot.at)), good))
    return tuple(stages)


def _runtime_class(snapshot: ClusterSnapshot, need: Severity) -> Iterator[Finding]:
    found = snapshot.get("RuntimeClass", HANDLER)
    if found is None and snapshot.has("RuntimeClass"):
        yield Finding(f"RuntimeClass {HANDLER} is missing", severity=need)
    elif found is not None and found.get("handler") != HANDLER:
        yield Finding(f"RuntimeClass {HANDLER} has handler {found.get('handler')}, should be {HANDLER}", severity=need)


def _daemon_sets(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    for obj in snapshot.of("DaemonSet"):
        meta, spec, status = parts(obj)
        if is_plugin(spec.get("template") or {}) and not status.get("desiredNumberScheduled"):
            yield Finding(f"DaemonSet {meta.get('namespace')}/{meta.get('name')} matches no node")


def _plugin(snapshot: ClusterSnapshot, node: str, *, short: bool) -> Iterator[Finding]:
    pods = [(PodView.of(obj), obj) for obj in snapshot.of("Pod") if is_plugin(obj)]
    pods = [(view, obj) for view, obj in pods if view.node == node and not view.deleting]
    # in a cluster that is not ours, something else may offer GPUs
    if short and not any(view.ready for view, _ in pods):
        yield Finding(f"no device plugin runs on {node}")
    for view, obj in pods:
        # the kubelet reports the GPUs first, and the Ready plugin later
        if not view.ready and (short or not _starting(obj, snapshot.at)):
            yield Finding(f"device plugin {title_of(view)} is not ready: {_state(obj)}", subject=title_of(view))


def _offered(node: NodeView, gpus: int) -> Iterator[Finding]:
    if not node.ready:
        yield Finding(f"node {node.name} is not Ready")
    if node.gpus < gpus:
        yield Finding(f"{node.gpus} of {gpus} GPUs are allocatable")
    elif node.gpus > gpus:
        yield Finding(f"{node.gpus} GPUs are allocatable, but the node has {gpus}")


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
            yield Finding(f"reservation pod {view.name} has failed: {_state(obj)}", subject=title_of(view))
        elif not _starting(obj, now):
            yield Finding(f"reservation pod {view.name} is not ready: {_state(obj)}", subject=title_of(view))


def _state(obj: Obj) -> str:
    """Why a pod is not ready, in one word: the reason of a waiting or terminated container, else its phase."""
    view = PodView.of(obj)
    reasons = [box.reason for box in ContainerView.all_of(obj) if box.state in ("waiting", "terminated") and box.reason]
    return view.reason or next(iter(reasons), "") or view.phase or "new"


def _starting(obj: Obj, now: datetime) -> bool:
    """Whether a pod that is not ready may only be new."""
    created = parts(obj)[0].get("creationTimestamp")
    if not created or now - datetime.fromisoformat(created) > _NEW:
        return False
    return _state(obj) in ("Pending", "ContainerCreating", "new")

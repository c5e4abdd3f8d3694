"""Pods that have failed or do not go away, and the node under a pod."""

from __future__ import annotations

from datetime import datetime, timedelta

from lab.explain.component_messages import of_conditions
from lab.explain.explanation import PodStage
from lab.explain.pod_context import PodContext
from lab.explain.rule import BOUND, rule
from lab.findings import Certainty, Finding
from lab.kai.names import GPU_RESOURCE
from lab.objects.fields import parts
from lab.objects.views import ContainerView

_FAILED = (PodStage.FAILED,)
_KUBELET_SAYS_NO = "OutOf"


def _message(case: PodContext) -> str:
    return " ".join(str(parts(case.pod_obj)[2].get("message", "")).split())


def _holders(case: PodContext) -> list[str]:
    """Who holds GPUs of the pod's node, on either side of a vCluster."""
    lines = []
    for info in case.node_infos:
        if info.node.name == case.pod.node:
            lines += [f"{info.node.name}: {gpus} GPUs held by {pod}" for pod, gpus in info.holders]
            lines += [f"{info.node.name}: shared GPU {gpu.name} by {', '.join(gpu.pod_keys)}" for gpu in info.shared]
    return lines[:6]


@rule(
    "pod.gpu-not-given",
    "The kubelet had no GPU for the pod",
    _FAILED,
    "kubelet: UnexpectedAdmissionError, OutOfnvidia.com/gpu; measured: a vCluster never subtracts the host's GPUs",
)
def gpu_not_given(case: PodContext) -> Finding | None:
    """Two schedulers gave the same GPU away, or the device became unhealthy in between."""
    if case.pod.reason not in ("UnexpectedAdmissionError", f"{_KUBELET_SAYS_NO}{GPU_RESOURCE}"):
        return None
    return Finding(
        f"the scheduler gave {case.title} a GPU of node {case.pod.node}, and the kubelet had none left",
        "delete the pod; see to it that one scheduler alone gives the GPUs of a node",
        (f"{case.pod.reason}: {_message(case)}", *_holders(case)),
    )


@rule(
    "pod.resource-not-given",
    "The kubelet refused the pod",
    _FAILED,
    "kubelet: OutOfcpu, OutOfmemory, OutOfpods, NodeAffinity",
)
def resource_not_given(case: PodContext) -> Finding | None:
    """The node was fuller, or had other labels, than the scheduler thought."""
    reason = case.pod.reason
    if not (reason.startswith(_KUBELET_SAYS_NO) or reason == "NodeAffinity") or reason.endswith(GPU_RESOURCE):
        return None
    return Finding(
        f"node {case.pod.node} refused {case.title}: {reason}",
        "delete the pod; its controller makes another one",
        (f"{reason}: {_message(case)}",),
    )


@rule("pod.evicted", "The node evicted the pod", _FAILED, "kubelet: Evicted")
def evicted(case: PodContext) -> Finding | None:
    """The node ran out of memory, disk or process ids."""
    if case.pod.reason != "Evicted":
        return None
    return Finding(
        f"node {case.pod.node} evicted {case.title}",
        f"free what the node lacks: {case.kubectl('describe', 'node', case.pod.node)}",
        (_message(case),),
    )


@rule("pod.deadline", "activeDeadlineSeconds is over", _FAILED, "kubelet: DeadlineExceeded")
def deadline(case: PodContext) -> Finding | None:
    """The pod ran as long as it may."""
    if case.pod.reason != "DeadlineExceeded":
        return None
    return Finding(f"{case.title} ran longer than its activeDeadlineSeconds", "raise it", (_message(case),))


@rule("pod.node-shutdown", "The node went down", _FAILED, "kubelet: NodeShutdown, Terminated; pod-gc: NodeLost")
def node_shutdown(case: PodContext) -> Finding | None:
    """The node was shut down or lost."""
    if case.pod.reason not in ("NodeShutdown", "Terminated", "Shutdown", "NodeLost"):
        return None
    return Finding(
        f"node {case.pod.node} went down under {case.title}",
        "delete the pod; its controller makes another one",
        (f"{case.pod.reason}: {_message(case)}",),
    )


@rule("pod.exited", "Its containers ended with an error", _FAILED, "status.containerStatuses: terminated")
def exited(case: PodContext) -> Finding | None:
    """restartPolicy Never or OnFailure, and a container failed for good."""
    bad = [c for c in ContainerView.all_of(case.pod_obj) if c.exit_code]
    if case.pod.reason or not bad:
        return None
    told = [f"container {c.name}: {c.reason or 'ended'} with exit code {c.exit_code}" for c in bad]
    told += [f"log: {line}" for line in case.world.logs.get(f"{case.pod.namespace}/{case.pod.name}", ())[-4:]]
    return Finding(
        f"{case.title} has ended with an error",
        case.kubectl("logs", case.pod.name, "-n", case.pod.namespace, "-c", bad[0].name),
        tuple(told),
    )


@rule("pod.deleting", "The pod is being deleted", (PodStage.DELETING,), "metadata.deletionTimestamp and finalizers")
def deleting(case: PodContext) -> Finding | None:
    """Within its grace, held by a finalizer, or on a node that does not answer."""
    meta = parts(case.pod_obj)[0]
    finalizers = meta.get("finalizers") or []
    since = case.world.at - datetime.fromisoformat(meta["deletionTimestamp"])
    over = since > timedelta()
    told = [f"its grace {'is over since' if over else 'lasts another'} {abs(since.total_seconds()):.0f} s"]
    if finalizers:
        told.append(f"finalizers: {', '.join(finalizers)}")
    if case.node is not None and not case.node.ready:
        told.append(f"node {case.node.name} is not Ready")
    if finalizers and over:
        action = f"let {finalizers[0]} finish, or remove the finalizer"
    elif case.node is not None and not case.node.ready:
        action = f"bring node {case.node.name} back, or delete the pod with --grace-period=0 --force"
    else:
        action = "wait; a process that ignores SIGTERM takes its whole grace, 30 s by default"
    return Finding(f"{case.title} is being deleted", action, tuple(told))


@rule("node.gone", "The node does not exist any more", BOUND, "pod-gc removes such pods after a while")
def node_gone(case: PodContext) -> Finding | None:
    """The pod is bound to a node that was deleted."""
    if not case.world.has("Node") or case.node is not None:
        return None
    if case.twin is not None and not case.schedules:
        return None
    return Finding(
        f"{case.title} is bound to node {case.pod.node}, which does not exist",
        case.kubectl("delete", "pod", case.pod.name, "-n", case.pod.namespace, "--grace-period=0", "--force"),
    )


@rule("node.not-ready", "Its node is not Ready", BOUND, "node condition Ready")
def node_not_ready(case: PodContext) -> Finding | None:
    """Nobody starts containers on such a node."""
    node = case.node
    if node is None or node.ready:
        return None
    told = [f"condition {c.type}={c.status}: {c.reason}: {c.message}" for c in node.conditions if c.type == "Ready"]
    return Finding(
        f"node {node.name} under {case.title} is not Ready",
        f"see whether its kubelet runs: {case.kubectl('describe', 'node', node.name)}",
        tuple(told),
    )


@rule("pod.readiness-gate", "A readiness gate is not fulfilled", BOUND, "Kubernetes, spec.readinessGates")
def readiness_gate(case: PodContext) -> Finding | None:
    """A condition that somebody else must set to True."""
    gates = [gate.get("conditionType", "") for gate in parts(case.pod_obj)[1].get("readinessGates") or []]
    true = {c.type for c in case.pod.conditions if c.status == "True"}
    open_gates = [gate for gate in gates if gate not in true]
    if not open_gates or "ContainersReady" not in true:
        return None
    return Finding(
        f"the containers of {case.title} are ready, and its readiness gates are not: {', '.join(open_gates)}",
        "see who sets that condition",
        tuple(saying.line for saying in of_conditions(case.pod, *open_gates)),
        Certainty.CERTAIN,
    )

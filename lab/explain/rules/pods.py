"""Rules about pods that failed or stay, and about the node of a pod. See messages.toml for failures by reason."""

from __future__ import annotations

from datetime import datetime, timedelta

from lab.explain.component_messages import of_conditions
from lab.explain.explanation import PodStage
from lab.explain.pod_context import PodContext
from lab.explain.rule import BOUND, FAILED, rule
from lab.explain.rules.nodes import gpu_holders
from lab.findings import Finding
from lab.kai.names import GPU_RESOURCE
from lab.objects.fields import parts


@rule(
    "pod.gpu-not-given",
    FAILED,
    "kubelet: UnexpectedAdmissionError, OutOfnvidia.com/gpu; measured: a vCluster never subtracts the host's GPUs",
)
def gpu_not_given(ctx: PodContext) -> Finding | None:
    """The kubelet had no GPU for the pod: two schedulers assigned the same GPU, or it became unhealthy meanwhile."""
    if ctx.pod.reason not in ("UnexpectedAdmissionError", f"OutOf{GPU_RESOURCE}"):
        return None
    infos = (info for info in ctx.node_infos if info.node.name == ctx.pod.node)
    holders = [line for info in infos for line in gpu_holders(info)]
    return Finding(
        f"the scheduler assigned {ctx.title} a GPU of node {ctx.pod.node}, and the kubelet had none left",
        "delete the pod; let only one scheduler assign the GPUs of a node",
        (*(message.line for message in ctx.failure), *holders[:6]),
    )


@rule("pod.exited", FAILED, "status.containerStatuses: terminated")
def exited(ctx: PodContext) -> Finding | None:
    """Its containers ended with an error: restartPolicy is Never or OnFailure."""
    failed = [c for c in ctx.containers if c.exit_code]
    if ctx.pod.reason or not failed:
        return None
    evidence = [f"container {c.name}: {c.reason or 'ended'} with exit code {c.exit_code}" for c in failed]
    evidence += [f"log: {line}" for line in ctx.snapshot.logs.get(f"{ctx.pod.namespace}/{ctx.pod.name}", ())[-4:]]
    return Finding(f"{ctx.title} has ended with an error", ctx.kubectl_logs(failed[0].name), tuple(evidence))


@rule("pod.deleting", (PodStage.DELETING,), "metadata.deletionTimestamp and finalizers")
def deleting(ctx: PodContext) -> Finding | None:
    """The pod is being deleted."""
    meta = parts(ctx.pod_obj)[0]
    finalizers = meta.get("finalizers") or []
    since = ctx.snapshot.at - datetime.fromisoformat(meta["deletionTimestamp"])
    over = since > timedelta()
    evidence = [f"grace period {'over since' if over else 'ends in'} {abs(since.total_seconds()):.0f} s"]
    if finalizers:
        evidence.append(f"finalizers: {', '.join(finalizers)}")
    node = ctx.node if ctx.node is not None and not ctx.node.ready else None
    if node is not None:
        evidence.append(f"node {node.name} is not Ready")
    if finalizers and over:
        action = f"let {finalizers[0]} finish, or remove the finalizer"
    elif node is not None:
        action = f"bring node {node.name} back, or delete the pod with --grace-period=0 --force"
    else:
        action = "wait; a process that ignores SIGTERM uses its whole grace period, 30 s by default"
    return Finding(f"{ctx.title} is being deleted", action, tuple(evidence))


@rule("node.gone", BOUND, "pod-gc removes such pods after a while")
def node_gone(ctx: PodContext) -> Finding | None:
    """The node no longer exists."""
    if not ctx.snapshot.has("Node") or ctx.node is not None:
        return None
    if ctx.counterpart is not None and not ctx.schedules:
        return None
    return Finding(
        f"{ctx.title} is bound to node {ctx.pod.node}, which does not exist",
        ctx.kubectl("delete", "pod", ctx.pod.name, "-n", ctx.pod.namespace, "--grace-period=0", "--force"),
    )


@rule("node.not-ready", BOUND, "node condition Ready")
def node_not_ready(ctx: PodContext) -> Finding | None:
    """Its node is not Ready."""
    node = ctx.node
    if node is None or node.ready:
        return None
    conditions = [c for c in node.conditions if c.type == "Ready"]
    return Finding(
        f"node {node.name} of {ctx.title} is not Ready",
        f"check whether its kubelet runs: {ctx.kubectl('describe', 'node', node.name)}",
        tuple(f"condition {c.type}={c.status}: {c.reason}: {c.message}" for c in conditions),
    )


@rule("pod.readiness-gate", BOUND, "Kubernetes, spec.readinessGates")
def readiness_gate(ctx: PodContext) -> Finding | None:
    """A readiness gate is not fulfilled: another component has to set its condition to True."""
    gates = [gate.get("conditionType", "") for gate in ctx.spec.get("readinessGates") or []]
    true = {c.type for c in ctx.pod.conditions if c.status == "True"}
    unmet = [gate for gate in gates if gate not in true]
    if not unmet or "ContainersReady" not in true:
        return None
    return Finding(
        f"the containers of {ctx.title} are ready, and its readiness gates are not: {', '.join(unmet)}",
        "find the component that sets the condition",
        tuple(message.line for message in of_conditions(ctx.pod, *unmet)),
    )

"""Rules for pods that no node accepts: the obstacles on each node."""

from __future__ import annotations

import re

from lab.explain.node_filter import NodeFit, decisive, fits
from lab.explain.pod_context import PodContext
from lab.explain.rule import RULES, UNBOUND, Find, PodRule, rule
from lab.findings import Certainty, Finding
from lab.snapshot.node_info import NodeInfo
from lab.text import count

_NODE_MESSAGE = re.compile(
    r"o nodes with enough resources|nodes are available|node\(s\)|in a single node|No node in the"
    r"|Scheduling conditions were not met|gang scheduling|gpu memory count on the node",
    re.IGNORECASE,
)
_SOURCE = "the objects; pkg/scheduler/api/node_info/node_info.go, plugins/predicates/predicates.go"

# kind of obstacle: id, title, what, next
_KINDS = {
    "selector": (
        "nodes.selector",
        "nodeSelector or affinity matches no node",
        "its nodeSelector or node affinity excludes every node",
        "correct the selector, or label a node: {kubectl} get nodes --show-labels",
    ),
    "pool": (
        "nodes.pool",
        "The nodes are in a node pool without a scheduler",
        "the suitable nodes belong to a node pool that no scheduling shard serves",
        "remove the label from the node, or create a SchedulingShard for it: {kubectl} get schedulingshards",
    ),
    "restricted": (
        "nodes.restricted",
        "Node scheduling is restricted by worker labels",
        "KAI runs with --restrict-node-scheduling, and the suitable nodes are not labelled as workers for such pods",
        "label them node-role.kubernetes.io/gpu-worker (cpu-worker for pods without GPUs), or disable the option",
    ),
    "gpus": (
        "nodes.gpus",
        "More GPUs than any node has",
        "no node has as many GPUs as {title} wants on one node",
        "ask for fewer GPUs per pod; several nodes serve several pods of one PodGroup",
    ),
    "devices": (
        "shared.devices",
        "Parts of more GPUs than any node has",
        "no node has as many GPUs as {title} wants a part of",
        "lower gpu-fraction-num-devices",
    ),
    "gpu-memory-label": (
        "shared.memory-label",
        "No label with the GPUs' memory",
        "{title} asks for GPU memory, and KAI does not know how much the GPUs have",
        "run GPU feature discovery, or label the node nvidia.com/gpu.memory=MIB (#118, #256, #706)",
    ),
    "gpu-memory": (
        "shared.memory-too-big",
        "More GPU memory than a GPU has",
        "no GPU has as much memory as {title} asks for",
        "ask for less by gpu-memory, or for whole GPUs",
    ),
    "cpu": (
        "nodes.cpu",
        "More cpu than any node has",
        "no node has as much cpu as {title} requests",
        "lower resources.requests.cpu",
    ),
    "memory": (
        "nodes.memory",
        "More memory than any node has",
        "no node has as much memory as {title} requests",
        "lower resources.requests.memory",
    ),
    "resource": (
        "nodes.resource",
        "A resource that no node has",
        "no node has another resource that {title} requests",
        "list what nodes offer: {kubectl} describe nodes",
    ),
    "taint": (
        "nodes.taint",
        "Taints that the pod does not tolerate",
        "the suitable nodes have taints that {title} does not tolerate",
        "add a toleration, or remove the taint: {kubectl} taint node NODE KEY-",
    ),
    "control-plane": (
        "nodes.control-plane",
        "Only the control plane is left",
        "only control-plane nodes are suitable, and {title} does not tolerate their taint",
        "add a node for workloads, or {kubectl} taint nodes --all node-role.kubernetes.io/control-plane-",
    ),
    "cordoned": ("nodes.cordoned", "The node is cordoned", "suitable nodes are cordoned", "{kubectl} uncordon {node}"),
    "not-ready": (
        "nodes.not-ready",
        "The node is not Ready",
        "suitable nodes are not Ready or under pressure",
        "{kubectl} describe node {node}",
    ),
    "gpus-taken": (
        "nodes.gpus-taken",
        "The GPUs are in use",
        "the nodes have enough GPUs, and other pods hold them",
        "wait, stop one of the pods that hold them, or ask for a fraction",
    ),
    "share-taken": (
        "shared.no-room",
        "No GPU has that much left",
        "no GPU has as much left as {title} asks for",
        "ask for a smaller part, or stop one of the pods on the GPUs",
    ),
    "cpu-taken": (
        "nodes.cpu-taken",
        "The cpu is in use",
        "other pods have requested the cpu of the suitable nodes",
        "lower resources.requests.cpu, or stop other pods: {kubectl} describe node {node}",
    ),
    "memory-taken": (
        "nodes.memory-taken",
        "The memory is in use",
        "other pods have requested the memory of the suitable nodes",
        "lower resources.requests.memory, or stop other pods: {kubectl} describe node {node}",
    ),
    "resource-taken": (
        "nodes.resource-taken",
        "Another resource is in use",
        "other pods have requested a resource of the suitable nodes",
        "find the pods that use it: {kubectl} describe node {node}",
    ),
}


def _certainty(ctx: PodContext) -> Certainty | None:
    """Return CERTAIN if the scheduler reports on nodes; None if it reports something else or has chosen a node."""
    if ctx.bind_request is not None or not ctx.schedules:
        return None
    if not ctx.verdicts or any("DRA-only nodes" in message.text for message in ctx.verdicts):
        return Certainty.LIKELY  # by DRA, nodes have GPUs that their status does not show
    return Certainty.CERTAIN if any(_NODE_MESSAGE.search(message.text) for message in ctx.verdicts) else None


def _finder(kind: str, what: str, action: str) -> Find:
    def find(ctx: PodContext) -> Finding | None:
        certainty = _certainty(ctx)
        found = fits(ctx) if certainty else ()
        nodes = decisive(found).get(kind, ())
        if certainty is None or not nodes:
            return None
        others = [fit for fit in found if fit not in nodes]
        evidence = (
            f"asks for {ctx.requests.in_words()}",
            *(fit.line for fit in (*nodes, *others)),
            *(_gpu_holders(ctx, nodes) if kind in ("gpus-taken", "share-taken") else ()),
            *(message.line for message in ctx.verdicts[:1]),
        )
        names = {"title": ctx.title, "kubectl": ctx.kubectl(), "node": nodes[0].node}
        return Finding(what.format_map(names), action.format_map(names), evidence, certainty)

    return find


def _gpu_holders(ctx: PodContext, nodes: tuple[NodeFit, ...]) -> list[str]:
    names = {fit.node for fit in nodes}
    infos = (info for info in ctx.node_infos if info.node.name in names)
    return [line for info in infos for line in gpu_holders(info)][:8]


def gpu_holders(info: NodeInfo) -> list[str]:
    """Return the pods that hold GPUs of a node, one line per pod with whole GPUs and per shared GPU."""
    name = info.node.name
    lines = [f"{name}: {count(gpus, 'GPU')} held by {pod}" for pod, gpus in info.holders]
    lines += [
        f"{name}: shared GPU {gpu.name}, {gpu.free:g} left: {', '.join(gpu.pod_keys) or '-'}" for gpu in info.shared
    ]
    return lines


@rule("nodes.no-gpus", UNBOUND, "Kubernetes device plugins: allocatable nvidia.com/gpu")
def no_gpus(ctx: PodContext) -> Finding | None:
    """The cluster has no GPUs: the device plugin is missing or not registered."""
    wanted = ctx.requests
    if not ctx.schedules or ctx.bind_request or not (wanted.gpus or wanted.shares_gpu) or not ctx.node_infos:
        return None
    if any(info.node.gpus for info in ctx.node_infos):
        return None
    labelled = [info.node.name for info in ctx.node_infos if info.node.gpu_product or info.capacity_gpus]
    plugins = [pod for pod in ctx.snapshot.pods if "device-plugin" in pod.name]
    evidence = [f"nodes that are labelled as GPU nodes: {', '.join(labelled)}"] if labelled else []
    evidence += [f"pod {p.namespace}/{p.name}: {p.phase}{'' if p.ready else ', not ready'}" for p in plugins[:4]]
    evidence += [] if plugins else ["no pod of a device plugin was found"]
    return Finding(
        f"{ctx.title} asks for {wanted.in_words()}, and no node offers nvidia.com/gpu",
        f"find out why the device plugin does not register: {ctx.kubectl('get', 'pods', '-A')}",
        tuple(evidence),
    )


@rule("nodes.gpus-unhealthy", UNBOUND, "kubelet: capacity above allocatable; XID errors by the device plugin")
def gpus_unhealthy(ctx: PodContext) -> Finding | None:
    """Some GPUs are unhealthy: they still count as capacity. Certain if with them a node had enough for the pod."""
    unhealthy = [info for info in ctx.node_infos if info.capacity_gpus > info.node.gpus]
    certainty = _certainty(ctx)
    if certainty is None or not unhealthy or not ctx.requests.wants_gpu:
        return None
    nodes = decisive(fits(ctx))
    if not nodes.keys() & {"gpus", "gpus-taken", "share-taken"}:
        return None
    too_few = {fit.node for fit in nodes.get("gpus", ())}
    cause = any(info.node.name in too_few and info.capacity_gpus >= ctx.requests.gpus for info in unhealthy)
    return Finding(
        "the device plugin no longer offers some GPUs, because it considers them unhealthy",
        f"read the device plugin's log and XID errors on node {unhealthy[0].node.name}",
        tuple(f"node {i.node.name}: {i.node.gpus} of {i.capacity_gpus} GPUs allocatable" for i in unhealthy),
        certainty if cause else Certainty.LIKELY,
    )


for _kind, (_id, _title, _what, _next) in _KINDS.items():
    RULES.add(PodRule(_id, _title, _finder(_kind, _what, _next), _SOURCE, stages=UNBOUND))


@rule("nodes.no-fit", UNBOUND, _SOURCE, general=True)
def no_fit(ctx: PodContext) -> Finding | None:
    """Every node has several obstacles: no single change helps."""
    certainty = _certainty(ctx)
    found = fits(ctx) if certainty else ()
    if certainty is None or not found or decisive(found) or any(not fit.obstacles for fit in found):
        return None
    least = min(found, key=lambda fit: len(fit.kinds))
    return Finding(
        f"no node accepts {ctx.title}, each for several reasons",
        f"begin with node {least.node}: {least.text}",
        (f"asks for {ctx.requests.in_words()}", *(fit.line for fit in found)),
        certainty,
    )

"""No node takes the pod: what would have to change on which node."""

from __future__ import annotations

import re
from collections.abc import Callable

from lab.explain.node_filter import NodeFit, decisive, fits
from lab.explain.pod_context import PodContext
from lab.explain.rule import UNBOUND, rule
from lab.findings import Certainty, Finding
from lab.text import count

_NODE_TALK = re.compile(
    r"o nodes with enough resources|nodes are available|node\(s\)|in a single node|No node in the"
    r"|Scheduling conditions were not met|gang scheduling|gpu memory count on the node",
    re.IGNORECASE,
)
_SOURCE = "seen in the objects; pkg/scheduler/api/node_info/node_info.go, plugins/predicates/predicates.go"

# kind of obstacle: id, title, what, next
_KINDS = {
    "selector": (
        "nodes.selector",
        "nodeSelector or affinity matches no node",
        "its nodeSelector or node affinity leaves no node",
        "correct the selector, or label a node: {kubectl} get nodes --show-labels",
    ),
    "pool": (
        "nodes.pool",
        "The nodes are in a node pool without a scheduler",
        "the nodes that would do belong to a node pool that no scheduling shard serves",
        "remove the label from the node, or make a SchedulingShard for it: {kubectl} get schedulingshards",
    ),
    "gpus": (
        "nodes.gpus",
        "More GPUs than any node has",
        "no node has as many GPUs as {title} wants on one node",
        "ask for fewer GPUs per pod; several nodes serve several pods of one PodGroup",
    ),
    "devices": (
        "shared.devices",
        "A part of more GPUs than any node has",
        "no node has as many GPUs as {title} wants a part of",
        "lower gpu-fraction-num-devices",
    ),
    "gpu-memory-label": (
        "shared.memory-label",
        "No label tells the GPUs' memory",
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
        "see what nodes offer: {kubectl} describe nodes",
    ),
    "taint": (
        "nodes.taint",
        "Taints that the pod does not tolerate",
        "the nodes that would do have taints that {title} does not tolerate",
        "add a toleration, or remove the taint: {kubectl} taint node NODE KEY-",
    ),
    "control-plane": (
        "nodes.control-plane",
        "Only the control plane is left",
        "only control-plane nodes would do, and {title} does not tolerate their taint",
        "add a node for workloads, or {kubectl} taint nodes --all node-role.kubernetes.io/control-plane-",
    ),
    "cordoned": (
        "nodes.cordoned",
        "The node is cordoned",
        "nodes that would do are cordoned",
        "{kubectl} uncordon {node}",
    ),
    "not-ready": (
        "nodes.not-ready",
        "The node is not Ready",
        "nodes that would do are not Ready or under pressure",
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
        "other pods have requested the cpu of the nodes that would do",
        "lower resources.requests.cpu, or stop other pods: {kubectl} describe node {node}",
    ),
    "memory-taken": (
        "nodes.memory-taken",
        "The memory is in use",
        "other pods have requested the memory of the nodes that would do",
        "lower resources.requests.memory, or stop other pods: {kubectl} describe node {node}",
    ),
    "resource-taken": (
        "nodes.resource-taken",
        "Another resource is in use",
        "other pods have requested a resource of the nodes that would do",
        "see who has it: {kubectl} describe node {node}",
    ),
}


def _certainty(case: PodContext) -> Certainty | None:
    """Certain where the scheduler speaks of nodes; None where it speaks of something else, or has chosen one."""
    if case.request is not None or not case.schedules:
        return None
    if not case.verdicts:
        return Certainty.LIKELY
    return Certainty.CERTAIN if any(_NODE_TALK.search(saying.text) for saying in case.verdicts) else None


def _finder(kind: str, what: str, action: str) -> Callable[[PodContext], Finding | None]:
    def find(case: PodContext) -> Finding | None:
        certainty = _certainty(case)
        found = fits(case) if certainty else ()
        nodes = decisive(found).get(kind, ())
        if certainty is None or not nodes:
            return None
        others = [fit for fit in found if fit not in nodes]
        told = [
            f"asks for {case.needs.in_words()}",
            *(fit.line for fit in (*nodes, *others)),
            *_holders(case, kind, nodes),
        ]
        told += [saying.line for saying in case.verdicts[:1]]
        names = {"title": case.title, "kubectl": case.kubectl(), "node": nodes[0].node}
        return Finding(what.format_map(names), action.format_map(names), tuple(told), certainty)

    return find


def _holders(case: PodContext, kind: str, nodes: tuple[NodeFit, ...]) -> list[str]:
    """Who has what is missing."""
    names = {fit.node for fit in nodes}
    node_infos = [info for info in case.node_infos if info.node.name in names]
    lines = []
    if kind in ("gpus-taken", "share-taken"):
        lines += [
            f"{info.node.name}: {count(gpus, 'GPU')} held by {pod}" for info in node_infos for pod, gpus in info.holders
        ]
        lines += [
            f"{info.node.name}: shared GPU {gpu.name}, {gpu.free:g} left: {', '.join(gpu.pod_keys) or '-'}"
            for info in node_infos
            for gpu in info.shared
        ]
    return lines[:8]


@rule("nodes.no-gpus", "The cluster has no GPUs", UNBOUND, "Kubernetes device plugins: allocatable nvidia.com/gpu")
def no_gpus(case: PodContext) -> Finding | None:
    """A device plugin that is not there or not registered leaves every node at 0."""
    if not case.schedules or case.request or not (case.needs.gpus or case.needs.shares_gpu) or not case.node_infos:
        return None
    if any(info.node.gpus for info in case.node_infos):
        return None
    marked = [info.node.name for info in case.node_infos if info.node.gpu_product or info.capacity_gpus]
    plugins = [pod for pod in case.world.pods if "device-plugin" in pod.name]
    told = [f"nodes that are labelled as GPU nodes: {', '.join(marked)}"] if marked else []
    told += [f"pod {p.namespace}/{p.name}: {p.phase}{'' if p.ready else ', not ready'}" for p in plugins[:4]]
    told += [] if plugins else ["no pod of a device plugin was found"]
    return Finding(
        f"{case.title} asks for {case.needs.in_words()}, and no node offers nvidia.com/gpu",
        f"see why the device plugin does not register: {case.kubectl('get', 'pods', '-A')}",
        tuple(told),
    )


for _kind, (_id, _title, _what, _next) in _KINDS.items():
    rule(_id, _title, UNBOUND, _SOURCE)(_finder(_kind, _what, _next))


@rule(
    "nodes.gpus-unhealthy",
    "Some GPUs are unhealthy",
    UNBOUND,
    "kubelet: capacity above allocatable; XID errors by the device plugin",
)
def gpus_unhealthy(case: PodContext) -> Finding | None:
    """A device that the plugin calls unhealthy still counts as capacity."""
    sick = [info for info in case.node_infos if info.capacity_gpus > info.node.gpus]
    kinds = decisive(fits(case))
    if (
        not case.schedules
        or not case.needs.wants_gpu
        or not sick
        or not kinds.keys() & {"gpus", "gpus-taken", "share-taken"}
    ):
        return None
    return Finding(
        "some GPUs are not offered any more because the device plugin calls them unhealthy",
        f"see the device plugin's log and XID errors on node {sick[0].node.name}",
        tuple(f"node {r.node.name}: {r.node.gpus} of {r.capacity_gpus} GPUs allocatable" for r in sick),
        Certainty.LIKELY,
    )


@rule("nodes.no-fit", "Every node lacks several things", UNBOUND, _SOURCE, general=True)
def no_fit(case: PodContext) -> Finding | None:
    """The table of nodes, where no single change would help."""
    certainty = _certainty(case)
    found = fits(case) if certainty else ()
    if certainty is None or not found or decisive(found) or any(not fit.obstacles for fit in found):
        return None
    least = min(found, key=lambda fit: len(fit.kinds))
    return Finding(
        f"no node takes {case.title}, each for several reasons",
        f"begin with node {least.node}: {'; '.join(o.text for o in least.obstacles)}",
        (f"asks for {case.needs.in_words()}", *(fit.line for fit in found)),
        certainty,
    )

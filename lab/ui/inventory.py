"""What an existing cluster has, as text: nodes, GPUs, KAI, queues, vClusters, pods of others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import Console

from lab.objects.kai import QueueShare
from lab.snapshot.cluster_nodes import ClusterNode, cgroups_in_words
from lab.snapshot.installed_software import HelmRelease
from lab.snapshot.inventory import Inventory, QueueNode
from lab.text import count
from lab.ui.text_writer import Cell, TextWriter

_NODES = 20
_NAMESPACES = 8
_UNKNOWN = "not readable"


def render_inventory(found: Inventory, console: Console | None = None) -> None:
    """What a cluster has, under its context."""
    page = TextWriter(console)
    page.line((f"Cluster of context {found.context}", "bold"), f"  {found.server}")
    write_inventory(page, found)


def write_inventory(page: TextWriter, found: Inventory) -> None:
    """Write what a cluster has: facts, then nodes, queues, vClusters and pods of others."""
    page.columns([[(title, "dim"), text] for title, text in _facts(found) if text], indent=2)
    if found.production:
        page.marked("warn", ("marked as production (annotation on namespace kube-system)", "bold yellow"), indent=2)
    for line in found.kai.down if found.kai else ():
        page.marked("warn", f"KAI: {line}", indent=2)
    if found.nodes:
        page.heading("Nodes")
        rows = [_node(node) for node in found.nodes[:_NODES]]
        page.table(["name", "roles", "state", "kubelet", "GPUs", "taints"], rows, 2)
    if len(found.nodes) > _NODES:
        page.line((f"{page.terminal.ellipsis} and {len(found.nodes) - _NODES} more", "dim"), indent=2)
    if found.queues:
        page.heading("Queues", "GPUs")
        page.table(["name", "quota", "limit", "in use", ""], list(_queues(found.queues)), 2)
    if found.vclusters:
        page.heading("vClusters")
        page.columns(
            [[f"{one.namespace}/{one.name}", one.version, (_of_lab(one.lab), "dim")] for one in found.vclusters], 2
        )
    if found.foreign:
        page.heading("Pods of others", count(found.foreign_pods, "pod"))
        page.columns([[name, str(pods)] for name, pods in list(found.foreign.items())[:_NAMESPACES]], 2)
        if len(found.foreign) > _NAMESPACES:
            page.line((f"in {len(found.foreign) - _NAMESPACES} more namespaces", "dim"), indent=2)
    if found.forbidden:
        page.blank()
        page.marked("warn", f"not readable by {found.user or 'this user'}: {', '.join(found.forbidden)}", indent=2)


def _facts(found: Inventory) -> Iterator[tuple[str, str]]:
    hidden = set(found.forbidden)
    operator = found.gpu_operator
    yield "Kubernetes", found.version + (f", {count(len(found.nodes), 'node')}" if found.nodes else "")
    yield "user", found.user
    yield "runtime", _distinct(node.runtime for node in found.nodes)
    yield "OS", _distinct(f"{node.os}, kernel {node.kernel}" for node in found.nodes if node.os)
    yield "cgroups", cgroups_in_words(found.nodes) if found.nodes else ""
    yield "pod network", ", ".join(found.pod_networks) or ("" if "DaemonSet" in hidden else "unknown")
    yield "GPUs", _UNKNOWN if "Node" in hidden else found.gpus_in_words or "none"
    if operator:
        yield "GPU Operator", _release(operator.release) or f"{operator.version} {operator.state}".strip()
    yield "device plugin", ", ".join(f"{one.namespace}/{one.name} {one.version}" for one in found.device_plugins)
    yield "KAI", found.kai.in_words if found.kai else _UNKNOWN if "Deployment" in hidden else "none"
    yield "RuntimeClasses", ", ".join(one.name for one in found.runtime_classes)
    yield (
        "StorageClasses",
        ", ".join(f"{one.name}{' (default)' if one.default else ''}" for one in found.storage_classes)
        or (_UNKNOWN if "StorageClass" in hidden else "none"),
    )
    yield "labs", ", ".join(found.labs)


def _release(release: HelmRelease | None) -> str:
    return f"{release.version}, Helm release {release.namespace}/{release.name}, {release.status}" if release else ""


def _node(node: ClusterNode) -> list[Cell]:
    state = "ready" if node.ready else "not ready"
    style = "green" if node.ready and not node.unschedulable else "yellow"
    gpus = ", ".join(f"{amount} {resource.removeprefix('nvidia.com/')}" for resource, amount in node.gpus.items())
    memory = f" {node.gpu_memory} MiB" if node.gpu_memory else ""
    shared = f" ({node.gpu_replicas} for each GPU)" if node.gpu_replicas > 1 else ""
    return [
        node.name,
        ", ".join(node.roles),
        (f"{state}, cordoned" if node.unschedulable else state, style),
        node.kubelet,
        f"{gpus}{shared} {node.gpu_product}{memory}".strip(),
        (", ".join(node.taints), "dim"),
    ]


def _queues(queues: Iterable[QueueNode], depth: int = 0) -> Iterator[list[Cell]]:
    for queue in queues:
        share: QueueShare = queue.gpu
        amounts = (_amount(share.quota), _amount(share.limit), f"{queue.allocated_gpus:g}")
        yield [f"{'  ' * depth}{queue.name}", *amounts, (queue.owner, "dim")]
        yield from _queues(queue.children, depth + 1)


def _amount(value: float) -> str:
    return "unlimited" if value < 0 else f"{value:g}"


def _of_lab(lab: str) -> str:
    return f"of lab {lab}" if lab else ""


def _distinct(texts: Iterable[str]) -> str:
    return "; ".join(sorted(set(filter(None, texts))))

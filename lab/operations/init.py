"""``kailab init --existing``: a lab file for a cluster that exists, from what it has. Only reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lab.config import existing_text
from lab.errors import SpecError
from lab.kai.names import GPU_RESOURCE
from lab.kube import Cluster
from lab.session.user_kubeconfig import one_context
from lab.snapshot.cluster_nodes import cgroups_in_words
from lab.snapshot.inventory import Inventory
from lab.text import count

_BUDGET = 4
"""GPUs that a new lab file gives a lab at most; a larger share is for the cluster's owner to decide."""

_QUEUE = 32
"""Characters of the lab's name in that of its queue, which has 40 at most."""

_NAMED = 6
"""Queues and vClusters that a comment names."""


def existing_cluster(kubeconfig: Path, context: str) -> Cluster:
    """A client for one context of a kubeconfig. Raises SpecError: one of them does not exist or is unusable."""
    if not kubeconfig.is_file():
        raise SpecError(f"no kubeconfig {kubeconfig}", fix="name one with --kubeconfig FILE")
    one_context(kubeconfig, context)
    return Cluster(kubeconfig, context)


def existing_lab_file(found: Inventory, kubeconfig: Path, name: str) -> str:
    """A commented lab file for the cluster: adopts its KAI or installs one, and takes at most 4 of its GPUs.

    Raises SpecError for a name that a lab cannot have.
    """
    gpus = sum(found.gpus.values())
    values: dict[str, Any] = {
        "name": name,
        "cluster": {
            "provider": "existing",
            "kubeconfig": str(kubeconfig),
            "context": found.context,
            "exclusive": False,
        },
        "gpu": {"mode": "present" if gpus else "none"},
        "kai": {"manage": "adopt" if _has_kai(found) else "install"},
        "queues": [{"name": f"{name[:_QUEUE]}-default"}],
    }
    if found.kai is not None:
        settings = {"version": found.kai.version or None, "gpuSharing": found.kai.gpu_sharing}
        values["kai"].update({key: value for key, value in settings.items() if value is not None})
    if gpus:
        values["budget"] = {"gpus": min(_BUDGET, gpus)}
    comments = {
        "cluster": tuple(_cluster(found)),
        "gpu": tuple(_gpus(found)),
        "kai": tuple(_kai(found)),
        "budget": (_others(found),),
        "queues": (_queues(found, name),),
        "tenants": tuple(_tenants(found)),
    }
    return existing_text(values, comments)


def _has_kai(found: Inventory) -> bool:
    """Whether KAI runs there; where Deployments cannot be read, whether the cluster has its queues' kind."""
    return found.kai is not None or ("Deployment" in found.forbidden and "Queue" not in found.unreadable)


def _cluster(found: Inventory) -> Iterator[str]:
    nodes = count(len(found.nodes), "node")
    ready = sum(node.ready for node in found.nodes)
    networks = ", ".join(found.pod_networks) or "not known"
    yield f"Kubernetes {found.version} at {found.server}, {nodes}, {ready} ready; pod network: {networks}"
    runtimes = sorted({node.runtime for node in found.nodes if node.runtime})
    yield f"{', '.join(runtimes) or 'container runtime not known'}; cgroups: {cgroups_in_words(found.nodes)}"
    default = [one.name for one in found.storage_classes if one.default]
    classes = ", ".join(one.name for one in found.storage_classes) or "none"
    if "StorageClass" not in found.forbidden:
        yield f"StorageClasses: {classes} (default: {', '.join(default) or 'none'})"
    if found.production:
        yield "the cluster is marked as production"
    if found.forbidden:
        yield f"{found.user or 'the user'} may not read {', '.join(found.forbidden)}"


def _gpus(found: Inventory) -> Iterator[str]:
    unknown = "unknown, as nodes cannot be listed" if "Node" in found.forbidden else "no GPUs on nodes that are ready"
    yield found.gpus_in_words or unknown
    products = Counter((node.gpu_product, node.gpu_memory) for node in found.nodes if node.gpus)
    for (product, memory), nodes in sorted(products.items(), key=str):
        yield f"{count(nodes, 'node')} with {product or 'GPUs without a product label'}, {memory or 'unknown'} MiB each"
    for plugin in found.device_plugins:
        yield f"device plugin {plugin.namespace}/{plugin.name} {plugin.version}".rstrip()
    if found.gpu_operator is not None:
        operator = found.gpu_operator
        yield f"GPU Operator {operator.version} {f'is {operator.state}' if operator.state else ''}".rstrip()
    if "RuntimeClass" not in found.forbidden:
        yield f"RuntimeClasses: {', '.join(one.name for one in found.runtime_classes) or 'none'}"


def _kai(found: Inventory) -> Iterator[str]:
    if found.kai is not None:
        yield f"KAI {found.kai.in_words}"
        yield from found.kai.down
    elif "Deployment" in found.forbidden:
        yield f"unknown: {found.user or 'the user'} may not list Deployments"
    else:
        yield "no KAI"


def _others(found: Inventory) -> str:
    offered = f"{found.gpus.get(GPU_RESOURCE, 0)} {GPU_RESOURCE}"
    if "Pod" in found.forbidden:
        return f"{offered}; whether others run pods is unknown"
    where = f" in {count(len(found.foreign), 'namespace')}" if found.foreign else ""
    return f"{offered}; {count(found.foreign_pods, 'pod')} of others{where}"


def _queues(found: Inventory, name: str) -> str:
    have = _some(found.queue_names) or "no queues"
    return f"{have}. The lab's are below a queue {name} of its own, with budget.gpus as limit"


def _tenants(found: Inventory) -> Iterator[str]:
    if found.vclusters:
        yield f"vClusters {_some([f'{one.namespace}/{one.name} {one.version}' for one in found.vclusters])}"


def _some(names: tuple[str, ...] | list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more

"""The neighbours of a faulty tenant: the host's users and every other tenant, each with its own scheduler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lab.config import TenantSpec
from lab.kai.names import KAI_SCHEDULER
from lab.objects.isolation_labels import NODE_LABEL
from lab.objects.views import NodeView
from lab.pytest_plugin.fixtures import HOST
from lab.session.lab import Lab
from lab.tenants.vcluster.inner_lab import inner_spec
from lab.workloads.namespace import WorkloadNamespace
from lab.workloads.pods import cpu_pod, fraction_pod

from .monitor import Neighbour
from .own_kai import OwnKai, with_class

Json = dict[str, Any]


def neighbours_of(own: OwnKai, new_workloads: Callable[..., WorkloadNamespace], queue: str) -> list[Neighbour]:
    """Return the neighbours of the tenant ``own``, each with steady pods; ``queue`` is one of the host's KAI."""
    lab = own.lab
    version = lab.kai_version or ""
    shared = lab.has_kai and _free_gpu_nodes(lab)
    scheduler = KAI_SCHEDULER if lab.has_kai else None
    chosen = queue if lab.has_kai else None
    pods = steady(scheduler, chosen, version, shared)
    found = [Neighbour(HOST, new_workloads(), scheduler, chosen, frozenset({own.namespace}), pods)]
    for tenant in (tenant for tenant in lab.tenants if tenant.name != own.tenant.name):
        name, its_queue, its_version = _scheduler_of(lab, tenant, chosen)
        half = (tenant.mode == "own-kai" and lab.gpu_mode != "none") or (tenant.mode == "host-kai" and shared)
        pods = steady(name, its_queue, its_version, half)
        found.append(Neighbour(tenant.name, new_workloads(tenant.name), name, its_queue, pods=pods))
    return found


def _scheduler_of(lab: Lab, tenant: TenantSpec, queue: str | None) -> tuple[str | None, str | None, str]:
    """Return the scheduler name, the queue and the KAI version for pods of a tenant."""
    if tenant.mode == "own-kai":
        spec = inner_spec(lab.spec, tenant)
        return KAI_SCHEDULER, spec.leaf_queues[0], spec.kai.version
    if tenant.mode == "host-kai" and lab.has_kai:
        return KAI_SCHEDULER, queue, lab.kai_version or ""
    return None, None, ""


def _free_gpu_nodes(lab: Lab) -> bool:
    """Whether the host's KAI has GPU nodes; dedicated nodes of tenants do not count."""
    nodes = map(NodeView.of, lab.cluster.list("Node"))
    return any(node.gpus and NODE_LABEL not in node.labels for node in nodes)


def steady(scheduler: str | None, queue: str | None, version: str, half: bool) -> tuple[Json, ...]:
    """Return pods that run throughout: one without a GPU and, with ``half``, two that share a GPU."""
    plain = cpu_pod("steady", queue=queue, scheduler=scheduler)
    if not half:
        return (plain,)
    parts = (fraction_pod(f"steady-{name}", fraction=0.5, queue=queue) for name in ("half", "other-half"))
    return (plain, *(with_class(part, version) for part in parts))

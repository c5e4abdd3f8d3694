"""The state of a lab's tenants, for 'kailab tenant list', 'status' and 'connect'. Changes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from lab.config import LabSpec, TenantSpec
from lab.config.node_assignment import tenant_nodes
from lab.engine.step import ObservedStep
from lab.errors import LabError, NoLab
from lab.gpu.map.model import GpuMap
from lab.gpu.map.watch import GpuSource
from lab.gpu.pools import short_name
from lab.objects.isolation_labels import tenant_namespace
from lab.objects.views import PodView
from lab.operations.engine import observe
from lab.operations.planning import cluster_steps
from lab.operations.tenant.results import TenantState, TenantStatus
from lab.session.lab import Lab
from lab.steps import helm_release
from lab.steps.kai.step import NAMESPACE, RELEASE, RESERVATIONS
from lab.tenants.vcluster.access import find_endpoint

_SYSTEM_NAMESPACES = ("kube-system", NAMESPACE, RESERVATIONS)
"""Namespaces inside a tenant whose pods are not workloads."""


@dataclass(frozen=True)
class _Inside:
    """The state of a tenant according to its own API server."""

    answers: bool
    why: str = ""
    kai: str = ""
    phases: tuple[str, ...] = ()


def states(lab: Lab, names: Sequence[str] = ()) -> tuple[TenantState, ...]:
    """The state of the named tenants, or of all. A tenant that does not answer has a reason in ``why``.

    Raises:
        NoLab: the lab has no such tenant.
        ApiFailed: the lab's own cluster does not answer.
    """
    tenants = [find(lab.spec, name) for name in names] or list(lab.tenants)
    ctx = lab.context("tenants")
    with ThreadPoolExecutor(max_workers=8, thread_name_prefix="tenants") as pool:
        gpus = pool.submit(GpuSource.of(ctx).read)
        spaces = pool.submit(lab.cluster.list, "Namespace")
        inside = list(pool.map(lambda tenant: _inside(lab, tenant), tenants))
        there = {space["metadata"]["name"] for space in spaces.result()}
        seen = gpus.result()
    own = tenant_nodes(lab.spec)
    found = []
    for tenant, api in zip(tenants, inside, strict=True):
        phases = Counter(api.phases)
        endpoint = find_endpoint(ctx, tenant.name)
        held = [(holder, gpu) for holder, gpu in seen.holders if holder.tenant == tenant.name]
        devices = {id(gpu) for _, gpu in held if gpu is not None}
        nodes = own.get(tenant.name, ())
        found.append(
            TenantState(
                spec=tenant,
                added=tenant.name in lab.session.added_names,
                answers=api.answers,
                why=api.why,
                there=tenant_namespace(tenant.name) in there,
                kai=api.kai,
                nodes=nodes,
                gpus=_gpus_for(lab.spec, seen, nodes),
                gpus_held=len(devices) + sum(gpu is None for _, gpu in held),
                gpus_used=round(sum(holder.share or 0.0 for holder, _ in held), 6),
                running=phases["Running"],
                pending=phases["Pending"],
                kubeconfig=lab.paths.tenant_kubeconfig(tenant.name),
                server=endpoint.server if endpoint else "",
                access=endpoint.how if endpoint else "",
                mode=lab.spec.mode_of(tenant),
            )
        )
    return tuple(found)


def status(lab: Lab, names: Sequence[str] = ()) -> tuple[TenantStatus, ...]:
    """The state of the named tenants, or of all, and of each of their steps.

    Raises:
        NoLab: the lab has no such tenant.
        ApiFailed: the lab's own cluster does not answer.
    """
    found = states(lab, names)
    every = cluster_steps(lab.spec, lab.node_image, lab.own_node)
    mine = {one.spec.name: [step for step in every if step.id.partition(":")[2] == one.spec.name] for one in found}
    seen = observe(lab, [step for steps in mine.values() for step in steps], partial=True)
    return tuple(
        TenantStatus(one, tuple(ObservedStep(step.id, step.title, seen[step.id]) for step in mine[one.spec.name]))
        for one in found
    )


def find(spec: LabSpec, name: str) -> TenantSpec:
    """A tenant by its name. Raises NoLab."""
    found = next((tenant for tenant in spec.tenants if tenant.name == name), None)
    if found is None:
        known = ", ".join(tenant.name for tenant in spec.tenants) or "none"
        raise NoLab(f"lab {spec.name!r} has no tenant {name!r} (tenants: {known})", fix="kailab tenant list")
    return found


def kubeconfig(lab: Lab, name: str) -> Path:
    """A tenant's private kubeconfig. Raises NoLab: the lab has no such tenant, or it never came up."""
    find(lab.spec, name)
    path = lab.paths.tenant_kubeconfig(name)
    if not path.exists():
        again = "kailab tenant add" if name in lab.session.added_names else "kailab up"
        raise NoLab(f"tenant {name!r} has no kubeconfig: it did not come up", fix=f"'{again}' continues with it")
    return path


def _inside(lab: Lab, tenant: TenantSpec) -> _Inside:
    if not lab.paths.tenant_kubeconfig(tenant.name).exists():
        return _Inside(answers=False, why="no kubeconfig: it did not come up")
    cluster = lab.tenant(tenant.name)
    try:
        if not cluster.healthy():
            return _Inside(answers=False, why=f"{cluster.server} does not answer /readyz")
        release = helm_release.installed(cluster, RELEASE, NAMESPACE) if tenant.mode == "own-kai" else None
        kai = release.chart_version.removeprefix("v") if release else ""
        pods = map(PodView.of, cluster.list("Pod"))
        phases = tuple(pod.phase for pod in pods if pod.namespace not in _SYSTEM_NAMESPACES)
        return _Inside(answers=True, kai=kai, phases=phases)
    except LabError as error:
        return _Inside(answers=False, why=error.what)


def _gpus_for(spec: LabSpec, gpus: GpuMap, nodes: Sequence[str]) -> int:
    """GPUs of the tenant's dedicated nodes, or of the shared nodes when it has none."""
    others = {name for names in tenant_nodes(spec).values() for name in names}
    short = {short_name(spec.name, node.name): len(node.gpus) for node in gpus.nodes}
    return sum(count for name, count in short.items() if (name in nodes if nodes else name not in others))

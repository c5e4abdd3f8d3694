"""How the tenants of a lab stand: what 'lab tenant list', 'status' and 'connect' tell. Nothing is changed here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.config import LabSpec, TenantSpec
from lab.config.labels import tenant_namespace
from lab.config.node_assignment import tenant_nodes
from lab.errors import LabError, NoLab
from lab.gpu.map.model import GpuMap
from lab.gpu.map.watch import GpuSource
from lab.gpu.pools import short_name
from lab.kube import Cluster
from lab.objects.views import PodView
from lab.operations.engine import engine_for
from lab.operations.planning import running_steps
from lab.operations.tenant.results import TenantState, TenantStatus
from lab.session.lab import Lab
from lab.steps import helm_release
from lab.steps.kai.step import NAMESPACE, RELEASE, RESERVATIONS
from lab.tenants import find_port
from lab.tenants.vcluster.access import server_of

_OF_THE_SYSTEM = ("kube-system", NAMESPACE, RESERVATIONS)
"""Namespaces inside a tenant whose pods are not its workloads."""


@dataclass(frozen=True)
class _Inside:
    """What a tenant's own API says."""

    answers: bool
    why: str = ""
    kai: str = ""
    phases: tuple[str, ...] = ()


def states(lab: Lab, names: Sequence[str] = ()) -> tuple[TenantState, ...]:
    """How tenants stand; all when none is named. A tenant that does not answer is told so, and is no error.

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
    for tenant, said in zip(tenants, inside, strict=True):
        phases = Counter(said.phases)
        port = find_port(ctx, tenant.name)
        held = [holder for holder, _ in seen.holders if holder.tenant == tenant.name]
        nodes = own.get(tenant.name, ())
        found.append(
            TenantState(
                spec=tenant,
                added=tenant.name in lab.session.added_names,
                answers=said.answers,
                why=said.why,
                there=tenant_namespace(tenant.name) in there,
                kai=said.kai,
                nodes=nodes,
                gpus=_gpus_for(lab.spec, seen, nodes),
                gpus_held=_devices(seen, tenant.name),
                gpus_used=round(sum(holder.share or 0.0 for holder in held), 6),
                running=phases["Running"],
                pending=phases["Pending"],
                kubeconfig=lab.paths.tenant_kubeconfig(tenant.name),
                server=server_of(port) if port else "",
            )
        )
    return tuple(found)


def status(lab: Lab, names: Sequence[str] = ()) -> tuple[TenantStatus, ...]:
    """How tenants stand, step by step; all when none is named.

    Raises:
        NoLab: the lab has no such tenant.
        LabError: the lab's own cluster does not answer.
    """
    found = states(lab, names)
    every = running_steps(lab.spec, lab.session.supply, node_image=lab.node_image)
    mine = {one.spec.name: [step for step in every if step.id.partition(":")[2] == one.spec.name] for one in found}
    seen = engine_for(lab, [step for steps in mine.values() for step in steps], partial=True).observe()
    return tuple(
        TenantStatus(one, tuple((step.id, step.title, seen[step.id]) for step in mine[one.spec.name])) for one in found
    )


def find(spec: LabSpec, name: str) -> TenantSpec:
    """A tenant by its name. Raises NoLab, with the names of those that there are."""
    found = next((tenant for tenant in spec.tenants if tenant.name == name), None)
    if found is None:
        known = ", ".join(tenant.name for tenant in spec.tenants) or "none"
        raise NoLab(f"lab {spec.name!r} has no tenant {name!r} (tenants: {known})", fix="lab tenant list")
    return found


def kubeconfig(lab: Lab, name: str) -> Path:
    """A tenant's private kubeconfig.

    Raises:
        NoLab: the lab has no such tenant, or it never came up.
    """
    find(lab.spec, name)
    path = lab.paths.tenant_kubeconfig(name)
    if not path.exists():
        again = "lab tenant add" if name in lab.session.added_names else "lab up"
        raise NoLab(f"tenant {name!r} has no kubeconfig: it did not come up", fix=f"'{again}' goes on with it")
    return path


def installed_kai(cluster: Cluster, tenant: TenantSpec) -> str:
    """Version of the KAI inside a tenant, by Helm's record; empty without one. Raises ApiFailed."""
    release = helm_release.installed(cluster, RELEASE, NAMESPACE) if tenant.mode == "own-kai" else None
    return release.chart_version.removeprefix("v") if release else ""


def _inside(lab: Lab, tenant: TenantSpec) -> _Inside:
    if not lab.paths.tenant_kubeconfig(tenant.name).exists():
        return _Inside(answers=False, why="no kubeconfig: it did not come up")
    cluster = lab.tenant(tenant.name)
    try:
        if not cluster.healthy():
            return _Inside(answers=False, why=f"{cluster.server} does not answer /readyz")
        return _Inside(answers=True, kai=installed_kai(cluster, tenant), phases=tuple(_phases(cluster.list("Pod"))))
    except LabError as error:
        return _Inside(answers=False, why=error.what)


def _phases(pods: Iterable[dict[str, Any]]) -> list[str]:
    views = [PodView.of(pod) for pod in pods]
    return [view.phase for view in views if view.namespace not in _OF_THE_SYSTEM]


def _gpus_for(spec: LabSpec, gpus: GpuMap, nodes: Sequence[str]) -> int:
    """GPUs of the tenant's own nodes; of nodes that are nobody's own where it has none."""
    others = {name for names in tenant_nodes(spec).values() for name in names}
    short = {short_name(spec.name, node.name): len(node.gpus) for node in gpus.nodes}
    return sum(count for name, count in short.items() if (name in nodes if nodes else name not in others))


def _devices(gpus: GpuMap, tenant: str) -> int:
    told = sum(any(holder.tenant == tenant for holder in gpu.holders) for gpu in gpus.gpus)
    untold = sum(holder.tenant == tenant for node in gpus.nodes for holder in node.unplaced)
    return told + untold

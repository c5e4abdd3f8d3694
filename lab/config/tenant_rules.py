"""Rules between the values of the section ``tenants``, and between them and the host."""

from __future__ import annotations

from collections.abc import Iterator

from lab.config import queue_rules
from lab.config.budget import leaves_nothing
from lab.config.node_assignment import beside_host_kai, nodes_wanted, pools_by_worker, tenant_nodes, worker_names
from lab.config.rules import BrokenRule, Loc, dotted, duplicates, kai_version, known_line
from lab.config.sections import LabFields
from lab.config.tenant import TenantSpec
from lab.kai import VersionLine, lines, release
from lab.text import count, perhaps

VCLUSTER_FLOOR = "0.35.3"
"""Older ones leave pods unhealthy with Kubernetes below 1.34 on a newer host (loft-sh/vcluster#4037)."""

_SCHEDULER: Loc = ("scheduler",)
_PROVIDER: Loc = ("cluster", "provider")
_WORKERS: Loc = ("cluster", "workers")
_HOST_VERSION: Loc = ("kai", "version")
_OWN_KAI_ONLY = {"kai_values": "kaiValues", "gpu_sharing": "gpuSharing", "queues": "queues"}
"""Without kai_version, whose message names the value."""


def violations(spec: LabFields) -> Iterator[BrokenRule]:
    """Violated rules of the section."""
    yield from duplicates(("tenants",), [tenant.name for tenant in spec.tenants])
    for index, tenant in enumerate(spec.tenants):
        at: Loc = ("tenants", index)
        if release(tenant.vcluster) < release(VCLUSTER_FLOOR):
            yield BrokenRule((*at, "vcluster"), f"'{tenant.vcluster}' is too old; use {VCLUSTER_FLOOR} or newer")
        if tenant.mode == "host-kai" and spec.scheduler == "default":
            what = "host-kai needs KAI on the host, but scheduler is 'default'"
            yield BrokenRule((*at, "mode"), what, (_SCHEDULER,))
        yield from _own_kai(tenant, at)
    yield from _shared_nodes(spec)
    if spec.cluster.own:
        yield from _nodes(spec)
        if spec.gpu.mode in ("simulated", "none"):
            for index, what in _excess_quotas(spec):
                about: tuple[Loc, ...] = (("gpu", "perNode"), ("tenants", index, "nodes"), _WORKERS)
                yield BrokenRule(("tenants", index, "quota", "gpus"), what, about)
    else:
        yield from _existing_cluster(spec)
    yield from _beside_host_kai(spec)


def _own_kai(tenant: TenantSpec, at: Loc) -> Iterator[BrokenRule]:
    mode: tuple[Loc, ...] = ((*at, "mode"),)
    version: Loc = (*at, "kaiVersion")
    if tenant.mode != "own-kai":
        if tenant.kai_version is not None:
            yield BrokenRule(version, f"'{tenant.kai_version}' requires mode 'own-kai', not '{tenant.mode}'", mode)
        for name, key in _OWN_KAI_ONLY.items():
            if getattr(tenant, name) != type(tenant).model_fields[name].get_default(call_default_factory=True):
                yield BrokenRule((*at, key), f"requires mode 'own-kai', not '{tenant.mode}'", mode)
        return
    yield from queue_rules.shape(tenant.queues, (*at, "queues"))
    if tenant.kai_version is None:
        yield BrokenRule(version, "is missing: mode 'own-kai' needs the version of the KAI inside", mode)
        return
    yield from kai_version(tenant.kai_version, version)
    yield from queue_rules.levels(tenant.queues, (*at, "queues"), tenant.kai_version, version)


def _named(spec: LabFields) -> Iterator[tuple[Loc, str]]:
    """Place and name of each dedicated node that the lab file names."""
    for index, tenant in enumerate(spec.tenants):
        for number, name in enumerate(tenant.nodes if isinstance(tenant.nodes, tuple) else ()):
            yield ("tenants", index, "nodes", number), name


def _shared_nodes(spec: LabFields) -> Iterator[BrokenRule]:
    """Nodes that a second tenant names."""
    owner: dict[str, Loc] = {}
    for at, name in _named(spec):
        if name in owner:
            what = f"'{name}' is already assigned by {dotted(owner[name])}: tenants cannot share dedicated nodes"
            yield BrokenRule(at, what, (owner[name],))
        owner.setdefault(name, at)


def _nodes(spec: LabFields) -> Iterator[BrokenRule]:
    """Tenants get their dedicated nodes, and one node is left for pods without dedicated nodes."""
    workers = worker_names(spec)
    owner: dict[str, Loc] = {}
    for at, name in _named(spec):
        if name in workers:
            owner.setdefault(name, at)
        else:
            known = f"; the workers are: {', '.join(workers)}" if workers else ""
            yield BrokenRule(at, f"unknown worker '{name}'{perhaps(name, workers) or known}", (_WORKERS,))
    left = len(workers) - len(owner)
    sharer = _sharer(spec)
    reserved = 1 if sharer else 0
    for index, tenant in enumerate(spec.tenants):
        wanted = nodes_wanted(tenant)
        if isinstance(wanted, tuple) or wanted == 0:
            continue
        if wanted > left - reserved:
            yield _too_few(spec, tenant, index, wanted, max(left - reserved, 0), sharer)
            return  # later tenants would only repeat it
        left -= wanted
    if reserved and workers and left < reserved:
        last = max((loc[1] for loc in owner.values() if isinstance(loc[1], int)), default=0)
        what = f"takes the last worker, and {sharer} needs at least one"
        yield BrokenRule(("tenants", last, "nodes"), what, (_WORKERS, _SCHEDULER))


def _sharer(spec: LabFields) -> str:
    """The owner of pods that need a worker without a tenant: KAI on the host, or a tenant; empty: nobody."""
    if spec.scheduler != "default":
        return "KAI on the host"
    return next((f"tenant {tenant.name}" for tenant in spec.tenants if not nodes_wanted(tenant)), "")


def _too_few(spec: LabFields, tenant: TenantSpec, index: int, wanted: int, left: int, sharer: str) -> BrokenRule:
    needs = f"needs {count(wanted, 'dedicated worker')}"
    subject = needs if tenant.nodes is not None else f"mode 'own-kai' {needs}"
    free = f"{left} of {spec.cluster.workers} workers {'is' if left == 1 else 'are'} free"
    kept = f" (one is kept for {sharer})" if sharer and spec.cluster.workers else ""
    loc: Loc = ("tenants", index, "mode" if tenant.nodes is None else "nodes")
    return BrokenRule(loc, f"{subject}, but {free}{kept}", (_WORKERS, _SCHEDULER))


def _existing_cluster(spec: LabFields) -> Iterator[BrokenRule]:
    """In a cluster of others, dedicated nodes are named, GPUs of tenants limited, and its KAI stays as it is."""
    limited = 0
    for index, tenant in enumerate(spec.tenants):
        at: Loc = ("tenants", index)
        if isinstance(tenant.nodes, int):
            what = "must name nodes: with provider 'existing' the lab chooses none"
            yield BrokenRule((*at, "nodes"), what, (_PROVIDER,))
        if tenant.mode == "own-kai" and tenant.nodes is None:
            what = "is missing: mode 'own-kai' needs dedicated nodes, and with provider 'existing' the lab chooses none"
            yield BrokenRule((*at, "nodes"), what, ((*at, "mode"), _PROVIDER))
        if tenant.mode == "own-kai" and spec.scheduler != "default" and spec.kai.manage == "adopt":
            what = "own-kai beside KAI on the host needs changes to that KAI, and kai.manage is 'adopt'"
            yield BrokenRule((*at, "mode"), what, (("kai", "manage"), _SCHEDULER))
        if spec.gpu.mode != "none" and tenant.quota.gpus is None:
            what = "is missing: with provider 'existing' the lab file limits each tenant's GPUs"
            yield BrokenRule((*at, "quota", "gpus"), what, (_PROVIDER,))
        if spec.gpu.mode == "simulated" and tenant.mode == "own-kai" and tenant.gpu_sharing:
            what = "must be false: reservation pods of a tenant's KAI need NVML, which these simulated GPUs do not have"
            yield BrokenRule((*at, "gpuSharing"), what, (_PROVIDER, ("gpu", "mode")))
        limited += tenant.quota.gpus or 0
    if spec.budget.gpus is not None and limited > spec.budget.gpus:
        what = f"the tenants' quotas are {limited} GPUs together, but budget.gpus is {spec.budget.gpus:g}"
        yield BrokenRule(("tenants",), what, (("budget", "gpus"),))
    elif leaves_nothing(spec):
        outside = " and ".join(
            tenant.name for tenant in spec.tenants if tenant.mode != "host-kai" and tenant.quota.gpus
        )
        what = (
            f"the quotas of {outside}, whose pods are in no queue of the lab, leave nothing of budget.gpus"
            f" ({spec.budget.gpus:g}) for its queues; raise the budget, lower a quota, or set scheduler to 'default'"
        )
        yield BrokenRule(("tenants",), what, (("budget", "gpus"), _SCHEDULER))


def _excess_quotas(spec: LabFields) -> Iterator[tuple[int, str]]:
    """Index and message of each tenant whose quota exceeds the simulated GPUs of its nodes."""
    pools = pools_by_worker(spec)
    by_name = {name: pool.per_node for name, pool in pools}
    own = tenant_nodes(spec)
    for index, tenant in enumerate(spec.tenants):
        nodes = own.get(tenant.name, ())
        most = sum(by_name.get(name, 0) for name in nodes) if nodes else sum(pool.per_node for _, pool in pools)
        if tenant.quota.gpus is not None and tenant.quota.gpus > most:
            where = f"{', '.join(nodes)} {'have' if len(nodes) > 1 else 'has'}" if nodes else "the nodes have"
            yield index, f"{tenant.quota.gpus} is more than {where}: {most}"


def _beside_host_kai(spec: LabFields) -> Iterator[BrokenRule]:
    """Beside KAI in a tenant, the host's KAI must support limits to its own namespaces and nodes."""
    if not beside_host_kai(spec):
        return
    for index, tenant in enumerate(spec.tenants):
        if tenant.mode == "host-kai" and tenant.nodes is not None:
            what = "beside a tenant of mode 'own-kai' KAI on the host uses no tenant's nodes: its pods would never run"
            yield BrokenRule(("tenants", index, "nodes"), what, (("tenants", index, "mode"), _SCHEDULER))
    line = known_line(spec.kai.version)
    if line is None or _isolates(line):
        return
    index = next(index for index, tenant in enumerate(spec.tenants) if tenant.mode == "own-kai")
    what = f"own-kai beside KAI {spec.kai.version} on the host: that version deletes the tenant's fractional pods"
    first = next((since for other in lines().values() if (since := _isolates_since(other))), "")
    ways = f"set kai.version to {first} or newer, or scheduler to 'default'" if first else "set scheduler to 'default'"
    yield BrokenRule(("tenants", index, "mode"), f"{what}; {ways}", (_HOST_VERSION, _SCHEDULER))


def _isolates(line: VersionLine) -> bool:
    return bool(line.helm.namespace_selector and line.helm.node_pool_key)


def _isolates_since(line: VersionLine) -> str:
    """The first release of a line that can be limited to namespaces and nodes; empty: none."""
    if not _isolates(line):
        return ""
    major, minor, patch, _ = release(line.version)
    for number in range(patch + 1):
        known = known_line(f"{major}.{minor}.{number}")
        if known is not None and _isolates(known):
            return known.version
    return line.version


def warnings(spec: LabFields) -> Iterator[str]:
    """Warnings about values that are valid but probably unintended."""
    if spec.gpu.mode == "auto" and spec.cluster.own:
        for index, what in _excess_quotas(spec):
            yield f"tenants.{index}.quota.gpus: {what}, if they are simulated"
    for index, tenant in enumerate(spec.tenants):
        if tenant.mode != "own-kai" or tenant.kai_version is None:
            continue
        line = known_line(tenant.kai_version)
        if line is not None and line.warning:
            yield f"tenants.{index}.kaiVersion: {line.warning}"
        yield from queue_rules.overcommitted(tenant.queues, f"tenants.{index}.queues")

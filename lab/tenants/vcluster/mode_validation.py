"""What a values file of the user's own may not take away from a tenant: its mode, its nodes, its quota. Pure.

Each of these would be installed without a word and end in pods that wait for ever, or in GPUs promised twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lab.config import TenantSpec
from lab.config.labels import NODE_LABEL
from lab.kai import line_of
from lab.objects.kai import quantity
from lab.steps.helm_release import value_at
from lab.tenants.vcluster.quota import hard_limits
from lab.tenants.vcluster.values import own_toleration

Values = Mapping[str, Any]

_SCHEDULERS = ("controlPlane.advanced.virtualScheduler.enabled", "controlPlane.distro.k8s.scheduler.enabled")
_NODES = "sync.fromHost.nodes"
_TOLERATIONS = "sync.toHost.pods.enforceTolerations"
_QUOTA = "policies.resourceQuota"
_LIMITS = "policies.limitRange"
_REQUESTS = ("controlPlane.statefulSet.resources.requests", "controlPlane.coredns.deployment.resources.requests")


def mode_problems(tenant: TenantSpec, values: Values, *, own_nodes: bool) -> Iterator[str]:
    """Where values contradict what the lab file says of the tenant, each with the path of its key.

    Args:
        tenant: as in the lab file.
        values: all of them, the chart's own included; they fit the chart's schema.
        own_nodes: whether it has nodes of its own.
    """
    if tenant.mode == "own-kai":
        yield from _own_kai(values)
    if own_nodes:
        yield from _nodes(tenant, values)
    yield from _quota(tenant, values)


def mode_doubts(tenant: TenantSpec, values: Values) -> Iterator[str]:
    """What is allowed and probably not meant."""
    owner = value_at(values, "experimental.syncSettings.setOwner")
    if tenant.mode == "host-kai" and owner:
        yield "values.experimental.syncSettings.setOwner: true sends KAI's pod-grouper to vCluster's Service"
    if tenant.mode == "own-kai" and owner is False:
        yield (
            "values.experimental.syncSettings.setOwner: false leaves the synced objects to nobody; only deleting the"
            " namespace removes them"
        )
    if tenant.mode == "own-kai" and value_at(values, "sync.toHost.priorityClasses.enabled"):
        yield (
            "values.sync.toHost.priorityClasses: puts KAI's PriorityClasses on the host, where they are cluster-wide"
            " and outlive the tenant; KAI inside does not need them there"
        )
    if tenant.mode == "host-kai" and tenant.quota.gpus is not None:
        yield (
            "quota.gpus: counts whole GPUs only; the host's KAI holds those of fractions in a namespace of its own:"
            " limit them by a queue"
        )


def _own_kai(values: Values) -> Iterator[str]:
    if not any(value_at(values, key) for key in _SCHEDULERS):
        yield (
            f"values.{_SCHEDULERS[0]}: must stay true in mode own-kai: otherwise pods go to the host before the KAI"
            " inside has chosen a node, and the host's scheduler takes them"
        )
        if not value_at(values, f"{_NODES}.enabled"):
            yield f"values.{_NODES}.enabled: must stay true in mode own-kai: the KAI inside needs the real nodes"
    if value_at(values, "sync.fromHost.priorityClasses.enabled"):
        yield (
            "values.sync.fromHost.priorityClasses: vCluster then deletes the PriorityClasses that KAI's chart makes"
            " inside (train, build, inference), because the host does not have them; leave it out"
        )


def _nodes(tenant: TenantSpec, values: Values) -> Iterator[str]:
    wanted, key = {NODE_LABEL: tenant.name}, f"{_NODES}.selector"
    seen = value_at(values, f"{key}.labels") or {}
    if tenant.mode != "own-kai" and not value_at(values, f"{_NODES}.enabled"):  # own-kai: a rule on schedulers says it
        yield f"values.{_NODES}.enabled: must stay true: the tenant has nodes of its own"
    if value_at(values, f"{key}.all"):
        yield f"values.{key}.all: shows the tenant all nodes, and it has its own; leave it out"
    if dict(seen) != wanted:
        yield (
            f"values.{key}.labels: set by the lab, {NODE_LABEL}: {tenant.name}; the tenant would see other nodes than"
            " its own: leave it out and use tenants[].nodes"
        )
    own = own_toleration(tenant.name)
    if own not in (value_at(values, _TOLERATIONS) or ()):
        yield f"values.{_TOLERATIONS}: Helm replaces lists, so yours must have {own} too: its nodes carry that taint"


def _quota(tenant: TenantSpec, values: Values) -> Iterator[str]:
    hard = hard_limits(tenant.quota)
    if not hard:
        return
    if value_at(tenant.values, _QUOTA) is not None:
        yield f"values.{_QUOTA}: the lab makes it from tenants[].quota; leave one of the two out"
        return
    found = {name for name, amount in (value_at(values, f"{_QUOTA}.quota") or {}).items() if amount is not None}
    if strange := sorted(found - hard.keys()):
        yield f"quota: this chart would limit {', '.join(strange)} too; set values.{_QUOTA} instead of quota"
    counted = [name for name in ("cpu", "memory") if f"requests.{name}" in hard]
    requests = value_at(values, f"{_LIMITS}.defaultRequest") or {}
    if counted and (not value_at(values, f"{_LIMITS}.enabled") or any(not requests.get(name) for name in counted)):
        yield (
            f"values.{_LIMITS}: must give containers a default request of {' and '.join(counted)}: under this quota"
            " Kubernetes refuses pods that name none"
        )
    yield from _room(tenant, values)


def _room(tenant: TenantSpec, values: Values) -> Iterator[str]:
    """A quota that is too small for the tenant's own control plane."""
    dns = value_at(values, "controlPlane.coredns.enabled") is not False
    parts = [value_at(values, path) or {} for path in (_REQUESTS if dns else _REQUESTS[:1])]
    who = "vCluster and CoreDNS" if dns else "vCluster"
    for name, most in (("cpu", tenant.quota.cpu), ("memory", tenant.quota.memory)):
        need = sum(quantity(part.get(name) or 0) for part in parts)
        if most is not None and quantity(most) < need:
            asks = " + ".join(str(part[name]) for part in parts if part.get(name))
            yield f"quota.{name}: {most} is less than {who} themselves request ({asks})"
    pods = 1 + dns
    if tenant.mode == "own-kai" and tenant.kai_version:
        pods, who = pods + len(line_of(tenant.kai_version).deployments), f"{who}, and KAI inside,"
    if tenant.quota.pods is not None and tenant.quota.pods < pods:
        yield f"quota.pods: {tenant.quota.pods} is less than the {pods} pods that {who} are"

"""Checks of a user's chart values against the tenant's mode, nodes and quota. Pure.

Helm would install each of these values without an error, and pods would wait forever or GPUs be assigned twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lab.config import TenantSpec
from lab.kai import line_of
from lab.objects.fields import quantity
from lab.objects.isolation_labels import NODE_LABEL
from lab.steps.helm_release import value_at
from lab.tenants.isolation.dedicated_nodes import taint
from lab.tenants.vcluster.quota import hard_limits

Values = Mapping[str, Any]

SCHEDULERS = ("controlPlane.advanced.virtualScheduler.enabled", "controlPlane.distro.k8s.scheduler.enabled")
_NODES = "sync.fromHost.nodes"
_TOLERATIONS = "sync.toHost.pods.enforceTolerations"
_QUOTA = "policies.resourceQuota"
_LIMITS = "policies.limitRange"
_REQUESTS = ("controlPlane.statefulSet.resources.requests", "controlPlane.coredns.deployment.resources.requests")


def mode_problems(tenant: TenantSpec, values: Values, *, dedicated: bool) -> Iterator[str]:
    """Conflicts of values, the chart's defaults included, with the lab file, each with the path of its key."""
    if tenant.mode == "own-kai":
        yield from _own_kai(values)
    if dedicated:
        yield from _nodes(tenant, values)
    yield from _quota(tenant, values)


def mode_warnings(tenant: TenantSpec, values: Values) -> Iterator[str]:
    """Settings that are valid but probably not intended."""
    owner = value_at(values, "experimental.syncSettings.setOwner")
    if tenant.mode == "host-kai" and owner:
        yield "values.experimental.syncSettings.setOwner: true sends KAI's pod-grouper to vCluster's Service"
    if tenant.mode == "own-kai" and owner is False:
        yield (
            "values.experimental.syncSettings.setOwner: false leaves synced objects without an owner; only deleting the"
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
    if not any(value_at(values, key) for key in SCHEDULERS):
        yield (
            f"values.{SCHEDULERS[0]}: must stay true in mode own-kai: otherwise pods go to the host before the KAI"
            " inside has selected a node, and the host's scheduler binds them"
        )
        if not value_at(values, f"{_NODES}.enabled"):
            yield f"values.{_NODES}.enabled: must stay true in mode own-kai: the KAI inside needs the real nodes"
    if value_at(values, "sync.fromHost.priorityClasses.enabled"):
        yield (
            "values.sync.fromHost.priorityClasses: vCluster then deletes the PriorityClasses that KAI's chart creates"
            " inside (train, build, inference), because the host does not have them; remove it"
        )


def _nodes(tenant: TenantSpec, values: Values) -> Iterator[str]:
    key, wanted = f"{_NODES}.selector", {NODE_LABEL: tenant.name}
    if tenant.mode != "own-kai" and not value_at(values, f"{_NODES}.enabled"):  # own-kai: see the scheduler rules
        yield f"values.{_NODES}.enabled: must stay true: the tenant has dedicated nodes"
    if value_at(values, f"{key}.all"):
        yield f"values.{key}.all: shows the tenant all nodes instead of its dedicated ones; remove it"
    if (value_at(values, f"{key}.labels") or {}) != wanted:
        yield (
            f"values.{key}.labels: set by the lab, {NODE_LABEL}: {tenant.name}; other labels would show the tenant"
            " other nodes than its own: remove it and use tenants[].nodes"
        )
    own = taint(tenant.name)
    if own not in (value_at(values, _TOLERATIONS) or ()):
        yield f"values.{_TOLERATIONS}: Helm replaces lists, so yours must have {own} too: its nodes carry that taint"


def _quota(tenant: TenantSpec, values: Values) -> Iterator[str]:
    hard = hard_limits(tenant.quota)
    if not hard:
        return
    if value_at(tenant.values, _QUOTA) is not None:
        yield f"values.{_QUOTA}: the lab sets it from tenants[].quota; remove one of the two"
        return
    found = {name for name, amount in (value_at(values, f"{_QUOTA}.quota") or {}).items() if amount is not None}
    if unknown := sorted(found - hard.keys()):
        yield f"quota: this chart would limit {', '.join(unknown)} too; set values.{_QUOTA} instead of quota"
    counted = [name for name in ("cpu", "memory") if f"requests.{name}" in hard]
    requests = value_at(values, f"{_LIMITS}.defaultRequest") or {}
    if counted and (not value_at(values, f"{_LIMITS}.enabled") or any(not requests.get(name) for name in counted)):
        yield (
            f"values.{_LIMITS}: must give containers a default request of {' and '.join(counted)}: under this quota"
            " Kubernetes denies pods without one"
        )
    yield from _control_plane(tenant, values)


def _control_plane(tenant: TenantSpec, values: Values) -> Iterator[str]:
    """A quota that is too small for the tenant's own control plane."""
    dns = value_at(values, "controlPlane.coredns.enabled") is not False
    requests = [value_at(values, path) or {} for path in (_REQUESTS if dns else _REQUESTS[:1])]
    components = ["vCluster", "CoreDNS"] if dns else ["vCluster"]
    for name, limit in (("cpu", tenant.quota.cpu), ("memory", tenant.quota.memory)):
        amounts = [str(request[name]) for request in requests if request.get(name)]
        if limit is not None and quantity(limit) < sum(map(quantity, amounts)):
            yield f"quota.{name}: {limit} is less than {' and '.join(components)} request ({' + '.join(amounts)})"
    pods = len(components)
    if tenant.mode == "own-kai" and tenant.kai_version:
        pods += len(line_of(tenant.kai_version).deployments)
        components.append("KAI inside")
    if tenant.quota.pods is not None and tenant.quota.pods < pods:
        yield f"quota.pods: {tenant.quota.pods} is less than the {pods} pods of {', '.join(components)}"

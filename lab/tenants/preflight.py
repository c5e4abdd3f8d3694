"""What a lab needs of an existing cluster, checked before anything is made."""

from __future__ import annotations

from lab.config import LabSpec
from lab.errors import SpecError
from lab.gpu.simulated import named_nodes
from lab.session.context import LabContext
from lab.steps.helm_release import value_at
from lab.supply.pull_secrets import refuse_missing_secrets
from lab.tenants.isolation.dedicated_nodes import refuse_unfit_nodes
from lab.tenants.vcluster.values import CLAIM, STORAGE_CLASS, release_values

_DEFAULT = "storageclass.kubernetes.io/is-default-class"


def refuse_unfit(ctx: LabContext, spec: LabSpec) -> None:
    """Raise LabError if an existing cluster lacks what ``spec`` needs; changes nothing.

    Pull secrets must exist, nodes must fit for simulated GPUs, volumes of tenants need a StorageClass, and their nodes
    must be free.
    """
    if spec.cluster.own:
        return
    refuse_missing_secrets(ctx.cluster(), spec)
    if spec.gpu.mode == "simulated":
        named_nodes.refuse_unfit_nodes(spec, ctx)
    if spec.tenants:
        _refuse_missing_storage(ctx, spec)
        refuse_unfit_nodes(spec, ctx)


def _refuse_missing_storage(ctx: LabContext, spec: LabSpec) -> None:
    metas = [one["metadata"] for one in ctx.cluster().list("StorageClass")]
    names = {meta["name"] for meta in metas}
    has_default = any((meta.get("annotations") or {}).get(_DEFAULT) == "true" for meta in metas)
    for tenant in spec.tenants:
        values = release_values(spec, tenant, None)
        name = value_at(values, STORAGE_CLASS)
        if value_at(values, CLAIM) is False or name in names or (not name and has_default):
            continue
        known = f"StorageClasses: {', '.join(sorted(names)) or 'none'}"
        raise SpecError(
            f"tenant {tenant.name} keeps its objects in a volume, and the cluster has"
            f" {f'no StorageClass {name}' if name else 'no default StorageClass'}",
            evidence=[known],
            fix=f"set values.{STORAGE_CLASS} to one of them, or values.{CLAIM}: false, which loses the tenant's"
            " objects with its control-plane pod",
        )

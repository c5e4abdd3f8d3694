"""A lab inside a tenant: KAI and queues inside a vCluster are the same steps as on the host."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from lab.config import KaiSpec, LabSpec, QueueSpec, TenantSpec
from lab.engine.step import Effect, Observed, Step
from lab.gpu.pools import runtime_class
from lab.session.context import LabContext
from lab.session.step import LabStep
from lab.steps.helm_release import merged
from lab.steps.kai.values import mirrored_registry

_QUEUES = (QueueSpec(name="default"), QueueSpec(name="test", parent="default"))
"""Default queues of a tenant: two levels, which KAI before 0.13 requires."""


def inner_spec(spec: LabSpec, tenant: TenantSpec) -> LabSpec:
    """The spec of the lab inside an own-kai tenant: its KAI, queues and Kubernetes; nodes and GPUs are the host's.

    Users cannot write it as a lab file, so it is not validated again.
    """
    kai = KaiSpec(
        version=tenant.kai_version or spec.kai.version, gpu_sharing=tenant.gpu_sharing, values=tenant.kai_values
    )
    gpu = spec.gpu
    if not spec.cluster.own:
        registry = mirrored_registry(spec.model_copy(update={"kai": kai}))
        kai = kai.model_copy(update={"values": merged(registry, tenant.kai_values)})
        gpu = gpu.model_copy(update={"mode": "present", "runtime_class": runtime_class(spec) or None})
    return spec.model_copy(
        update={
            "scheduler": "kai",
            "kai": kai,
            "gpu": gpu,
            # vCluster's service account for workloads has the pull secrets
            "supply": spec.supply.model_copy(update={"pull_secrets": ()}),
            "queues": tenant.queues or _QUEUES,
            "tenants": (),
            # the lab made it, whoever made the host
            "cluster": spec.cluster.model_copy(update={"kubernetes": tenant.kubernetes, "provider": "kind"}),
        }
    )


def tenant_context(ctx: LabContext, tenant: TenantSpec) -> LabContext:
    """The context of a step inside the tenant: cluster, Helm and KAI chart are the tenant's."""
    spec = inner_spec(ctx.spec, tenant)
    return replace(ctx, spec=spec, open_cluster=lambda name: ctx.open_cluster(name or tenant.name))


@dataclass(frozen=True)
class StepInTenant(LabStep):
    """A step inside a tenant; ``make`` creates it from ``inner_spec``."""

    tenant: TenantSpec
    spec: LabSpec
    make: Callable[[LabSpec], Step[LabContext]]
    needs: tuple[str, ...]

    @property
    def part_of(self) -> str:
        return f"tenant:{self.tenant.name}"

    def wanted(self) -> object:
        return self._step.wanted()

    @property
    def _step(self) -> Step[LabContext]:
        return self.make(inner_spec(self.spec, self.tenant))

    @property
    def id(self) -> str:
        return f"{self._step.id}:{self.tenant.name}"

    @property
    def title(self) -> str:
        return f"{self._step.title} in {self.tenant.name}"

    def effects(self) -> tuple[Effect, ...]:
        where = f"in tenant {self.tenant.name}"
        return tuple(replace(effect, what=f"{where}: {effect.what}") for effect in self._step.effects())

    def observe(self, ctx: LabContext) -> Observed:
        if not ctx.paths.tenant_kubeconfig(self.tenant.name).exists():
            return Observed.absent()
        return self._step.observe(tenant_context(ctx, self.tenant))

    def apply(self, ctx: LabContext) -> None:
        self._step.apply(tenant_context(ctx, self.tenant))

    def verify(self, ctx: LabContext) -> None:
        self._step.verify(tenant_context(ctx, self.tenant))

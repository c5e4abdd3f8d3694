"""A tenant's own cluster as the place of a step: KAI and queues inside a vCluster are the same steps as on the host."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from lab.config import KaiSpec, LabSpec, QueueSpec, TenantSpec
from lab.engine.step import Effect, Observed, Step
from lab.kube import Cluster
from lab.session.context import LabContext
from lab.session.step import LabStep
from lab.tenants.vcluster.access import context_name

_QUEUES = (QueueSpec(name="default"), QueueSpec(name="test", parent="default"))
"""The queues of a tenant that names none: two levels, as lines before 0.13 need it."""


def inner_spec(spec: LabSpec, tenant: TenantSpec) -> LabSpec:
    """The lab as it is inside a tenant with a KAI of its own: that KAI, its queues, the tenant's Kubernetes.

    Nodes and GPUs are the host's. Not a lab file that anybody may write, so it is not checked again.
    """
    version = tenant.kai_version or spec.kai.version
    kai = KaiSpec(version=version, gpu_sharing=tenant.gpu_sharing, values=tenant.kai_values)
    return spec.model_copy(
        update={
            "scheduler": "kai",
            "kai": kai,
            "queues": tenant.queues or _QUEUES,
            "tenants": (),
            "cluster": spec.cluster.model_copy(update={"kubernetes": tenant.kubernetes}),
        }
    )


def inside(ctx: LabContext, tenant: TenantSpec) -> LabContext:
    """The context of a step that works inside the tenant.

    Its ``cluster()`` is the tenant's, Helm goes there, and the chart of KAI is the tenant's version.
    """
    spec = inner_spec(ctx.spec, tenant)
    way_in = {
        "kubeconfig": ctx.paths.tenant_kubeconfig(tenant.name),
        "context": context_name(ctx.spec.name, tenant.name),
    }
    spec = spec.model_copy(update={"cluster": spec.cluster.model_copy(update=way_in)})

    def open_cluster(name: str) -> Cluster:
        return ctx.open_cluster(name or tenant.name)

    return replace(ctx, spec=spec, open_cluster=open_cluster)


@dataclass(frozen=True)
class StepInTenant(LabStep):
    """A step that does its work inside a tenant.

    Args:
        tenant: whose cluster it works in.
        make: makes the step for a lab file; it gets ``inner_spec``.
        spec: the lab file.
        needs: ids of the steps before it.
    """

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
        """The step's own id, and the tenant's name: ``kai:team-ml``."""
        return f"{self._step.id}:{self.tenant.name}"

    @property
    def title(self) -> str:
        return f"{self._step.title} in {self.tenant.name}"

    def effects(self) -> tuple[Effect, ...]:
        where = f"tenant {self.tenant.name}"
        return tuple(replace(effect, what=f"in {where}: {effect.what}") for effect in self._step.effects())

    def observe(self, ctx: LabContext) -> Observed:
        """A tenant without a kubeconfig is not there, and so is nothing inside it."""
        if not ctx.paths.tenant_kubeconfig(self.tenant.name).exists():
            return Observed.absent()
        return self._step.observe(inside(ctx, self.tenant))

    def apply(self, ctx: LabContext) -> None:
        self._step.apply(inside(ctx, self.tenant))

    def verify(self, ctx: LabContext) -> None:
        self._step.verify(inside(ctx, self.tenant))

"""Which steps of the lab's plan a change of one tenant takes, and what it changes for everybody else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lab.config import LabSpec, TenantSpec
from lab.config.labels import HOST_KAI_LABEL
from lab.config.node_assignment import beside_host_kai, tenant_nodes
from lab.engine.step import Effect, Observed, Step
from lab.errors import Unavailable
from lab.operations.planning import build_plan, items_needed
from lab.session.context import LabContext
from lab.session.lab import Lab
from lab.steps import helm_release
from lab.steps.host import HostReady
from lab.steps.kai.step import NAMESPACE, RELEASE
from lab.steps.kai.values import release_values
from lab.steps.node_image import builds_needed
from lab.supply import Choice, Supply
from lab.tenants.vcluster.images import TenantImages

COMMON = ("tenant-nodes", "kai", "isolation")
"""Steps of the host that depend on which tenants there are, in their order."""


@dataclass(frozen=True)
class Narrowed:
    """A step of the plan in a run that has only some of its steps.

    Args:
        step: what is really done.
        needs: those of the run that must be ready before it.
    """

    step: Step[LabContext]
    needs: tuple[str, ...]

    @property
    def id(self) -> str:
        """See Step."""
        return self.step.id

    @property
    def title(self) -> str:
        """See Step."""
        return self.step.title

    def effects(self) -> tuple[Effect, ...]:
        """See Step."""
        return self.step.effects()

    def observe(self, ctx: LabContext) -> Observed:
        """See Step."""
        return self.step.observe(ctx)

    def apply(self, ctx: LabContext) -> None:
        """See Step."""
        self.step.apply(ctx)

    def verify(self, ctx: LabContext) -> None:
        """See Step."""
        self.step.verify(ctx)

    def undo(self, ctx: LabContext) -> None:
        """See Step."""
        self.step.undo(ctx)


def plan_steps(lab: Lab, spec: LabSpec, supply: Supply) -> tuple[Step[LabContext], ...]:
    """All steps of the lab with these tenants, in plan order."""
    plan = build_plan(spec, supply, HostReady(()), no_kai=lab.kai_reason, notices=(), facts={})
    return plan.steps


def steps_of(steps: Iterable[Step[LabContext]], tenant: str) -> list[Step[LabContext]]:
    """The steps that are one tenant's: ``tenant:NAME``, ``kai:NAME``, ``queues:NAME``."""
    return [step for step in steps if step.id.partition(":")[2] == tenant and not step.id.startswith("supply:")]


def common_steps(steps: Iterable[Step[LabContext]]) -> list[Step[LabContext]]:
    """The steps of the host that depend on which tenants there are."""
    return [step for step in steps if step.id in COMMON]


def narrowed(steps: Sequence[Step[LabContext]]) -> list[Step[LabContext]]:
    """The steps as a run of their own: needs that are not part of it are met already, by the lab that runs."""
    known = {step.id for step in steps}
    return [Narrowed(step, tuple(need for need in step.needs if need in known)) for step in steps]


def steps_to_add(
    steps: Sequence[Step[LabContext]],
    spec: LabSpec,
    tenant: str,
    fetches: Sequence[Step[LabContext]],
    images: Sequence[str],
) -> list[Step[LabContext]]:
    """The run that adds a tenant: what must be fetched, images into the nodes, the host's measures, the tenant.

    Everything of the tenant waits for the measures and for its images: a tenant's KAI must never work for a moment
    beside a host's KAI that was not told to keep off. Where that one is told so, the namespaces of tenants that it
    serves are labelled first, so that it never loses sight of them.

    Args:
        steps: the plan of the lab with the tenant.
        spec: that lab.
        tenant: the tenant's name.
        fetches: the steps that fetch or build what is not on this machine yet.
        images: what its pods will run.
    """
    loading = steps_to_load(tenant, fetches, images)
    common = narrowed(common_steps(steps))
    served: list[Step[LabContext]] = []
    if any(step.id == "isolation" for step in common):
        names = [f"tenant:{one.name}" for one in spec.tenants if one.mode == "host-kai" and one.name != tenant]
        served = narrowed([step for step in steps if step.id in names])
    ids = tuple(step.id for step in served)
    common = [Narrowed(step, (*ids, *step.needs)) if step.id == "kai" else step for step in common]
    return [*loading, *served, *common, *after([*common, loading[-1]], steps_of(steps, tenant))]


def steps_to_load(tenant: str, fetches: Sequence[Step[LabContext]], images: Sequence[str]) -> list[Step[LabContext]]:
    """The run that only has a tenant's images in the nodes; that step is the last."""
    load = TenantImages(tenant, tuple(images), tuple(fetch.id for fetch in fetches))
    return narrowed([*fetches, load])


def after(before: Sequence[Step[LabContext]], steps: Sequence[Step[LabContext]]) -> list[Step[LabContext]]:
    """Steps that need all of others first, besides each other."""
    first = tuple(step.id for step in before)
    return [Narrowed(step, (*first, *step.needs)) for step in narrowed(steps)]


def own_choices(spec: LabSpec, tenant: TenantSpec, supply: Supply) -> tuple[Choice, ...]:
    """Where the things come from that the lab needs for this tenant and would not need without any tenant.

    Raises:
        Unavailable: something cannot be had.
    """
    alone = spec.model_copy(update={"tenants": (tenant,)})
    without = set(items_needed(spec.model_copy(update={"tenants": ()}), supply))
    choices = tuple(supply.choose([item for item in items_needed(alone, supply) if item not in without]).values())
    if missing := [choice for choice in choices if not choice.available]:
        things = "thing" if len(missing) == 1 else "things"
        raise Unavailable(
            f"{len(missing)} {things} that tenant {tenant.name} needs cannot be had; nothing was changed",
            evidence=[line for choice in missing for line in (str(choice.item), *(f"    {why}" for why in choice.why))],
            fix="; ".join(dict.fromkeys(choice.fix for choice in missing)),
        )
    return choices


def fetches_of(choices: Iterable[Choice], supply: Supply) -> list[Step[LabContext]]:
    """The steps that fetch or build what is not on this machine yet."""
    return list(builds_needed(choices, supply))


def host_changes(ctx: LabContext, before: LabSpec, after: LabSpec) -> tuple[Effect, ...]:
    """What a change of tenants does to KAI on the host; nothing where that stays as it is.

    Goes by the release that is installed, so that it says what Helm will really change.
    """
    if after.scheduler != "kai" or beside_host_kai(before) == beside_host_kai(after):
        return ()
    release = helm_release.installed(ctx.cluster(), RELEASE, NAMESPACE)
    diff = helm_release.differences(release, after.kai.version, release_values(after)) if release else ()
    comes = beside_host_kai(after)
    undo = "lab tenant remove" if comes else "lab tenant add"
    found = [Effect("cluster", f"KAI on the host is upgraded in place: {line}", undo) for line in diff]
    words = (
        f"KAI on the host looks only at namespaces labelled {HOST_KAI_LABEL}=host from now on: those of the lab are,"
        " label your own"
        if comes
        else "KAI on the host looks at all namespaces and nodes again"
    )
    policy = "a ValidatingAdmissionPolicy keeps it off the pods of tenants with a KAI of their own"
    found += [Effect("cluster", words, undo)]
    found += [Effect("cluster", policy if comes else "that policy is taken away", undo)]
    return tuple(found)


def nodes_given(before: LabSpec, after: LabSpec) -> dict[str, tuple[str, ...]]:
    """Own nodes of the tenants that had none before, by short name."""
    there = tenant_nodes(before)
    return {name: nodes for name, nodes in tenant_nodes(after).items() if name not in there}

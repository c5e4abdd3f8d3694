"""What a change of tenants does to a lab that runs: which steps, and what it changes for everybody else."""

from __future__ import annotations

from collections.abc import Collection

from lab.config import LabSpec
from lab.config.labels import HOST_KAI_LABEL
from lab.config.node_assignment import beside_host_kai
from lab.engine.delta import PlanDelta
from lab.engine.step import Effect
from lab.operations.planning import running_steps
from lab.session.context import LabContext
from lab.session.lab import Lab
from lab.steps import helm_release
from lab.steps.kai.step import NAMESPACE, RELEASE
from lab.steps.kai.values import release_values


def delta(lab: Lab, before: LabSpec, after: LabSpec, loaded: Collection[str] = ()) -> PlanDelta[LabContext]:
    """What leads from one set of tenants to another.

    Args:
        lab: one that is up.
        before: the lab as it is.
        after: the lab as it is to be.
        loaded: names of tenants whose images must come into the nodes that run.

    Raises:
        Unavailable: something that one of those tenants needs is not available.
    """
    supply, image = lab.session.supply, lab.node_image
    return PlanDelta.between(
        running_steps(before, supply, node_image=image), running_steps(after, supply, node_image=image, loaded=loaded)
    )


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

"""Resets a lab."""

from __future__ import annotations

from lab.errors import SpecError
from lab.operations.results import UpReport
from lab.operations.up import Ask, up
from lab.session.lab import Lab
from lab.steps.cluster import KindCluster
from lab.tenants.removal.remove import forget


def reset(lab: Lab, *, ask: Ask = lambda _: False) -> UpReport:
    """Make a lab as it was after ``kailab up``: with its checkpoint, or else without one, as a new lab.

    Everything in its cluster is lost, also the tenants that were added later. After a kill, ``up`` finishes it.

    Raises:
        SpecError: the lab is on an existing cluster.
        LabError: see ``up``.
    """
    if not lab.spec.cluster.own:
        raise SpecError(
            f"lab {lab.spec.name!r} is on an existing cluster, which has no checkpoint",
            fix="kailab down, then kailab up",
        )
    with lab.session.locked():
        step = KindCluster(lab.spec, image="", own_node=True)
        ctx = lab.context(step.id)
        step.undo(ctx)
        for name in lab.session.added_names:
            forget(ctx, name)
        lab.session.change_tenants(lab.session.asked, ())
        lab.session.save()
    fresh = Lab.of(lab.session.asked)
    fresh.session.bus, fresh.session.cancel = lab.session.bus, lab.session.cancel
    return up(fresh, ask=ask)

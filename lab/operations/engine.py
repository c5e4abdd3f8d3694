"""Engines for the steps of a lab."""

from __future__ import annotations

from collections.abc import Sequence

from lab.engine.run import Engine
from lab.engine.step import Observed, Step
from lab.session.context import LabContext
from lab.session.lab import Lab

_CLUSTER = "cluster"
"""The step of the cluster, the lab's own or an existing one."""


def engine_for(lab: Lab, steps: Sequence[Step[LabContext]], *, partial: bool = False) -> Engine[LabContext]:
    """An engine for steps of a lab; with ``partial``, steps that are not among them count as done."""
    session = lab.session
    return Engine(steps, session.scope, bus=lab.bus, cancel=session.cancel, lab=lab.spec.name, partial=partial)


def observe(
    lab: Lab, steps: Sequence[Step[LabContext]], *, partial: bool = False, stop: bool = False
) -> dict[str, Observed]:
    """Observe steps of a lab: all at once, as soon as its cluster is READY; see ``Engine.observe``."""
    with lab.session.engine.reading():
        return engine_for(lab, steps, partial=partial).observe(_CLUSTER, stop=stop)

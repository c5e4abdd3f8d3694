"""Engines for the steps of a lab."""

from __future__ import annotations

from collections.abc import Sequence

from lab.engine.run import Engine
from lab.engine.step import Step
from lab.session.context import LabContext
from lab.session.lab import Lab


def engine_for(lab: Lab, steps: Sequence[Step[LabContext]], *, partial: bool = False) -> Engine[LabContext]:
    """An engine for steps of a lab; with ``partial``, steps that are not among them count as done."""
    session = lab.session
    return Engine(steps, session.scope, bus=lab.bus, cancel=session.cancel, lab=lab.spec.name, partial=partial)

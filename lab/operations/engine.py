"""Engines on the steps of a lab."""

from __future__ import annotations

from collections.abc import Sequence

from lab.engine.run import Engine
from lab.engine.step import Step
from lab.session.context import LabContext
from lab.session.lab import Lab


def engine_for(lab: Lab, steps: Sequence[Step[LabContext]], *, partial: bool = False) -> Engine[LabContext]:
    """An engine on steps of a lab; with ``partial``, what they need besides each other is there, as the lab runs."""
    session = lab.session
    return Engine(steps, session.scope, bus=lab.bus, cancel=session.cancel, lab=lab.spec.name, partial=partial)

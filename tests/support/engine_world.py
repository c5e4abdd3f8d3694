"""Engines over fake steps, for tests of the engine."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from lab.engine.events import Bus
from lab.engine.run import Engine, RunRecord
from tests.support.fakes import FakeStep

WAIT = 10.0
"""Seconds after which a barrier gives up: never reached unless the engine is wrong."""


def engine(
    steps: Sequence[FakeStep],
    *,
    cancel: threading.Event | None = None,
    workers: int = 6,
    bus: Bus | None = None,
    partial: bool = False,
) -> Engine[str]:
    return Engine(
        steps,
        scope=lambda step: f"ctx {step}",
        bus=bus or Bus(),
        cancel=cancel or threading.Event(),
        workers=workers,
        lab="demo",
        partial=partial,
    )


def outcomes(record: RunRecord) -> dict[str, str]:
    return {step.step: step.outcome for step in record.steps}


def chain() -> tuple[list[FakeStep], list[str]]:
    """Steps c → b → a by needs, listed in the wrong order, which write into one journal."""
    log: list[str] = []
    return [FakeStep("c", ("b",), journal=log), FakeStep("b", ("a",), journal=log), FakeStep("a", journal=log)], log

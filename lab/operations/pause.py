"""Pauses and resumes a lab."""

from __future__ import annotations

import time

from lab.errors import NoLab, SpecError
from lab.operations.results import PauseReport
from lab.session.lab import Lab
from lab.steps.cluster.pausing import freeze, thaw


def pause(lab: Lab) -> PauseReport:
    """Freeze the nodes of a running lab: it uses no processor time, and keeps its memory.

    Raises:
        SpecError: the lab is on an existing cluster.
        NoLab: no node runs.
    """
    _refuse_existing(lab)
    began = time.monotonic()
    with lab.session.locked():
        count = freeze(lab.context("pause"))
    if not count:
        raise NoLab(f"no node of lab {lab.spec.name!r} runs", fix="kailab up")
    return PauseReport(lab.spec.name, paused=True, nodes=count, seconds=round(time.monotonic() - began, 3))


def resume(lab: Lab) -> PauseReport:
    """Continue a paused lab, and wait until its nodes are Ready. A lab that runs is left alone.

    Raises:
        SpecError: the lab is on an existing cluster.
        ApiFailed, WaitTimeout: its nodes do not come back.
    """
    _refuse_existing(lab)
    began = time.monotonic()
    with lab.session.locked():
        count = thaw(lab.context("resume"))
    return PauseReport(lab.spec.name, paused=False, nodes=count, seconds=round(time.monotonic() - began, 3))


def _refuse_existing(lab: Lab) -> None:
    if not lab.spec.cluster.own:
        raise SpecError(
            f"lab {lab.spec.name!r} is on an existing cluster, whose nodes kailab does not freeze",
            fix=f"kailab down --name {lab.spec.name}",
        )

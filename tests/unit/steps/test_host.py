"""The step that changes the machine: one lab at a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from lab.errors import Interrupted
from lab.paths import host_lock
from lab.steps.host import HostReady
from lab.tools.lock import file_lock, lock_now


@dataclass
class FakeFix:
    """Records whether the machine's lock is held while it is applied."""

    id: str = "fake"
    title: str = "Fake"
    commands: tuple[str, ...] = ()
    free: list[bool] = field(default_factory=list)

    def apply(self, run: object, journal: object) -> None:
        self.free.append(lock_now(host_lock()) is not None)

    def undo(self, run: object, journal: object) -> list[str]:
        return []


def test_two_labs_do_not_change_the_machine_at_once() -> None:
    """apt and dpkg refuse a second process, and both would record the same files."""
    fix, reports = FakeFix(), list[str]()
    run = SimpleNamespace(stopped=lambda: True)
    ctx: Any = SimpleNamespace(run=run, progress=lambda text, *_: reports.append(text))
    step = HostReady((fix,))
    with file_lock(host_lock(), exclusive=True), pytest.raises(Interrupted):
        step.apply(ctx)
    assert (fix.free, reports) == ([], ["another process changes this machine; waiting"])
    step.apply(ctx)
    assert fix.free == [False]

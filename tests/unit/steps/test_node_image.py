"""Labs that start at the same time bake their common node image once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lab.config import LabSpec
from lab.errors import Interrupted
from lab.steps.node_image import NodeImage
from lab.tools.container import ContainerEngine
from tests.support.another_lab import AnotherLab
from tests.support.fakes import FakeRunner

TAG = "kailab/node:v1.34.4-abc"
INSPECT = f"docker image inspect --format {{{{.Id}}}} {TAG}"


class Baker:
    """A lab that applies the step; ``waiting`` is called when it reports that it waits."""

    def __init__(self, runner: FakeRunner, waiting: Any = None) -> None:
        self.messages: list[str] = []

        def progress(text: str, *_: object) -> None:
            self.messages.append(text)
            if waiting is not None:
                waiting()

        self.ctx: Any = SimpleNamespace(engine=ContainerEngine(runner), progress=progress, run=runner)
        self.step = NodeImage(LabSpec(), (), TAG)

    def apply(self) -> list[str]:
        """Apply the step and return its messages."""
        self.step.apply(self.ctx)
        return self.messages


def test_image_baked_by_another_lab_is_used(runner: FakeRunner, other: AnotherLab) -> None:
    runner.handle(INSPECT, out="sha256:1\n")
    assert other.begins(TAG)
    messages = Baker(runner, waiting=other.ends).apply()
    assert messages == ["another process is baking it; waiting"]
    assert set(runner.lines) == {INSPECT.replace("{{.Id}}", "'{{.Id}}'")}  # no load, run or commit


def test_waiting_lab_stops_on_ctrl_c(runner: FakeRunner, other: AnotherLab) -> None:
    def press() -> None:
        runner.cancelled = True

    assert other.begins(TAG)
    with pytest.raises(Interrupted):
        Baker(runner, waiting=press).apply()
    assert runner.lines == []


def test_next_lab_bakes_after_a_failure(runner: FakeRunner, other: AnotherLab, monkeypatch: pytest.MonkeyPatch) -> None:
    runner.handle(INSPECT, code=1)
    tried: list[str] = []

    def make(step: NodeImage, _: object) -> None:
        tried.append(step.tag)
        assert not other.begins(TAG)
        raise OSError("disk full")

    monkeypatch.setattr(NodeImage, "_create", make)
    for _ in range(2):
        with pytest.raises(OSError, match="disk full"):
            Baker(runner).apply()
    assert tried == [TAG, TAG]
    assert other.begins(TAG)

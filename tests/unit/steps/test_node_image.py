"""Labs that come up at once may need the same node image: it is baked once."""

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
LOOK = f"docker image inspect --format {{{{.Id}}}} {TAG}"


class Baker:
    """A lab that comes up; ``waiting`` is what happens when it says that it waits."""

    def __init__(self, runner: FakeRunner, waiting: Any = None) -> None:
        self.said: list[str] = []

        def progress(text: str, *_: object) -> None:
            self.said.append(text)
            if waiting is not None:
                waiting()

        self.ctx: Any = SimpleNamespace(engine=ContainerEngine(runner), progress=progress, run=runner)
        self.step = NodeImage(LabSpec(), (), TAG)

    def apply(self) -> list[str]:
        """Apply the step; what it said."""
        self.step.apply(self.ctx)
        return self.said


def test_what_another_lab_has_baked_meanwhile_is_not_baked_again(runner: FakeRunner, other: AnotherLab) -> None:
    runner.handle(LOOK, out="sha256:1\n")
    assert other.begins(TAG)
    said = Baker(runner, waiting=other.ends).apply()
    assert said == ["another process is baking it; waiting"]
    assert set(runner.lines) == {LOOK.replace("{{.Id}}", "'{{.Id}}'")}  # nothing was loaded, run or committed


def test_a_lab_that_waits_stops_on_ctrl_c(runner: FakeRunner, other: AnotherLab) -> None:
    def press() -> None:
        runner.cancelled = True

    assert other.begins(TAG)
    with pytest.raises(Interrupted):
        Baker(runner, waiting=press).apply()
    assert runner.lines == []


def test_a_bake_that_fails_lets_the_next_lab_try(
    runner: FakeRunner, other: AnotherLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner.handle(LOOK, code=1)
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

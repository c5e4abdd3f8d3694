"""Labs that come up at once may need the same node image: it is baked once."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import FakeRunner
from filelock import FileLock

from lab.errors import Interrupted
from lab.parts import images
from lab.parts.images import NodeImage
from lab.spec import LabSpec
from lab.supply.store import key_of, place
from lab.tools.container import ContainerEngine

TAG = "kailab/node:v1.34.4-abc"
LOOK = f"docker image inspect --format {{{{.Id}}}} {TAG}"


@pytest.fixture
def other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FileLock:
    """What another lab holds that bakes the image."""
    monkeypatch.setenv("KAILAB_CACHE", str(tmp_path))
    monkeypatch.setattr(images, "_PATIENCE", 0.02)
    path = place("locks", TAG, key_of(TAG))
    path.parent.mkdir()
    return FileLock(f"{path}.lock")


class Baker:
    """A lab that comes up; ``waiting`` is what happens when it says that it waits."""

    def __init__(self, runner: FakeRunner, waiting: Any = None) -> None:
        self.said: list[str] = []

        def progress(text: str, *_: object) -> None:
            self.said.append(text)
            if waiting is not None:
                waiting()

        self.ctx: Any = SimpleNamespace(engine=ContainerEngine(runner), progress=progress)
        self.step = NodeImage(LabSpec(), (), TAG)

    def apply(self) -> list[str]:
        """Apply the step; what it said."""
        self.step.apply(self.ctx)
        return self.said


def test_what_another_lab_has_baked_meanwhile_is_not_baked_again(runner: FakeRunner, other: FileLock) -> None:
    runner.handle(LOOK, code=1, times=1)
    runner.handle(LOOK, out="sha256:1\n")
    other.acquire()
    said = Baker(runner, waiting=other.release).apply()
    assert said == ["waiting for another lab that bakes it"]
    assert set(runner.lines) == {LOOK.replace("{{.Id}}", "'{{.Id}}'")}  # nothing was loaded, run or committed


def test_a_lab_that_waits_stops_on_ctrl_c(runner: FakeRunner, other: FileLock) -> None:
    runner.handle(LOOK, raises=Interrupted("stopped"))
    with other, pytest.raises(Interrupted):
        Baker(runner).apply()


def test_a_bake_that_fails_lets_the_next_lab_try(
    runner: FakeRunner, other: FileLock, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner.handle(LOOK, code=1)
    tried: list[str] = []

    def make(step: NodeImage, _: object) -> None:
        tried.append(step.tag)
        with pytest.raises(TimeoutError):
            other.acquire(timeout=0.02)
        raise OSError("disk full")

    monkeypatch.setattr(NodeImage, "_make", make)
    for _ in range(2):
        with pytest.raises(OSError, match="disk full"):
            Baker(runner).apply()
    assert tried == [TAG, TAG]
    with other:
        pass

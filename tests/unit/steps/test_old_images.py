"""Removal of old node images: those used last are kept."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.steps.node_image import drop_old_images, mark_used
from lab.tools.container import ContainerEngine
from tests.support.fakes import FakeRunner

NEW = "kailab/node:v1-new"
OTHERS = ("b", "c", "d", "e", "f", "old", "runs")
LISTED = "".join(f"kailab/node:v1-{name}\n" for name in ("new", *OTHERS))


class Images:
    """The engine's images, newest first."""

    def __init__(self, runner: FakeRunner) -> None:
        self.released: list[str] = []
        journal = SimpleNamespace(released=lambda kind, name: self.released.append(name.rpartition("-")[2]))
        self.ctx: Any = SimpleNamespace(engine=ContainerEngine(runner), journal=journal)
        runner.handle("docker images --filter label=kailab-image", out=LISTED)
        self.runner = runner

    def drop(self, *expected: str, in_use: str = "") -> list[str]:
        """Drop old images and return those released; ``expected`` are the allowed removals."""
        for name in expected:
            self.runner.handle(f"docker rmi kailab/node:v1-{name}")
        if in_use:
            self.runner.handle(f"docker rmi kailab/node:v1-{in_use}", code=1, err="used by a running container")
        drop_old_images(self.ctx, NEW)
        return self.released


@pytest.fixture
def images(runner: FakeRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Images:
    monkeypatch.setenv("KAILAB_CACHE", str(tmp_path))
    return Images(runner)


def use(name: str, when: int, tmp_path: Path) -> None:
    mark_used(f"kailab/node:v1-{name}")
    (mark,) = (path for path in (tmp_path / "used").iterdir() if path.name.startswith(f"kailab_node_v1-{name}-"))
    os.utime(mark, (when, when))


def test_old_images_are_removed_unless_in_use(images: Images) -> None:
    assert images.drop("old", in_use="runs") == ["old"]


def test_recently_used_old_image_is_kept(images: Images, tmp_path: Path) -> None:
    for when, name in enumerate(("runs", "f", "old"), 1):
        use(name, when, tmp_path)
    assert images.drop("d", "e") == ["d", "e"]


def test_mark_of_a_removed_image_is_removed(images: Images, tmp_path: Path) -> None:
    for when, name in enumerate(("runs", "f", "e", "d", "c", "b", "old"), 1):
        use(name, when, tmp_path)
    assert images.drop("f", "runs") == ["f", "runs"]
    marks = sorted(path.name.split("-")[1] for path in (tmp_path / "used").iterdir())
    assert marks == ["b", "c", "d", "e", "new", "old"]

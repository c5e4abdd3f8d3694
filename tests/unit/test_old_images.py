"""Baked node images do not pile up: the newest stay."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from fakes import FakeRunner

from lab.parts.images import drop_old_images
from lab.tools.container import ContainerEngine

LISTED = "".join(f"kailab/node:v1-{name}\n" for name in ("new", "b", "c", "d", "old", "used"))


def test_all_but_the_newest_go_and_one_in_use_stays(runner: FakeRunner) -> None:
    released: list[tuple[str, str]] = []
    journal = SimpleNamespace(released=lambda kind, name: released.append((kind, name)))
    ctx: Any = SimpleNamespace(engine=ContainerEngine(runner), journal=journal)
    runner.handle("docker images --filter label=kailab-image", out=LISTED)
    runner.handle("docker rmi kailab/node:v1-old")
    runner.handle("docker rmi kailab/node:v1-used", code=1, err="image is being used by running container")
    drop_old_images(ctx, "kailab/node:v1-new")
    assert released == [("image", "kailab/node:v1-old")]

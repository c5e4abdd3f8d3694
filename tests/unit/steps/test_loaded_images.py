"""Loading a tenant's images into the nodes of a running lab."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from lab.engine.step import State
from lab.errors import CommandFailed, StepFailed
from lab.steps.loaded_images import LoadedImages, missing
from lab.tools.container import Container
from lab.tools.process import Result
from tests.support.fakes import FakeRunner
from tests.support.lab_world import LabWorld
from tests.support.tenancy_world import lab_file

KAI = "ghcr.io/kai-scheduler/kai-scheduler/scheduler:v0.9.3"
DNS = "registry.k8s.io/coredns/coredns:v1.12.4"


@dataclass
class FakeEngine:
    """Node containers and their images."""

    name: str = "docker"
    images: dict[str, set[str]] = field(default_factory=dict)
    archives: dict[str, str] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    roles: dict[str, str] = field(default_factory=dict)
    full_node: str = ""
    files: dict[str, str] = field(default_factory=dict)

    def containers(self, label: str) -> tuple[Container, ...]:
        role = "io.x-k8s.kind.role"
        return tuple(
            Container(name, name, "running", {role: self.roles.get(name, "worker")}, "") for name in self.images
        )

    def copy_in(self, node: str, source: Path, target: str) -> None:
        self.log.append(f"{node}: copy {source.name}")
        self.files[target] = source.name

    def exec(self, node: str, argv: list[str], check: bool = True) -> Result:
        if argv[-2:] == ["ls", "-q"]:
            return Result(tuple(argv), 0, "\n".join(sorted(self.images[node])) + "\nsha256:abc\n", "")
        importing = any(" import " in word for word in argv)
        self.log.append(f"{node}: {'import and rm' if importing else ' '.join(argv[:2])}")
        if importing:
            if self.full_node == node:
                raise CommandFailed(argv, 1, err="no space left on device")
            self.images[node].add(self.archives[self.files[argv[-1]]])
        return Result(tuple(argv), 0, "", "")


class FakeArchives:
    """A supply that names archives after the last part of the image reference."""

    def image(self, reference: str) -> Path:
        return Path("/cache") / f"{reference.rpartition('/')[2]}.tar"


@pytest.fixture
def nodes(runner: FakeRunner, tmp_path: Path) -> tuple[Any, FakeEngine]:
    engine = FakeEngine(
        images={"cp": set(), "w1": {DNS}, "w2": {DNS, KAI}},
        roles={"cp": "control-plane"},
        archives={"scheduler:v0.9.3.tar": KAI, "coredns:v1.12.4.tar": DNS},
    )
    ctx = LabWorld(lab_file(), runner, tmp_path).ctx
    return replace(ctx, engine=engine, supply=FakeArchives()), engine  # type: ignore[arg-type]


def test_missing_images_are_loaded_into_workers_only(nodes: tuple[Any, FakeEngine]) -> None:
    ctx, engine = nodes
    load = LoadedImages("ml", (KAI, DNS))
    assert load.observe(ctx).detail == "1 image to load into 1 node"
    load.apply(ctx)
    assert engine.log == ["w1: copy scheduler:v0.9.3.tar", "w1: import and rm"], (
        "one command, which a kill does not cut"
    )
    load.verify(ctx)
    assert load.observe(ctx).state is State.READY


def test_short_references_match_full_names(nodes: tuple[Any, FakeEngine]) -> None:
    ctx, engine = nodes
    engine.images["w1"] |= {"docker.io/library/alpine:3.20", "docker.io/me/it:latest", "localhost:5001/x:1"}
    assert missing(ctx, ["alpine:3.20", "me/it", "localhost:5001/x:1", "docker.io/alpine:3.20"]).get("w1") is None


def test_lab_without_workers_needs_images_in_its_control_planes(nodes: tuple[Any, FakeEngine]) -> None:
    ctx, engine = nodes
    engine.images, engine.roles = {"lb": set(), "cp": set()}, {"lb": "external-load-balancer", "cp": "control-plane"}
    assert dict(missing(ctx, [KAI])) == {"cp": (KAI,)}


def test_failed_import_is_reported_and_the_archive_removed(nodes: tuple[Any, FakeEngine]) -> None:
    ctx, engine = nodes
    engine.full_node = "w1"
    with pytest.raises(CommandFailed) as failed:
        LoadedImages("ml", (KAI,)).apply(ctx)
    assert failed.value.evidence == ("no space left on device",)
    assert engine.log[-1] == "w1: rm -f"


def test_archive_with_another_image_is_an_error(nodes: tuple[Any, FakeEngine]) -> None:
    ctx, engine = nodes
    engine.archives["scheduler:v0.9.3.tar"] = "example.org/other:1"
    load = LoadedImages("ml", (KAI,))
    load.apply(ctx)
    with pytest.raises(StepFailed, match=f"node w1 does not have {KAI} although its archive was imported"):
        load.verify(ctx)

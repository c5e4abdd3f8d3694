"""Fixtures of the tests of the host: a machine made of files, and its journal."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.engine.journal import Journal
from tests.support.fakes import FakeRunner
from tests.support.host_world import HostWorld

BLOBS = "find /var/lib/containerd/io.containerd.content.v1.content/blobs"


@pytest.fixture
def world(tmp_path: Path, runner: FakeRunner) -> HostWorld:
    return HostWorld(tmp_path / "root", runner)


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "state" / "host.jsonl")


@pytest.fixture
def no_residents(runner: FakeRunner) -> None:
    """Docker's folders have no containers and volumes."""
    runner.handle("find /var/lib/docker/containers")
    runner.handle("find /var/lib/docker/volumes")


@pytest.fixture
def nothing_else(runner: FakeRunner, no_residents: None) -> None:
    """Docker's and containerd's folders have no images."""
    runner.handle("find /var/lib/docker/image")
    runner.handle(BLOBS)

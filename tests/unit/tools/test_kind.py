"""kind creates a cluster although a node of an earlier creation, which was killed, comes late."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.errors import CommandFailed, NameTaken
from lab.tools.kind import Kind
from tests.support.fakes import FakeRunner

# Docker 20.10
CONFLICT = (
    'docker: Error response from daemon: Conflict. The container name "/kailab-demo-worker" is already in use by '
    'container "1f0c". You have to remove (or rename) that container to be able to reuse that name.'
)
# kind 0.33.0
THERE = 'ERROR: failed to create cluster: node(s) already exist for a cluster with the name "kailab-demo"'
CREATE = "/kind create cluster --name kailab-demo"


def create(runner: FakeRunner) -> None:
    Kind(runner, Path("/kind")).create("kailab-demo", "nodes: []", "node:1", Path("/lab/kubeconfig"))


@pytest.mark.parametrize("said", [THERE, CONFLICT])
def test_a_node_that_came_late_is_deleted_and_all_is_created_again(runner: FakeRunner, said: str) -> None:
    runner.handle(CREATE, code=1, err=said, times=1)
    runner.handle("/kind delete cluster --name kailab-demo")
    runner.handle(CREATE)
    create(runner)
    assert [line.split()[1] for line in runner.lines] == ["create", "delete", "create"]


def test_a_node_of_somebody_else_is_not_deleted(runner: FakeRunner) -> None:
    def refuse() -> None:
        raise NameTaken("theirs")

    runner.handle(CREATE, code=1, err=THERE, times=1)
    with pytest.raises(NameTaken, match="theirs"):
        Kind(runner, Path("/kind")).create("kailab-demo", "", "node:1", Path("/lab/kubeconfig"), again=refuse)


@pytest.mark.parametrize(
    "why", [CONFLICT, "Error response from daemon: driver failed: listen tcp4 127.0.0.1:80: address already in use"]
)
def test_what_stays_wrong_is_told(runner: FakeRunner, why: str) -> None:
    runner.handle(CREATE, code=1, err=why)
    if why == CONFLICT:
        runner.handle("/kind delete cluster --name kailab-demo", times=1)
    with pytest.raises(CommandFailed):
        create(runner)

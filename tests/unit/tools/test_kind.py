"""Cluster creation with kind, also when a node container of an earlier, killed creation appears late."""

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
NODES_EXIST = 'ERROR: failed to create cluster: node(s) already exist for a cluster with the name "kailab-demo"'
# Docker 20.10, in kind's message
NO_NETWORK = "docker: Error response from daemon: network kind not found"
# Docker 20.10, of two kinds that started at once
TWO_NETWORKS = "Error response from daemon: 2 matches found based on name: network kind is ambiguous"
CREATE = "/kind create cluster --name kailab-demo"


def create(runner: FakeRunner) -> None:
    Kind(runner, Path("/kind")).create("kailab-demo", "nodes: []", "node:1", Path("/lab/kubeconfig"))


def test_kubeconfig_is_never_printed(runner: FakeRunner) -> None:
    """kind writes it for its owner only; 'get kubeconfig' would print it, with its key, into the lab's log."""
    runner.handle("/kind export kubeconfig --name kailab-demo --kubeconfig /lab/kubeconfig", exact=True)
    Kind(runner, Path("/kind")).export("kailab-demo", Path("/lab/kubeconfig"))


@pytest.mark.parametrize("error", [NODES_EXIST, CONFLICT, NO_NETWORK, TWO_NETWORKS])
def test_creation_is_repeated_after_a_late_node_or_a_lost_network(runner: FakeRunner, error: str) -> None:
    runner.handle(CREATE, code=1, err=error, times=1)
    runner.handle("/kind delete cluster --name kailab-demo")
    runner.handle(CREATE)
    create(runner)
    assert [line.split()[1] for line in runner.lines] == ["create", "delete", "create"]


def test_node_of_another_owner_is_not_deleted(runner: FakeRunner) -> None:
    def refuse() -> None:
        raise NameTaken("theirs")

    runner.handle(CREATE, code=1, err=NODES_EXIST, times=1)
    with pytest.raises(NameTaken, match="theirs"):
        Kind(runner, Path("/kind")).create("kailab-demo", "", "node:1", Path("/lab/kubeconfig"), again=refuse)


@pytest.mark.parametrize(
    "error", [CONFLICT, "Error response from daemon: driver failed: listen tcp4 127.0.0.1:80: address already in use"]
)
def test_persistent_failure_is_reported(runner: FakeRunner, error: str) -> None:
    runner.handle(CREATE, code=1, err=error)
    if error == CONFLICT:
        runner.handle("/kind delete cluster --name kailab-demo", times=1)
    with pytest.raises(CommandFailed):
        create(runner)

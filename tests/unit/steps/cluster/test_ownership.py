"""Detection of node containers with the lab's name that another user or state directory created."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.config import LabSpec
from lab.engine.journal import Journal
from lab.errors import NameTaken
from lab.paths import LabPaths
from lab.session.context import LabContext
from lab.steps.cluster.ownership import foreign_nodes, owner_mounts, refuse_foreign_nodes
from lab.tools.container import ContainerEngine
from tests.support.fakes import FakeRunner

NODES = ("kailab-demo-worker", "kailab-demo-control-plane")


@pytest.fixture
def ctx(runner: FakeRunner) -> LabContext:
    paths = LabPaths("demo")
    paths.root.mkdir(parents=True)
    more: dict[str, Any] = dict.fromkeys(("bus", "supply", "open_cluster"), SimpleNamespace())
    return LabContext(
        step="plan",
        spec=LabSpec(),
        run=runner,
        journal=Journal(paths.journal),
        paths=paths,
        engine=ContainerEngine(runner),
        **more,
    )


def nodes(runner: FakeRunner, *names: str, mounts: Sequence[str] = ()) -> None:
    runner.handle("docker ps -aq", out="\n".join(names))
    facts = {"State": {"Status": "running"}, "Config": {}, "Mounts": [{"Destination": path} for path in mounts]}
    if names:
        runner.containers(lambda name: {"Name": f"/{name}", "Id": name, **facts})


def test_unrecorded_nodes_are_foreign(ctx: LabContext, runner: FakeRunner) -> None:
    nodes(runner, *NODES)
    assert foreign_nodes(ctx) == tuple(sorted(NODES))
    with pytest.raises(NameTaken, match="2 node containers named after lab 'demo' belong") as caught:
        refuse_foreign_nodes(ctx)
    assert "kailab down --name demo" in caught.value.fix


def test_unmarked_nodes_in_the_journal_are_owned(ctx: LabContext, runner: FakeRunner) -> None:
    ctx.journal.owns("cluster", "kailab-demo", "cluster", complete="no")
    nodes(runner, *NODES, mounts=["/lib/modules", "/var"])
    assert foreign_nodes(ctx) == ()


def test_marked_nodes_are_owned_without_a_journal(ctx: LabContext, runner: FakeRunner) -> None:
    (mount,) = owner_mounts(ctx, made_network=False)
    assert Path(mount["hostPath"]).is_file()
    nodes(runner, *NODES, mounts=["/lib/modules", mount["containerPath"]])
    assert foreign_nodes(ctx) == ()


def test_nodes_with_another_mark_are_foreign_despite_the_journal(
    ctx: LabContext, runner: FakeRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ctx.journal.owns("cluster", "kailab-demo", "cluster", complete="no")
    nodes(runner, *NODES, mounts=[one["containerPath"] for one in owner_mounts(ctx, made_network=True)])
    monkeypatch.setenv("KAILAB_STATE", str(tmp_path / "another"))
    assert foreign_nodes(ctx) == tuple(sorted(NODES))


def test_linked_state_directory_has_the_same_mark(
    ctx: LabContext, runner: FakeRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes(runner, *NODES, mounts=[one["containerPath"] for one in owner_mounts(ctx, made_network=True)])
    (tmp_path / "link").symlink_to(tmp_path / "state")
    monkeypatch.setenv("KAILAB_STATE", str(tmp_path / "link"))
    assert foreign_nodes(ctx) == ()


def test_removed_cluster_is_no_longer_owned(ctx: LabContext, runner: FakeRunner) -> None:
    ctx.journal.owns("cluster", "kailab-demo", "cluster", complete="yes")
    ctx.journal.released("cluster", "kailab-demo")
    nodes(runner, NODES[0])
    assert foreign_nodes(ctx) == NODES[:1]


def test_unused_name_is_accepted(ctx: LabContext, runner: FakeRunner) -> None:
    nodes(runner)
    refuse_foreign_nodes(ctx)

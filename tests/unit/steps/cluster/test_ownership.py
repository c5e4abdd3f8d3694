"""Nodes of the lab's name that no lab of this state directory made: they are told apart by the journal."""

from __future__ import annotations

import json
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
from lab.steps.cluster.ownership import foreign_nodes, owner_mount, refuse_foreign_nodes
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
    for name in names:
        facts = {
            "Name": f"/{name}",
            "Id": name,
            "State": {"Status": "running"},
            "Config": {},
            "Mounts": [{"Destination": path} for path in mounts],
        }
        runner.handle(f"docker inspect --type container {name}", out=json.dumps([facts]))


def test_nodes_that_nobody_here_wrote_down_are_strangers(ctx: LabContext, runner: FakeRunner) -> None:
    nodes(runner, *NODES)
    assert foreign_nodes(ctx) == tuple(sorted(NODES))
    with pytest.raises(NameTaken, match="2 node containers named after lab 'demo' belong") as caught:
        refuse_foreign_nodes(ctx)
    assert "lab down --name demo" in caught.value.fix


def test_a_creation_of_an_earlier_kailab_is_ours_by_the_journal(ctx: LabContext, runner: FakeRunner) -> None:
    ctx.journal.owns("cluster", "kailab-demo", "cluster", complete="no")
    nodes(runner, *NODES, mounts=["/lib/modules", "/var"])
    assert foreign_nodes(ctx) == ()


def test_marked_nodes_are_ours_though_the_journal_is_lost(ctx: LabContext, runner: FakeRunner) -> None:
    mount = owner_mount(ctx)
    assert Path(mount["hostPath"]).is_file()
    nodes(runner, *NODES, mounts=["/lib/modules", mount["containerPath"]])
    assert foreign_nodes(ctx) == ()


def test_nodes_with_anothers_mark_are_strangers_whatever_the_journal_says(
    ctx: LabContext, runner: FakeRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ctx.journal.owns("cluster", "kailab-demo", "cluster", complete="no")
    nodes(runner, *NODES, mounts=[owner_mount(ctx)["containerPath"]])
    monkeypatch.setenv("KAILAB_STATE", str(tmp_path / "another"))
    assert foreign_nodes(ctx) == tuple(sorted(NODES))


def test_one_state_directory_by_two_paths_is_one(
    ctx: LabContext, runner: FakeRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes(runner, *NODES, mounts=[owner_mount(ctx)["containerPath"]])
    (tmp_path / "link").symlink_to(tmp_path / "state")
    monkeypatch.setenv("KAILAB_STATE", str(tmp_path / "link"))
    assert foreign_nodes(ctx) == ()


def test_what_was_taken_away_is_not_ours_any_more(ctx: LabContext, runner: FakeRunner) -> None:
    ctx.journal.owns("cluster", "kailab-demo", "cluster", complete="yes")
    ctx.journal.released("cluster", "kailab-demo")
    nodes(runner, NODES[0])
    assert foreign_nodes(ctx) == NODES[:1]


def test_a_free_name_is_nobodys(ctx: LabContext, runner: FakeRunner) -> None:
    nodes(runner)
    refuse_foreign_nodes(ctx)

"""Nodes of the lab's name that no lab of this state directory made: they are told apart by the journal."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import FakeRunner

from lab.engine.journal import Journal
from lab.errors import NameTaken
from lab.parts.cluster.strangers import refuse_strangers, strangers
from lab.parts.context import LabContext
from lab.spec import LabSpec
from lab.tools.container import ContainerEngine

NODES = ("kailab-demo-worker", "kailab-demo-control-plane")


@pytest.fixture
def ctx(runner: FakeRunner, tmp_path: Path) -> LabContext:
    more: dict[str, Any] = dict.fromkeys(("paths", "bus", "supply", "open_cluster"), SimpleNamespace())
    return LabContext(
        step="plan", spec=LabSpec(), run=runner, journal=Journal(tmp_path / "journal.jsonl"),
        engine=ContainerEngine(runner), **more,
    )  # fmt: skip


def nodes(runner: FakeRunner, *names: str) -> None:
    runner.handle("docker ps -aq", out="\n".join(names))
    for name in names:
        facts = {"Name": f"/{name}", "Id": name, "State": {"Status": "running"}, "Config": {}}
        runner.handle(f"docker inspect --type container {name}", out=json.dumps([facts]))


def test_nodes_that_nobody_here_wrote_down_are_strangers(ctx: LabContext, runner: FakeRunner) -> None:
    nodes(runner, *NODES)
    assert strangers(ctx) == tuple(sorted(NODES))
    with pytest.raises(NameTaken, match="2 node containers of a lab 'demo' are here") as caught:
        refuse_strangers(ctx)
    assert "lab down --name demo" in caught.value.fix


def test_a_creation_that_did_not_finish_is_ours(ctx: LabContext) -> None:
    ctx.journal.owns("cluster", "kailab-demo", "cluster", complete="no")
    assert strangers(ctx) == ()


def test_what_was_taken_away_is_not_ours_any_more(ctx: LabContext, runner: FakeRunner) -> None:
    ctx.journal.owns("cluster", "kailab-demo", "cluster", complete="yes")
    ctx.journal.released("cluster", "kailab-demo")
    nodes(runner, NODES[0])
    assert strangers(ctx) == NODES[:1]


def test_a_free_name_is_nobodys(ctx: LabContext, runner: FakeRunner) -> None:
    nodes(runner)
    refuse_strangers(ctx)

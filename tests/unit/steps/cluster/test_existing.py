"""Provider ``existing``: a kubeconfig of one context, and the nodes of a cluster of others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.engine.events import Notice
from lab.engine.step import State
from lab.errors import ApiFailed, LabError
from lab.session.user_kubeconfig import CLAIM, one_context
from lab.steps.cluster import existing
from lab.steps.cluster.existing import ExistingCluster, ReadyNodes, refuse_another
from lab.workloads.temporary import PROCESS_LABEL
from tests.support.builders import node
from tests.support.fakes import FakeRunner
from tests.support.kubeconfigs import config, written
from tests.support.lab_world import LabWorld
from tests.support.specs import lab_spec


@pytest.fixture
def world(runner: FakeRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LabWorld:
    file = written(tmp_path / "config", config(token="abc"))
    spec = lab_spec(cluster={"provider": "existing", "kubeconfig": str(file), "context": "test"})
    made = LabWorld(spec, runner, tmp_path)
    made.paths.kubeconfig.unlink()
    made.api.put("Namespace", "kube-system", metadata={"uid": "one"})
    monkeypatch.setattr(existing, "connect", lambda spec: made.api.cluster)
    return made


def source(world: LabWorld) -> Path:
    return Path(world.spec.cluster.kubeconfig or "")


def test_apply_writes_a_private_copy_and_claims_the_cluster(world: LabWorld) -> None:
    before = source(world).read_bytes()
    step = ExistingCluster(world.spec)
    assert step.observe(world.ctx).detail == "this lab has not used it yet"
    step.apply(world.ctx)
    step.verify(world.ctx)
    assert world.paths.kubeconfig.read_text() == one_context(source(world), "test")
    assert world.paths.kubeconfig.stat().st_mode & 0o777 == 0o600
    (claim,) = world.ctx.journal.owned(CLAIM)
    assert claim.facts["uid"] == "one"
    assert step.observe(world.ctx).state is State.READY
    step.undo(world.ctx)
    assert source(world).read_bytes() == before
    assert not [line for line in world.log if line != "close" and PROCESS_LABEL not in line]
    assert not step.part_of


def test_changed_kubeconfig_is_drift_until_applied(world: LabWorld) -> None:
    step = ExistingCluster(world.spec)
    step.apply(world.ctx)
    written(source(world), config(token="new"))
    seen = step.observe(world.ctx)
    assert (seen.state, seen.detail) == (State.DRIFTED, "the user's kubeconfig has changed")
    step.apply(world.ctx)
    assert step.observe(world.ctx).state is State.READY
    assert "new" in world.paths.kubeconfig.read_text()


def test_context_that_leads_elsewhere_is_refused(world: LabWorld) -> None:
    """The labels in the other cluster are those of another lab of this name."""
    step = ExistingCluster(world.spec)
    refuse_another(world.ctx, world.api.cluster)
    step.apply(world.ctx)
    refuse_another(world.ctx, world.api.cluster)
    world.api.put("Namespace", "kube-system", metadata={"uid": "two"})
    for verb in (step.observe, step.apply):
        with pytest.raises(LabError, match="context test leads to another cluster") as refused:
            verb(world.ctx)
        assert world.api.server in refused.value.evidence[0]
    assert [claim.facts["uid"] for claim in world.ctx.journal.owned(CLAIM)] == ["one"]


def test_silent_server_is_an_error(world: LabWorld) -> None:
    ExistingCluster(world.spec).apply(world.ctx)
    world.api.alive = False
    with pytest.raises(ApiFailed, match="does not answer /readyz"):
        ExistingCluster(world.spec).verify(world.ctx)


def test_remains_are_the_objects_with_the_labs_label(world: LabWorld) -> None:
    world.api.put("Queue", "team", metadata={"labels": {"kailab": "demo"}})
    world.api.put("Queue", "theirs")
    assert ExistingCluster(world.spec).remains(world.ctx) == ("Queue team",)


def test_kinds_that_the_user_may_not_list_are_named(world: LabWorld) -> None:
    """Otherwise an object of such a kind stays, and the command says that nothing is left."""
    world.api.fail("list", "Secret", (403, "forbidden"))
    assert ExistingCluster(world.spec).remains(world.ctx) == ()
    (notice,) = [event for event in world.events if isinstance(event, Notice)]
    assert notice.level == "warning"
    assert "may not list were not searched for objects of lab demo: Secret; " in notice.text
    assert notice.text.endswith("get Secret -A -l kailab=demo")


def test_effects_name_the_file_that_is_not_touched(world: LabWorld) -> None:
    (effect,) = ExistingCluster(world.spec).effects()
    assert f"{source(world)} is not touched" in effect.what


# --- step network


@pytest.mark.parametrize(
    ("nodes", "state", "detail"),
    [
        ([node("a"), node("b")], State.READY, "2 of 2 nodes Ready"),
        ([node("a"), node("b", ready=False)], State.READY, "1 of 2 nodes Ready, not Ready: b"),
        ([node("a"), node("b", spec={"unschedulable": True})], State.READY, "1 of 2 nodes Ready, not Ready: b"),
        ([node("a", ready=False)], State.DRIFTED, "no node is Ready and schedulable"),
        ([], State.DRIFTED, "no node is Ready and schedulable"),
    ],
)
def test_nodes(world: LabWorld, nodes: list[dict[str, Any]], state: State, detail: str) -> None:
    world.api.add(*nodes)
    seen = ReadyNodes(world.spec).observe(world.ctx)
    assert (seen.state, seen.detail) == (state, detail)


def test_nodes_of_others_are_not_repaired(world: LabWorld) -> None:
    world.api.add(node("a", ready=False))
    with pytest.raises(LabError, match="no node of the cluster is Ready") as refused:
        ReadyNodes(world.spec).apply(world.ctx)
    assert refused.value.evidence == ("a",)
    assert world.log == []

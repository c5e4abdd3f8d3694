"""The step that marks nodes as dedicated to a tenant and unmarks them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lab.config import ClusterSpec, GpuSpec, LabSpec, TenantSpec
from lab.engine.step import State
from lab.errors import ApiFailed, LabError, StepFailed
from lab.objects.isolation_labels import NODE_LABEL
from lab.tenants.isolation.dedicated_nodes import TenantNodes, marked_nodes, owners, unmark_nodes
from lab.tenants.steps import tenant_steps
from tests.support.explain_world import pod
from tests.support.fake_api_server import FakeApiServer
from tests.support.fakes import FakeRunner
from tests.support.lab_world import LabWorld
from tests.support.specs import EXISTING, lab_spec

FIRST, SECOND, THIRD = "kailab-demo-worker", "kailab-demo-worker2", "kailab-demo-worker3"

Json = dict[str, Any]


def own(name: str, **more: Any) -> TenantSpec:
    return TenantSpec(name=name, mode="own-kai", kai_version="0.16.8", **more)


SPEC = LabSpec(
    scheduler="kai", cluster=ClusterSpec(workers=3), gpu=GpuSpec(mode="simulated"), tenants=(own("ml"), own("ops"))
)


def taint(tenant: str, **more: str) -> Json:
    return {"key": NODE_LABEL, "value": tenant, "effect": "NoSchedule", **more}


class Nodes(FakeApiServer):
    """Three workers."""

    def __init__(self, log: list[str]) -> None:
        super().__init__(log=log)
        for name in (FIRST, SECOND, THIRD):
            self.node(name)

    def node(self, name: str, tenant: str = "", *taints: Json) -> None:
        labels = {"kubernetes.io/hostname": name, **({NODE_LABEL: tenant} if tenant else {})}
        spec = {"taints": list(taints)} if taints else {}
        self.put("Node", name, metadata={"labels": labels, "resourceVersion": "7"}, spec=spec)

    def marks(self) -> dict[str, tuple[str | None, list[Json]]]:
        return {
            node["metadata"]["name"]: (node["metadata"]["labels"].get(NODE_LABEL), node["spec"].get("taints", []))
            for node in self.of_kind("Node")
        }


@pytest.fixture
def world(runner: FakeRunner, tmp_path: Path) -> LabWorld:
    world = LabWorld(SPEC, runner, tmp_path)
    world.api = Nodes(world.log)
    return world


@pytest.fixture
def nodes(world: LabWorld) -> Nodes:
    assert isinstance(world.api, Nodes)
    return world.api


STEP = TenantNodes(SPEC)


def test_short_names_are_resolved_to_kind_nodes() -> None:
    assert owners(SPEC) == {THIRD: "ml", SECOND: "ops"}
    named = SPEC.model_copy(update={"tenants": (own("ml", nodes=("worker",)),)})
    assert owners(named) == {FIRST: "ml"}


def test_step_exists_only_for_tenants_with_dedicated_nodes() -> None:
    assert tenant_steps(SPEC)[0].id == "tenant-nodes"
    assert [step.id for step in tenant_steps(LabSpec(tenants=(TenantSpec(name="a"),)))] == ["tenant:a"]
    assert STEP.needs == ("network",)  # before a scheduler of the host can place pods there


def test_apply_marks_nodes_and_keeps_other_taints(world: LabWorld, nodes: Nodes) -> None:
    other = {"key": "team", "value": "x", "effect": "NoExecute"}
    nodes.node(THIRD, "", other)
    assert STEP.observe(world.ctx).state is State.ABSENT
    STEP.apply(world.ctx)
    assert nodes.marks() == {FIRST: (None, []), SECOND: ("ops", [taint("ops")]), THIRD: ("ml", [other, taint("ml")])}
    seen = STEP.observe(world.ctx)
    assert (seen.state, seen.detail) == (State.READY, f"ml: {THIRD}, ops: {SECOND}")
    STEP.verify(world.ctx)
    world.log.clear()
    STEP.apply(world.ctx)
    assert world.log == []


@pytest.mark.parametrize(
    ("tenant", "taints"),
    [
        ("ml", ()),
        ("", (taint("ml"),)),
        ("ops", (taint("ml"),)),
        ("ml", (taint("ml", effect="NoExecute"),)),
        ("ml", (taint("ml"), taint("ops"))),
    ],
)
def test_incomplete_mark_is_drift(tenant: str, taints: tuple[Json, ...], world: LabWorld, nodes: Nodes) -> None:
    STEP.apply(world.ctx)
    nodes.node(THIRD, tenant, *taints)
    assert STEP.observe(world.ctx).diff == (f"{THIRD}: not marked as the node of tenant ml",)
    STEP.apply(world.ctx)
    assert nodes.marks()[THIRD] == ("ml", [taint("ml")])


def test_fields_added_to_a_taint_by_the_api_are_no_drift(world: LabWorld, nodes: Nodes) -> None:
    STEP.apply(world.ctx)
    nodes.node(THIRD, "ml", taint("ml", timeAdded="2026-11-21T12:00:00Z"))
    assert STEP.observe(world.ctx).state is State.READY


def test_node_without_a_tenant_is_unmarked(world: LabWorld, nodes: Nodes) -> None:
    STEP.apply(world.ctx)
    step = TenantNodes(SPEC.model_copy(update={"tenants": (own("ml"),)}))
    assert step.observe(world.ctx).diff == (f"{SECOND}: still marked for ops, to which it is not assigned",)
    step.apply(world.ctx)
    assert nodes.marks()[SECOND] == (None, [])


def test_node_is_reassigned_to_another_tenant(world: LabWorld, nodes: Nodes) -> None:
    STEP.apply(world.ctx)
    TenantNodes(SPEC.model_copy(update={"tenants": (own("ops"), own("ml"))})).apply(world.ctx)
    assert nodes.marks() == {FIRST: (None, []), SECOND: ("ml", [taint("ml")]), THIRD: ("ops", [taint("ops")])}


def test_nodes_of_an_added_tenant_keep_their_marks(world: LabWorld, nodes: Nodes) -> None:
    nodes.put("Namespace", "vcluster-guest")
    nodes.node(FIRST, "guest", taint("guest"))
    STEP.apply(world.ctx)
    assert nodes.marks()[FIRST] == ("guest", [taint("guest")])
    assert STEP.observe(world.ctx).state is State.READY


def test_node_of_an_added_tenant_is_not_reassigned(world: LabWorld, nodes: Nodes) -> None:
    nodes.put("Namespace", "vcluster-guest")
    nodes.node(THIRD, "guest", taint("guest"))
    with pytest.raises(LabError, match="dedicated to tenant guest") as caught:
        STEP.apply(world.ctx)
    assert "kailab tenant remove guest" in caught.value.fix
    assert world.log == []


def test_missing_node_is_drift_and_an_error(world: LabWorld, nodes: Nodes) -> None:
    STEP.apply(world.ctx)
    nodes.remove("Node", THIRD)
    assert STEP.observe(world.ctx).diff == (f"{THIRD}: missing",)
    with pytest.raises(LabError, match=f"no node {THIRD}"):
        STEP.apply(world.ctx)


def test_conflicting_patch_is_repeated(world: LabWorld, nodes: Nodes) -> None:
    nodes.fail("patch", "Node", (409, "the object has been modified"))
    STEP.apply(world.ctx)
    assert nodes.marks()[THIRD] == ("ml", [taint("ml")])
    assert len([line for line in world.log if THIRD in line]) == 2
    patch = json.loads(world.log[0].partition("{")[1] + world.log[0].partition("{")[2])
    assert patch["metadata"]["resourceVersion"] == "7"


def test_other_errors_are_raised(world: LabWorld, nodes: Nodes) -> None:
    nodes.fail("patch", "Node", (403, "forbidden"))
    with pytest.raises(ApiFailed, match="forbidden"):
        STEP.apply(world.ctx)


def add_pod(nodes: Nodes, name: str, namespace: str, **more: Any) -> None:
    obj = pod(name, namespace, **{"node": THIRD, "gpus": 1, "ready": True, **more})
    nodes.add(obj)


def test_pods_of_others_with_gpus_on_a_dedicated_node_are_drift(world: LabWorld, nodes: Nodes) -> None:
    STEP.apply(world.ctx)
    synced = {"vcluster.loft.sh/managed-by": "ml"}
    add_pod(nodes, "synced", "vcluster-ml", labels=synced)
    add_pod(nodes, "elsewhere", "team", node=FIRST)
    add_pod(nodes, "no-gpu", "team", gpus=0)
    add_pod(nodes, "ended", "team", phase="Succeeded")
    STEP.verify(world.ctx)
    add_pod(nodes, "train", "team")
    add_pod(nodes, "pretends", "team", labels=synced)
    lines = tuple(f"pod team/{name} on {THIRD}, which is dedicated to tenant ml" for name in ("train", "pretends"))
    assert STEP.observe(world.ctx).diff == lines
    with pytest.raises(StepFailed, match="a second time") as caught:
        STEP.verify(world.ctx)
    assert caught.value.evidence == lines


def test_unmark_affects_the_nodes_of_one_tenant(world: LabWorld, nodes: Nodes) -> None:
    STEP.apply(world.ctx)
    assert marked_nodes(nodes.cluster, "ml") == (THIRD,)
    unmark_nodes(world.ctx, "ml")
    assert nodes.marks() == {FIRST: (None, []), SECOND: ("ops", [taint("ops")]), THIRD: (None, [])}
    assert marked_nodes(nodes.cluster, "ml") == ()


def test_undo_unmarks_all_nodes(world: LabWorld, nodes: Nodes) -> None:
    STEP.apply(world.ctx)
    STEP.undo(world.ctx)
    assert {mark for mark, _ in nodes.marks().values()} == {None}


@pytest.fixture
def existing(runner: FakeRunner, tmp_path: Path) -> LabWorld:
    """Two nodes of a cluster of others, one of which the lab file names."""
    tenants = [own("ml", nodes=("gpu-1.example",)).model_dump()]
    world = LabWorld(lab_spec(cluster=EXISTING, gpus="none", scheduler="default", tenants=tenants), runner, tmp_path)
    nodes = world.api = Nodes(world.log)
    for name in (FIRST, SECOND, THIRD):
        nodes.remove("Node", name)
    nodes.node("gpu-1.example")
    nodes.node("gpu-2")
    return world


def test_named_nodes_of_an_existing_cluster_are_recorded_before_they_are_marked(existing: LabWorld) -> None:
    world, step = existing, TenantNodes(existing.spec)
    world.api.react("patch", "Node", lambda _: recorded.append(world.owned("node-mark")))
    recorded: list[list[str]] = []
    assert [str(one) for one in step.permissions()] == ["patch nodes gpu-1.example"]
    step.apply(world.ctx)
    assert recorded == [["gpu-1.example"]]
    assert world.api.marks()["gpu-1.example"] == ("ml", [taint("ml")])  # type: ignore[attr-defined]
    assert step.observe(world.ctx).state is State.READY
    step.apply(world.ctx)
    step.undo(world.ctx)
    assert world.api.marks() == {"gpu-1.example": (None, []), "gpu-2": (None, [])}  # type: ignore[attr-defined]
    assert world.owned("node-mark") == []


def test_marks_of_a_lab_that_has_lost_its_journal_are_found_by_its_label(existing: LabWorld) -> None:
    world = existing
    TenantNodes(world.spec).apply(world.ctx)
    world.ctx.journal.released("node-mark", "gpu-1.example")
    labels = (world.api.get("Node", "gpu-1.example") or {})["metadata"]["labels"]
    assert labels == {"kubernetes.io/hostname": "gpu-1.example", NODE_LABEL: "ml", "kailab": "demo"}
    unmark_nodes(world.ctx, "ml")
    labels = (world.api.get("Node", "gpu-1.example") or {})["metadata"]["labels"]
    assert labels == {"kubernetes.io/hostname": "gpu-1.example"}


def test_nodes_that_others_have_marked_stay(existing: LabWorld) -> None:
    world, step = existing, TenantNodes(existing.spec)
    world.api.node("gpu-2", "ops", taint("ops"))  # type: ignore[attr-defined]
    step.apply(world.ctx)
    assert step.observe(world.ctx).state is State.READY
    unmark_nodes(world.ctx, "ops")
    step.undo(world.ctx)
    assert world.api.marks()["gpu-2"] == ("ops", [taint("ops")])  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("gone", "node gpu-1.example does not exist"),
        ("marked", "node gpu-1.example is already dedicated to tenant ml"),
        ("used", "pod team/train on gpu-1.example, which is dedicated to tenant ml"),
    ],
)
def test_unfit_nodes_are_refused_before_any_change(existing: LabWorld, what: str, message: str) -> None:
    world = existing
    if what == "gone":
        world.api.remove("Node", "gpu-1.example")
    elif what == "marked":  # another lab's tenant of the same name
        world.api.node("gpu-1.example", "ml")  # type: ignore[attr-defined]
    else:
        world.api.add(pod("train", namespace="team", node="gpu-1.example", gpus=1))
    with pytest.raises(LabError) as refused:
        TenantNodes(world.spec).apply(world.ctx)
    assert refused.value.evidence == (message,)
    assert (world.log, world.owned("node-mark")) == ([], [])

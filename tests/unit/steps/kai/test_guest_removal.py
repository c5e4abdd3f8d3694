"""Removal of the lab's KAI from an existing cluster, or its hand-over to others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.errors import StepFailed
from lab.steps.kai.step import NAMESPACE, Kai
from tests.support.fakes import FakeRunner
from tests.support.kai_install import RENDERED, come_up, kai_world
from tests.support.lab_world import LabWorld
from tests.support.specs import EXISTING


def installed(runner: FakeRunner, tmp_path: Path, *crds: str) -> tuple[LabWorld, Any]:
    """KAI of the lab in an existing cluster that had these CRDs, and the command that installed it."""
    world = kai_world(runner, tmp_path, cluster=EXISTING)
    for name in crds:
        world.api.put("CustomResourceDefinition", name)
    upgrade = world.helm("upgrade")
    world.helm("template", out=RENDERED)
    come_up(world)
    Kai(world.spec).apply(world.ctx)
    return world, upgrade


def test_undo_on_an_existing_cluster_removes_only_objects_of_the_lab(runner: FakeRunner, tmp_path: Path) -> None:
    world, upgrade = installed(runner, tmp_path, "queues.scheduling.run.ai")
    where = ("--kubeconfig", "/lab/kubeconfig", "--kube-context", "kind-kailab-demo")
    assert upgrade.calls[0].argv[-4:] == where, "the lab's copy, not the file of the user"
    assert world.owned("crd") == ["configs.kai.scheduler"]
    world.log.clear()
    world.helm("uninstall")
    Kai(world.spec).undo(world.ctx)
    assert world.log == [
        "delete Config kai-config",
        "delete SchedulingShard default",
        "helm uninstall kai-scheduler",
        "delete CustomResourceDefinition configs.kai.scheduler",
        "delete Namespace kai-resource-reservation",
        "delete Namespace kai-scheduler",
    ]
    assert world.owned("crd") == world.owned("namespace") == world.owned("release") == []
    assert Kai(world.spec).remains(world.ctx) == ()
    notes = {"meta.helm.sh/release-namespace": NAMESPACE, "meta.helm.sh/release-name": "kai-scheduler"}
    by_helm = {"labels": {"app.kubernetes.io/managed-by": "Helm"}, "annotations": notes}
    world.api.put("ClusterRole", "binder", metadata=by_helm)
    assert Kai(world.spec).remains(world.ctx) == ("ClusterRole binder",)
    world.api.put("Namespace", NAMESPACE)
    assert Kai(world.spec).remains(world.ctx) == (), "somebody else has installed it since"


def test_undo_keeps_kai_while_others_have_queues(runner: FakeRunner, tmp_path: Path) -> None:
    world, _ = installed(runner, tmp_path)
    for name in ("default-parent-queue", "default-queue"):  # of the chart
        world.api.put("Queue", name)
    world.api.put("Queue", "mine", metadata={"labels": {"kailab": "demo"}})
    world.api.put("Queue", "theirs", metadata={"labels": {"kailab": "other"}})
    owned, before = world.ctx.journal.owned(), len(world.log)
    with pytest.raises(StepFailed, match="KAI is not removed: 1 of its queues are not of lab demo") as refused:
        Kai(world.spec).undo(world.ctx)
    assert refused.value.evidence == ("Queue theirs belongs to lab other",)
    assert "delete these queues" in refused.value.fix
    assert (world.log[before:], world.ctx.journal.owned()) == ([], owned)
    world.api.remove("Queue", "theirs")
    world.helm("uninstall")
    Kai(world.spec).undo(world.ctx)
    assert "helm uninstall kai-scheduler" in world.log


def test_undo_leaves_kai_whose_namespace_lost_the_label(runner: FakeRunner, tmp_path: Path) -> None:
    world, _ = installed(runner, tmp_path)
    world.api.put("Queue", "theirs", metadata={"labels": {"kailab": "other"}})
    crd = world.owned("crd")[0]
    world.api.put("CustomResourceDefinition", crd, metadata={"labels": {"kailab": "demo"}})
    world.api.objects["Namespace", "", NAMESPACE]["metadata"]["labels"] = {}
    before = len(world.log)
    Kai(world.spec).undo(world.ctx)
    assert not [line for line in world.log[before:] if line.startswith(("delete", "helm"))]
    assert world.owned("crd") == world.owned("namespace") == world.owned("release") == []
    assert not world.api.objects["CustomResourceDefinition", "", crd]["metadata"].get("labels")

"""CRDs that KAI needs but its chart lacks, and notices about charts of unknown versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.engine.events import Notice
from lab.engine.step import State
from lab.steps.kai.step import Kai
from tests.support.fakes import FakeRunner
from tests.support.kai_install import POLICIES, come_up, install, kai_world
from tests.support.specs import EXISTING

OLD_RENDERED = """
apiVersion: kai.scheduler/v1
kind: Config
metadata: {name: kai-config, namespace: kai-scheduler, annotations: {helm.sh/hook: "pre-install,pre-upgrade"}}
"""
TOPOLOGIES = "topologies.kueue.x-k8s.io"


def test_0_9_8_is_installed_without_the_hook_job_of_the_chart(runner: FakeRunner, tmp_path: Path) -> None:
    world = kai_world(runner, tmp_path, version="0.9.8")
    world.helm("template", out=OLD_RENDERED)
    upgrade = world.helm("upgrade")
    come_up(world)
    Kai(world.spec).apply(world.ctx)
    assert world.log == [
        "apply Namespace kai-scheduler",
        "delete Job crd-upgrader",
        f"apply CustomResourceDefinition {POLICIES}",
        f"apply CustomResourceDefinition {TOPOLOGIES}",
        "helm template kai-scheduler",
        "apply CustomResourceDefinition configs.kai.scheduler",
        "apply CustomResourceDefinition queues.scheduling.run.ai",
        "apply Config kai-config",
        "helm upgrade --install",
    ]
    assert {"--no-hooks", "--skip-crds"} <= set(upgrade.calls[0].argv)


def test_0_9_gets_the_crd_watched_by_its_operator(runner: FakeRunner, tmp_path: Path) -> None:
    world = kai_world(runner, tmp_path, version="0.9.8")
    world.helm("template", out=OLD_RENDERED)
    world.helm("upgrade")
    come_up(world)
    Kai(world.spec).apply(world.ctx)
    crd = world.api.objects["CustomResourceDefinition", "", POLICIES]
    assert crd["metadata"]["labels"] == {"kailab": "demo"}
    assert (crd["spec"]["group"], crd["spec"]["names"]["kind"]) == ("nvidia.com", "ClusterPolicy")
    assert [(v["name"], v["served"], v["storage"]) for v in crd["spec"]["versions"]] == [("v1", True, True)]
    assert f"CRDs that KAI needs are served: {POLICIES}, {TOPOLOGIES}" in world.api.waits
    assert POLICIES in " ".join(effect.what for effect in Kai(world.spec).effects())


def test_existing_crd_of_the_gpu_operator_is_kept(runner: FakeRunner, tmp_path: Path) -> None:
    world = kai_world(runner, tmp_path, version="0.9.8")
    existing = world.api.put("CustomResourceDefinition", POLICIES)
    world.helm("template", out=OLD_RENDERED)
    world.helm("upgrade")
    come_up(world)
    Kai(world.spec).apply(world.ctx)
    assert world.api.objects["CustomResourceDefinition", "", POLICIES] is existing


def test_missing_crds_are_drift(runner: FakeRunner, tmp_path: Path) -> None:
    world = kai_world(runner, tmp_path, version="0.9.8")
    install(world)
    seen = Kai(world.spec).observe(world.ctx)
    assert seen.state is State.DRIFTED
    assert seen.detail == f"CRDs that its operator needs are missing: {POLICIES}, {TOPOLOGIES}"


@pytest.mark.parametrize("kept", ["", "label", "object"])
def test_undo_deletes_the_crd_unless_others_use_it(runner: FakeRunner, tmp_path: Path, kept: str) -> None:
    world = kai_world(runner, tmp_path, version="0.9.8", cluster=EXISTING)
    world.helm("upgrade")
    come_up(world)
    Kai(world.spec).apply(world.ctx)
    assert POLICIES in world.owned("crd")
    if kept == "label":
        world.api.objects["CustomResourceDefinition", "", POLICIES]["metadata"]["labels"] = {}
    elif kept == "object":
        world.api.put("ClusterPolicy", "cluster-policy")
    world.helm("uninstall")
    Kai(world.spec).undo(world.ctx)
    assert (f"delete CustomResourceDefinition {POLICIES}" in world.log) is not bool(kept)
    assert world.owned("crd") == []


def test_differences_of_an_unknown_version_are_reported(runner: FakeRunner, tmp_path: Path) -> None:
    world = kai_world(runner, tmp_path, version="0.16.99")
    world.helm(
        "template", out="kind: Deployment\nmetadata: {name: kai-pilot}\nspec: {template: {spec: {containers: []}}}"
    )
    world.helm("upgrade")
    notices: list[str] = []
    world.ctx.bus.subscribe(lambda event: notices.append(event.text) if isinstance(event, Notice) else None)
    come_up(world)
    Kai(world.spec).apply(world.ctx)
    assert notices[0].startswith("KAI 0.16.99 differs from line 0.16: ")
    assert notices[-1].endswith(" more differences")
    assert "helm upgrade --install" in world.log

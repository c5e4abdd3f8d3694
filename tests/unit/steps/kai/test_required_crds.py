"""What a KAI version needs that its chart does not bring, and what is said of a chart nobody knows."""

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


def test_0_9_8_gets_its_config_and_crds_without_the_charts_job(runner: FakeRunner, tmp_path: Path) -> None:
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


def test_0_9_gets_the_crd_that_its_operator_watches(runner: FakeRunner, tmp_path: Path) -> None:
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


def test_the_gpu_operators_own_crd_is_left_as_it_is(runner: FakeRunner, tmp_path: Path) -> None:
    world = kai_world(runner, tmp_path, version="0.9.8")
    theirs = world.api.put("CustomResourceDefinition", POLICIES)
    world.helm("template", out=OLD_RENDERED)
    world.helm("upgrade")
    come_up(world)
    Kai(world.spec).apply(world.ctx)
    assert world.api.objects["CustomResourceDefinition", "", POLICIES] is theirs


def test_observe_misses_the_crd_that_the_operator_needs(runner: FakeRunner, tmp_path: Path) -> None:
    world = kai_world(runner, tmp_path, version="0.9.8")
    install(world)
    seen = Kai(world.spec).observe(world.ctx)
    assert seen.state is State.DRIFTED
    assert seen.detail == f"CRDs that its operator needs are missing: {POLICIES}, {TOPOLOGIES}"


@pytest.mark.parametrize("kept", ["", "label", "object"])
def test_the_needed_crd_goes_with_the_lab_unless_somebody_else_uses_it(
    runner: FakeRunner, tmp_path: Path, kept: str
) -> None:
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


def test_an_unknown_version_says_how_its_chart_differs(runner: FakeRunner, tmp_path: Path) -> None:
    world = kai_world(runner, tmp_path, version="0.16.99")
    world.helm(
        "template", out="kind: Deployment\nmetadata: {name: kai-pilot}\nspec: {template: {spec: {containers: []}}}"
    )
    world.helm("upgrade")
    told: list[str] = []
    world.ctx.bus.subscribe(lambda event: told.append(event.text) if isinstance(event, Notice) else None)
    come_up(world)
    Kai(world.spec).apply(world.ctx)
    assert told[0].startswith("KAI 0.16.99 differs from line 0.16: ")
    assert told[-1].endswith(" more differences")
    assert "helm upgrade --install" in world.log

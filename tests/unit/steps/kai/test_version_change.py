"""Step kai changes the version of an installed KAI: in place by Helm, or uninstalled first."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.engine.step import State
from lab.errors import WaitTimeout
from lab.steps.kai.step import NAMESPACE, Kai
from lab.steps.kai.upgrade.admission_bridge import BRIDGE
from lab.steps.kai.values import kai_deployments
from tests.support.api_requests import Call
from tests.support.builders import ready_deployment, running_pod
from tests.support.fakes import FakeRunner
from tests.support.kai_install import RENDERED, add_kai, kai_world
from tests.support.lab_world import LabWorld
from tests.support.specs import lab_spec

POLICY = "kailab-kai-is-changed"


def installed(runner: FakeRunner, tmp_path: Path, *, before: str, after: str) -> LabWorld:
    """A cluster with KAI ``before``, and a lab file with KAI ``after``."""
    world = kai_world(runner, tmp_path, version=after)
    add_kai(world.api, lab_spec(version=before))
    world.api.react(
        "create", "Pod", lambda call: (403, f"'{POLICY}' denied request") if "dryRun" in call.query else None
    )
    world.helm("template", out=RENDERED)
    return world


def test_newer_version_is_installed_in_place(runner: FakeRunner, tmp_path: Path) -> None:
    world = installed(runner, tmp_path, before="0.16.8", after="0.17.0")
    world.helm("upgrade")
    come_up(world, f"v{world.spec.kai.version}")
    Kai(world.spec).apply(world.ctx)
    assert not [line for line in world.log if line.startswith("delete") or "uninstall" in line or POLICY in line]


def test_newer_version_is_uninstalled_before_an_older_one(runner: FakeRunner, tmp_path: Path) -> None:
    """As KAI's migration guides say."""
    world = installed(runner, tmp_path, before="0.17.0", after="0.16.8")
    world.helm("uninstall")
    world.helm("upgrade")
    come_up(world, f"v{world.spec.kai.version}")
    Kai(world.spec).apply(world.ctx)
    order = [
        f"apply ValidatingAdmissionPolicy {POLICY}",
        "helm uninstall kai-scheduler",
        "helm upgrade --install",
        f"delete ValidatingAdmissionPolicyBinding {POLICY}",
    ]
    assert [world.log.index(line) for line in order] == sorted(world.log.index(line) for line in order)


def test_killed_change_is_drift_and_finished(runner: FakeRunner, tmp_path: Path) -> None:
    world = installed(runner, tmp_path, before="0.16.8", after="0.16.8")
    for kind in ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"):
        world.api.put(kind, POLICY, metadata={"labels": {"kailab": "demo"}})
    world.api.put("Pod", BRIDGE, NAMESPACE)
    seen = Kai(world.spec).observe(world.ctx)
    assert (seen.state, seen.detail) == (State.DRIFTED, "a change of its version has not finished")
    assert seen.diff == (f"pod {NAMESPACE}/{BRIDGE}", f"admission policy {POLICY}")
    world.helm("upgrade")
    come_up(world, f"v{world.spec.kai.version}")
    Kai(world.spec).apply(world.ctx)
    assert world.api.get("ValidatingAdmissionPolicy", POLICY) is None
    assert world.api.get("Pod", BRIDGE, NAMESPACE) is None


def test_components_of_the_old_version_do_not_count_as_ready(
    runner: FakeRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The operator replaces their images some time after Helm has returned; until then all Deployments are ready."""
    world = installed(runner, tmp_path, before="0.16.8", after="0.17.0")
    world.helm("upgrade")
    come_up(world, "v0.16.8")
    # for the last of three waits to run out; on a busy machine the others take more than 0.1 s
    monkeypatch.setattr("lab.steps.kai.step._READY_SECONDS", 2.0)
    with pytest.raises(WaitTimeout, match=r"KAI's components run version 0\.17\.0"):
        Kai(world.spec).apply(world.ctx)
    come_up(world, "v0.17.0")
    Kai(world.spec).apply(world.ctx)


def come_up(world: LabWorld, tag: str) -> None:
    """Make all components run with images of this tag, as soon as Helm has returned and the code waits for them."""

    def start(_: Call) -> None:
        if "helm upgrade --install" not in world.log:
            return
        for name in kai_deployments(world.spec):
            deployment = ready_deployment(name, NAMESPACE)
            image = f"ghcr.io/kai-scheduler/kai-scheduler/scheduler:{tag}"
            deployment["spec"]["template"]["spec"]["containers"] = [{"name": "main", "image": image}]
            world.api.add(running_pod(name, NAMESPACE, labels={"app": name}), deployment)

    for verb in ("list", "watch"):  # it does not watch pods that are Ready in the list
        world.api.after(verb, "Pod", start)

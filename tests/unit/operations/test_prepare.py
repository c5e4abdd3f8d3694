"""The plan of a lab in an existing cluster: made from what is there, and without a container engine."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.config import LabSpec
from lab.engine.step import State
from lab.errors import LabError, SpecError
from lab.findings import Finding
from lab.host import HostFacts
from lab.operations import prepare as operation
from lab.session.lab import Lab
from lab.session.session import Session
from lab.steps.cluster.existing import CLAIM
from lab.supply import Choice, Item, Supply
from tests.support.access_reviews import permit
from tests.support.builders import node
from tests.support.fake_api_server import FakeApiServer
from tests.support.kai_install import add_kai_of_others
from tests.support.specs import BUDGET


@pytest.fixture
def asked_for(monkeypatch: pytest.MonkeyPatch) -> list[Item]:
    """Items that the plan needs; a registry has all."""
    found: list[Item] = []

    def choose(_: Supply, items: Iterable[Item]) -> dict[Item, Choice]:
        found.extend(items := list(items))
        return {item: Choice(item, "registry", "registry.kailab.dev", ()) for item in items}

    monkeypatch.setattr(Supply, "choose", choose)
    return found


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch, asked_for: list[Item]) -> FakeApiServer:
    """A cluster with two GPUs, and a machine without a container engine."""
    server = FakeApiServer(node("a", gpus=2))
    server.put("Namespace", "kube-system", metadata={"uid": "one"})
    permit(server, lambda _: True)
    no_engine = Finding("none runs", severity="error", rule="engine", title="Container engine")
    full = Finding("1 GiB free", severity="error", rule="disk", title="Disk")
    monkeypatch.setattr(operation, "gather", lambda run: HostFacts())
    monkeypatch.setattr(operation, "doctor", lambda *_, **__: (no_engine, full))
    monkeypatch.setattr(operation, "connect", lambda spec: server.cluster)
    monkeypatch.setattr(Session, "cluster", lambda *_: server.cluster)
    monkeypatch.setattr("lab.operations.preview.has_manifest", lambda _: None)
    return server


def lab_of(tmp_path: Path, **sections: Any) -> Lab:
    file = tmp_path / "config"
    cluster = {"clusters": [{"name": "x", "cluster": {"server": "https://x"}}], "users": []}
    file.write_text(yaml.safe_dump({**cluster, "contexts": [{"name": "c", "context": {"cluster": "x"}}]}))
    existing = {"provider": "existing", "kubeconfig": str(file), "context": "c"}
    return Lab.of(LabSpec.model_validate({"cluster": existing, "budget": BUDGET, **sections}))


def test_kai_is_installed_from_its_chart_alone(api: FakeApiServer, asked_for: list[Item], tmp_path: Path) -> None:
    """The nodes of the cluster pull the images, so no image is fetched or baked."""
    found, findings = operation.prepare(lab := lab_of(tmp_path))
    ids = [step.id for step in found.steps if not step.id.startswith("supply:")]
    assert ids == ["host", "cluster", "network", "gpus", "kai", "queues"]
    assert {(item.kind, item.name) for item in asked_for} == {("chart", "kai-scheduler"), ("binary", "helm")}
    assert [finding.rule for finding in findings] == ["disk"], "no engine is needed"
    facts = found.facts
    assert (facts["provider"], facts["context"], facts["nodes"]) == ("existing", "c", "1")
    assert (facts["gpu_mode"], facts["gpus"], facts["scheduler"]) == ("present", "1 node × 2 GPUs", "kai")
    assert found.notices == ()
    assert not lab.session.engine_runs
    assert api.log == []


def test_adopted_kai_needs_nothing(api: FakeApiServer, asked_for: list[Item], tmp_path: Path) -> None:
    add_kai_of_others(api, "0.14.2")
    found, _ = operation.prepare(lab_of(tmp_path, kai={"manage": "adopt"}))
    assert asked_for == []
    assert (found.facts["kai_version"], found.facts["no_kai"]) == ("0.14.2", "")


@pytest.mark.parametrize("sections", [{"scheduler": "default"}, {"kai": {"manage": "none"}}])
def test_lab_without_kai(api: FakeApiServer, tmp_path: Path, sections: dict[str, Any]) -> None:
    found, _ = operation.prepare(lab_of(tmp_path, **sections))
    assert [step.id for step in found.steps] == ["host", "cluster", "network", "gpus"]
    assert found.notices == ()


def test_kai_cannot_be_required_of_such_a_lab(api: FakeApiServer, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"KAI is required, but the lab file has kai\.manage: none"):
        operation.prepare(lab_of(tmp_path, kai={"manage": "none"}), frozenset({"kai"}))


def test_another_cluster_behind_the_context_is_refused(api: FakeApiServer, tmp_path: Path) -> None:
    lab = lab_of(tmp_path)
    lab.paths.root.mkdir(parents=True)
    lab.session.journal.owns(CLAIM, "https://old", "cluster", server="https://old", uid="another")
    with pytest.raises(LabError, match="context c leads to another cluster"):
        operation.prepare(lab)


def test_plan_observes_without_an_engine(api: FakeApiServer, tmp_path: Path) -> None:
    report = operation.plan(lab_of(tmp_path))
    assert report.seen["cluster"].state is State.DRIFTED
    assert set(report.seen) == {step.id for step in report.plan.steps}
    assert report.preview is not None
    assert report.preview.inventory.gpus == {"nvidia.com/gpu": 2}
    assert report.preview.missing == ()
    written = [call for call in api.calls if call.verb not in ("get", "list")]
    assert all("Review" in call.kind or "dryRun" in call.query for call in written)

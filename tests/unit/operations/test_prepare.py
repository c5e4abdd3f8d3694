"""The plan of a lab in an existing cluster: made from what is there, and without a container engine."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from lab.config import LabSpec, TenantQuota, TenantSpec, resolve_spec
from lab.engine.step import Observed, State
from lab.errors import LabError, SpecError
from lab.findings import Finding
from lab.host.facts import HostFacts
from lab.kai import lines
from lab.operations import prepare as operation
from lab.operations.preview import preview
from lab.session.lab import Lab
from lab.session.session import Session
from lab.session.user_kubeconfig import CLAIM
from lab.supply import Choice, Item, Supply
from lab.ui.plan import render_plan
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
def denied() -> set[str]:
    """Resources on which the user may do nothing."""
    return set()


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch, asked_for: list[Item], denied: set[str]) -> FakeApiServer:
    """A cluster with two GPUs, and a machine without a container engine."""
    server = FakeApiServer(node("a", gpus=2))
    server.put("Namespace", "kube-system", metadata={"uid": "one"})
    permit(server, lambda one: one.resource not in denied)
    no_engine = Finding("none runs", severity="error", rule="engine", title="Container engine")
    full = Finding("1 GiB free", severity="error", rule="disk", title="Disk")
    monkeypatch.setattr(operation, "gather", lambda run, tools: HostFacts())
    monkeypatch.setattr(operation, "doctor", lambda *_, **__: (no_engine, full))
    monkeypatch.setattr(operation, "connect", lambda spec: server.cluster)
    monkeypatch.setattr(Session, "cluster", lambda *_: server.cluster)
    monkeypatch.setattr("lab.steps.pulled_images.has_manifest", lambda *_: None)
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


def test_queues_get_what_added_tenants_leave_of_the_budget(api: FakeApiServer, tmp_path: Path) -> None:
    add_kai_of_others(api, "0.16.8")
    lab = lab_of(tmp_path, kai={"manage": "adopt"})
    values = {"controlPlane": {"statefulSet": {"persistence": {"volumeClaim": {"enabled": False}}}}}
    tenant = TenantSpec(name="ml", mode="default", quota=TenantQuota(gpus=3), values=values)
    lab.session = Session(lab.spec, lab.spec, added=(tenant,))
    lab.session.save()
    found, _ = operation.prepare(lab)
    assert (found.spec.queues[0].name, found.spec.queues[0].gpu.limit) == ("demo", 1)


def test_plan_uses_renewed_credentials(api: FakeApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr("lab.session.session.renew_copy", lambda spec, *_: asked.append(str(spec.cluster.kubeconfig)))
    operation.prepare(lab_of(tmp_path, scheduler="default"))
    assert asked == [str(tmp_path / "config")]


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


def test_lab_with_nodes_of_its_own_is_not_moved_to_another_cluster(api: FakeApiServer, tmp_path: Path) -> None:
    lab = lab_of(tmp_path)
    lab.paths.root.mkdir(parents=True)
    lab.session.journal.owns("cluster", "kailab-demo", "cluster")
    with pytest.raises(SpecError, match="lab demo is up on nodes of its own, and its file wants it elsewhere"):
        operation.prepare(lab)
    assert api.log == []


def test_plan_observes_without_an_engine(api: FakeApiServer, tmp_path: Path) -> None:
    report = operation.plan(lab_of(tmp_path))
    assert report.seen["cluster"].state is State.DRIFTED
    assert set(report.seen) == {step.id for step in report.plan.steps}
    assert report.preview is not None
    assert report.preview.inventory.gpus == {"nvidia.com/gpu": 2}
    assert report.preview.missing == ()
    written = [call for call in api.calls if call.verb not in ("get", "list")]
    assert all("Review" in call.kind or "dryRun" in call.query for call in written)


def saved_lab(cluster: dict[str, Any], *claim: str, **facts: str) -> Lab:
    """A lab file, and the state of a lab of that name."""
    spec = LabSpec.model_validate({"cluster": cluster, **({"budget": BUDGET} if "provider" in cluster else {})})
    session = Session(spec, spec, facts, engine_runs=False)
    session.save()
    session.journal.owns(*claim, "cluster")
    return Lab.of(spec)


def test_lab_stays_on_its_engine_when_a_preferred_one_starts() -> None:
    """On the other engine a second cluster would come up, and 'kailab down' would find only that."""
    lab = saved_lab({}, "cluster", "kailab-demo", engine="podman")
    assert operation._engine(lab.session, ["docker", "podman"]) == "podman"
    lab.session.journal.released("cluster", "kailab-demo")
    assert operation._engine(lab.session, ["docker", "podman"]) == "docker"
    assert operation._engine(lab.session, []) == "docker"


EXISTING = {"provider": "existing", "kubeconfig": "config", "context": "c"}


@pytest.mark.parametrize(
    ("cluster", "claim", "where"),
    [
        ({"engine": "docker"}, ("cluster", "kailab-demo"), "on nodes of podman"),
        (EXISTING, ("cluster", "kailab-demo"), "on nodes of podman"),
        ({}, (CLAIM, "https://theirs"), "in the existing cluster https://theirs"),
    ],
)
def test_lab_that_is_elsewhere_is_not_forgotten(cluster: dict[str, Any], claim: tuple[str, str], where: str) -> None:
    lab = saved_lab(cluster, *claim, engine="podman")
    with pytest.raises(SpecError, match=f"lab demo is up {where}") as caught:
        operation._engine(lab.session, ["docker"])
    assert "kailab down --name demo" in caught.value.fix


def test_plan_asks_registries_with_the_pull_secrets_and_for_the_suites_image(
    api: FakeApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, dict[str, str]]] = []

    def has(image: str, logins: dict[str, str]) -> bool:
        asked.append((image, logins))
        return "probe" not in image

    monkeypatch.setattr("lab.steps.pulled_images.has_manifest", has)
    auths = {"https://index.docker.io/v1/": {"auth": "amU6cHc="}, "r.example": {"username": "jane", "password": "pw"}}
    text = base64.b64encode(json.dumps({"auths": auths}).encode()).decode()
    api.put("Secret", "pull", "default", type="kubernetes.io/dockerconfigjson", data={".dockerconfigjson": text})
    api.put("Secret", "other", "default", type="Opaque", data={".dockerconfigjson": "bm8="})
    supply = {"pullSecrets": ["pull", "other"], "mirrors": {"registry.kailab.dev": "r.example"}}
    found = operation.plan(lab_of(tmp_path, supply=supply)).preview
    assert found is not None
    assert found.suites_image == {"r.example/probe:2": "missing"}
    assert set(found.images.values()) == {"registry"}
    assert {tuple(logins.items()) for _, logins in asked} == {(("docker.io", "je:pw"), ("r.example", "jane:pw"))}
    found.refuse()


def test_plan_says_what_undoes_a_change_and_what_the_suites_lack(api: FakeApiServer, tmp_path: Path) -> None:
    report = operation.plan(lab_of(tmp_path, scheduler="default"))
    render_plan(report, Console(file=(text := io.StringIO()), width=300))
    lines = text.getvalue().splitlines()
    (copy,) = [line for line in lines if "copy of context c" in line]
    assert copy.endswith("undone by: kailab down")
    assert any(line.endswith("0 objects; kailab down removes them") for line in lines)
    assert any("registry.kailab.dev/probe:2, the image of the suites' pods: not on the nodes" in line for line in lines)


def test_plan_names_what_the_suites_may_not_do_and_lets_the_lab_come_up(
    api: FakeApiServer, denied: set[str], tmp_path: Path
) -> None:
    denied |= {"*", "pods/exec"}
    report = operation.plan(lab_of(tmp_path))
    found = report.preview
    assert found is not None
    found.refuse()
    assert [str(one) for one in found.missing_for_suites] == ["create pods/exec", "get pods/exec"]
    (granted, _) = found.role
    assert granted["metadata"]["name"] == "kailab-demo-suites"
    assert granted["rules"] == [{"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create", "get"]}]
    render_plan(report, Console(file=(text := io.StringIO()), width=300))
    assert "create pods/exec, get pods/exec" in text.getvalue()


def test_charts_that_are_not_here_are_named_and_read_before_anything_is_made(
    api: FakeApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    brought: list[tuple[str, str]] = []
    monkeypatch.setattr("lab.supply.Supply.at_hand", lambda _, __, *chart: chart in brought)
    monkeypatch.setattr("lab.supply.Supply.chart", lambda _, *chart: brought.append(chart))
    monkeypatch.setattr("lab.steps.kai.step.Kai.creates", lambda *_: ())
    lab = lab_of(tmp_path, kai={"manage": "install"})
    plan, _ = operation.prepare(lab)
    seen = dict.fromkeys((step.id for step in plan.steps), Observed.absent())
    found = preview(lab, plan, seen)
    assert found is not None
    assert (found.unread, brought) == (("kai-scheduler v0.16.8",), [])
    found = preview(lab, plan, seen, before_up=True)
    assert found is not None
    assert (found.unread, brought) == ((), [("kai-scheduler", "v0.16.8")])


def test_only_the_lab_files_values_are_warned_about() -> None:
    """kailab's own values also have keys that some patch releases do not read yet, such as 0.12.15."""
    for version in ("0.12.15", *(line.version for line in lines().values())):
        assert operation.lint_warnings(resolve_spec(None, "minimal", [f"kai.version={version}", "scheduler=kai"])) == ()
    spec = resolve_spec(None, "minimal", ["scheduler=kai", "kai.values.admision.replicas=2"])
    (warning,) = operation.lint_warnings(spec)
    assert "does not read admision.replicas; Helm ignores it" in warning

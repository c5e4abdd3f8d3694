"""``kailab watch install``, ``status`` and ``remove``: nothing of others is touched, nothing is left."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

import lab.cli.watch
from lab.cli.watch import app
from lab.engine.journal import Journal
from lab.errors import Leftovers, SpecError, StepFailed
from lab.operations import watch as operation
from lab.operations.watch import WatchedQueue, WatchTarget, install, remove, status, status_of
from lab.paths import LabPaths
from lab.session.lab import KAI_SERVES, Lab
from lab.ui.text_writer import TextWriter
from lab.ui.watch import render_watch_installed, render_watch_removed, render_watch_status
from lab.watch.exporter import metrics
from lab.watch.names import INVARIANTS, NAME
from tests.support.api_requests import Call
from tests.support.fake_api_server import FakeApiServer
from tests.support.specs import EXISTING, lab_spec

IMAGE = "registry.example/kailab-watch:1"


@pytest.fixture
def server() -> FakeApiServer:
    """A cluster whose Deployments become ready at once."""
    made = FakeApiServer()

    def roll_out(call: Call) -> None:
        counts = dict.fromkeys(("replicas", "readyReplicas", "updatedReplicas", "availableReplicas"), 1)
        state = {"observedGeneration": 1, **counts}
        made.change("Deployment", call.name, call.namespace, status=state, metadata={"generation": 1})

    made.after("apply", "Deployment", roll_out)
    return made


@pytest.fixture
def target(server: FakeApiServer) -> WatchTarget:
    return WatchTarget(server.cluster, "cluster prod")


@pytest.fixture
def of_a_lab(server: FakeApiServer, monkeypatch: pytest.MonkeyPatch) -> WatchTarget:
    """The cluster of a lab; its nodes have the image."""
    monkeypatch.setattr(operation, "_load", lambda lab: "content")
    return WatchTarget(server.cluster, "lab demo", Lab.of(lab_spec()))


def guest(server: FakeApiServer, **sections: Any) -> WatchTarget:
    """An existing cluster with a lab."""
    return WatchTarget(server.cluster, "lab demo", Lab.of(lab_spec(cluster=EXISTING, **sections)))


def names(server: FakeApiServer) -> set[str]:
    return {f"{kind} {name}" for kind, _, name in server.objects}


CORE = {f"{kind} {NAME}" for kind in ("Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Deployment")}
CORE |= {f"Service {NAME}"}


def test_any_cluster_needs_an_image(server: FakeApiServer, target: WatchTarget) -> None:
    with pytest.raises(SpecError, match="--image is missing"):
        install(target)
    assert server.log == []


def test_lab_in_an_existing_cluster_needs_an_image_too(server: FakeApiServer) -> None:
    """kailab has no access to its nodes, so that it can load nothing into them."""
    with pytest.raises(SpecError, match="--image is missing") as refused:
        install(guest(server))
    assert refused.value.fix == "build and push it as docs/how-to/watch.md says, and add --image REF"
    simulated = {"mode": "simulated", "nodes": ["a"], "model": "H100", "image": "r/kailab-watch:1"}
    with pytest.raises(SpecError) as refused:
        install(guest(server, gpu=simulated))
    assert refused.value.fix == "add --image r/kailab-watch:1, which gpu.image of the lab file names"
    assert server.calls == []
    assert Journal(LabPaths("demo").journal).owned() == ()


def test_existing_cluster_pulls_the_image_as_the_labs_other_pods(server: FakeApiServer) -> None:
    server.put("Secret", "login", "default", type="kubernetes.io/dockerconfigjson", data={".dockerconfigjson": "e30="})
    supply = {"mirrors": {"registry.example": "https://mirror.example/r/"}, "pullSecrets": ["login"]}
    target = guest(server, supply=supply)
    done = install(target, IMAGE, canary=True)
    assert done.image == "mirror.example/r/kailab-watch:1"
    copy = server.get("Secret", "login", NAME) or {}
    assert (copy["metadata"]["labels"], copy["data"]) == ({"kailab": "demo"}, {".dockerconfigjson": "e30="})
    spec = (server.get("Deployment", NAME, NAME) or {})["spec"]["template"]["spec"]
    assert spec["imagePullSecrets"] == [{"name": "login"}]
    (container,) = spec["containers"]
    assert (container["image"], container["imagePullPolicy"]) == (done.image, "IfNotPresent")
    assert f"--canary-image={done.image}" in container["args"]
    order = [line for line in server.log if "Secret" in line or "Deployment" in line]
    assert [line.partition(" ")[2].partition(" ")[0] for line in order] == ["Secret", "Deployment"]


def test_missing_pull_secret_is_refused_before_anything_is_made(server: FakeApiServer) -> None:
    with pytest.raises(SpecError, match="Secret default/login does not exist"):
        install(guest(server, supply={"pullSecrets": ["login"]}), IMAGE)
    assert server.log == []
    assert Journal(LabPaths("demo").journal).owned() == ()


def test_namespace_has_the_labels_by_which_an_adopted_kai_serves_it(server: FakeApiServer) -> None:
    target = guest(server, kai={"manage": "adopt"})
    assert target.lab is not None
    target.lab.session.facts[KAI_SERVES] = "team=ml,kailab=theirs"
    install(target, IMAGE)
    labels = (server.get("Namespace", NAME) or {})["metadata"]["labels"]
    assert (labels["team"], labels["kailab"]) == ("ml", "demo")


def test_install_creates_the_objects_and_waits(server: FakeApiServer, target: WatchTarget) -> None:
    done = install(target, IMAGE)
    assert names(server) == CORE
    assert len(done.objects) == len(CORE)
    assert [title.partition(" ")[0] for title in done.skipped] == ["ServiceMonitor", "PrometheusRule"]
    assert server.waits == [f"Deployment {NAME} ready"]
    deployment = server.get("Deployment", NAME, NAME) or {}
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == IMAGE


def test_install_waits_until_the_namespace_of_the_last_watch_is_gone(
    server: FakeApiServer, target: WatchTarget
) -> None:
    """Its deletion would take along what is applied now."""
    install(target, IMAGE)
    server.change("Namespace", NAME, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    server.log.clear()
    install(target, IMAGE)
    assert server.log[:2] == [f"delete Namespace {NAME}", f"apply Namespace {NAME}"]


def test_prometheus_operator_gets_the_alert_rules(server: FakeApiServer, target: WatchTarget) -> None:
    for kind in ("ServiceMonitor", "PrometheusRule"):
        server.serve(kind, "monitoring.coreos.com/v1", f"{kind.lower()}s")
    assert install(target, IMAGE).skipped == ()
    assert names(server) == CORE | {f"ServiceMonitor {NAME}", f"PrometheusRule {NAME}"}


def test_install_without_canaries_takes_their_rights_back(server: FakeApiServer, target: WatchTarget) -> None:
    install(target, IMAGE, canary=True)
    assert names(server) == CORE | {f"Role {NAME}", f"RoleBinding {NAME}"}
    install(target, IMAGE)
    assert names(server) == CORE


@pytest.mark.parametrize("kind", ["Namespace", "ClusterRole", "ClusterRoleBinding"])
def test_objects_of_others_are_refused_and_nothing_is_changed(
    server: FakeApiServer, target: WatchTarget, kind: str
) -> None:
    server.put(kind, NAME, metadata={"labels": {"kailab": "another"}})
    with pytest.raises(StepFailed, match=f"{kind} {NAME} belongs to lab another"):
        install(target, IMAGE)
    assert server.log == []


def test_lab_claims_the_watch_before_it_creates_it(server: FakeApiServer, of_a_lab: WatchTarget) -> None:
    seen: list[bool] = []
    claimed = Journal(LabPaths("demo").journal)
    server.react("apply", "Namespace", lambda _: seen.append(bool(claimed.owned("watch"))))
    install(of_a_lab)
    assert seen == [True]
    template = (server.get("Deployment", NAME, NAME) or {})["spec"]["template"]
    assert template["metadata"]["annotations"] == {"kailab.dev/image": "content"}
    remove(of_a_lab)
    assert claimed.owned("watch") == ()


def test_remove_leaves_nothing_and_the_objects_of_others_alone(server: FakeApiServer, target: WatchTarget) -> None:
    server.put("Namespace", "theirs")
    server.put("ClusterRole", "theirs", metadata={"labels": {"app.kubernetes.io/name": NAME, "kailab": "another"}})
    install(target, IMAGE, canary=True)
    done = remove(target)
    assert names(server) == {"Namespace theirs", "ClusterRole theirs"}
    assert done.removed == (f"ClusterRoleBinding {NAME}", f"ClusterRole {NAME}", f"Namespace {NAME}")
    assert remove(target).removed == ()


def test_remove_keeps_a_namespace_of_somebody_else(server: FakeApiServer, target: WatchTarget) -> None:
    server.put("Namespace", NAME)
    done = remove(target)
    assert names(server) == {f"Namespace {NAME}"}
    assert done.kept == (f"Namespace {NAME} was created at an unknown time",)
    assert "is left alone" in rendered(render_watch_removed, done)


def test_what_remains_is_named(server: FakeApiServer, target: WatchTarget) -> None:
    install(target, IMAGE)
    labels = {"app.kubernetes.io/name": NAME, "kailab": NAME}
    server.put("ClusterRole", "copy", metadata={"labels": labels})
    with pytest.raises(Leftovers) as caught:
        remove(target)
    assert caught.value.evidence == ("ClusterRole copy",)


def text(kai: str = "0.16.8") -> str:
    """Metrics of a watch with a violation and canary pods."""
    made = metrics()
    for invariant in INVARIANTS:
        made.set("kailab_invariant_violations", 0, invariant.id, "", "", "")
        made.set("kailab_invariant_evaluated", invariant.id != "gpu-given", invariant.id)
    made.set("kailab_invariant_violations", 2, "reserved", "reservation-lost-on-retry", "0.17.0", "true")
    made.add("kailab_invariant_violations_total", 5, "reserved")
    made.set("kailab_kai_info", 1, kai)
    made.observe("kailab_canary_bound_seconds", 1.0, "team")
    made.observe("kailab_canary_bound_seconds", 2.0, "team")
    made.add("kailab_canary_failures_total", 0, "team")
    made.add("kailab_canary_failures_total", 3, "full")
    made.set("process_resident_memory_bytes", 50 * 2**20)
    made.set("kailab_api_requests_total", 7, "watch")
    return made.text()


def test_status_is_read_from_the_metrics() -> None:
    found = status_of("lab demo", IMAGE, text())
    assert (found.installed, found.ready, found.kai_version, found.violations) == (True, True, "0.16.8", 2)
    broken = next(one for one in found.invariants if one.id == "reserved")
    assert (broken.now, broken.total, broken.proven) == (2, 5, True)
    assert (broken.defects, broken.cured_in) == (("reservation-lost-on-retry",), ("0.17.0",))
    assert [one.id for one in found.invariants if not one.evaluated] == ["gpu-given"]
    assert found.canaries == (WatchedQueue("team", 2, 1.5, 0), WatchedQueue("full", 0, None, 3))
    assert (found.memory_bytes, found.api_requests) == (50 * 2**20, {"watch": 7})
    words = rendered(render_watch_status, found)
    assert "lab demo: 2 violations last" in words
    assert "reservation-lost-on-retry; cured in 0.17.0" in words
    assert "perhaps" not in words
    assert "50 MiB resident, 7 API requests" in words


def test_status_without_a_watch_and_before_it_is_ready(server: FakeApiServer, target: WatchTarget) -> None:
    assert not status(target).installed
    assert "no watch is installed" in rendered(render_watch_status, status(target))
    server.put("Deployment", NAME, NAME, spec={"replicas": 1, "template": {"spec": {"containers": [{"image": IMAGE}]}}})
    found = status(target)
    assert (found.installed, found.ready, found.image) == (True, False, IMAGE)
    assert "not ready" in rendered(render_watch_status, found)


def test_status_of_a_running_watch_comes_through_the_api_server(
    server: FakeApiServer, target: WatchTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(target, IMAGE)
    asked: list[str] = []

    def raw(self: Any, method: str, path: str, **_: Any) -> bytes:
        asked.append(f"{method} {self.title}{path}")
        return text().encode()

    monkeypatch.setattr("lab.kube.proxy.Proxy.raw", raw)
    assert status(target).violations == 2
    assert asked == [f"GET Service {NAME}/{NAME}:9400 /metrics"]


def rendered(render: Callable[..., None], result: object) -> str:
    out = io.StringIO()
    render(result, TextWriter(Console(file=out, width=200, highlight=False)))
    return out.getvalue()


@pytest.fixture
def kubeconfig(tmp_path: Path, target: WatchTarget, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    file = tmp_path / "kubeconfig"
    file.write_text("{}")
    monkeypatch.setattr(lab.cli.watch, "cluster_of", lambda *_: target.cluster)
    return ["--kubeconfig", str(file), "--context", "prod"]


def test_commands(server: FakeApiServer, kubeconfig: list[str]) -> None:
    done = CliRunner().invoke(app, ["install", *kubeconfig, "--image", IMAGE, "--canary", "--queue", "a", "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["cluster"] == "cluster prod"
    args = (server.get("Deployment", NAME, NAME) or {})["spec"]["template"]["spec"]["containers"][0]["args"]
    assert "--queue=a" in args
    assert CliRunner().invoke(app, ["remove", *kubeconfig]).exit_code == 0
    assert names(server) == set()
    assert json.loads(CliRunner().invoke(app, ["status", *kubeconfig, "--json"]).stdout)["installed"] is False


def test_violation_that_lasts_has_an_exit_code(kubeconfig: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab.cli.watch, "status", lambda target: status_of("x", IMAGE, text()))
    assert CliRunner().invoke(app, ["status", *kubeconfig]).exit_code == 13


@pytest.mark.parametrize(
    "args", ["install --queue a", "install --kubeconfig /dev/null", "remove --kubeconfig /dev/null"]
)
def test_invalid_options(args: str) -> None:
    assert isinstance(CliRunner().invoke(app, args.split()).exception, SpecError)


def test_manifests_and_dashboard_need_no_cluster() -> None:
    import yaml

    printed = CliRunner().invoke(app, ["manifests", "--image", IMAGE, "--canary"]).stdout
    kinds = [doc["kind"] for doc in yaml.safe_load_all(printed)]
    assert kinds[0] == "Namespace"
    assert {"Role", "PrometheusRule"} <= set(kinds)
    assert json.loads(CliRunner().invoke(app, ["dashboard"]).stdout)["uid"] == NAME


def test_installation_is_rendered(target: WatchTarget) -> None:
    words = rendered(render_watch_installed, install(target, IMAGE))
    assert "cluster prod: the watch runs" in words
    assert "no Prometheus Operator" in words

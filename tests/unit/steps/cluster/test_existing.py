"""Provider ``existing``: a kubeconfig of one context, and the nodes of a cluster of others."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.engine.step import State
from lab.errors import ApiFailed, LabError, SpecError
from lab.steps.cluster import existing
from lab.steps.cluster.existing import CLAIM, ExistingCluster, ReadyNodes, connect, one_context, refuse_another
from lab.workloads.temporary import PROCESS_LABEL
from tests.support.builders import node
from tests.support.fakes import FakeRunner
from tests.support.lab_world import LabWorld
from tests.support.specs import lab_spec

SERVER = "https://10.0.0.1:6443"


def config(**user: Any) -> dict[str, Any]:
    """A kubeconfig with the contexts ``prod``, which is the current one, and ``test``."""
    return {
        "current-context": "prod",
        "clusters": [
            {"name": "theirs", "cluster": {"server": "https://prod:6443"}},
            {"name": "ours", "cluster": {"server": SERVER}},
        ],
        "users": [{"name": "admin", "user": {"token": "secret"}}, {"name": "dev", "user": user}],
        "contexts": [
            {"name": "prod", "context": {"cluster": "theirs", "user": "admin"}},
            {"name": "test", "context": {"cluster": "ours", "user": "dev", "namespace": "mine"}},
        ],
    }


def written(path: Path, data: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(data if isinstance(data, str) else yaml.safe_dump(data))
    return path


# --- one_context


def test_copy_has_only_the_named_context(tmp_path: Path) -> None:
    text = one_context(written(tmp_path / "config", config(token="abc")), "test")
    assert yaml.safe_load(text) == {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": {"server": SERVER}}],
        "users": [{"name": "test", "user": {"token": "abc"}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test", "namespace": "mine"}}],
        "current-context": "test",
    }


def test_certificates_are_inline_and_other_paths_absolute(tmp_path: Path) -> None:
    for name in ("ca.crt", "dev.crt", "dev.key"):
        written(tmp_path / "pki" / name, f"PEM of {name}")
    files = {"client-certificate": "pki/dev.crt", "client-key": str(tmp_path / "pki" / "dev.key")}
    plugin = {"command": "./bin/login", "args": ["--quiet"]}
    data = config(**files, tokenFile="pki/token", exec=plugin)
    data["clusters"][1]["cluster"]["certificate-authority"] = "pki/ca.crt"
    made = yaml.safe_load(one_context(written(tmp_path / "config", data), "test"))
    encoded = {name: base64.b64encode(f"PEM of {name}".encode()).decode() for name in ("ca.crt", "dev.crt", "dev.key")}
    assert made["clusters"][0]["cluster"] == {"server": SERVER, "certificate-authority-data": encoded["ca.crt"]}
    assert made["users"][0]["user"] == {
        "client-certificate-data": encoded["dev.crt"],
        "client-key-data": encoded["dev.key"],
        "tokenFile": str(tmp_path / "pki" / "token"),
        "exec": {"command": str(tmp_path / "bin" / "login"), "args": ["--quiet"]},
    }


def test_data_wins_over_files_as_in_kubectl(tmp_path: Path) -> None:
    written(tmp_path / "dev.crt", "file")
    data = config(**{"client-certificate": "dev.crt", "client-certificate-data": "inline"})
    made = yaml.safe_load(one_context(written(tmp_path / "config", data), "test"))
    assert made["users"][0]["user"] == {"client-certificate-data": "inline"}


def test_plugin_on_the_path_is_kept(tmp_path: Path) -> None:
    file = written(tmp_path / "config", config(exec={"command": "aws-iam-authenticator"}))
    assert yaml.safe_load(one_context(file, "test"))["users"][0]["user"]["exec"]["command"] == "aws-iam-authenticator"


def test_user_may_be_missing(tmp_path: Path) -> None:
    data = config()
    data["contexts"][1]["context"] = {"cluster": "ours"}
    assert yaml.safe_load(one_context(written(tmp_path / "config", data), "test"))["users"][0]["user"] == {}


def test_missing_context_names_the_others(tmp_path: Path) -> None:
    file = written(tmp_path / "config", config())
    with pytest.raises(SpecError) as refused:
        one_context(file, "tset")
    assert refused.value.what == f"cluster.context: {file} has no context 'tset'"
    assert refused.value.evidence == ("contexts: prod, test",)


@pytest.mark.parametrize(
    "text",
    [
        "a: [",
        "just text",
        "- a list",
        "clusters: [{cluster: {}}]\ncontexts: [{context: {}}]",
        "contexts: 3",
        "contexts: [{name: test, context: text}]",
        "contexts: [{name: test, context: {cluster: a}}]\nclusters: [{name: a, cluster: text}]",
        "\x00",
    ],
)
def test_broken_file_is_refused(tmp_path: Path, text: str) -> None:
    file = written(tmp_path / "config", text)
    with pytest.raises(SpecError, match=r"is unreadable: .+"):
        one_context(file, "test")


def test_missing_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"missing is unreadable: .*No such file"):
        one_context(tmp_path / "missing", "test")
    with pytest.raises(SpecError, match=r"is unreadable: .*dev\.crt"):
        one_context(written(tmp_path / "config", config(**{"client-certificate": "dev.crt"})), "test")


def test_empty_file_has_no_contexts(tmp_path: Path) -> None:
    with pytest.raises(SpecError) as refused:
        one_context(written(tmp_path / "config", ""), "test")
    assert refused.value.evidence == ("contexts: none",)


def test_context_without_a_server_is_refused(tmp_path: Path) -> None:
    data = config()
    data["contexts"][1]["context"] = {"cluster": "gone", "user": "dev"}
    with pytest.raises(SpecError, match="names no cluster with a server"):
        one_context(written(tmp_path / "config", data), "test")


def test_client_uses_the_users_file_and_the_named_context(tmp_path: Path) -> None:
    file = written(tmp_path / "config", config(token="abc"))
    cluster = connect(lab_spec(cluster={"provider": "existing", "kubeconfig": str(file), "context": "test"}))
    assert (cluster.kubeconfig, cluster.context, cluster.server) == (file, "test", SERVER)


# --- step cluster


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

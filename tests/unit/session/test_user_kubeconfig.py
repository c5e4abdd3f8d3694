"""The user's kubeconfig of an existing cluster: one context of it, a client for it, and the lab's copy."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
import yaml

from lab.errors import SpecError
from lab.session import user_kubeconfig
from lab.session.lab import Lab
from lab.session.session import Session
from lab.session.user_kubeconfig import CLAIM, connect, one_context
from tests.support.fake_api_server import FakeApiServer
from tests.support.kubeconfigs import SERVER, config, written
from tests.support.specs import lab_spec


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


# --- the lab's copy


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeApiServer:
    """The cluster behind the user's context."""
    server = FakeApiServer()
    server.put("Namespace", "kube-system", metadata={"uid": "one"})
    monkeypatch.setattr(user_kubeconfig, "connect", lambda spec: server.cluster)
    return server


@pytest.fixture
def session(tmp_path: Path, api: FakeApiServer) -> Session:
    """A lab that is up, whose user has renewed the credentials."""
    file = written(tmp_path / "config", config(token="old"))
    spec = lab_spec(cluster={"provider": "existing", "kubeconfig": str(file), "context": "test"})
    made = Session(spec, spec, engine_runs=False)
    made.save()
    made.paths.kubeconfig.write_text(one_context(file, "test"))
    made.journal.owns(CLAIM, api.server, "cluster", server=api.server, uid="one")
    written(file, config(token="new"))
    return made


def token(session: Session) -> str:
    return str(yaml.safe_load(session.paths.kubeconfig.read_text())["users"][0]["user"]["token"])


def test_renewed_credentials_are_those_of_the_next_command(session: Session) -> None:
    before = Path(session.spec.cluster.kubeconfig or "").read_bytes()
    lab = Lab.attach("demo")
    assert token(session) == "new"
    assert session.paths.kubeconfig.stat().st_mode & 0o777 == 0o600
    assert Path(session.spec.cluster.kubeconfig or "").read_bytes() == before
    assert lab.cluster.kubeconfig == session.paths.kubeconfig
    assert lab.cluster.calls.origin == f"context test of {session.spec.cluster.kubeconfig}"


def test_unchanged_file_needs_no_request(session: Session, api: FakeApiServer) -> None:
    session.renew_credentials()
    api.calls.clear()
    session.renew_credentials()
    assert api.calls == []


def test_context_that_leads_to_another_cluster_is_not_copied(session: Session, api: FakeApiServer) -> None:
    api.put("Namespace", "kube-system", metadata={"uid": "two"})
    session.renew_credentials()
    assert token(session) == "old"


def test_cluster_without_a_known_identity_is_not_trusted(session: Session, api: FakeApiServer) -> None:
    session.journal.released(CLAIM, api.server)
    session.renew_credentials()
    session.journal.owns(CLAIM, api.server, "cluster", server=api.server, uid="")
    api.remove("Namespace", "kube-system")
    session.renew_credentials()
    assert token(session) == "old"


def test_copy_stays_where_the_users_file_does_not_help(session: Session, api: FakeApiServer) -> None:
    api.fail("get", "Namespace", (401, "Unauthorized"))
    session.renew_credentials()
    api.alive = False
    session.renew_credentials()
    Path(session.spec.cluster.kubeconfig or "").unlink()
    session.renew_credentials()
    assert token(session) == "old"


def test_lab_without_a_copy_gets_none(session: Session) -> None:
    session.paths.kubeconfig.unlink()
    session.renew_credentials()
    assert not session.paths.kubeconfig.exists()

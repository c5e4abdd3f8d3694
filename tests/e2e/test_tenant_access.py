"""Credentials of the lab give access to one cluster each, and no artefact contains a secret."""

from __future__ import annotations

import base64
import gzip
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.errors import ApiFailed, WaitTimeout
from lab.kube import Cluster
from lab.kube.errors import Unreachable
from lab.objects.isolation_labels import tenant_namespace
from lab.objects.redact import TOKEN_PREFIX
from lab.pytest_plugin.fixtures import HOST
from lab.report.artifacts import collect_lab
from lab.report.lab_report import report_of
from lab.report.page import write_page
from lab.session.lab import Lab
from lab.snapshot.cluster_snapshot import take
from lab.workloads.namespace import WorkloadNamespace
from lab.workloads.pods import cpu_pod

from .scheduling_decisions import WAIT

TOKEN = re.compile(r"eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]+")
PRIVATE = ("client-key-data", "token", "password")
"""The credentials of a user in a kubeconfig."""

SECRETS = "/api/v1/secrets"

Json = dict[str, Any]

pytestmark = [pytest.mark.tenants, pytest.mark.without_kai]


def files(lab: Lab) -> dict[str, Path]:
    """Every kubeconfig that the lab issues, by its cluster."""
    return {HOST: lab.paths.kubeconfig, **{one.name: lab.paths.tenant_kubeconfig(one.name) for one in lab.tenants}}


def parts(path: Path) -> tuple[Json, Json]:
    """Return the cluster and the user of a kubeconfig's current context."""
    config = yaml.safe_load(path.read_text())
    named = {
        kind: {row["name"]: row[kind.removesuffix("s")] for row in config[kind]}
        for kind in ("clusters", "users", "contexts")
    }
    context = named["contexts"][config["current-context"]]
    return named["clusters"][context["cluster"]], named["users"][context["user"]]


@pytest.fixture
def crossed(tmp_path: Path) -> Iterator[Callable[[Json, Json], Cluster]]:
    """Connects to a cluster with another one's credentials: ``crossed(cluster, user)``, both as in a kubeconfig."""
    made: list[Cluster] = []

    def open_(cluster: Json, user: Json) -> Cluster:
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "x", "cluster": cluster}],
            "users": [{"name": "x", "user": user}],
            "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
            "current-context": "x",
        }
        path = tmp_path / f"crossed-{len(made)}.kubeconfig"
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(config))
        made.append(Cluster(path))
        return made[-1]

    yield open_
    for cluster in made:
        cluster.close()


def read_secrets(cluster: Cluster) -> Json:
    """List all Secrets, the most critical request. Raises ApiFailed."""
    return cluster.calls.json("GET", SECRETS, title="Secrets", query={"limit": "1"}, attempts=2)


def test_credentials_open_one_api_only(lab: Lab, crossed: Callable[[Json, Json], Cluster]) -> None:
    """Uses the server's own CA, so that only the credentials can be the cause of a refusal."""
    known = {name: parts(path) for name, path in files(lab).items()}
    answers: dict[tuple[str, str], int] = {}
    for owner, (_, user) in known.items():
        for target, (cluster, _) in known.items():
            try:
                read_secrets(crossed(cluster, user))
                answers[owner, target] = 200
            except ApiFailed as error:
                answers[owner, target] = error.status
    opened = {pair for pair, status in answers.items() if status == 200}
    assert opened == {(name, name) for name in known}
    assert {status for pair, status in answers.items() if pair not in opened} <= {401, 403}


def test_kubeconfig_trusts_one_server_only(lab: Lab, crossed: Callable[[Json, Json], Cluster]) -> None:
    """A port that another API now uses must not be mistaken for the original API."""
    known = {name: parts(path) for name, path in files(lab).items()}
    for owner, (cluster, user) in known.items():
        for target, (other, _) in known.items():
            if owner != target:
                with pytest.raises(Unreachable) as refused:
                    read_secrets(crossed({**cluster, "server": other["server"]}, user))
                assert refused.value.tls, f"{owner} trusts the server of {target}"


def test_kubeconfigs_are_private_and_lie_in_a_private_folder(lab: Lab) -> None:
    for name, path in files(lab).items():
        for entry, mode in ((path, 0o600), (path.parent, 0o700)):
            status = entry.stat()
            assert (name, stat.S_IMODE(status.st_mode), status.st_uid) == (name, mode, os.getuid())


def test_kubeconfig_holds_one_door_and_nothing_of_others(lab: Lab) -> None:
    texts = {name: path.read_text() for name, path in files(lab).items()}
    for name, text in texts.items():
        config = yaml.safe_load(text)
        counts = [len(config[kind]) for kind in ("clusters", "users", "contexts")]
        assert (name, counts) == (name, [1, 1, 1])
        cluster, user = parts(files(lab)[name])
        values = [cluster["server"], *cluster_secrets(cluster), *user_secrets(user)]
        for other, content in texts.items():
            found = [value[:40] for value in values if value in content]
            assert other == name or not found, f"the kubeconfig of {other} contains secrets of {name}"


def cluster_secrets(cluster: Json) -> list[str]:
    """Return the identifying values of a server."""
    assert cluster.get("insecure-skip-tls-verify") is not True
    return [cluster["certificate-authority-data"]]


def user_secrets(user: Json) -> list[str]:
    """Return the identifying values of a user; at least one exists."""
    found = [user[key] for key in (*PRIVATE, "client-certificate-data") if user.get(key)]
    assert found
    return found


# --- artefacts of a run


@pytest.fixture(scope="module")
def with_token(lab: Lab) -> Iterator[dict[str, tuple[WorkloadNamespace, Json]]]:
    """A pod in each tenant that mounts its ServiceAccount's token: its namespace, and the synced pod."""
    with ExitStack() as undo:
        places = {}
        for tenant in lab.tenants:
            inside = lab.tenant(tenant.name)
            workloads = WorkloadNamespace.open(
                lab.spec.name, lab.cluster, "with-token", tenant=tenant.name, cluster=inside
            )
            undo.callback(workloads.clear)
            pod = cpu_pod("token", scheduler=None)
            pod["spec"]["automountServiceAccountToken"] = True
            workloads.submit(pod)
            places[tenant.name] = workloads
        found = {}
        for name, workloads in places.items():
            (view,) = workloads.running("token", timeout=WAIT)
            found[name] = (workloads, lab.cluster.get("Pod", view.name, view.namespace) or {})
        yield found


@pytest.fixture(scope="module")
def doors(lab: Lab, with_token: dict[str, tuple[WorkloadNamespace, Json]]) -> dict[str, str]:
    """Secrets that must appear nowhere: keys and tokens of kubeconfigs, of vCluster's Secrets and of synced pods."""
    values: dict[str, str] = {}
    for name, path in files(lab).items():
        _, user = parts(path)
        values |= {f"{name}: {key} of the kubeconfig": user[key] for key in PRIVATE if user.get(key)}
    for tenant, (_, pod) in with_token.items():
        secret = lab.cluster.get("Secret", f"vc-{tenant}", tenant_namespace(tenant)) or {}
        for key in ("client-key", "token", "config"):
            if packed := (secret.get("data") or {}).get(key):
                values[f"{tenant}: {key} of its Secret"] = packed
        notes = pod["metadata"]["annotations"]
        values |= {f"{tenant}: {key}": value for key, value in notes.items() if key.startswith(TOKEN_PREFIX)}
    return values


def findings(text: str, doors: dict[str, str]) -> list[str]:
    """Names of the secrets that a text contains; never the secrets themselves."""
    found = [name for name, value in doors.items() if value in text or core(value) in text]
    return found + (["a token"] if TOKEN.search(text) else [])


def core(secret: str) -> str:
    """Return a line unique to a private key in base64, which its clear text has too; return other secrets unchanged."""
    try:
        text = base64.b64decode(secret, validate=True).decode()
    except ValueError:
        return secret
    return max(text.splitlines(), key=len) if text.startswith("-----BEGIN") else secret


def test_synced_pods_do_hold_tokens(
    doors: dict[str, str], with_token: dict[str, tuple[WorkloadNamespace, Json]]
) -> None:
    """Otherwise the tests below would search for secrets that do not exist."""
    tokens = {name.partition(":")[0] for name, value in doors.items() if TOKEN_PREFIX in name and TOKEN.search(value)}
    assert tokens == with_token.keys()
    assert all(any(name.startswith(f"{tenant}: client-key") for name in doors) for tenant in with_token)


def test_collected_logs_hold_no_secrets(lab: Lab, doors: dict[str, str], tmp_path: Path) -> None:
    """The output of ``kailab logs``, which is also kept for failed tests."""
    written = collect_lab(lab, tmp_path / "logs", budget=WAIT)
    assert any(path.name == "pods.yaml" for path in written)
    found = {str(path.relative_to(tmp_path)): findings(path.read_text(), doors) for path in written}
    assert {name: what for name, what in found.items() if what} == {}


def test_captures_hold_no_secrets(lab: Lab, doors: dict[str, str], tmp_path: Path) -> None:
    """The data that explain and verify keep of the host and of each tenant."""
    for name, cluster in {HOST: lab.cluster, **{one.name: lab.tenant(one.name) for one in lab.tenants}}.items():
        path = tmp_path / f"{name}.json.gz"
        take(cluster, logs=True).save(path)
        text = gzip.decompress(path.read_bytes()).decode()
        assert '"Pod"' in text
        assert (name, findings(text, doors)) == (name, [])


def test_evidence_of_a_wait_holds_no_secrets(
    lab: Lab, doors: dict[str, str], with_token: dict[str, tuple[WorkloadNamespace, Json]]
) -> None:
    for tenant, (workloads, pod) in with_token.items():
        meta = pod["metadata"]
        with pytest.raises(WaitTimeout) as inside:
            workloads.inside(lambda pod: False, "token", timeout=1, what="never")
        with pytest.raises(WaitTimeout) as host:
            lab.cluster.wait(
                "Pod",
                lambda pods: False,
                namespace=meta["namespace"],
                fields=f"metadata.name={meta['name']}",
                timeout=1,
                what="never",
            )
        assert meta["name"] in str(host.value)
        assert (tenant, findings(f"{inside.value}{host.value}", doors)) == (tenant, [])


def test_report_holds_no_secrets(lab: Lab, doors: dict[str, str], tmp_path: Path) -> None:
    page = write_page(tmp_path / "report.html", report_of(lab))
    text = page.read_text()
    assert lab.spec.name in text
    assert findings(text, doors) == []


def test_what_the_lab_keeps_beside_kubeconfigs_holds_no_secrets(lab: Lab, doors: dict[str, str]) -> None:
    """The journal, the log of commands, and the last run of the suites; tenants' volumes are their own data."""
    assert lab.paths.root.stat().st_mode & 0o077 == 0
    doors_of = set(files(lab).values())
    everything = (path for path in lab.paths.root.rglob("*") if not path.is_relative_to(lab.paths.volumes))
    kept = [path for path in everything if path.is_file() and path not in doors_of]
    assert lab.paths.log in kept
    found = {path.name: findings(path.read_bytes().decode(errors="replace"), doors) for path in kept}
    assert {name: what for name, what in found.items() if what} == {}

"""Pull secrets that the lab file names, copied into the namespaces of the lab: an existing cluster pulls its images."""

from __future__ import annotations

import base64
import json

from lab.config import LabSpec
from lab.errors import SpecError
from lab.kube import OWNER_LABEL, Cluster
from lab.kube.rest import Json
from lab.supply.registry import without_scheme

_FROM = "default"
_DOCKER = ".dockerconfigjson"


def refuse_missing_secrets(cluster: Cluster, spec: LabSpec) -> None:
    """Raise SpecError if namespace default lacks one of the Secrets."""
    _secrets(cluster, spec)


def copy_pull_secrets(cluster: Cluster, spec: LabSpec, namespace: str) -> None:
    """Copy the Secrets of namespace default to one of the lab's. Raises SpecError."""
    meta = {"namespace": namespace, "labels": {OWNER_LABEL: spec.name}}
    cluster.apply(
        {"apiVersion": "v1", "kind": "Secret", "metadata": {**meta, "name": name}, "type": type_, "data": data}
        for name, type_, data in _secrets(cluster, spec)
    )


def registry_logins(cluster: Cluster, spec: LabSpec) -> dict[str, str]:
    """``user:password`` by registry host, as in the Secrets; an unreadable Secret has none. Raises SpecError."""
    logins: dict[str, str] = {}
    for _, _, data in _secrets(cluster, spec):
        try:
            auths = json.loads(base64.b64decode(data.get(_DOCKER) or "")).get("auths") or {}
            logins |= {_host(address): _login(entry) for address, entry in auths.items()}
        except (ValueError, AttributeError, TypeError):
            continue
    return {host: login for host, login in logins.items() if login}


def _host(address: str) -> str:
    """The registry of an entry: docker login writes https://index.docker.io/v1/ for docker.io."""
    host = without_scheme(address).partition("/")[0]
    return "docker.io" if host in ("index.docker.io", "registry-1.docker.io") else host


def _login(entry: Json) -> str:
    if auth := entry.get("auth"):
        return base64.b64decode(auth).decode()
    return f"{entry['username']}:{entry.get('password', '')}" if entry.get("username") else ""


def _secrets(cluster: Cluster, spec: LabSpec) -> list[tuple[str, str, Json]]:
    """Name, type and data of each."""
    found = []
    for name in spec.supply.pull_secrets:
        secret = cluster.get("Secret", name, _FROM)
        if secret is None:
            raise SpecError(
                f"supply.pullSecrets: Secret {_FROM}/{name} does not exist",
                fix=cluster.kubectl("create", "secret", "docker-registry", name, "-n", _FROM, "--docker-server=HOST"),
            )
        found.append((name, str(secret.get("type", "")), dict(secret.get("data") or {})))
    return found

"""Pull secrets that the lab file names, copied into the namespaces of the lab: an existing cluster pulls its images."""

from __future__ import annotations

from lab.config import LabSpec
from lab.errors import SpecError
from lab.kube import OWNER_LABEL, Cluster
from lab.kube.rest import Json

_FROM = "default"


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

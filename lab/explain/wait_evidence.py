"""Explanations of pods for the error of a failed wait."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lab.errors import LabError
from lab.explain.lookup import TenantSnapshot, explain_pod
from lab.kube import Cluster
from lab.snapshot.cluster_snapshot import take
from lab.snapshot.kai_installation import installation

_READ_SECONDS = 15.0


def wait_evidence(host: Cluster, cluster: Cluster, namespace: str, tenant: str, names: Sequence[str]) -> list[str]:
    """Explain the pods that a wait was for. Never raises: the wait's own error matters more.

    ``cluster`` and ``namespace`` are those in which the pods were created; ``tenant`` is empty on the host.
    """
    try:
        return list(_explained(host, cluster, namespace, tenant, names))
    except LabError as error:
        return [f"no explanation: {error.what}"]
    except Exception as error:  # noqa: BLE001 - a bug in a rule must not hide the wait's error
        return [f"no explanation: {type(error).__name__}: {error}"]


def kubectl_command(cluster: Cluster) -> tuple[str, ...]:
    """Return the kubectl command line for a cluster."""
    context = ("--context", cluster.context) if cluster.context else ()
    return ("kubectl", "--kubeconfig", str(cluster.kubeconfig), *context)


def _explained(host: Cluster, cluster: Cluster, namespace: str, tenant: str, names: Sequence[str]) -> Iterable[str]:
    snapshot = take(host, timeout=_READ_SECONDS)
    tenants: tuple[TenantSnapshot, ...] = ()
    if tenant:
        inner = take(cluster, timeout=_READ_SECONDS)
        tenants = (TenantSnapshot(tenant, inner, installation(inner) is not None, kubectl_command(cluster)),)
    for name in names:
        yield from explain_pod(snapshot, namespace, name, tenants=tenants, tenant=tenant, command=kubectl_command(host))

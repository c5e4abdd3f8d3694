"""Why pods are not as a wait wanted them: lines for the evidence of its error."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lab.errors import LabError
from lab.explain.installation import installation
from lab.explain.lookup import TenantSnapshot, explain_pod
from lab.kube import Cluster
from lab.snapshot.cluster_snapshot import take

_READ_SECONDS = 15.0


def wait_evidence(host: Cluster, cluster: Cluster, namespace: str, tenant: str, names: Sequence[str]) -> list[str]:
    """Explain pods that a wait gave up on. Never raises: the wait's own error matters more.

    Args:
        host: the lab's own cluster.
        cluster: where the pods were created: the host, or the tenant.
        namespace: their namespace there.
        tenant: name of the tenant; empty on the host.
        names: the pods that were waited for.
    """
    try:
        return list(_explained(host, cluster, namespace, tenant, names))
    except LabError as error:
        return [f"no explanation: {error.what}"]
    except Exception as error:  # noqa: BLE001 - an explanation that breaks must not hide what failed
        return [f"no explanation: {type(error).__name__}: {error}"]


def kubectl_command(cluster: Cluster) -> tuple[str, ...]:
    """The kubectl command that reaches a cluster, as a person would type it."""
    context = ("--context", cluster.context) if cluster.context else ()
    return ("kubectl", "--kubeconfig", str(cluster.kubeconfig), *context)


def _explained(host: Cluster, cluster: Cluster, namespace: str, tenant: str, names: Sequence[str]) -> Iterable[str]:
    seen = take(host, timeout=_READ_SECONDS)
    tenants: tuple[TenantSnapshot, ...] = ()
    if tenant:
        inner = take(cluster, timeout=_READ_SECONDS)
        tenants = (TenantSnapshot(tenant, inner, installation(inner) is not None, kubectl_command(cluster)),)
    for name in names:
        yield from explain_pod(seen, namespace, name, tenants=tenants, tenant=tenant, command=kubectl_command(host))

"""Opens the clusters of a lab and explains its pods: the host and the tenants are read at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from lab.errors import LabError
from lab.explain import Explanation, LabSnapshot, Overview, TenantSnapshot, explain_pod, explained, overview_of
from lab.explain.installation import installation
from lab.kube.client import Cluster
from lab.snapshot.cluster_snapshot import ClusterSnapshot, take

if TYPE_CHECKING:
    from lab.config import TenantSpec
    from lab.workloads.namespace import WorkloadNamespace

_OWN_KAI = "own-kai"
_WAIT_SECONDS = 15.0
"""For the words under a wait that has failed already."""


class LabLike(Protocol):
    """What is needed of ``lab.api.Lab``."""

    @property
    def cluster(self) -> Cluster:
        """The lab's own cluster."""
        ...

    @property
    def tenants(self) -> tuple[TenantSpec, ...]:
        """The lab's tenants."""
        ...

    def tenant(self, name: str) -> Cluster:
        """A tenant's cluster."""
        ...


def read(lab: LabLike, tenant: str = "", *, logs: bool = True, timeout: float = 30.0) -> LabSnapshot:
    """Read the lab's own cluster and its tenants.

    Args:
        lab: which one.
        tenant: the tenant that must be readable; others that do not answer are left out.
        logs: also last words of KAI's components and of containers that crash.
        timeout: seconds for each cluster.

    Raises:
        ApiFailed: the lab's own cluster, or that tenant, does not answer.
        NoLab: the lab has no such tenant.
    """
    if tenant:
        lab.tenant(tenant)  # raises NoLab, with the names of those that there are

    def one(spec: TenantSpec) -> TenantSnapshot | LabError:
        cluster = lab.tenant(spec.name)
        try:
            world = take(cluster, logs=logs, timeout=timeout)
        except LabError as error:
            return error
        return TenantSnapshot(spec.name, world, spec.mode == _OWN_KAI, _command(cluster))

    with ThreadPoolExecutor(max_workers=1 + len(lab.tenants), thread_name_prefix="read") as pool:
        host = pool.submit(take, lab.cluster, logs=logs, timeout=timeout)
        seen = dict(zip((spec.name for spec in lab.tenants), pool.map(one, lab.tenants), strict=True))
        world = host.result()
    if isinstance(trouble := seen.get(tenant), LabError):
        raise trouble
    tenants = tuple(found for found in seen.values() if isinstance(found, TenantSnapshot))
    return LabSnapshot(world, tenants, _command(lab.cluster))


def why(lab: LabLike, name: str, namespace: str, tenant: str = "") -> Explanation:
    """Why a pod of the lab does not run.

    Args:
        lab: the lab.
        name: the pod, or the workload whose pods are missing.
        namespace: its namespace, in the tenant when one is named.
        tenant: a tenant; empty for the lab's own cluster.

    Raises:
        NoSuchPod: there is no such pod; says which names are near.
        ApiFailed: a cluster does not answer.
        NoLab: the lab has no such tenant.
    """
    return explained(read(lab, tenant), name, namespace, tenant)


def why_all(lab: LabLike) -> Overview:
    """The lab at a glance. Raises ApiFailed."""
    return overview_of(read(lab))


def open_cluster(kubeconfig: Path, context: str | None) -> LabSnapshot:
    """Any cluster by kubeconfig and context, read and left as it is.

    Raises:
        ApiFailed: it does not answer, or the kubeconfig cannot be used.
    """
    cluster = Cluster(kubeconfig, context)
    try:
        return LabSnapshot(take(cluster, logs=True), (), _command(cluster))
    finally:
        cluster.close()


def because(place: WorkloadNamespace, names: Sequence[str]) -> list[str]:
    """Why pods of a place are not as a wait wanted them: lines for its evidence. Never raises.

    Args:
        place: where the pods are.
        names: the pods that were waited for.
    """
    try:
        host = take(place.host, timeout=_WAIT_SECONDS)
        return list(_told(host, _tenants(place), place, names))
    except LabError as error:
        return [f"no explanation: {error.what}"]
    except Exception as error:  # noqa: BLE001 - an explanation that breaks must not hide what failed
        return [f"no explanation: {type(error).__name__}: {error}"]


def _told(
    host: ClusterSnapshot, tenants: tuple[TenantSnapshot, ...], place: WorkloadNamespace, names: Sequence[str]
) -> Iterable[str]:
    for name in names:
        yield from explain_pod(
            host, place.namespace, name, tenants=tenants, tenant=place.tenant, command=_command(place.host)
        )


def _tenants(place: WorkloadNamespace) -> tuple[TenantSnapshot, ...]:
    if not place.tenant:
        return ()
    world = take(place.cluster, timeout=_WAIT_SECONDS)
    return (TenantSnapshot(place.tenant, world, installation(world) is not None, _command(place.cluster)),)


def _command(cluster: Cluster) -> tuple[str, ...]:
    context = ("--context", cluster.context) if cluster.context else ()
    return ("kubectl", "--kubeconfig", str(cluster.kubeconfig), *context)

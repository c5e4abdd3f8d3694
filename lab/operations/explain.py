"""Opens the clusters of a lab and explains its pods: the host and the tenants are read at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lab.config import TenantSpec
from lab.errors import LabError
from lab.explain import Explanation, LabSnapshot, Overview, TenantSnapshot, explained, overview_of
from lab.explain.wait_evidence import kubectl_command
from lab.kube import Cluster
from lab.session.lab import Lab
from lab.snapshot.cluster_snapshot import take

_OWN_KAI = "own-kai"


def read(lab: Lab, tenant: str = "", *, logs: bool = True, timeout: float = 30.0) -> LabSnapshot:
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
        return TenantSnapshot(spec.name, world, spec.mode == _OWN_KAI, kubectl_command(cluster))

    with ThreadPoolExecutor(max_workers=1 + len(lab.tenants), thread_name_prefix="read") as pool:
        host = pool.submit(take, lab.cluster, logs=logs, timeout=timeout)
        seen = dict(zip((spec.name for spec in lab.tenants), pool.map(one, lab.tenants), strict=True))
        world = host.result()
    if isinstance(trouble := seen.get(tenant), LabError):
        raise trouble
    tenants = tuple(found for found in seen.values() if isinstance(found, TenantSnapshot))
    return LabSnapshot(world, tenants, kubectl_command(lab.cluster))


def why(lab: Lab, name: str, namespace: str, tenant: str = "") -> Explanation:
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


def why_all(lab: Lab) -> Overview:
    """The lab at a glance. Raises ApiFailed."""
    return overview_of(read(lab))


def open_cluster(kubeconfig: Path, context: str | None) -> LabSnapshot:
    """Any cluster by kubeconfig and context, read and left as it is.

    Raises:
        ApiFailed: it does not answer, or the kubeconfig cannot be used.
    """
    cluster = Cluster(kubeconfig, context)
    try:
        return LabSnapshot(take(cluster, logs=True), (), kubectl_command(cluster))
    finally:
        cluster.close()

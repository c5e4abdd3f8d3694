"""Reads the clusters of a lab in parallel, for ``lab explain``."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from lab.config import TenantSpec
from lab.errors import LabError
from lab.explain import LabSnapshot, TenantSnapshot
from lab.explain.wait_evidence import kubectl_command
from lab.kube import Cluster
from lab.session.lab import Lab
from lab.snapshot.cluster_snapshot import take


def read(lab: Lab, tenant: str = "", *, logs: bool = True, timeout: float = 30.0) -> LabSnapshot:
    """Read the lab's own cluster and its tenants.

    Args:
        lab: the lab.
        tenant: a tenant that must be readable; other tenants that do not answer are left out.
        logs: also the last log lines of KAI's components and of crashing containers.
        timeout: seconds for each cluster.

    Raises:
        ApiFailed: the lab's own cluster, or that tenant, does not answer.
        NoLab: the lab has no such tenant.
    """
    if tenant:
        lab.tenant(tenant)  # raises NoLab

    def one(spec: TenantSpec) -> TenantSnapshot | LabError:
        cluster = lab.tenant(spec.name)
        try:
            snapshot = take(cluster, logs=logs, timeout=timeout)
        except LabError as error:
            return error
        return TenantSnapshot(spec.name, snapshot, spec.mode == "own-kai", kubectl_command(cluster))

    with ThreadPoolExecutor(max_workers=1 + len(lab.tenants), thread_name_prefix="read") as pool:
        host = pool.submit(take, lab.cluster, logs=logs, timeout=timeout)
        seen = dict(zip((spec.name for spec in lab.tenants), pool.map(one, lab.tenants), strict=True))
        snapshot = host.result()
    if isinstance(error := seen.get(tenant), LabError):
        raise error
    tenants = tuple(found for found in seen.values() if isinstance(found, TenantSnapshot))
    return LabSnapshot(snapshot, tenants, kubectl_command(lab.cluster))


def read_cluster(cluster: Cluster) -> LabSnapshot:
    """Read any cluster and close its client. Raises ApiFailed."""
    try:
        return LabSnapshot(take(cluster, logs=True), (), kubectl_command(cluster))
    finally:
        cluster.close()

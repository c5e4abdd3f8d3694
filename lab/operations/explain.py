"""Reads the clusters of a lab in parallel, for ``kailab explain``."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lab.config import TenantSpec
from lab.errors import LabError, SpecError
from lab.explain import LabSnapshot, TenantSnapshot
from lab.explain.wait_evidence import kubectl_command
from lab.kube import Cluster
from lab.kube.rest_mapper import KNOWN
from lab.session.lab import Lab
from lab.snapshot.cluster_snapshot import KINDS, ClusterSnapshot, take


def read(lab: Lab, tenant: str = "", kind: str = "", scheduler: bool = False) -> LabSnapshot:
    """Read the lab's own cluster and its tenants, with the last log lines of KAI and of crashing containers.

    Args:
        lab: the lab.
        tenant: a tenant that must be readable; other tenants that do not answer are left out.
        kind: a kind of workload to read as well, in kubectl's words, in that tenant or on the host.
        scheduler: also the metrics of KAI's schedulers, and their log lines about evictions.

    Raises:
        ApiFailed: the lab's own cluster, or that tenant, does not answer.
        NoLab: the lab has no such tenant.
    """
    if tenant:
        lab.tenant(tenant)  # raises NoLab

    def one(spec: TenantSpec) -> TenantSnapshot | LabError:
        cluster = lab.tenant(spec.name)
        try:
            more = _more(cluster, kind if spec.name == tenant else "")
            snapshot = take(cluster, kinds=(*KINDS, *more), logs=True, scheduler=scheduler)
        except LabError as error:
            return error
        return TenantSnapshot(spec.name, snapshot, spec.mode == "own-kai", kubectl_command(cluster))

    with ThreadPoolExecutor(max_workers=1 + len(lab.tenants), thread_name_prefix="read") as pool:
        kinds = (*KINDS, *_more(lab.cluster, "" if tenant else kind))
        host = pool.submit(take, lab.cluster, kinds=kinds, logs=True, scheduler=scheduler)
        seen = dict(zip((spec.name for spec in lab.tenants), pool.map(one, lab.tenants), strict=True))
        snapshot = host.result()
    if isinstance(error := seen.get(tenant), LabError):
        raise error
    tenants = tuple(found for found in seen.values() if isinstance(found, TenantSnapshot))
    return LabSnapshot(snapshot, tenants, kubectl_command(lab.cluster))


def read_cluster(cluster: Cluster, kind: str = "", scheduler: bool = False) -> LabSnapshot:
    """Read any cluster and close its client; ``kind`` and ``scheduler`` are those of ``read``. Raises ApiFailed."""
    try:
        kinds = (*KINDS, *_more(cluster, kind))
        snapshot = take(cluster, kinds=kinds, logs=True, scheduler=scheduler)
        return LabSnapshot(snapshot, (), kubectl_command(cluster))
    finally:
        cluster.close()


def load(file: Path) -> LabSnapshot:
    """Load a snapshot that ``--save`` wrote. Raises SpecError."""
    try:
        return LabSnapshot(ClusterSnapshot.load(file))
    except (OSError, ValueError, KeyError, TypeError) as error:
        why = getattr(error, "strerror", None) or "not a snapshot"
        raise SpecError(f"--snapshot {file}: {why}", fix="write one with kailab explain --all --save FILE") from error


def _more(cluster: Cluster, word: str) -> list[str]:
    """Return the kind that a word names, unless snapshots have it anyway, or several API groups have it."""
    word = word.lower().partition(".")[0]
    if not word or any(word in (r.plural, r.kind.lower()) for r in KNOWN) or cluster.get("Namespace", word):
        return []
    found = [r for r in cluster.kinds.listable() if word in (r.plural, r.kind.lower())]
    return [one.kind for one in found] if len(found) == 1 else []

"""Advice about the KAI that runs in a cluster: its known defects and the state of its support."""

from __future__ import annotations

from dataclasses import dataclass

from lab.errors import LabError
from lab.kai import Defect, release
from lab.kai.model import Support
from lab.kube import Cluster
from lab.snapshot.cluster_snapshot import ClusterSnapshot, take
from lab.snapshot.kai_installation import installation


@dataclass(frozen=True)
class KaiAdvice:
    """A KAI version in a cluster."""

    version: str
    line: str
    """The version line whose facts apply."""
    warnings: tuple[str, ...]
    """An unknown version, or a Kubernetes that upstream does not validate it with."""
    support: Support
    kubernetes: str
    """The newest kubelet of the cluster; empty if no node reports one."""
    defects: tuple[Defect, ...]


def advise(cluster: Cluster) -> KaiAdvice:
    """Read a cluster's KAI and what is known about its version. Raises ApiFailed, and LabError without KAI."""
    return advice_on(take(cluster))


def advice_on(snapshot: ClusterSnapshot) -> KaiAdvice:
    """What is known about the KAI of a snapshot. Raises LabError if it has none, or images without a version."""
    found = installation(snapshot)
    if found is None or not found.version:
        what = "the tags of KAI's images are no versions" if found else "no KAI runs in this cluster"
        raise LabError(what, fix="list the facts of all versions: kailab kai versions")
    kubelets = {node.kubelet_version.removeprefix("v").partition("+")[0] for node in snapshot.nodes} - {""}
    newest = max(kubelets, key=release, default="")
    outside = found.line.outside(newest) if newest else ""
    return KaiAdvice(
        version=found.version,
        line=found.line.name,
        warnings=tuple(text for text in (found.line.warning, outside) if text),
        support=found.line.support,
        kubernetes=newest,
        defects=found.line.defects,
    )

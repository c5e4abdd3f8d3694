"""CRDs of other projects without which KAI's operator does not stay up; the lab gives them where they are missing.

KAI 0.9 watches ClusterPolicy (nvidia.com/v1) of NVIDIA's gpu-operator and ends after 2 minutes where the API server has
no such kind (pkg/operator/controller/config_controller.go; looked at first since 0.12), and its scheduler waits for
Kueue's Topology (pkg/scheduler/cache/cache.go). Which line needs which is in lab/kai/lines.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lab.kai import VersionLine
from lab.kube import OWNER_LABEL, Cluster
from lab.steps.helm_release import base_values

_CRD = "CustomResourceDefinition"
_SERVED_SECONDS = 60.0


def missing(cluster: Cluster, line: VersionLine) -> list[str]:
    """Names of the CRDs that this KAI needs and the cluster lacks."""
    return [name for name in line.needs_crds if cluster.get(_CRD, name) is None]


def give(cluster: Cluster, line: VersionLine, lab: str) -> list[str]:
    """Create the CRDs that are missing, owned by the lab; one that is there is left as it is.

    Returns:
        The names of those that were created; the API server serves them.

    Raises:
        WaitTimeout: the API server does not serve one in time.
    """
    names = missing(cluster, line)
    if names:
        cluster.apply([_document(line.needs_crds[name], lab) for name in names])
        cluster.wait_ready(
            _CRD, set(names), timeout=_SERVED_SECONDS, what=f"CRDs that KAI needs are served: {', '.join(names)}"
        )
    return names


def kept(cluster: Cluster, line: VersionLine, names: Iterable[str], lab: str) -> list[str]:
    """Those of the CRDs that must stay at ``lab down``: somebody else took them over, or has objects of that kind."""
    stay = []
    for name in names:
        there = cluster.get(_CRD, name) if name in line.needs_crds else None
        if there is None:
            continue
        foreign = (there["metadata"].get("labels") or {}).get(OWNER_LABEL) != lab
        kind = f"{there['spec']['names']['kind']}.{there['spec']['group']}"
        if foreign or cluster.list(kind):
            stay.append(name)
    return stay


def _document(file: str, lab: str) -> dict[str, Any]:
    doc = base_values("kai", file)
    return {**doc, "metadata": {**doc["metadata"], "labels": {OWNER_LABEL: lab}}}

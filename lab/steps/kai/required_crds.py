"""CRDs of other projects that KAI's operator needs; the lab creates missing ones.

KAI 0.9 watches ClusterPolicy (nvidia.com/v1) of NVIDIA's gpu-operator and exits after 2 minutes if the API server lacks
that kind (pkg/operator/controller/config_controller.go; 0.12 and newer check first). Its scheduler waits for Kueue's
Topology (pkg/scheduler/cache/cache.go). lab/kai/lines lists the CRDs of each line.
"""

from __future__ import annotations

from collections.abc import Iterable

from lab.kai import VersionLine
from lab.kube import OWNER_LABEL, Cluster
from lab.objects.fields import labels_of
from lab.steps.helm_release import base_values

_CRD = "CustomResourceDefinition"
_SERVED_SECONDS = 60.0


def missing(cluster: Cluster, line: VersionLine) -> list[str]:
    """Names of the required CRDs that the cluster lacks."""
    return [name for name in line.needs_crds if cluster.get(_CRD, name) is None]


def create(cluster: Cluster, line: VersionLine, lab: str) -> list[str]:
    """Create the missing CRDs, owned by the lab, wait until they are served and return their names.

    Existing CRDs are not changed. Raises WaitTimeout.
    """
    names = missing(cluster, line)
    if names:
        docs = [base_values("kai", line.needs_crds[name]) for name in names]
        cluster.apply([{**doc, "metadata": {**doc["metadata"], "labels": {OWNER_LABEL: lab}}} for doc in docs])
        cluster.wait_ready(
            _CRD, set(names), timeout=_SERVED_SECONDS, what=f"CRDs that KAI needs are served: {', '.join(names)}"
        )
    return names


def in_use(cluster: Cluster, line: VersionLine, names: Iterable[str], lab: str) -> list[str]:
    """The CRDs that ``kailab down`` must keep: another owner adopted them, or there are objects of their kind."""
    used = []
    for name in names:
        crd = cluster.get(_CRD, name) if name in line.needs_crds else None
        if crd is None:
            continue
        kind = f"{crd['spec']['names']['kind']}.{crd['spec']['group']}"
        if labels_of(crd["metadata"]).get(OWNER_LABEL) != lab or cluster.list(kind):
            used.append(name)
    return used

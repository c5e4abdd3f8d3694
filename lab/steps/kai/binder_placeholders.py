"""Lets the host's binder start while own-kai tenants share GPUs.

At its start KAI's binder checks all GPU groups of the cluster, finds no reservation pods of tenants' groups in its own
namespace, and deletes the groups' pods. The policy refuses that, and the binder panics at every start ("unable to sync
resource reservation"; cmd/binder/app/app.go and resource_reservation.go, KAI 0.7 to 0.17). So while it starts, each of
these groups has a placeholder in the namespace of reservation pods: a gated pod with the group's label, the only thing
that the binder counts there. Later it checks these groups only when one of their pods ends, and tolerates a refusal.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lab.kai import VersionLine
from lab.kai.names import GPU_GROUP_LABEL
from lab.kube import OWNER_LABEL, Cluster
from lab.kube.readiness import is_ready
from lab.objects.fields import labels_of
from lab.objects.isolation_labels import OWN_KAI_LABEL
from lab.snapshot.cluster_snapshot import ClusterSnapshot, take
from lab.snapshot.kai_installation import BINDER, installation

PLACEHOLDER = "kailab-stand-in"  # label ``app`` of placeholders; reservation pods have another value

_BINDER_SECONDS = 120.0
_STEADY_SECONDS = 8.0  # the check takes place about a second after the start; nothing reports its end

Json = dict[str, Any]


def shared_groups(snapshot: ClusterSnapshot) -> tuple[str, ...]:
    """The host's GPU groups of running pods of own-kai tenants."""
    namespaces = [space["metadata"] for space in snapshot.of("Namespace")]
    own = {meta["name"] for meta in namespaces if labels_of(meta).get(OWN_KAI_LABEL) == "true"}
    # the binder's check uses the label of pods on one shared GPU; it does not see pods on several
    groups = {
        pod.labels[GPU_GROUP_LABEL]
        for pod in snapshot.pods
        if pod.namespace in own and pod.phase == "Running" and pod.labels.get(GPU_GROUP_LABEL)
    }
    return tuple(sorted(groups))


def binder_is_stuck(snapshot: ClusterSnapshot) -> bool:
    """Whether the host's binder does not run while tenants share GPUs, so that it needs placeholders."""
    kai = installation(snapshot)
    binder = kai.component(BINDER) if kai else None
    return binder is not None and not binder.up and not binder.missing and bool(shared_groups(snapshot))


def are_left(cluster: Cluster, line: VersionLine) -> bool:
    """Whether a killed start of the binder has left placeholders, which the binder counts as reservation pods."""
    return bool(cluster.list("Pod", line.reservation_namespace, labels=f"app={PLACEHOLDER}"))


def delete_placeholders(cluster: Cluster, line: VersionLine) -> None:
    """Delete all placeholders."""
    cluster.delete_all("Pod", line.reservation_namespace, labels=f"app={PLACEHOLDER}", grace=0)


def placeholder_pods(groups: tuple[str, ...], lab: str, namespace: str) -> list[Json]:
    """A gated pod for each GPU group, in the namespace of reservation pods."""
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{PLACEHOLDER}-{hashlib.sha256(group.encode()).hexdigest()[:16]}",
                "namespace": namespace,
                "labels": {OWNER_LABEL: lab, "app": PLACEHOLDER, GPU_GROUP_LABEL: group},
            },
            "spec": {
                "schedulingGates": [{"name": "kailab.dev/never"}],
                "containers": [{"name": "none", "image": "none"}],
            },
        }
        for group in groups
    ]


@contextmanager
def placeholders(cluster: Cluster, lab: str, line: VersionLine) -> Iterator[tuple[str, ...]]:
    """Keep placeholders until the host's binder, which the block starts, has run for some seconds.

    Yields the GPU groups of tenants; without any it does nothing. Raises ApiFailed, or WaitTimeout if the binder does
    not start.
    """
    groups = shared_groups(take(cluster, kinds=("Namespace", "Pod")))
    if not groups:
        yield ()
        return
    try:
        cluster.apply(placeholder_pods(groups, lab, line.reservation_namespace))
        yield groups
        name = _binder(line)
        cluster.wait(
            "Deployment",
            lambda found: any(map(is_ready, found)),
            namespace=line.namespace,
            fields=f"metadata.name={name}",
            timeout=_BINDER_SECONDS,
            hold=_STEADY_SECONDS,
            what=f"{name} of the host's KAI runs",
        )
    finally:
        delete_placeholders(cluster, line)


def start_binder(cluster: Cluster, lab: str, line: VersionLine) -> tuple[str, ...]:
    """Restart a stuck binder with placeholders, without its back-off. Returns the GPU groups. Raises WaitTimeout."""
    with placeholders(cluster, lab, line) as groups:
        cluster.delete_all("Pod", line.namespace, labels=f"app={_binder(line)}", grace=0)
    return groups


def _binder(line: VersionLine) -> str:
    return next(deployment for deployment, role in line.deployments.items() if role == BINDER)

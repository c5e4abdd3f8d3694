"""Lets the host's binder start while tenants with a KAI of their own share GPUs.

KAI's binder looks at all GPU groups of the cluster when it starts, finds those of the tenants without a reservation pod
in its own namespace, and deletes their pods. The policy refuses that, and the binder ends with a panic ("unable to sync
resource reservation"), again and again (cmd/binder/app/app.go and resource_reservation.go, KAI 0.7 to 0.17). So while
it starts, each of these groups has a stand-in: a pod with the group's label in the namespace of reservation pods, gated
so that nothing ever runs it. The binder counts pods there by that label alone. Later, it looks at these groups only
when one of their pods ends, where a refusal does no harm; so the stand-ins go again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lab.config.labels import OWN_KAI_LABEL
from lab.explain.installation import BINDER, installation
from lab.kai import VersionLine
from lab.kai.names import GPU_GROUP_LABEL
from lab.kube import OWNER_LABEL, Cluster
from lab.kube.readiness import is_ready
from lab.snapshot.cluster_snapshot import ClusterSnapshot, take

STAND_IN = "kailab-stand-in"
"""Value of their label ``app``; reservation pods have another one."""

_BINDER_SECONDS = 120.0
_STEADY_SECONDS = 8.0
"""Its first look comes about a second after its start, and nothing tells that it is over."""

Json = dict[str, Any]


def shared_groups(world: ClusterSnapshot) -> tuple[str, ...]:
    """The GPU groups of running pods of tenants with a KAI of their own, as the host has them."""
    own = {
        space["metadata"]["name"]
        for space in world.of("Namespace")
        if (space["metadata"].get("labels") or {}).get(OWN_KAI_LABEL) == "true"
    }
    # The binder's first look goes by the label of pods on one shared GPU; it does not see pods on several.
    groups = {
        pod.labels[GPU_GROUP_LABEL]
        for pod in world.pods
        if pod.namespace in own and pod.phase == "Running" and pod.labels.get(GPU_GROUP_LABEL)
    }
    return tuple(sorted(groups))


def binder_is_stuck(world: ClusterSnapshot) -> bool:
    """Whether the host's binder does not run while tenants share GPUs: it cannot start without shelter."""
    kai = installation(world)
    binder = kai.component(BINDER) if kai else None
    return binder is not None and not binder.up and not binder.missing and bool(shared_groups(world))


def stand_ins(groups: tuple[str, ...], lab: str, namespace: str) -> list[Json]:
    """A gated pod for each GPU group, in the namespace of reservation pods."""
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{STAND_IN}-{hashlib.sha256(group.encode()).hexdigest()[:16]}",
                "namespace": namespace,
                "labels": {OWNER_LABEL: lab, "app": STAND_IN, GPU_GROUP_LABEL: group},
            },
            "spec": {
                "schedulingGates": [{"name": "kailab.dev/never"}],
                "containers": [{"name": "none", "image": "none"}],
            },
        }
        for group in groups
    ]


@contextmanager
def sheltered(cluster: Cluster, lab: str, line: VersionLine) -> Iterator[tuple[str, ...]]:
    """For whoever starts the host's binder: an installation, an upgrade, a restart. Gives the GPU groups of tenants.

    It ends when the binder has run for some seconds. Does nothing where no tenant shares a GPU.

    Args:
        cluster: the lab's own cluster.
        lab: name of the lab.
        line: the host's KAI.

    Raises:
        ApiFailed: the server refused.
        WaitTimeout: the binder does not run in time.
    """
    groups = shared_groups(take(cluster, kinds=("Namespace", "Pod")))
    if not groups:
        yield ()
        return
    try:
        cluster.apply(stand_ins(groups, lab, line.reservation_namespace))
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
        cluster.delete_all("Pod", line.reservation_namespace, labels=f"app={STAND_IN}", grace=0)


def start_binder(cluster: Cluster, lab: str, line: VersionLine) -> tuple[str, ...]:
    """Start a binder that is stuck: sheltered, and without the pauses between its attempts. Returns the GPU groups.

    Raises:
        WaitTimeout: it does not run in time.
    """
    with sheltered(cluster, lab, line) as groups:
        cluster.delete_all("Pod", line.namespace, labels=f"app={_binder(line)}", grace=0)
    return groups


def _binder(line: VersionLine) -> str:
    return next(deployment for deployment, role in line.deployments.items() if role == BINDER)

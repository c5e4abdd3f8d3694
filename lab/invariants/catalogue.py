"""All invariants, in the order in which they are told."""

from __future__ import annotations

from collections.abc import Iterable

from lab.errors import SpecError
from lab.findings import Registry
from lab.invariants import gpus, queues, reservations, sharing, tenancy, workloads
from lab.invariants.model import Invariant

_APART = "pods, PodGroups and queues come by watches of their own, which run apart by moments"

ALL: tuple[Invariant, ...] = (
    Invariant(
        "gpu-fractions",
        "The fractions of the pods on one GPU add up to at most 1.",
        gpus.fractions,
        needs=("Pod", "Node"),
        defects=("over-packed-burst", "double-reservation", "reservation-lost-on-retry"),
    ),
    Invariant(
        "gpu-memory",
        "The memory promised to the pods on one GPU is at most what the GPU has.",
        gpus.memory,
        needs=("Pod", "Node"),
        defects=("over-packed-burst", "double-reservation", "reservation-lost-on-retry"),
    ),
    Invariant(
        "whole-gpus",
        "A GPU that a pod or a reservation pod has for itself is given to nobody else.",
        gpus.exclusive,
        needs=("Pod", "Node"),
        defects=("double-reservation", "reservation-lost-on-retry"),
    ),
    Invariant("gpu-held-once", "No two reservation pods hold the same GPU.", gpus.held_once, needs=("Pod",)),
    Invariant(
        "received",
        "A bound pod got what it asked for: a fraction in as many GPU groups as devices, all else in none.",
        gpus.received,
        needs=("Pod",),
    ),
    Invariant(
        "one-reservation",
        "A GPU group has one live reservation pod at most.",
        reservations.one_each,
        needs=("Pod",),
        defects=("double-reservation",),
    ),
    Invariant(
        "reserved",
        "A pod that shares a GPU has a live reservation pod.",
        reservations.reserved,
        needs=("Pod",),
        defects=("early-reservation-removal", "reservation-lost-on-retry"),
    ),
    Invariant(
        "group-on-one-node",
        "A GPU group, its reservation pod and its pods are on one node.",
        reservations.one_node,
        needs=("Pod",),
    ),
    Invariant(
        "gpu-told",
        "The reservation pod of a GPU group in use has told the UUID of its GPU.",
        reservations.told,
        needs=("Pod",),
        defects=("early-reservation-removal", "reservation-lost-on-retry"),
    ),
    Invariant(
        "gpu-given",
        "The GPUs in a pod's environment are those that its reservation pods hold.",
        reservations.given,
        needs=("Pod", "ConfigMap"),
        grace=10,
        why_grace="pods and ConfigMaps come by watches of their own",
        defects=("reservation-lost-on-retry",),
    ),
    Invariant(
        "reservation-used",
        "A reservation pod has a user, or one that is being bound.",
        reservations.used,
        needs=("Pod", "BindRequest"),
        grace=30,
        why_grace="KAI deletes it when it hears of its last user's end: within a second, later on a busy machine; "
        "a deletion that fails is tried again at the next bind on the node",
    ),
    Invariant(
        "queue-limit",
        "The pods of a queue, and of all queues below it, hold at most its limit of GPUs, cpu and memory.",
        queues.within_limit,
        needs=("Pod", "Node", "PodGroup", "Queue"),
        grace=5,
        why_grace=_APART,
    ),
    Invariant(
        "leaf-queues",
        "Pods run in queues that exist and are nobody's parent.",
        queues.leaves_only,
        needs=("Pod", "PodGroup", "Queue"),
        grace=5,
        why_grace=_APART,
    ),
    Invariant(
        "gang-whole",
        "Of a PodGroup at least minMember pods are bound, or none.",
        workloads.gang_whole,
        needs=("Pod", "PodGroup"),
        grace=90,
        why_grace="KAI leaves an incomplete gang alone for 60 s (--default-staleness-grace-period) and then evicts it, "
        "and pods get up to 30 s to end",
    ),
    Invariant(
        "pod-group-exists",
        "The annotation pod-group-name names a PodGroup that exists.",
        workloads.group_exists,
        needs=("Pod", "PodGroup"),
        grace=15,
        why_grace="the garbage collector removes PodGroup and pods of a deleted owner one after the other",
    ),
    Invariant(
        "bind-ends",
        "A BindRequest ends: the pod is bound or refused.",
        workloads.bind_ends,
        needs=("BindRequest",),
        grace=120,
        why_grace="the binder waits 40 s for a reservation pod (--resource-reservation-allocation-timeout), and up to "
        "60 s before it tries again (--rate-limiter-max-delay)",
        defects=("over-packed-burst",),
    ),
    Invariant(
        "others-left-alone",
        "Pods of other schedulers carry nothing that KAI gives.",
        workloads.left_alone,
        needs=("Pod",),
        grace=5,
        why_grace="vCluster carries labels and annotations over in both directions, in more than one step",
    ),
    Invariant(
        "tenants-apart", "A namespace of the host holds the pods of one tenant at most.", tenancy.apart, needs=("Pod",)
    ),
    Invariant(
        "tenant-own-pods",
        "Each pod that a tenant sees running has its copy on the host, made for this tenant.",
        tenancy.own_pods,
        needs=("Pod",),
        grace=30,
        why_grace="a pod that vanishes from the host is taken from the tenant by the syncer, within its grace period",
        tenant_needs=("Pod",),
    ),
    Invariant(
        "tenant-no-host-kai",
        "A tenant without a KAI of its own sees no queues, PodGroups or reservation pods.",
        tenancy.no_host_kai,
        needs=("Pod",),
        grace=60,
        why_grace="a KAI that is being installed in the tenant has its CRDs up to 35 s before all its pods",
        tenant_needs=("Pod", "Queue", "PodGroup"),
    ),
    Invariant(
        "tenant-gpus-apart",
        "A GPU is used by one tenant with a KAI of its own, or by the host with its other tenants.",
        sharing.gpus_apart,
        needs=("Pod",),
    ),
    Invariant(
        "tenant-nodes",
        "A tenant with nodes of its own runs on these alone, and nobody else runs there.",
        sharing.own_nodes,
        needs=("Pod", "Node"),
        grace=20,
        why_grace="a node is given away and given back while pods leave it, and the pod that proves a removed "
        "tenant's GPUs free runs there for some seconds",
    ),
    Invariant(
        "tenant-quota",
        "The pods of a tenant hold at most its ResourceQuota.",
        sharing.within_quota,
        needs=("Pod", "ResourceQuota"),
        grace=5,
        why_grace=_APART,
    ),
    Invariant(
        "tenant-no-host-groups",
        "The host's KAI makes no PodGroup for a tenant with a KAI of its own.",
        sharing.no_host_groups,
        needs=("Pod", "PodGroup"),
        grace=5,
        why_grace=_APART,
    ),
    Invariant(
        "tenant-own-groups",
        "The PodGroup that a pod of a tenant with a KAI of its own names is the tenant's.",
        sharing.own_groups,
        needs=("Pod",),
        grace=30,
        why_grace="vCluster carries annotations over in steps, and what a deleted owner takes along goes in turns",
        tenant_needs=("Pod", "PodGroup"),
    ),
)
"""Those with a grace of 0 must hold in every single state."""

_BY_ID = Registry("invariants", ALL)


def known(ids: Iterable[str]) -> tuple[Invariant, ...]:
    """The invariants of these ids.

    Raises:
        SpecError: there is none of such an id.
    """
    wanted = tuple(ids)
    if strange := [name for name in wanted if name not in _BY_ID]:
        raise SpecError(f"no such invariant: {', '.join(strange)}", fix=f"take one of: {', '.join(_BY_ID)}")
    return tuple(_BY_ID[name] for name in wanted)

"""All invariants, in the order of reports."""

from __future__ import annotations

from collections.abc import Iterable

from lab.errors import SpecError
from lab.findings import Registry
from lab.invariants import gpus, queues, reservations, tenants, workloads
from lab.invariants.model import Invariant

_UNSYNCED = "pods, PodGroups and queues have separate watches, which are not synchronized"

_OVER_PACKING = (
    "over-packed-burst",
    "over-packed-on-retry",
    "counted-in-another-group",
    "double-reservation",
    "reservation-lost-on-retry",
    "reservation-lost-in-storm",
)

ALL: tuple[Invariant, ...] = (
    Invariant(
        "gpu-fractions",
        "The fractions of the pods on one GPU add up to at most 1.",
        gpus.fractions,
        needs=("Pod", "Node"),
        defects=_OVER_PACKING,
    ),
    Invariant(
        "gpu-memory",
        "The memory requested by the pods on one GPU is at most what the GPU has.",
        gpus.memory,
        needs=("Pod", "Node"),
        defects=_OVER_PACKING,
    ),
    Invariant(
        "whole-gpus",
        "A GPU that a pod or a reservation pod holds whole is not given to another pod.",
        gpus.exclusive,
        needs=("Pod", "Node"),
        defects=(
            "double-reservation",
            "reservation-lost-on-retry",
            "reservation-lost-in-storm",
            "unused-reservation-not-counted",
        ),
    ),
    Invariant("gpu-held-once", "No two reservation pods hold the same GPU.", gpus.held_once, needs=("Pod",)),
    Invariant(
        "received",
        "A bound pod received its request: a fraction has as many GPU groups as devices, all else has none.",
        gpus.received,
        needs=("Pod",),
        defects=("group-lost-on-rollback",),
    ),
    Invariant(
        "one-reservation",
        "A GPU group has at most one live reservation pod.",
        reservations.one_each,
        needs=("Pod",),
        defects=("double-reservation",),
    ),
    Invariant(
        "reserved",
        "A pod that shares a GPU has a live reservation pod.",
        reservations.reserved,
        needs=("Pod",),
        defects=(
            "early-reservation-removal",
            "reservation-lost-on-retry",
            "reservation-lost-in-storm",
            "counted-in-another-group",
        ),
    ),
    Invariant(
        "group-on-one-node",
        "A GPU group, its reservation pod and its pods are on one node.",
        reservations.one_node,
        needs=("Pod",),
        defects=("reservation-lost-on-retry", "reservation-lost-in-storm", "counted-in-another-group"),
    ),
    Invariant(
        "gpu-told",
        "The reservation pod of a GPU group in use reports the UUID of its GPU.",
        reservations.reported,
        needs=("Pod",),
        defects=("early-reservation-removal", "reservation-lost-on-retry", "reservation-lost-in-storm"),
    ),
    Invariant(
        "gpu-given",
        "The GPUs in a pod's environment are those that its reservation pods hold.",
        reservations.given,
        needs=("Pod", "ConfigMap"),
        grace=10,
        why_grace="pods and ConfigMaps have separate watches",
        defects=("reservation-lost-on-retry", "reservation-lost-in-storm"),
    ),
    Invariant(
        "reservation-used",
        "A reservation pod has a user, or a pod that is being bound.",
        reservations.used,
        needs=("Pod", "BindRequest"),
        grace=30,
        why_grace="KAI deletes it within a second of the end of its last user, later on a busy machine; it retries a "
        "failed deletion at the next bind on the node",
        defects=("reservation-lost-on-retry", "reservation-lost-in-storm"),
    ),
    Invariant(
        "queue-limit",
        "The pods of a queue, and of all queues below it, hold at most its limit of GPUs, cpu and memory.",
        queues.within_limit,
        needs=("Pod", "Node", "PodGroup", "Queue"),
        grace=5,
        why_grace=_UNSYNCED,
    ),
    Invariant(
        "leaf-queues",
        "Pods run in existing queues without children.",
        queues.leaves_only,
        needs=("Pod", "PodGroup", "Queue"),
        grace=5,
        why_grace=_UNSYNCED,
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
        why_grace="the garbage collector deletes the PodGroup and pods of an owner one after the other",
    ),
    Invariant(
        "bind-ends",
        "A BindRequest ends: KAI binds the pod or fails it.",
        workloads.bind_ends,
        needs=("BindRequest",),
        grace=120,
        why_grace="the binder waits 40 s for a reservation pod (--resource-reservation-allocation-timeout), and up to "
        "60 s before it retries (--rate-limiter-max-delay)",
        defects=("over-packed-burst",),
    ),
    Invariant(
        "bound-as-requested",
        "A bound pod is in the GPU groups of its BindRequest, in which KAI's scheduler counts it.",
        workloads.bound_as_requested,
        needs=("Pod", "BindRequest"),
        grace=5,
        why_grace="pods and BindRequests have separate watches, which are not synchronized",
        defects=("counted-in-another-group",),
    ),
    Invariant(
        "others-left-alone",
        "Pods of other schedulers have no labels and annotations of KAI's binder.",
        workloads.left_alone,
        needs=("Pod",),
        grace=5,
        why_grace="vCluster syncs labels and annotations in both directions, in several steps",
    ),
    Invariant(
        "tenants-apart", "A namespace of the host has pods of at most one tenant.", tenants.apart, needs=("Pod",)
    ),
    Invariant(
        "tenant-own-pods",
        "Each pod that a tenant sees running has its own copy on the host.",
        tenants.own_pods,
        needs=("Pod",),
        grace=30,
        why_grace="the syncer deletes a pod that vanished from the host, within the pod's grace period",
        tenant_needs=("Pod",),
    ),
    Invariant(
        "tenant-no-host-kai",
        "A tenant without its own KAI sees no queues, PodGroups or reservation pods.",
        tenants.no_host_kai,
        needs=("Pod",),
        grace=60,
        why_grace="a KAI that is being installed in the tenant has its CRDs up to 35 s before its pods",
        tenant_needs=("Pod", "Queue", "PodGroup"),
    ),
    Invariant(
        "tenant-gpus-apart",
        "A GPU is used by one tenant with its own KAI, or by the host with its other tenants.",
        tenants.gpus_apart,
        needs=("Pod",),
    ),
    Invariant(
        "tenant-nodes",
        "A tenant with dedicated nodes runs on these alone, and no other pods with GPUs or for KAI run there.",
        tenants.own_nodes,
        needs=("Pod", "Node"),
        grace=20,
        why_grace="a node changes its tenant while pods leave it, and the GPU release check of a removed tenant runs "
        "there for some seconds",
    ),
    Invariant(
        "tenant-quota",
        "The pods of a tenant hold at most its ResourceQuota.",
        tenants.within_quota,
        needs=("Pod", "ResourceQuota"),
        grace=5,
        why_grace=_UNSYNCED,
    ),
    Invariant(
        "tenant-host-kai-apart",
        "Beside tenants with their own KAI, KAI on the host handles only the namespaces that it is to serve.",
        tenants.host_kai_apart,
        needs=("Pod",),
        grace=30,
        why_grace="after a change of KAI's values its operator replaces the pod-grouper, and the old pod ends",
    ),
    Invariant(
        "tenant-no-host-groups",
        "The host's KAI creates no PodGroup for a tenant with its own KAI.",
        tenants.no_host_groups,
        needs=("Pod", "PodGroup"),
        grace=5,
        why_grace=_UNSYNCED,
    ),
    Invariant(
        "tenant-own-groups",
        "The PodGroup of a pod of a tenant with its own KAI is the tenant's.",
        tenants.own_groups,
        needs=("Pod",),
        grace=30,
        why_grace="vCluster syncs annotations in steps, the garbage collector deletes an owner's objects one by one",
        tenant_needs=("Pod", "PodGroup"),
    ),
)
"""Those without a grace period must hold in every single state."""

_BY_ID = Registry("invariants", ALL)


def known(ids: Iterable[str]) -> tuple[Invariant, ...]:
    """The invariants with these ids. Raises SpecError for an unknown id."""
    wanted = tuple(ids)
    if unknown := [name for name in wanted if name not in _BY_ID]:
        raise SpecError(f"unknown invariant: {', '.join(unknown)}", fix=f"use one of: {', '.join(_BY_ID)}")
    return tuple(_BY_ID[name] for name in wanted)

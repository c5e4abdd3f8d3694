"""Breaks each invariant on a running lab, and records what ``kailab verify`` then reports.

    kailab up --profile tenants --name broken
    python -m scripts.broken_invariants --name broken
    python -m scripts.broken_invariants --name broken --only queue-limit --only reserved     # again

The violations are the examples on the invariants' pages (``tests/data/invariants.json``). What was broken is restored
before the next one. Exit code 1: ``kailab verify`` did not see an invariant broken.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from lab.invariants.catalogue import ALL
from lab.invariants.reservations import VISIBLE_DEVICES
from lab.invariants.verify import verify
from lab.kai.names import (
    CONFIGMAP_ANNOTATION,
    FRACTION_ANNOTATION,
    GPU_COUNT_LABEL,
    GPU_GROUP_LABEL,
    GPU_RESOURCE,
    MEMORY_ANNOTATION,
    RECEIVED_ANNOTATION,
    RESERVATION_APP,
    RESERVED_GPU_ANNOTATION,
)
from lab.objects.isolation_labels import tenant_namespace
from lab.objects.synced import MANAGED_BY_LABEL
from lab.objects.views import PodView
from lab.operations.verify import scopes_of_lab
from lab.workloads.pods import cpu_pod, fraction_pod, gpu_memory_pod, gpu_pod
from scripts.fault_injection.tenant_faults import namespaces_opened, own_kai
from scripts.scenarios.capture import setting_of
from scripts.scenarios.cluster_changes import NodeWithoutKubelet
from scripts.scenarios.manifests import gang, notes, over, queue
from scripts.scenarios.tenant_cases import queue_crd
from scripts.workbench import DATA, SECONDS, Seen, Situation, Workbench, record, workers
from tests.e2e.kai_components import stopped
from tests.e2e.without_measures import without_policy

_QUEUE = "broken"


def gpu_fractions(b: Workbench) -> None:
    """The fraction of a running pod was raised."""
    train, _ = b.run(fraction_pod("train"), fraction_pod("serve"))
    b.edit(train, annotations={FRACTION_ANNOTATION: "0.75"})


def gpu_memory(b: Workbench) -> None:
    """The gpu-memory of a running pod was raised above that of its GPU."""
    (train,) = b.run(gpu_memory_pod("train"))
    b.edit(train, annotations={MEMORY_ANNOTATION: str(setting_of(b.lab).memory + 2000)})


def whole_gpus(b: Workbench) -> None:
    """Two pods name a node as theirs on which no kubelet refuses them."""
    node = NodeWithoutKubelet({GPU_COUNT_LABEL: "2"}, {GPU_RESOURCE: "2"})
    b.undo.callback(node.undo, b.cluster)
    node.do(b.cluster)
    for name in ("train", "serve"):
        b.host.submit(over(gpu_pod(name, gpus=2, scheduler=None), {"spec": {"nodeName": node.name}}))
    b.undo.callback(b.cluster.delete_all, "Pod", b.space, grace=0)


def gpu_held_once(b: Workbench) -> None:
    """The UUID on a reservation pod was overwritten with that of another."""
    train, serve = (b.reservation(pod) for pod in b.two_gpus())
    b.edit(serve, annotations={RESERVED_GPU_ANNOTATION: train.reserved_gpu})


def received(b: Workbench) -> None:
    """The received-resource-type of a running pod was changed."""
    (train,) = b.run(fraction_pod("train"))
    b.edit(train, annotations={RECEIVED_ANNOTATION: "Regular"})


def one_reservation(b: Workbench) -> None:
    """The GPU group of a reservation pod was changed while KAI's binder was stopped."""
    train, serve = b.two_gpus()
    b.stop("binder")
    b.edit(b.reservation(serve), labels={GPU_GROUP_LABEL: train.gpu_groups[0]})


def reserved(b: Workbench) -> None:
    """A reservation pod was deleted while KAI's binder was stopped."""
    (train,) = b.run(fraction_pod("train"))
    b.stop("binder")
    b.cluster.delete("Pod", b.reservation(train).name, RESERVATION_APP, grace=1, wait=SECONDS)


def group_on_one_node(b: Workbench) -> None:
    """The GPU group of a running pod was changed to that of a pod on another node."""
    train, serve = b.two_gpus(*workers(b.lab)[:2])
    b.edit(serve, labels={GPU_GROUP_LABEL: train.gpu_groups[0]})


def gpu_told(b: Workbench) -> None:
    """The UUID on a reservation pod was removed."""
    (train,) = b.run(fraction_pod("train"))
    b.edit(b.reservation(train), annotations={RESERVED_GPU_ANNOTATION: None})


def gpu_given(b: Workbench) -> None:
    """The ConfigMap with the GPU of a running pod was changed."""
    train, serve = b.two_gpus()
    prefix, other = train.annotations[CONFIGMAP_ANNOTATION], b.reservation(serve).reserved_gpu
    for found in b.cluster.list("ConfigMap", b.space):
        if found["metadata"]["name"].startswith(prefix) and VISIBLE_DEVICES in (found.get("data") or {}):
            change = {"data": {VISIBLE_DEVICES: other}}
            b.cluster.patch("ConfigMap", found["metadata"]["name"], change, b.space)


def reservation_used(b: Workbench) -> None:
    """The last pod on a shared GPU was deleted while KAI's binder was stopped."""
    b.run(fraction_pod("train"))
    b.stop("binder")
    b.host.remove("train")


def queue_limit(b: Workbench) -> None:
    """The limit of a queue was lowered below what its pods hold."""
    b.create(queue(_QUEUE, setting_of(b.lab)))
    b.run(gpu_pod("train", queue=_QUEUE))
    b.cluster.patch("Queue", _QUEUE, {"spec": {"resources": {"gpu": {"limit": 0}}}})


def leaf_queues(b: Workbench) -> None:
    """A queue with a running pod got a child."""
    setting = setting_of(b.lab)
    b.create(queue(_QUEUE, setting))
    b.run(cpu_pod("train", queue=_QUEUE))
    b.create(over(queue(f"{_QUEUE}-child", setting), {"spec": {"parentQueue": _QUEUE}}))


def gang_whole(b: Workbench) -> None:
    """One of the two pods of a gang was deleted while KAI's scheduler was stopped."""
    group = gang(setting_of(b.lab), 2)
    b.cluster.create(over(group, {"metadata": {"namespace": b.space}}))
    b.run(*(notes(cpu_pod(name), pod_group_name=group["metadata"]["name"]) for name in ("rank-0", "rank-1")))
    b.stop("scheduler")
    b.host.remove("rank-1")


def pod_group_exists(b: Workbench) -> None:
    """The PodGroup of a running pod was deleted while KAI's pod-grouper was stopped."""
    (train,) = b.run(cpu_pod("train"))
    b.stop("podgrouper")
    b.cluster.delete("PodGroup", train.pod_group, b.space, wait=SECONDS)


def bind_ends(b: Workbench) -> None:
    """KAI's binder was stopped."""
    b.stop("binder")
    b.host.submit(cpu_pod("train"))
    b.cluster.wait("BindRequest", bool, namespace=b.space, timeout=SECONDS, what="KAI's scheduler has chosen a node")


def bound_as_requested(b: Workbench) -> None:
    """The GPU group of a running pod was changed to that of a pod on another GPU."""
    train, serve = b.two_gpus()
    b.edit(serve, labels={GPU_GROUP_LABEL: train.gpu_groups[0]})


def others_left_alone(b: Workbench) -> None:
    """A running pod of the default scheduler got the label of a GPU group."""
    (train,) = b.run(cpu_pod("train", scheduler=None))
    b.edit(train, labels={GPU_GROUP_LABEL: "somebody-elses"})


def tenants_apart(b: Workbench) -> None:
    """A pod with the label of another tenant was created in a tenant's namespace."""
    space = tenant_namespace(b.spec("host-kai").name)
    b.create(
        over(
            cpu_pod("stray", scheduler=None), {"metadata": {"namespace": space, "labels": {MANAGED_BY_LABEL: "other"}}}
        )
    )


def tenant_own_pods(b: Workbench) -> None:
    """The label of the tenant was changed on the host's copy of a running pod."""
    inside = b.tenant("host-kai")
    inside.submit(cpu_pod("train"))
    (copy,) = inside.running("train", timeout=SECONDS)
    b.edit(copy, labels={MANAGED_BY_LABEL: "other"})


def tenant_no_host_kai(b: Workbench) -> None:
    """A queue, with its CRD, was created in a tenant that uses the host's KAI."""
    inside = b.lab.tenant(b.spec("host-kai").name)
    crd = queue_crd()
    b.undo.callback(inside.delete, crd["kind"], crd["metadata"]["name"], wait=SECONDS)
    inside.apply([crd, queue("host-queue", setting_of(b.lab))], retry=SECONDS)


def tenant_gpus_apart(b: Workbench) -> None:
    """A reservation pod of the host was created on a tenant's node, with the GPU of a tenant's pod."""
    inside = b.tenant("own-kai")
    inside.submit(fraction_pod("train", queue=own_kai(b.lab).queue))
    (copy,) = inside.running("train", timeout=SECONDS)
    (group,) = copy.gpu_groups
    pods = [PodView.of(pod) for pod in b.cluster.list("Pod", labels=f"{GPU_GROUP_LABEL}={group}")]
    (uuid,) = {pod.reserved_gpu for pod in pods if pod.reserved_gpu}
    b.stop("binder")
    meta = {"namespace": RESERVATION_APP, "annotations": {RESERVED_GPU_ANNOTATION: uuid}}
    meta["labels"] = {"app": RESERVATION_APP, GPU_GROUP_LABEL: "by-hand"}
    pod = over(cpu_pod("by-hand", scheduler=None), {"metadata": meta, "spec": {"nodeName": copy.node}})
    b.create(pod)


def tenant_nodes(b: Workbench) -> None:
    """A pod of the host names a dedicated node of a tenant as its node."""
    node = b.node_of("own-kai")
    pod = over(gpu_pod("train", scheduler=None), {"spec": {"nodeName": node}})
    b.run(pod)


def tenant_quota(b: Workbench) -> None:
    """A tenant with running pods got a ResourceQuota of one pod."""
    name = b.spec("host-kai").name
    meta = {"name": "broken", "namespace": tenant_namespace(name), "labels": {"app": "vcluster", "release": name}}
    b.create({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, "spec": {"hard": {"pods": "1"}}})


def tenant_host_kai_apart(b: Workbench) -> None:
    """The namespace selector was removed from the KAI on the host."""
    b.undo.enter_context(namespaces_opened(b.lab))


def tenant_no_host_groups(b: Workbench) -> None:
    """The namespace selector of the KAI on the host and the policy that keeps it off the tenant were removed."""
    inside = b.tenant("own-kai")
    b.undo.enter_context(without_policy(b.lab, inside.tenant))
    b.undo.enter_context(namespaces_opened(b.lab))
    inside.submit(cpu_pod("train", queue=own_kai(b.lab).queue))
    space = tenant_namespace(inside.tenant)
    b.cluster.wait("PodGroup", bool, namespace=space, timeout=SECONDS, what=f"the host's KAI sees pods of {space}")


def tenant_own_groups(b: Workbench) -> None:
    """The PodGroup of a tenant's running pod was deleted while the tenant's pod-grouper was stopped."""
    inside = b.tenant("own-kai")
    kai = own_kai(b.lab)
    inside.submit(cpu_pod("train", queue=kai.queue))
    inside.running("train", timeout=SECONDS)
    (train,) = inside.inside(lambda pod: bool(pod.pod_group), "train", what="has a PodGroup")
    b.undo.enter_context(stopped(kai, "podgrouper"))
    kai.cluster.delete("PodGroup", train.pod_group, inside.namespace, wait=SECONDS)


BREAKS: dict[str, Callable[[Workbench], None]] = {one.id: globals()[one.id.replace("-", "_")] for one in ALL}
"""Invariant → the function of its name, which breaks it."""


def _seen(rule: str) -> Situation:
    """The situation in which an invariant is broken, and the violation that ``verify`` then reports."""

    def seen(bench: Workbench) -> Seen | None:
        BREAKS[rule](bench)
        report = verify(scopes_of_lab(bench.lab), invariants=[one for one in ALL if one.id == rule])
        return Seen.of(report.violations[0]) if report.violations else None

    seen.__doc__ = BREAKS[rule].__doc__
    return seen


if __name__ == "__main__":
    sys.exit(record({rule: _seen(rule) for rule in BREAKS}, DATA / "invariants.json", __doc__ or ""))

"""Produces known defects of KAI on a running lab, and records what they look like.

    kailab up --profile minimal --name defects --set kai.version=0.12.15 --set gpu.perNode=4 \\
        --set kai.values.admission.gpuPodRuntimeClassName=""
    python -m scripts.known_defects --name defects --only class-cannot-be-cleared

What is seen is the example on the defect's page (``tests/data/defects.json``). What was changed is restored before the
next one. Exit code 1: a defect was not seen.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable

from lab.errors import ApiFailed, CommandFailed, LabError, WaitTimeout
from lab.kai import line_of
from lab.kai.names import KAI_CHART, RESERVATION_APP
from lab.kube.ownership import BY_HELM
from lab.objects.views import EventView
from lab.steps import helm_release
from lab.steps.helm_release import merged, value_at
from lab.steps.kai.step import NAMESPACE, RELEASE, RESERVATIONS
from lab.steps.kai.values import release_values
from lab.text import without_colours
from lab.workloads.pods import cpu_pod, fraction_pod, gpu_memory_pod, gpu_pod
from scripts.binder_defects import (
    counted_in_another_group,
    double_reservation,
    early_reservation_removal,
    group_lost_on_rollback,
    over_packed_on_retry,
    reservation_lost_on_retry,
    unused_reservation_not_counted,
)
from scripts.scenarios.admission_cases import policy
from scripts.scenarios.capture import setting_of
from scripts.scenarios.manifests import over, queue, sized
from scripts.workbench import DATA, EFFECT_SECONDS, SECONDS, Json, Seen, Situation, Workbench, record
from tests.e2e.kai_components import pods

_RATE_SECONDS = 10
"""In which repeated writes are counted."""
_RECLAIM_SECONDS = 60.0
_EXIT_SECONDS = 300.0
"""Of an operator that waits 2 minutes for its cache."""
_CONFIG = ("Config.kai.scheduler", "kai-config")
_ACCOUNT = ("ServiceAccount", RESERVATION_APP, RESERVATIONS)
_CLASS = "admission.gpuPodRuntimeClassName"


def misleading_bound_event(b: Workbench) -> Seen | None:
    """A policy denied the binding of the pod."""
    _deny(b, "pods/binding")
    b.host.submit(cpu_pod("train"))
    event = _event(b, lambda event: event.reason == "Bound")
    (pod,) = b.cluster.list("Pod", b.space)
    (request,) = b.cluster.list("BindRequest", b.space)
    if pod["spec"].get("nodeName"):
        return None
    return Seen(
        "a pod has an event Bound, and no node",
        (f"event Bound: {event.message}", "spec.nodeName: none", f"BindRequest: {request['status']['reason']}"),
    )


def default_queue_refuses_deployments(b: Workbench) -> Seen | None:
    """A pod that is not preemptible named default-queue, as the chart creates it."""
    b.host.submit(over(cpu_pod("web", queue="default-queue"), {"spec": {"priorityClassName": "inference"}}))
    event = _event(b, lambda event: "NonPreemptibleOverQuota" in event.message)
    return Seen("a Deployment's pod stays Pending in default-queue", (), event.message)


def silent_unknown_queue(b: Workbench) -> Seen | None:
    """A pod named a queue that does not exist, and 30 s passed."""
    b.host.submit(cpu_pod("train", queue="reserach"))
    time.sleep(30)
    (pod,) = b.cluster.list("Pod", b.space)
    events = [one for one in b.cluster.list("Event", b.space) if one["involvedObject"]["kind"] in ("Pod", "PodGroup")]
    conditions = [one for one in pod["status"].get("conditions") or [] if one["type"] == "PodScheduled"]
    if events or conditions or pod["spec"].get("nodeName"):
        return None
    return Seen("a pod of an unknown queue is Pending, and nothing says why", ("events: none", "conditions: none"))


def webhooks_block_all_pods(b: Workbench) -> Seen | None:
    """KAI's admission was stopped, and a pod of the default scheduler was created."""
    b.stop("admission")
    time.sleep(EFFECT_SECONDS)  # until kube-proxy knows that the Service has no pod
    refused = _refusal(b, cpu_pod("web", scheduler=None))
    return Seen("a pod of the default scheduler is refused", (), refused) if refused else None


def dotted_pod_names(b: Workbench) -> Seen | None:
    """A pod with a fraction and a dot in its name was created."""
    refused = _refusal(b, fraction_pod("train.v2"))
    return Seen("a fraction with a dot in its name is refused", (), refused) if refused else None


def stale_hook_job(b: Workbench) -> Seen | None:
    """Helm upgraded KAI with an image of crd-upgrader that does not exist, and then with the right values again."""
    _helm_upgrade(b, {"crdupgrader": {"image": {"name": "crd-upgrader-misspelt"}}}, timeout=15)
    try:
        refused = _helm_upgrade(b)
    finally:
        b.cluster.delete("Job", "crd-upgrader", NAMESPACE, wait=SECONDS)
        _helm_upgrade(b)
    return Seen("an upgrade is refused after one that failed", (), refused) if "already exists" in refused else None


def config_made_anew(b: Workbench) -> Seen | None:
    """Helm upgraded KAI to the values that it has."""
    before = (b.cluster.get(*_CONFIG) or {})["metadata"]["uid"]
    _helm_upgrade(b)
    after = (b.cluster.get(*_CONFIG) or {})["metadata"]["uid"]
    denied = [line for name in ("binder", "scheduler") for line in b.log(name, "Unauthorized")]
    if before == after:
        return None
    return Seen("helm upgrade has replaced kai-config", (f"uid before: {before}", f"uid after: {after}", *denied[-1:]))


def account_leaves_release(b: Workbench) -> Seen | None:
    """Helm upgraded KAI to the values that it has."""
    before = (b.cluster.get(*_ACCOUNT) or {})["metadata"]["uid"]
    _helm_upgrade(b, hooks=False)
    kind, name, space = _ACCOUNT
    field, what = f"metadata.name={name}", "the operator has created it again"
    (found,) = b.cluster.wait(kind, bool, namespace=space, fields=field, timeout=SECONDS, what=what)
    after = found["metadata"]["uid"]
    if after == before or b.cluster.list(kind, space, labels=BY_HELM):
        return None
    evidence = (f"uid before: {before}", f"uid after: {after}", f"label {BY_HELM}: none")
    return Seen("helm upgrade has deleted the ServiceAccount of the reservation pods", evidence)


def shard_not_ready_for_helm(b: Workbench) -> Seen | None:
    """All Deployments of KAI were available."""
    shard = b.cluster.get("SchedulingShard", "default") or {}
    conditions = {one["type"]: one["status"] for one in shard["status"]["conditions"]}
    if conditions.get("Available") != "True" or conditions.get("Reconciling") != "True" or "Ready" in conditions:
        return None
    evidence = tuple(f"condition {name}: {status}" for name, status in sorted(conditions.items()))
    return Seen("the SchedulingShard is still being reconciled for Helm 4, though it is available", evidence)


def class_cannot_be_cleared(b: Workbench) -> Seen | None:
    """The lab's values of KAI have an empty admission.gpuPodRuntimeClassName, and a GPU pod named no RuntimeClass."""
    if value_at(b.lab.spec.kai.values, _CLASS) != "":
        raise LabError(f"{_CLASS} is not empty in this lab", fix=f"kailab up --set kai.values.{_CLASS}=''")
    pod = gpu_pod("train")
    del pod["spec"]["runtimeClassName"]
    b.host.submit(pod)
    (made,) = b.cluster.list("Pod", b.space)
    if not (given := made["spec"].get("runtimeClassName")):
        return None
    return Seen("a GPU pod gets a RuntimeClass that the values do not name", (f"spec.runtimeClassName: {given}",))


def _helm_upgrade(b: Workbench, values: Json | None = None, *, hooks: bool = True, timeout: float = 300) -> str:
    """Upgrade KAI as a user does, with the chart's hooks; what Helm says instead, empty: it succeeded."""
    ctx = b.lab.context("kai")
    chart = ctx.supply.chart(KAI_CHART, line_of(str(b.lab.kai_version)).tag)
    wanted = merged(release_values(b.lab.spec), values or {})
    try:
        helm_release.helm_for(ctx).upgrade_install(RELEASE, chart, NAMESPACE, wanted, hooks=hooks, timeout=timeout)
    except CommandFailed as error:
        return error.err.strip().removeprefix("Error: ")
    return ""


def _refusal(b: Workbench, pod: Json) -> str:
    """What the API server says instead of creating the pod; empty: it created it."""
    try:
        b.host.submit(pod)
    except ApiFailed as error:
        return re.sub(r"^POST Pod \S+: | \(HTTP \d+\)$", "", str(error).splitlines()[0])
    return ""


def deleted_podgroup_written(b: Workbench) -> Seen | None:
    """A policy denied changes of PodGroups' status until the pods and their PodGroup were deleted; 10 s passed."""
    undo = _deny(b, "podgroups/status", group="scheduling.run.ai", version="v2alpha2", operation="UPDATE")
    b.host.submit(sized(setting_of(b.lab), cpu="1000"))
    b.cluster.wait("PodGroup", bool, namespace=b.space, timeout=SECONDS, what="the pod-grouper has seen the pod")
    time.sleep(5)  # until the scheduler has tried to write why the pod does not run
    b.cluster.delete_all("Pod", b.space, grace=0)
    b.cluster.wait("PodGroup", lambda found: not found, namespace=b.space, timeout=SECONDS, what="no PodGroup")
    undo()
    time.sleep(EFFECT_SECONDS)
    before = len(b.log("scheduler", "Failed to update pod group status", b.space))
    time.sleep(_RATE_SECONDS)
    lines = b.log("scheduler", "Failed to update pod group status", b.space)
    if (rate := (len(lines) - before) / _RATE_SECONDS) < 1:
        return None
    return Seen(f"the scheduler tries {rate:.0f} times a second to change a PodGroup that was deleted", (lines[-1],))


def gpu_memory_not_reclaimed(b: Workbench) -> Seen | None:
    """A queue without quota filled all GPUs with pods that request GPU memory; a queue with quota wanted one GPU."""
    setting = setting_of(b.lab)
    gpus = setting.gpus * setting.workers
    owner, guest = f"{b.space}-owner", f"{b.space}-guest"
    for name, quota in ((owner, gpus), (guest, 0)):
        b.create(queue(name, setting, gpu={"quota": quota, "limit": -1, "overQuotaWeight": 1}))
    b.run(*(gpu_memory_pod(f"guest-{number}", mib=setting.memory * 19 // 20, queue=guest) for number in range(gpus)))
    b.host.submit(gpu_pod("owner", queue=owner))
    try:
        b.host.running("owner", timeout=_RECLAIM_SECONDS)
    except WaitTimeout:
        tried = b.log("scheduler", "[reclaim]", f"{b.space}/")
        evidence = dict.fromkeys(re.sub(r".*\[reclaim\] ", "log of scheduler: ", line) for line in tried)
        queues = tuple(f"queue {name}: quota of {quota} GPUs" for name, quota in ((owner, gpus), (guest, 0)))
        return Seen("a queue does not get its GPUs back from pods that request GPU memory", (*queues, *evidence))
    return None


def needs_cluster_policy(b: Workbench) -> Seen | None:
    """The CRD clusterpolicies.nvidia.com was deleted, and the operator of KAI restarted."""
    name = "clusterpolicies.nvidia.com"
    crd = b.cluster.get("CustomResourceDefinition", name)
    if crd is None:
        raise LabError(f"the cluster has no CRD {name}")
    again = {**crd, "metadata": {key: crd["metadata"][key] for key in ("name", "labels") if key in crd["metadata"]}}
    b.undo.callback(b.cluster.apply, [{key: again[key] for key in ("apiVersion", "kind", "metadata", "spec")}])
    b.cluster.delete("CustomResourceDefinition", name, wait=SECONDS)
    b.cluster.delete_all("Pod", NAMESPACE, labels=pods(b.lab, "operator"), grace=0)
    restarted = b.cluster.wait(
        "Pod",
        lambda found: any(sum(c["restartCount"] for c in one["status"].get("containerStatuses", ())) for one in found),
        namespace=NAMESPACE,
        labels=pods(b.lab, "operator"),
        timeout=_EXIT_SECONDS,
        what="the operator has exited",
    )
    (pod, *_) = restarted
    logged = without_colours(b.cluster.logs(pod["metadata"]["name"], NAMESPACE, previous=True)).splitlines()
    named = [line for line in logged if "ClusterPolicy" in line and "ERROR" in line]
    return Seen("the operator exits without the CRD clusterpolicies.nvidia.com", tuple(named[-2:])) if named else None


def _event(b: Workbench, matches: Callable[[EventView], bool]) -> EventView:
    """Wait for an event in the namespace. Raises WaitTimeout."""
    found = b.cluster.wait(
        "Event",
        lambda events: any(matches(EventView.of(one)) for one in events),
        namespace=b.space,
        timeout=SECONDS,
        what="the event",
    )
    return next(event for event in map(EventView.of, found) if matches(event))


def _deny(b: Workbench, resource: str, **more: str) -> Callable[[], None]:
    """Deny an operation in the namespace; returns what ends it before the end of the situation."""
    docs = policy(f"broken-{b.space}", b.space, resource, **more)
    for doc in docs:
        b.create(doc)
    time.sleep(EFFECT_SECONDS)

    def undo() -> None:
        for doc in reversed(docs):
            b.cluster.delete(doc["kind"], doc["metadata"]["name"], wait=SECONDS)

    return undo


DEFECTS: dict[str, Situation] = {
    one.__name__.replace("_", "-"): one
    for one in (
        silent_unknown_queue,
        webhooks_block_all_pods,
        dotted_pod_names,
        default_queue_refuses_deployments,
        misleading_bound_event,
        deleted_podgroup_written,
        group_lost_on_rollback,
        double_reservation,
        early_reservation_removal,
        gpu_memory_not_reclaimed,
        needs_cluster_policy,
        reservation_lost_on_retry,
        over_packed_on_retry,
        unused_reservation_not_counted,
        counted_in_another_group,
        stale_hook_job,
        config_made_anew,
        account_leaves_release,
        shard_not_ready_for_helm,
        class_cannot_be_cleared,
    )
}

if __name__ == "__main__":
    sys.exit(record(DEFECTS, DATA / "defects.json", __doc__ or ""))

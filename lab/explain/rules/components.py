"""KAI's own components, and kube-scheduler: a pod waits for the one whose turn it is."""

from __future__ import annotations

from datetime import timedelta

from lab.explain.installation import ADMISSION, BINDER, GROUPER, OPERATOR, SCHEDULER, Component
from lab.explain.pod_context import PodContext
from lab.explain.rule import REFUSED, UNBOUND, rule
from lab.findings import Certainty, Finding
from lab.objects.fields import parts

_SILENT = timedelta(seconds=60)
_TROUBLE = ("rror", "panic", "Fail", "forbidden", "Unauthorized")


def _down(case: PodContext, component: Component, job: str) -> Finding:
    operator = case.kai.component(OPERATOR) if case.kai else None
    told = list(component.state())
    if operator is not None and not operator.up:
        told += list(operator.state())
    told += list(case.world.logs.get(component.deployment, ())[-3:])
    where = ["-n", component.namespace]
    action = case.kubectl("get", "deployment,pods", *where)
    if not component.want and not component.missing:
        action = case.kubectl("scale", "deployment", component.deployment, *where, "--replicas=1")
    return Finding(f"KAI's {component.deployment} does not run: {job}", action, tuple(told))


@rule("kai.pod-grouper-down", "KAI's pod-grouper is down", UNBOUND, "pkg/podgrouper/pod_controller.go")
def pod_grouper_down(case: PodContext) -> Finding | None:
    """Without it a pod gets no PodGroup, and the scheduler does not see it."""
    grouper = case.kai.component(GROUPER) if case.kai else None
    if not case.by_kai or grouper is None or grouper.up or case.pod.pod_group:
        return None
    return _down(case, grouper, f"it gives {case.title} no PodGroup, and without one the scheduler does not see it")


@rule("kai.scheduler-down", "KAI's scheduler is down", UNBOUND, "cmd/scheduler")
def scheduler_down(case: PodContext) -> Finding | None:
    """Nobody chooses a node."""
    scheduler = case.kai.component(SCHEDULER) if case.kai else None
    if not case.by_kai or scheduler is None or scheduler.up or case.request is not None:
        return None
    return _down(case, scheduler, f"nobody chooses a node for {case.title}")


@rule("kai.binder-down", "KAI's binder is down", UNBOUND, "pkg/binder/controllers/bindrequest_controller.go")
def binder_down(case: PodContext) -> Finding | None:
    """The scheduler has chosen, and nobody binds."""
    binder = case.kai.component(BINDER) if case.kai else None
    if not case.by_kai or binder is None or binder.up or case.request is None or case.request.phase == "Succeeded":
        return None
    return _down(case, binder, f"the scheduler chose node {case.request.node} for {case.title}, and nobody binds it")


@rule("kai.admission-down", "KAI's admission is down", REFUSED, "failurePolicy Fail; issues #104, #227")
def admission_down(case: PodContext) -> Finding | None:
    """Pods cannot be created while the webhook does not answer; before 0.13 this holds for every pod."""
    kai = case.kai
    webhook = (kai.component(ADMISSION) or kai.component(BINDER)) if kai else None
    if kai is None or webhook is None or webhook.up:
        return None
    told = [saying for saying in case.refusals if "failed calling webhook" in saying.text]
    if not told:
        return None
    whom = "KAI's pods" if kai.line.webhook_only_kai_pods else "all pods of the cluster"
    found = _down(case, webhook, f"its webhook refuses {whom}")
    return Finding(found.what, found.next, (told[0].line, *found.evidence))


@rule(
    "kai.no-shard",
    "No SchedulingShard",
    UNBOUND,
    "the operator makes one scheduler per SchedulingShard (0.10 and later)",
)
def no_shard(case: PodContext) -> Finding | None:
    """Without a shard there is no scheduler."""
    kai = case.kai
    if kai is None or not case.by_kai or not kai.line.has_shards or not case.world.has("SchedulingShard"):
        return None
    if case.world.of("SchedulingShard"):
        return None
    return Finding(
        "there is no SchedulingShard, so KAI's operator runs no scheduler",
        "make the shard default again: upgrade KAI's release",
    )


@rule(
    "kai.crd-missing",
    "A CRD that KAI needs is missing",
    UNBOUND,
    "kai 0.7: topologies.kueue.x-k8s.io; 0.9: clusterpolicies.nvidia.com",
)
def crd_missing(case: PodContext) -> Finding | None:
    """KAI 0.7's scheduler only logs list errors without kueue's Topology; every pod waits without an event."""
    kai = case.kai
    if kai is None or not case.by_kai or not case.world.has("CustomResourceDefinition"):
        return None
    there = {parts(crd)[0].get("name") for crd in case.world.of("CustomResourceDefinition")}
    lacking = sorted({*kai.line.crds, *kai.line.needs_crds} - there)
    if not lacking:
        return None
    return Finding(
        f"KAI {kai.version or kai.line.version} needs CRDs that are not installed: {', '.join(lacking)}",
        "install them; KAI's own come with its chart",
        certainty=Certainty.CERTAIN if not case.verdicts else Certainty.POSSIBLE,
    )


@rule(
    "kai.kubernetes-too-new",
    "Kubernetes is too new for this KAI",
    UNBOUND,
    "K8s 1.34 needs KAI 0.9.4 or later; issues #1155, #2038",
)
def kubernetes_too_new(case: PodContext) -> Finding | None:
    """Lines before 0.9.4 wait for an API that 1.34 does not serve any more."""
    kai = case.kai
    if kai is None or not case.by_kai or not kai.line.kubernetes_max or case.verdicts:
        return None
    newest = tuple(int(number) for number in kai.line.kubernetes_max.split("."))
    versions = {node.kubelet_version for node in case.world.nodes if node.kubelet_version}
    over = sorted(v for v in versions if tuple(int(n) for n in v.removeprefix("v").split(".")[:2]) > newest)
    if not over:
        return None
    return Finding(
        f"KAI {kai.version} runs on Kubernetes {kai.line.kubernetes_max} or older, and this is {over[-1]}",
        "take KAI 0.9.4 or later, or an older Kubernetes (a vCluster may have its own version)",
        certainty=Certainty.LIKELY,
    )


@rule(
    "kai.silent",
    "KAI's scheduler says nothing",
    UNBOUND,
    "a healthy scheduler tells of every pod in each cycle, 1 s",
    general=True,
)
def silent(case: PodContext) -> Finding | None:
    """The pod has its PodGroup, the scheduler runs, and there is no word for a minute."""
    scheduler = case.kai.component(SCHEDULER) if case.kai else None
    if not case.by_kai or scheduler is None or not scheduler.up or case.request or case.verdicts:
        return None
    if not case.pod.pod_group or case.age < _SILENT:
        return None
    logs = [line for line in case.world.logs.get(scheduler.deployment, ()) if any(word in line for word in _TROUBLE)]
    return Finding(
        f"KAI's scheduler runs and has said nothing about {case.title} for {case.age.total_seconds():.0f} s",
        case.kubectl("logs", "-n", scheduler.namespace, f"deployment/{scheduler.deployment}", "--tail=50"),
        tuple(logs[-3:]),
        Certainty.POSSIBLE,
    )


@rule(
    "kai.kube-scheduler-down", "kube-scheduler is down", UNBOUND, "Kubernetes: static pod kube-scheduler in kube-system"
)
def kube_scheduler_down(case: PodContext) -> Finding | None:
    """Where the control plane shows its pods."""
    if not case.schedules or case.pod.scheduler_name not in ("", "default-scheduler") or case.verdicts:
        return None
    mine = [
        pod
        for pod in case.world.pods
        if pod.namespace == "kube-system" and pod.labels.get("component") == "kube-scheduler"
    ]
    if not mine or any(pod.ready for pod in mine):
        return None
    return Finding(
        "kube-scheduler does not run, so no pod of the default scheduler is placed",
        case.kubectl("describe", "pod", mine[0].name, "-n", "kube-system"),
        tuple(f"pod {pod.name}: {pod.phase}, {', '.join(pod.waiting_reasons) or 'not ready'}" for pod in mine),
    )

"""Rules about KAI's components and kube-scheduler."""

from __future__ import annotations

from datetime import timedelta

from lab.explain.component_messages import pod_line
from lab.explain.pod_context import PodContext
from lab.explain.rule import REFUSED, UNBOUND, rule
from lab.findings import Certainty, Finding
from lab.objects.fields import parts
from lab.snapshot.kai_installation import ADMISSION, BINDER, GROUPER, OPERATOR, SCHEDULER, Component

_SILENT = timedelta(seconds=60)
_ERROR_WORDS = ("rror", "panic", "Fail", "forbidden", "Unauthorized")


def _down(ctx: PodContext, component: Component, effect: str) -> Finding:
    operator = ctx.kai.component(OPERATOR) if ctx.kai else None
    evidence = list(component.state())
    if operator is not None and not operator.up:
        evidence += operator.state()
    evidence += ctx.snapshot.logs.get(component.deployment, ())[-3:]
    namespace = ["-n", component.namespace]
    action = ctx.kubectl("get", "deployment,pods", *namespace)
    if not component.want and not component.missing:
        action = ctx.kubectl("scale", "deployment", component.deployment, *namespace, "--replicas=1")
    lost = {node.name for node in ctx.snapshot.nodes if not node.ready} & {pod.node for pod in component.pods}
    evidence += [f"its node {name} is not Ready" for name in sorted(lost)]
    certainty = Certainty.LIKELY if lost else Certainty.CERTAIN  # the node is the cause, and has rules of its own
    return Finding(f"KAI's {component.deployment} does not run: {effect}", action, tuple(evidence), certainty)


@rule("kai.pod-grouper-down", UNBOUND, "pkg/podgrouper/pod_controller.go")
def pod_grouper_down(ctx: PodContext) -> Finding | None:
    """KAI's pod-grouper is down."""
    grouper = ctx.kai_component(GROUPER)
    if grouper is None or grouper.up or ctx.pod.pod_group:
        return None
    return _down(ctx, grouper, f"{ctx.title} gets no PodGroup, without which the scheduler ignores it")


@rule("kai.no-shard", UNBOUND, "the operator creates one scheduler per SchedulingShard (0.10 and later)")
def no_shard(ctx: PodContext) -> Finding | None:
    """No SchedulingShard exists: the cause of a missing scheduler, so it comes first."""
    if ctx.kai is None or not ctx.by_kai or not ctx.kai.line.has_shards or not ctx.snapshot.has("SchedulingShard"):
        return None
    if ctx.snapshot.of("SchedulingShard"):
        return None
    return Finding(
        "no SchedulingShard exists, so KAI's operator runs no scheduler",
        "recreate the shard default: upgrade KAI's release",
    )


@rule("kai.scheduler-down", UNBOUND, "cmd/scheduler")
def scheduler_down(ctx: PodContext) -> Finding | None:
    """KAI's scheduler is down."""
    scheduler = ctx.kai_component(SCHEDULER)
    if scheduler is None or scheduler.up or ctx.bind_request is not None:
        return None
    return _down(ctx, scheduler, f"{ctx.title} gets no node")


@rule("kai.binder-down", UNBOUND, "pkg/binder/controllers/bindrequest_controller.go")
def binder_down(ctx: PodContext) -> Finding | None:
    """KAI's binder is down."""
    binder, request = ctx.kai_component(BINDER), ctx.bind_request
    if binder is None or binder.up or request is None or request.phase == "Succeeded":
        return None
    return _down(ctx, binder, f"the scheduler chose node {request.node} for {ctx.title}, and nothing binds it")


@rule("kai.admission-down", REFUSED, "failurePolicy Fail; issues #104, #227")
def admission_down(ctx: PodContext) -> Finding | None:
    """KAI's admission is down: it blocks the creation of pods, and before 0.13 of pods without KAI as well."""
    kai = ctx.kai
    webhook = (kai.component(ADMISSION) or kai.component(BINDER)) if kai else None
    if kai is None or webhook is None or webhook.up:
        return None
    refusals = [message.line for message in ctx.refusals if "failed calling webhook" in message.text]
    if not refusals:
        return None
    pods = "KAI's pods" if kai.line.webhook_only_kai_pods else "all pods of the cluster"
    found = _down(ctx, webhook, f"the API server refuses {pods}, because its webhook does not answer")
    return Finding(found.what, found.next, (refusals[0], *found.evidence))


@rule("kai.crd-missing", UNBOUND, "kai 0.7: topologies.kueue.x-k8s.io; 0.9: clusterpolicies.nvidia.com")
def crd_missing(ctx: PodContext) -> Finding | None:
    """A CRD that KAI needs is missing: without kueue's Topology, KAI 0.7's scheduler only logs list errors."""
    kai = ctx.kai
    if kai is None or not ctx.by_kai or not ctx.snapshot.has("CustomResourceDefinition"):
        return None
    installed = {parts(crd)[0].get("name") for crd in ctx.snapshot.of("CustomResourceDefinition")}
    missing = sorted({*kai.line.crds, *kai.line.needs_crds} - installed)
    if not missing:
        return None
    return Finding(
        f"KAI {kai.version or kai.line.version} needs CRDs that are not installed: {', '.join(missing)}",
        "install them; KAI's own are in its chart",
        certainty=Certainty.CERTAIN if not ctx.verdicts else Certainty.POSSIBLE,
    )


@rule("kai.silent", UNBOUND, "a healthy scheduler reports on every pod in each cycle, 1 s", general=True)
def silent(ctx: PodContext) -> Finding | None:
    """KAI's scheduler reports nothing: no message for a minute, although it runs and the pod has its PodGroup."""
    scheduler = ctx.kai_component(SCHEDULER)
    if scheduler is None or not scheduler.up or ctx.bind_request or ctx.verdicts:
        return None
    if not ctx.pod.pod_group or ctx.age < _SILENT:
        return None
    logs = ctx.snapshot.logs.get(scheduler.deployment, ())
    return Finding(
        f"KAI's scheduler runs and has reported nothing about {ctx.title} for {ctx.age.total_seconds():.0f} s",
        ctx.kubectl("logs", "-n", scheduler.namespace, f"deployment/{scheduler.deployment}", "--tail=50"),
        tuple(line for line in logs if any(word in line for word in _ERROR_WORDS))[-3:],
        Certainty.POSSIBLE,
    )


@rule("kai.kube-scheduler-down", UNBOUND, "Kubernetes: static pod kube-scheduler in kube-system")
def kube_scheduler_down(ctx: PodContext) -> Finding | None:
    """The kube-scheduler is down."""
    if not ctx.schedules or ctx.pod.scheduler_name not in ("", "default-scheduler") or ctx.verdicts:
        return None
    system = (pod for pod in ctx.snapshot.pods if pod.namespace == "kube-system")
    pods = [pod for pod in system if pod.labels.get("component") == "kube-scheduler"]
    if not pods or any(pod.ready for pod in pods):
        return None
    return Finding(
        "kube-scheduler does not run, so it places no pod",
        ctx.kubectl("describe", "pod", pods[0].name, "-n", "kube-system"),
        tuple(map(pod_line, pods)),
    )

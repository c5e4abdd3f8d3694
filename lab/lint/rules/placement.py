"""Rules about the scheduler of a workload, its namespace, and gangs."""

from __future__ import annotations

from collections.abc import Iterator

from lab.findings import Finding
from lab.lint.model import LintContext, Manifest, finding, rule
from lab.text import nearest

_MISSPELT = ("kai", "kai_scheduler", "kaischeduler", "kai-schduler", "runai-scheduler")


def _misspelt(name: str, right: str) -> bool:
    """Whether a schedulerName is a misspelt KAI."""
    return bool(name) and name != right and (name.lower() in _MISSPELT or bool(nearest(name, [right], 0.85)))


@rule("queue-without-kai", "KAI handles only pods with schedulerName kai-scheduler")
def queue_without_kai(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """A KAI queue on a pod of another scheduler: no quota applies to the pod."""
    pod, queue, kai = manifest.pod, manifest.queue(ctx.line.keys.queue), ctx.line.scheduler_name
    if pod is None or queue is None or pod.scheduler == kai or _misspelt(pod.scheduler, kai):
        return
    yield finding(
        (*pod.at, "spec", "schedulerName"),
        f"the pod names queue {queue[1]}, but {pod.scheduler or 'the default scheduler'} ignores queues and quotas",
        f"set schedulerName: {kai} in the pod's spec",
        "warning",
    )


@rule("scheduler-misspelt", "Kubernetes: no other scheduler handles the pod")
def misspelt(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """A schedulerName that is nearly KAI's."""
    pod = manifest.pod
    if pod and _misspelt(pod.scheduler, ctx.line.scheduler_name):
        yield finding(
            (*pod.at, "spec", "schedulerName"),
            f"no scheduler is called {pod.scheduler!r}: the pod stays Pending without an event",
            f"write {ctx.line.scheduler_name}",
        )


@rule("kai-namespace", "pkg/apis/kai/v1/admission: the webhooks exclude kube-system and KAI's namespace")
def namespace(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """A workload in one of KAI's namespaces: its webhooks ignore the pods there."""
    line, name, pod = ctx.line, str(manifest.meta.get("namespace") or ""), manifest.pod
    if pod is None:
        return
    what = ""
    if name == line.reservation_namespace:
        what = "KAI treats pods in this namespace as its reservation pods"
    elif name in (line.namespace, "kube-system") and pod.scheduler == line.scheduler_name:
        what = f"KAI's webhooks ignore pods in {name}: fractions are not set up, mistakes are not refused"
    if what:
        yield finding(("metadata", "namespace"), what, "use another namespace")


@rule("node-name-set", "Kubernetes: such a pod passes no scheduler")
def node_name(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """A nodeName set by hand."""
    pod = manifest.pod
    if pod and pod.spec.get("nodeName") and pod.scheduler == ctx.line.scheduler_name:
        yield finding(
            (*pod.at, "spec", "nodeName"),
            "nodeName bypasses every scheduler: no queue, no fraction, no gang",
            "use a nodeSelector with kubernetes.io/hostname",
        )


@rule("job-is-no-gang", "KAI: a batch Job is one PodGroup per pod unless kai.scheduler/batch-min-member is set")
def job_gang(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """A parallel Job whose pods start one by one: some may run while others wait."""
    pod, key = manifest.pod, ctx.line.keys.min_member
    pods = manifest.spec.get("parallelism")
    if manifest.kind != "Job" or pod is None or pod.scheduler != ctx.line.scheduler_name:
        return
    if isinstance(pods, int) and pods > 1 and (not key or key not in manifest.annotations):
        yield finding(
            ("spec", "parallelism"),
            f"the {pods} pods are not a gang: some may run while others wait",
            f'annotate the Job with {key}: "{pods}" for a gang' if key else "create a PodGroup for a gang",
            "note",
        )


@rule("gang-larger-than-job", "KAI: minMember pods must exist")
def gang_too_large(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """A gang of more pods than the Job has."""
    key = ctx.line.keys.min_member
    text, pods = manifest.annotations.get(key, "") if key else "", manifest.spec.get("parallelism", 1)
    at = ("metadata", "annotations", key)
    if manifest.kind != "Job" or not text:
        return
    if not (text.isdigit() and int(text) > 0):
        yield finding(at, f"{key}: {text!r} is not a number above 0", "write a whole number")
    elif isinstance(pods, int) and int(text) > pods:
        what = f"the gang waits for {text} pods, and the Job runs {pods} at a time: none starts"
        yield finding(at, what, f"set parallelism to {text} or more")

"""Rules about the scheduler of a workload and its namespace."""

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
    pod, queue, kai = manifest.pod, manifest.label(ctx.line.keys.queue), ctx.line.scheduler_name
    if pod is None or queue is None or pod.scheduled_by(kai) is not False or _misspelt(pod.scheduler, kai):
        return
    yield finding(
        (*pod.spec_at, "schedulerName"),
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
            (*pod.spec_at, "schedulerName"),
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
            (*pod.spec_at, "nodeName"),
            "nodeName bypasses every scheduler: no queue, no fraction, no gang",
            "use a nodeSelector with kubernetes.io/hostname",
        )

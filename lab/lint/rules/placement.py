"""Who schedules a workload, where it lies, and what starts together."""

from __future__ import annotations

from collections.abc import Iterator

from lab.findings import Finding
from lab.lint.model import LintContext, Manifest, found, rule
from lab.text import nearest


@rule(
    "queue-without-kai",
    "a KAI queue on a pod of another scheduler",
    "KAI looks at pods with schedulerName kai-scheduler only",
)
def queue_without_kai(manifest: Manifest, setting: LintContext) -> Iterator[Finding]:
    """The queue means nothing to the default scheduler: no quota holds for the pod."""
    pod, queue = manifest.pod, manifest.queue(setting.line.keys.queue)
    if pod is None or queue is None or pod.scheduler == setting.line.scheduler_name:
        return
    if _meant(pod.scheduler, setting.line.scheduler_name):
        return  # scheduler-misspelt says it
    who = pod.scheduler or "the default scheduler"
    yield found(
        (*pod.at, "spec", "schedulerName"),
        f"it names queue {queue[1]}, but goes to {who}: no quota holds for it",
        f"set schedulerName: {setting.line.scheduler_name} in the pod's spec",
        "warning",
    )


@rule("scheduler-misspelt", "a schedulerName that is nearly KAI's", "Kubernetes: nobody else takes the pod")
def misspelt(manifest: Manifest, setting: LintContext) -> Iterator[Finding]:
    """No scheduler answers to the name, and the pod is Pending without any event."""
    pod = manifest.pod
    if pod and _meant(pod.scheduler, setting.line.scheduler_name):
        yield found(
            (*pod.at, "spec", "schedulerName"),
            f"no scheduler is called {pod.scheduler!r}: the pod stays Pending without an event",
            f"write {setting.line.scheduler_name}",
        )


@rule(
    "kai-namespace",
    "a workload in a namespace of KAI's own",
    "pkg/apis/kai/v1/admission: the webhooks leave out kube-system and KAI's namespace",
)
def namespace(manifest: Manifest, setting: LintContext) -> Iterator[Finding]:
    """KAI's webhooks do not look at pods there, so fractions never get their configuration."""
    line, where = setting.line, str(manifest.meta.get("namespace") or "")
    pod = manifest.pod
    if pod is None or where not in (line.namespace, line.reservation_namespace, "kube-system"):
        return
    if where == line.reservation_namespace:
        what = "KAI takes pods in this namespace for its reservation pods"
    else:
        what = f"KAI's webhooks do not look at pods in {where}: fractions are not set up, mistakes are not refused"
    if where == line.reservation_namespace or pod.scheduler == line.scheduler_name:
        yield found(("metadata", "namespace"), what, "take a namespace of your own")


@rule("node-name-set", "nodeName set by hand", "Kubernetes: such a pod passes no scheduler")
def node_name(manifest: Manifest, setting: LintContext) -> Iterator[Finding]:
    """KAI never schedules it, whatever schedulerName says."""
    pod = manifest.pod
    if pod and pod.spec.get("nodeName") and pod.scheduler == setting.line.scheduler_name:
        yield found(
            (*pod.at, "spec", "nodeName"),
            "nodeName bypasses every scheduler: no queue, no fraction, no gang",
            "use a nodeSelector with kubernetes.io/hostname",
        )


@rule(
    "job-is-no-gang",
    "a parallel Job whose pods start one by one",
    "KAI: a batch Job is one PodGroup per pod unless kai.scheduler/batch-min-member says otherwise",
)
def job_gang(manifest: Manifest, setting: LintContext) -> Iterator[Finding]:
    """Each pod of a Job is scheduled by itself, so that some may run while others wait."""
    pod, key = manifest.pod, setting.line.keys.min_member
    together = manifest.spec.get("parallelism")
    if (
        manifest.kind == "Job"
        and pod
        and pod.scheduler == setting.line.scheduler_name
        and isinstance(together, int)
        and together > 1
        and (not key or key not in manifest.annotations)
    ):
        fix = f'annotate the Job with {key}: "{together}" for a gang' if key else "make a PodGroup by hand for a gang"
        yield found(
            ("spec", "parallelism"), f"the {together} pods are no gang: some may run while others wait", fix, "note"
        )


@rule("gang-larger-than-job", "a gang of more pods than the Job has", "KAI: minMember pods must exist")
def gang_too_large(manifest: Manifest, setting: LintContext) -> Iterator[Finding]:
    """The gang waits for pods that are never made."""
    key = setting.line.keys.min_member
    text, together = manifest.annotations.get(key, "") if key else "", manifest.spec.get("parallelism", 1)
    if manifest.kind == "Job" and text and not (text.isdigit() and int(text) > 0):
        yield found(("metadata", "annotations", key), f"{key}: {text!r} is no number above 0", "write a whole number")
    elif manifest.kind == "Job" and text and isinstance(together, int) and int(text) > together:
        yield found(
            ("metadata", "annotations", key),
            f"the gang waits for {text} pods, and the Job runs {together} at a time: none starts",
            f"set parallelism to {text} or more",
        )


def _meant(name: str, right: str) -> bool:
    """Whether somebody meant KAI and wrote something else."""
    return (
        bool(name)
        and name != right
        and (
            name.lower() in ("kai", "kai_scheduler", "kaischeduler", "kai-schduler", "runai-scheduler")
            or bool(nearest(name, [right], 0.85))
        )
    )

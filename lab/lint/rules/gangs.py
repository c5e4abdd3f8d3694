"""Rules about gangs: how many pods of a workload start together, and workloads that KAI cannot group."""

from __future__ import annotations

from collections.abc import Iterator

from lab.findings import Finding
from lab.lint.document import Loc
from lab.lint.model import LintContext, Manifest, finding, rule
from lab.lint.workloads import WorkloadKind, kinds, mapping, value_at, walk

_PLUGINS = "pkg/podgrouper/podgrouper/plugins"
_KUBEFLOW = f"{_PLUGINS}/kubeflow/distributed_common.go, v0.7.11 to v0.17.0"
_REFUSES = "the pod-grouper makes no PodGroup, and its pods stay Pending"


def _by_kai(manifest: Manifest, ctx: LintContext) -> WorkloadKind | None:
    """Return the kind of a workload that KAI schedules; None for others."""
    pod, kind = manifest.pod, manifest.workload
    by_kai = pod is not None and pod.scheduled_by(ctx.line.scheduler_name) is not False
    return kind if by_kai and not manifest.has_own_group(ctx.line) else None


@rule("job-is-no-gang", "KAI: a batch Job is one PodGroup per pod unless kai.scheduler/batch-min-member is set")
def job_gang(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """A parallel Job whose pods start one by one: some may run while others wait."""
    key, pods = ctx.line.keys.min_member, manifest.spec.get("parallelism")
    if _by_kai(manifest, ctx) is not kinds()["Job.batch"]:
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
    if manifest.workload is not kinds()["Job.batch"] or not text:
        return
    if not (text.isdigit() and int(text) > 0):
        yield finding(at, f"{key}: {text!r} is not a number above 0", "write a whole number")
    elif isinstance(pods, int) and int(text) > pods:
        what = f"the gang waits for {text} pods, and the Job runs {pods} at a time: none starts"
        yield finding(at, what, f"set parallelism to {text} or more")


@rule("min-member-not-read", f"{_PLUGINS}: only those of Jobs and JobSets read it, from 0.14.1")
def min_member(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """A minimum of pods on a kind for which KAI does not read it."""
    key, kind = ctx.line.keys.min_member, _by_kai(manifest, ctx)
    if not key or kind is None or kind.min_member or not manifest.pod or not manifest.pod.is_template:
        return
    for at, meta in {("metadata",): manifest.meta, manifest.owner[0]: manifest.owner[1]}.items():
        if key in mapping(meta.get("annotations")):
            yield finding(
                (*at, "annotations", key),
                f"KAI reads {key} of Jobs and JobSets only, not of a {manifest.kind}",
                "remove it" if kind.own_gang else "use a Job or JobSet for a gang",
                "warning",
            )


@rule("owner-labels-not-read", f"{_PLUGINS}/cronjobs and knative: they look at the Job or Revision")
def owner_labels(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """A queue or priority on a workload whose labels KAI does not read, such as a CronJob."""
    kind, keys = _by_kai(manifest, ctx), ctx.line.keys
    if kind is None or not kind.owner or kind.pod_first:
        return
    for key in (keys.queue, keys.priority_class, keys.preemptibility):
        if key and key in manifest.labels and manifest.label(key) is None:
            yield finding(
                ("metadata", "labels", key),
                f"KAI does not read {key} of a {manifest.kind}: it has no effect",
                f"move it to {kind.owner}.metadata.labels",
            )


@rule("not-a-gang-here", "pkg/podgrouper/podgrouper/hub/hub.go at the tag of the version")
def not_grouped(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """A kind or API version that this KAI does not group: its pods start one by one."""
    kind = _by_kai(manifest, ctx)
    version = manifest.api.rpartition("/")[2]
    if kind is None or not kind.own_gang or kind.grouped_by(ctx.line, version):
        return
    known = not kind.versions or version in kind.versions
    fix = f"use KAI {kind.since} or newer for a gang" if known else f"write version {' or '.join(kind.versions)}"
    what = f"KAI {ctx.line.version} does not know {manifest.kind} {version}: its pods are no gang"
    yield finding(("apiVersion",), f"{what}, some may run while others wait", fix, "warning")


@rule("replicas-missing", _KUBEFLOW)
def replicas(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """A group of pods without a number of replicas, or with 0."""
    kind = _by_kai(manifest, ctx)
    if kind is None or not kind.replicas or (kind.minimum and _number(manifest, kind.minimum)[1] is not None):
        return
    parent, _, key = kind.replicas.rpartition(".")
    for at, group in walk(manifest.obj, parent):
        value = mapping(group).get(key)
        if value is None or (isinstance(value, int) and value <= 0):
            yield finding(
                (*at, key),
                f"{'.'.join(map(str, (*at, key)))} is {'missing' if value is None else value}: {_REFUSES}",
                "write a number above 0",
                "warning" if value is None else "error",
            )


@rule("replica-type-missing", _KUBEFLOW)
def types(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """A distributed job without a type of pods that KAI requires, such as an MPIJob without Launcher."""
    kind = _by_kai(manifest, ctx)
    if kind is None or not kind.types or _number(manifest, kind.minimum)[1] is not None:
        return
    at: Loc = tuple(kind.replicas.split(".")[:-2])
    missing = [name for name in kind.types if name not in mapping(value_at(manifest.obj, at))]
    if missing:
        yield finding(at, f"{'.'.join(map(str, at))} has no {' and no '.join(missing)}: {_REFUSES}", "add it")


@rule("gang-larger-than-pods", f"{_KUBEFLOW}: minMember pods must exist")
def larger(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """More pods in a gang than the workload has."""
    kind = _by_kai(manifest, ctx)
    at, minimum = _number(manifest, kind.minimum) if kind else ((), None)
    if kind is None or minimum is None:
        return
    numbers = [number for _, number in walk(manifest.obj, kind.replicas) if isinstance(number, int)]
    if minimum > sum(numbers):
        what = f"the gang waits for {minimum} pods, and the {manifest.kind} has {sum(numbers)}: none starts"
        yield finding(at, what, f"write at most {sum(numbers)}")


@rule("ray-group-below-minimum", f"{_PLUGINS}/ray/ray_grouper.go, v0.7.11 to v0.17.0")
def ray(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """A group of Ray workers with fewer replicas than its minimum."""
    kind = _by_kai(manifest, ctx)
    for at, group in walk(manifest.obj, kind.groups) if kind and kind.groups else ():
        least, wanted = mapping(group).get("minReplicas", 0), mapping(group).get("replicas", 0)
        if (
            isinstance(least, int)
            and isinstance(wanted, int)
            and least > wanted
            and not mapping(group).get("suspended")
        ):
            yield finding(
                (*at, "minReplicas"),
                f"minReplicas {least} is above replicas {wanted}: {_REFUSES}",
                f"write replicas: {least} or more",
            )


def _number(manifest: Manifest, path: str) -> tuple[Loc, int | None]:
    """Return location and value of a number; None without one."""
    at = tuple(path.split("."))
    value = value_at(manifest.obj, at) if path else None
    return at, value if isinstance(value, int) else None

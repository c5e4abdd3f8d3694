"""Rules about PodGroups: KAI's scheduler ignores pods without one, and a gang waits for all of its pods."""

from __future__ import annotations

import re
from datetime import timedelta

from lab.explain.component_messages import newest, of_event
from lab.explain.pod_context import PodContext
from lab.explain.rule import UNBOUND, rule
from lab.findings import Certainty, Finding
from lab.objects.fields import labels_of, parts
from lab.objects.isolation_labels import HOST_KAI_LABEL
from lab.snapshot.kai_installation import GROUPER
from lab.text import one_line

_NOISE = re.compile(r'^Pod "[^"]+" not found$')
"""PodGrouperWarning that every bare pod may get (issue #499)."""
_BENIGN = "Detected pod with no owner but with podgroup annotation"
"""Line of the pod-grouper's log about every bare pod that names its PodGroup."""
_ADVICE = (
    (re.compile(r"cannot \w+ resource"), "grant it this permission, or remove that owner from the pod"),
    (re.compile(r'no matches for kind "PodGroup"'), "install KAI's CRDs in this cluster: they are in its chart"),
    (
        re.compile(r"the object has been modified"),
        "wait, it retries; if this stays, let only one KAI and no other controller write PodGroups",
    ),
)
"""What a PodGrouperWarning says, and the next action; before 0.14.2 also for conflicts, which KAI retries."""
_PATIENCE = timedelta(seconds=10)
_SKIP = "kai.scheduler/skip-podgrouper"


@rule("group.namespace-left-out", UNBOUND, "podgrouper --namespace-label-selector; chart global.namespaceLabelSelector")
def namespace_left_out(ctx: PodContext) -> Finding | None:
    """KAI ignores the namespace: it is installed to watch only namespaces with a label."""
    kai, namespace = ctx.kai, ctx.snapshot.get("Namespace", ctx.pod.namespace)
    if kai is None or not ctx.by_kai or ctx.pod.pod_group or namespace is None:
        return None
    if HOST_KAI_LABEL in kai.namespace_selector:
        return None  # the lab's own label: tenant.not-opted-in explains more
    labels = labels_of(parts(namespace)[0])
    missing = [f"{key}={value}" for key, value in kai.namespace_selector.items() if labels.get(key) != value]
    if not missing:
        return None
    return Finding(
        f"KAI watches only namespaces labelled {', '.join(missing)}, and {ctx.pod.namespace} is not",
        ctx.kubectl("label", "namespace", ctx.pod.namespace, *missing),
    )


@rule("group.skipped", UNBOUND, "pkg/podgrouper/pod_controller.go (0.15 and later)")
def skipped(ctx: PodContext) -> Finding | None:
    """An annotation makes the pod-grouper skip the pod."""
    if not ctx.by_kai or ctx.pod.annotations.get(_SKIP) != "true" or ctx.group is not None:
        return None
    return Finding(
        f"{ctx.title} has the annotation {_SKIP}=true and no PodGroup: the scheduler ignores it",
        "remove the annotation, or create a PodGroup and name it in the annotation pod-group-name",
    )


@rule("group.warned", UNBOUND, "event PodGrouperWarning, pkg/podgrouper/pod_controller.go")
def warned(ctx: PodContext) -> Finding | None:
    """The pod-grouper cannot create the PodGroup: unreadable or several owners, or the API server refuses it."""
    if not ctx.by_kai or ctx.group is not None:
        return None
    warnings = [e for e in newest(ctx.events, ["PodGrouperWarning"]) if not _NOISE.match(e.message)]
    if not warnings:
        return None
    return Finding(
        f"KAI's pod-grouper cannot create a PodGroup for {ctx.title}: {one_line(warnings[0].message)}",
        next(
            (advice for pattern, advice in _ADVICE if pattern.search(warnings[0].message)),
            "fix the cause in the message; the pod-grouper retries by itself",
        ),
        (of_event(warnings[0]).line,),
    )


@rule("group.none", UNBOUND, "pkg/podgrouper: annotation pod-group-name within a second")
def none_yet(ctx: PodContext) -> Finding | None:
    """The pod has no PodGroup yet: the pod-grouper runs and has not created it."""
    grouper = ctx.kai_component(GROUPER)
    if grouper is None or not grouper.up or ctx.pod.pod_group or ctx.age < _PATIENCE:
        return None
    if ctx.pod.annotations.get(_SKIP) == "true":
        return None
    logs = [
        line for line in ctx.snapshot.logs.get(grouper.deployment, ()) if ctx.pod.name in line and _BENIGN not in line
    ]
    return Finding(
        f"{ctx.title} has no PodGroup after {ctx.age.total_seconds():.0f} s, so the scheduler ignores it",
        ctx.kubectl("logs", "-n", grouper.namespace, f"deployment/{grouper.deployment}", "--tail=50"),
        tuple(logs[-3:]),
        Certainty.LIKELY,
    )


@rule("group.missing", UNBOUND, "pod_controller.go: ownerless pods with pod-group-name are left alone")
def missing(ctx: PodContext) -> Finding | None:
    """The PodGroup does not exist: the pod came with its name, or it was deleted."""
    if not ctx.by_kai or not ctx.pod.pod_group or ctx.group is not None or not ctx.snapshot.has("PodGroup"):
        return None
    return Finding(
        f"{ctx.title} names PodGroup {ctx.pod.pod_group}, which does not exist in {ctx.pod.namespace}",
        "create that PodGroup, or remove the annotation pod-group-name so that KAI creates one",
    )


@rule("group.node-pool", UNBOUND, "scheduler --nodepool-label-key, --partition-label-value; cluster_info.go")
def node_pool(ctx: PodContext) -> Finding | None:
    """The PodGroup is for another scheduling shard."""
    if not ctx.by_kai or ctx.kai is None or ctx.group is None or not ctx.kai.pool_key:
        return None
    pool = ctx.group.labels.get(ctx.kai.pool_key, "")
    if pool in ctx.kai.pools:
        return None
    served = ", ".join(sorted(p or "(without the label)" for p in ctx.kai.pools))
    return Finding(
        f"PodGroup {ctx.group.name} is labelled {ctx.kai.pool_key}={pool}, and no scheduler serves that pool",
        "remove the label from the workload, or create a SchedulingShard for the pool",
        (f"pools that are served: {served}",),
    )


@rule("group.gives-up", UNBOUND, "cluster_info.go, isPodGroupUpForScheduler: schedulingBackoff 1")
def gives_up(ctx: PodContext) -> Finding | None:
    """KAI does not retry: with schedulingBackoff 1, one failed attempt on a node pool is the last."""
    if not ctx.by_kai or ctx.group is None or not ctx.group.refusals:
        return None
    obj = ctx.snapshot.get("PodGroup", ctx.group.name, ctx.group.namespace) or {}
    backoff = parts(obj)[1].get("schedulingBackoff")
    if backoff is None or int(backoff) == -1:
        return None
    edit = ctx.kubectl("edit", "podgroup", ctx.group.name, "-n", ctx.group.namespace)
    return Finding(
        f"PodGroup {ctx.group.name} has schedulingBackoff {backoff} and failed once: KAI does not retry it",
        f"set spec.schedulingBackoff to -1: {edit}",
        tuple(f"{r.reason}: {r.message}" for r in ctx.group.refusals[:2]),
        Certainty.LIKELY,
    )


@rule("group.queue-differs", UNBOUND, "pkg/podgrouper/podgroup/handler.go: spec.queue is not changed later")
def queue_differs(ctx: PodContext) -> Finding | None:
    """The PodGroup is in another queue than the label names: a later change of the label has no effect."""
    if not ctx.by_kai or ctx.group is None or ctx.kai is None:
        return None
    key = ctx.kai.queue_key
    wanted = (ctx.workload.labels.get(key) if ctx.workload else None) or ctx.pod.labels.get(key)
    if not wanted or wanted == ctx.group.queue:
        return None
    return Finding(
        f"{ctx.title} is labelled for queue {wanted}, and its PodGroup stays in queue {ctx.group.queue}",
        f"recreate the workload, or edit PodGroup {ctx.group.name}",
        (f"label {key}={wanted}", f"PodGroup {ctx.group.name}: spec.queue {ctx.group.queue}"),
        Certainty.LIKELY,
    )


@rule(
    "gang.topology-level",
    UNBOUND,
    "pkg/scheduler/plugins/topology/job_filtering.go; KAI 0.16.8 reports only: Unable to schedule pod",
)
def topology_level(ctx: PodContext) -> Finding | None:
    """The Topology has no such level: the PodGroup requires or prefers one that its Topology does not list."""
    if not ctx.by_kai or ctx.group is None:
        return None
    obj = ctx.snapshot.get("PodGroup", ctx.group.name, ctx.group.namespace) or {}
    wanted = parts(obj)[1].get("topologyConstraint") or {}
    topology = ctx.snapshot.get("Topology", wanted.get("topology") or "")
    if topology is None:
        return None
    levels = [level.get("nodeLabel", "") for level in parts(topology)[1].get("levels") or []]
    named = (wanted.get("requiredTopologyLevel"), wanted.get("preferredTopologyLevel"))
    unknown = [level for level in named if level and level not in levels]
    if not unknown:
        return None
    return Finding(
        f"{ctx.title} asks for the topology level {unknown[0]}, which Topology {wanted['topology']} does not have",
        f"name one of its levels: {', '.join(levels)}",
        tuple(message.line for message in ctx.verdicts[:1]),
    )


@rule("gang.too-few", UNBOUND, "event NotReady on the PodGroup, default_status_updater.go")
def too_few(ctx: PodContext) -> Finding | None:
    """Pods of the gang are missing: the scheduler ignores a PodGroup until minMember pods exist."""
    group = ctx.group
    if group is None or not ctx.by_kai or len(ctx.group_pods) >= group.min_member:
        return None
    events = newest(ctx.snapshot.events_about(group.uid), ["NotReady"])
    evidence = [f"PodGroup {group.name}: minMember {group.min_member}, {len(ctx.group_pods)} pods exist"]
    evidence += [of_event(event).line for event in events[:1]]
    return Finding(
        f"the PodGroup of {ctx.title} needs {group.min_member} pods to start, and {len(ctx.group_pods)} exist",
        f"find out why the others are missing: {ctx.kubectl('get', 'pods,events', '-n', ctx.pod.namespace)}",
        tuple(evidence),
    )


@rule("gang.gated", UNBOUND, "default_status_updater.go: N are gated")
def gated(ctx: PodContext) -> Finding | None:
    """Pods of the gang are gated: gated pods do not count for minMember."""
    if ctx.group is None or not ctx.by_kai:
        return None
    objs = [ctx.snapshot.get("Pod", pod.name, pod.namespace) or {} for pod in ctx.group_pods]
    names = [parts(obj)[0].get("name", "") for obj in objs if parts(obj)[1].get("schedulingGates")]
    if not names or len(objs) - len(names) >= ctx.group.min_member or ctx.pod.name in names:
        return None
    return Finding(
        f"{len(names)} pods of the PodGroup have scheduling gates, and without them it has fewer than minMember",
        f"find out what gates {names[0]}: {ctx.kubectl('get', 'pod', names[0], '-n', ctx.pod.namespace, '-o', 'yaml')}",
        (f"PodGroup {ctx.group.name}: minMember {ctx.group.min_member}", f"gated: {', '.join(names[:5])}"),
    )

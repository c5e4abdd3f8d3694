"""The PodGroup: a pod without one is not seen by KAI's scheduler, and a gang waits for all of its pods."""

from __future__ import annotations

import re
from datetime import timedelta

from lab.config.labels import HOST_KAI_LABEL
from lab.explain.component_messages import newest, of_event
from lab.explain.installation import GROUPER
from lab.explain.pod_context import PodContext
from lab.explain.rule import UNBOUND, rule
from lab.findings import Certainty, Finding
from lab.objects.fields import labels_of, parts

_NOISE = re.compile(r'^Pod "[^"]+" not found$')
"""PodGrouperWarning that every bare pod may get (issue #499)."""
_PATIENCE = timedelta(seconds=10)
_SKIP = "kai.scheduler/skip-podgrouper"


@rule(
    "group.namespace-left-out",
    "KAI leaves the namespace alone",
    UNBOUND,
    "podgrouper --namespace-label-selector; chart global.namespaceLabelSelector",
)
def namespace_left_out(case: PodContext) -> Finding | None:
    """An installation that opts in by namespace label gives pods elsewhere no PodGroup."""
    kai = case.kai
    space = case.world.get("Namespace", case.pod.namespace)
    if kai is None or not case.by_kai or case.pod.pod_group or space is None or not kai.namespace_selector:
        return None
    if HOST_KAI_LABEL in kai.namespace_selector:
        return None  # the lab's own label: tenant.not-opted-in says more
    there = labels_of(parts(space)[0])
    lacking = [f"{key}={value}" for key, value in kai.namespace_selector.items() if there.get(key) != value]
    if not lacking:
        return None
    return Finding(
        f"KAI looks only at namespaces labelled {', '.join(lacking)}, and {case.pod.namespace} is not",
        case.kubectl("label", "namespace", case.pod.namespace, *lacking),
    )


@rule(
    "group.skipped", "The pod-grouper is told to skip it", UNBOUND, "pkg/podgrouper/pod_controller.go (0.15 and later)"
)
def skipped(case: PodContext) -> Finding | None:
    """The annotation makes sense only with a PodGroup of one's own."""
    if not case.by_kai or case.annotation(_SKIP) != "true" or case.group is not None:
        return None
    return Finding(
        f"{case.title} has the annotation {_SKIP}=true and no PodGroup: the scheduler does not see it",
        "remove the annotation, or make a PodGroup and name it in the annotation pod-group-name",
    )


@rule(
    "group.warned",
    "The pod-grouper cannot make the PodGroup",
    UNBOUND,
    "event PodGrouperWarning, pkg/podgrouper/pod_controller.go",
)
def warned(case: PodContext) -> Finding | None:
    """Owners that cannot be read, several owners, a PodGroup that is refused."""
    if not case.by_kai or case.group is not None:
        return None
    told = [e for e in newest(case.events, ["PodGrouperWarning"]) if not _NOISE.match(e.message)]
    if not told:
        return None
    return Finding(
        f"KAI's pod-grouper cannot make a PodGroup for {case.title}: {' '.join(told[0].message.split())[:300]}",
        "cure what the message names; the pod-grouper tries again by itself",
        (of_event(told[0]).line,),
    )


@rule("group.none", "No PodGroup yet", UNBOUND, "pkg/podgrouper: annotation pod-group-name within a second")
def none_yet(case: PodContext) -> Finding | None:
    """The pod-grouper runs, and has not done its work."""
    grouper = case.kai.component(GROUPER) if case.kai else None
    if not case.by_kai or grouper is None or not grouper.up or case.pod.pod_group or case.age < _PATIENCE:
        return None
    if case.annotation(_SKIP) == "true":
        return None
    logs = [line for line in case.world.logs.get(grouper.deployment, ()) if case.pod.name in line]
    return Finding(
        f"{case.title} has no PodGroup after {case.age.total_seconds():.0f} s, so the scheduler does not see it",
        case.kubectl("logs", "-n", grouper.namespace, f"deployment/{grouper.deployment}", "--tail=50"),
        tuple(logs[-3:]),
        Certainty.LIKELY,
    )


@rule(
    "group.missing",
    "The PodGroup does not exist",
    UNBOUND,
    "pod_controller.go: ownerless pods with pod-group-name are left alone",
)
def missing(case: PodContext) -> Finding | None:
    """A name that the pod brought along, or a PodGroup that somebody deleted."""
    if not case.by_kai or not case.pod.pod_group or case.group is not None or not case.world.has("PodGroup"):
        return None
    return Finding(
        f"{case.title} names PodGroup {case.pod.pod_group}, which does not exist in {case.pod.namespace}",
        "make that PodGroup, or remove the annotation pod-group-name so that KAI makes one",
    )


@rule(
    "group.node-pool",
    "The PodGroup is for another scheduling shard",
    UNBOUND,
    "scheduler --nodepool-label-key, --partition-label-value; cluster_info.go",
)
def node_pool(case: PodContext) -> Finding | None:
    """A shard looks only at PodGroups with its own label value."""
    if not case.by_kai or case.kai is None or case.group is None or not case.kai.pool_key:
        return None
    pool = case.group.labels.get(case.kai.pool_key, "")
    if pool in case.kai.pools:
        return None
    served = ", ".join(sorted(p or "(without the label)" for p in case.kai.pools))
    return Finding(
        f"PodGroup {case.group.name} is labelled {case.kai.pool_key}={pool}, and no scheduler serves that pool",
        "remove the label from the workload, or make a SchedulingShard for the pool",
        (f"pools that are served: {served}",),
    )


@rule(
    "group.gives-up",
    "KAI does not try again",
    UNBOUND,
    "cluster_info.go, isPodGroupUpForScheduler: schedulingBackoff 1",
)
def gives_up(case: PodContext) -> Finding | None:
    """With schedulingBackoff 1 one failed attempt on this node pool is the last."""
    if not case.by_kai or case.group is None or not case.group.refusals:
        return None
    obj = case.world.get("PodGroup", case.group.name, case.group.namespace) or {}
    backoff = parts(obj)[1].get("schedulingBackoff")
    if backoff is None or int(backoff) == -1:
        return None
    edit = case.kubectl("edit", "podgroup", case.group.name, "-n", case.group.namespace)
    return Finding(
        f"PodGroup {case.group.name} has schedulingBackoff {backoff} and failed once: KAI does not look at it again",
        f"set spec.schedulingBackoff to -1: {edit}",
        tuple(f"{r.reason}: {r.message}" for r in case.group.refusals[:2]),
        Certainty.LIKELY,
    )


@rule(
    "group.queue-differs",
    "The PodGroup is in another queue than the label says",
    UNBOUND,
    "pkg/podgrouper/podgroup/handler.go: spec.queue is not changed later",
)
def queue_differs(case: PodContext) -> Finding | None:
    """Changing the label of a pod that exists does nothing."""
    if not case.by_kai or case.group is None or case.kai is None:
        return None
    label = labels_of(parts(case.pod_obj)[0]).get(case.kai.queue_key)
    owner = case.workload.labels.get(case.kai.queue_key) if case.workload else None
    wanted = owner or label
    if not wanted or wanted == case.group.queue:
        return None
    return Finding(
        f"{case.title} is labelled for queue {wanted}, and its PodGroup stays in queue {case.group.queue}",
        f"delete the workload and make it anew, or edit PodGroup {case.group.name}",
        (f"label {case.kai.queue_key}={wanted}", f"PodGroup {case.group.name}: spec.queue {case.group.queue}"),
        Certainty.LIKELY,
    )


@rule(
    "gang.too-few", "Pods of the gang are missing", UNBOUND, "event NotReady on the PodGroup, default_status_updater.go"
)
def too_few(case: PodContext) -> Finding | None:
    """A PodGroup with minMember N is not looked at before N pods exist."""
    group = case.group
    if group is None or not case.by_kai or len(case.mates) >= group.min_member:
        return None
    events = newest(case.world.events_about(group.uid), ["NotReady"])
    told = [f"PodGroup {group.name}: minMember {group.min_member}, {len(case.mates)} pods exist"]
    told += [of_event(event).line for event in events[:1]]
    return Finding(
        f"the PodGroup of {case.title} starts with {group.min_member} pods, and {len(case.mates)} exist",
        f"see why the others are not made: {case.kubectl('get', 'pods,events', '-n', case.pod.namespace)}",
        tuple(told),
    )


@rule("gang.gated", "Pods of the gang are gated", UNBOUND, "default_status_updater.go: N are gated")
def gated(case: PodContext) -> Finding | None:
    """Gated pods do not count for the gang."""
    if case.group is None or not case.by_kai:
        return None
    objs = [case.world.get("Pod", pod.name, pod.namespace) or {} for pod in case.mates]
    names = [parts(obj)[0].get("name", "") for obj in objs if parts(obj)[1].get("schedulingGates")]
    if not names or len(case.mates) - len(names) >= case.group.min_member or case.pod.name in names:
        return None
    return Finding(
        f"{len(names)} pods of the PodGroup have scheduling gates, and without them it has fewer than minMember",
        f"see who gates {names[0]}: {case.kubectl('get', 'pod', names[0], '-n', case.pod.namespace, '-o', 'yaml')}",
        (f"PodGroup {case.group.name}: minMember {case.group.min_member}", f"gated: {', '.join(names[:5])}"),
    )

"""Rules about the pod itself: keys that KAI ignores, schedulers that do not exist, pods that are not wanted yet."""

from __future__ import annotations

from lab.explain.explanation import PodStage
from lab.explain.pod_context import PodContext
from lab.explain.rule import ALIVE, UNBOUND, WAITING, rule
from lab.findings import Certainty, Finding
from lab.kai.names import DEVICES_ANNOTATION, FRACTION_ANNOTATION, KAI_SCHEDULER, MEMORY_ANNOTATION, QUEUE_LABEL
from lab.objects.fields import parts
from lab.text import nearest

_SHARE_KEYS = (FRACTION_ANNOTATION, MEMORY_ANNOTATION, DEVICES_ANNOTATION)
_DEFAULT = "default-scheduler"


@rule("spec.gates", UNBOUND, "Kubernetes, spec.schedulingGates; pod_info.go: status Gated")
def gates(ctx: PodContext) -> Finding | None:
    """The pod has scheduling gates; schedulers ignore it until they are removed."""
    names = [gate.get("name", "") for gate in ctx.spec.get("schedulingGates") or []]
    if not names:
        return None
    return Finding(
        f"{ctx.title} has scheduling gates: {', '.join(names)}",
        "the controller that set them must remove them; a gate is usually named after its controller",
    )


@rule("spec.kai-not-here", UNBOUND, "spec.schedulerName kai-scheduler, all versions")
def kai_not_here(ctx: PodContext) -> Finding | None:
    """KAI is not installed in this cluster."""
    if not ctx.schedules or ctx.kai is not None or ctx.pod.scheduler_name != KAI_SCHEDULER:
        return None
    if not ctx.snapshot.has("Deployment"):
        return None
    return Finding(
        f"{ctx.title} has schedulerName kai-scheduler, and KAI is not installed here",
        "install KAI, or remove spec.schedulerName",
        (f"schedulerName: {ctx.pod.scheduler_name}", "none of KAI's Deployments was found in any namespace"),
    )


@rule("spec.no-such-scheduler", UNBOUND, "Kubernetes: a pod waits for its scheduler without an event")
def no_such_scheduler(ctx: PodContext) -> Finding | None:
    """No scheduler has that name: no events by it, no Lease, no container with it as an argument."""
    name = ctx.pod.scheduler_name
    known = [_DEFAULT, *([ctx.kai.scheduler_name] if ctx.kai else [])]
    if not ctx.schedules or not name or name in (*known, KAI_SCHEDULER) or _exists(ctx, name):
        return None
    near = nearest(name, known)
    return Finding(
        f"{ctx.title} waits for scheduler {name}, and nothing in this cluster shows that it exists",
        f"correct spec.schedulerName: {near or ' or '.join(known)}",
        (f"schedulers known here: {', '.join(known)}", f"no event by {name}, no Lease and no container of that name"),
        Certainty.CERTAIN if near else Certainty.LIKELY,
    )


def _exists(ctx: PodContext, scheduler: str) -> bool:
    names = {event.reporter for event in ctx.snapshot.events}
    names |= {parts(lease)[0].get("name", "") for lease in ctx.snapshot.of("Lease")}
    for pod in ctx.snapshot.of("Pod"):
        for container in parts(pod)[1].get("containers") or []:
            names |= {str(word) for word in [*(container.get("args") or []), *(container.get("command") or [])]}
    return bool(names & {scheduler, f"--scheduler-name={scheduler}"})


@rule("spec.fraction-without-kai", ALIVE, "only KAI reads the annotations gpu-fraction and gpu-memory")
def fraction_without_kai(ctx: PodContext) -> Finding | None:
    """A fractional pod has a scheduler that ignores fractions: it is placed like a pod without a GPU."""
    if not ctx.schedules or ctx.kai is None or ctx.by_kai or not ctx.requests.shares_gpu:
        return None
    scheduler = ctx.pod.scheduler_name or _DEFAULT
    return Finding(
        f"{ctx.title} asks for {ctx.requests.in_words()}, and {scheduler} ignores that",
        f"set spec.schedulerName: {ctx.kai.scheduler_name}",
        (f"schedulerName: {scheduler}",),
    )


@rule(
    "spec.share-key",
    ALIVE,
    "pkg/common/constants/constants.go: gpu-fraction, gpu-memory, gpu-fraction-num-devices in every version",
)
def share_key(ctx: PodContext) -> Finding | None:
    """A key for a part of a GPU is unknown to KAI: every version ignores kai.scheduler/gpu-fraction."""
    annotations = (key for key in ctx.pod.annotations if key not in _SHARE_KEYS)
    wrong = [f"annotation {key}" for key in annotations if key.rpartition("/")[2] in _SHARE_KEYS]
    wrong += [f"label {key}" for key in ctx.pod.labels if key.rpartition("/")[2] in _SHARE_KEYS]
    if not wrong or not ctx.by_kai:
        return None
    return Finding(
        f"KAI does not read {', '.join(wrong)}: it places {ctx.title} as if it asked for {ctx.requests.in_words()}",
        f"write the annotation {wrong[0].rpartition(' ')[2].rpartition('/')[2]}, without a prefix",
    )


@rule("spec.queue-key", WAITING, "label kai.scheduler/queue; runai/queue before 0.6")
def queue_key(ctx: PodContext) -> Finding | None:
    """The queue is not in the label: the pod is in default-queue. KAI ignores an annotation and the old name."""
    if not ctx.by_kai or ctx.kai is None:
        return None
    key, labels, annotations = ctx.kai.queue_key, ctx.pod.labels, ctx.pod.annotations
    if labels.get(key) or (ctx.workload and ctx.workload.labels.get(key)):
        return None
    wrong = [f"annotation {key}={annotations[key]}"] if key in annotations else []
    wrong += [f"label {old}={labels[old]}" for old in ("runai/queue", QUEUE_LABEL) if old != key and old in labels]
    if not wrong:
        return None
    return Finding(
        f"the queue of {ctx.title} is not in the label {key}, so it is in {ctx.queue_name}",
        f"write it as label {key} of the workload or the pod",
        tuple(wrong),
    )


@rule("spec.no-pods-wanted", (PodStage.MISSING,), "spec.suspend, spec.paused, spec.replicas")
def no_pods_wanted(ctx: PodContext) -> Finding | None:
    """The workload currently wants no pods."""
    owner = ctx.owners[0] if ctx.owners else None
    if owner is None or (owner.want and not owner.paused):
        return None
    why = "is suspended or paused" if owner.paused else "wants no pods (replicas 0, or all completions are done)"
    action = "set spec.suspend or spec.paused to false" if owner.paused else "scale it up"
    return Finding(f"{owner.title} {why}", action, (f"wants {owner.want} pods, has {owner.have}",))

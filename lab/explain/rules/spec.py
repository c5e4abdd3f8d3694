"""The pod itself: keys that KAI does not know, schedulers that do not exist, pods that nobody wants yet."""

from __future__ import annotations

from lab.explain.explanation import PodStage
from lab.explain.pod_context import PodContext
from lab.explain.rule import UNBOUND, rule
from lab.findings import Certainty, Finding
from lab.kai.names import DEVICES_ANNOTATION, FRACTION_ANNOTATION, KAI_SCHEDULER, MEMORY_ANNOTATION, QUEUE_LABEL
from lab.objects.fields import annotations_of, labels_of, parts
from lab.text import nearest

_ALIVE = (PodStage.UNBOUND, PodStage.BOUND, PodStage.RUNNING)
_SHARE_KEYS = (FRACTION_ANNOTATION, MEMORY_ANNOTATION, DEVICES_ANNOTATION)
_DEFAULT = "default-scheduler"


@rule("spec.gates", "Scheduling gates", UNBOUND, "Kubernetes, spec.schedulingGates; pod_info.go: status Gated")
def gates(case: PodContext) -> Finding | None:
    """A gated pod is nobody's business until its gates are gone."""
    names = [gate.get("name", "") for gate in parts(case.pod_obj)[1].get("schedulingGates") or []]
    if not names:
        return None
    return Finding(
        f"{case.title} has scheduling gates: {', '.join(names)}",
        "whoever set them must remove them; the name of a gate mostly names its controller",
    )


@rule("spec.kai-not-here", "No KAI in this cluster", UNBOUND, "spec.schedulerName kai-scheduler, all versions")
def kai_not_here(case: PodContext) -> Finding | None:
    """The pod asks for KAI where none is installed."""
    if not case.schedules or case.kai is not None or case.pod.scheduler_name != KAI_SCHEDULER:
        return None
    if not case.world.has("Deployment"):
        return None
    return Finding(
        f"{case.title} is to be scheduled by kai-scheduler, and KAI is not installed here",
        "install KAI, or leave spec.schedulerName out",
        (f"schedulerName: {case.pod.scheduler_name}", "none of KAI's Deployments was found in any namespace"),
    )


@rule(
    "spec.no-such-scheduler",
    "No scheduler has that name",
    UNBOUND,
    "Kubernetes: a pod waits for its scheduler without an event",
)
def no_such_scheduler(case: PodContext) -> Finding | None:
    """Nobody reports under the name, holds a Lease of it, or is started with it."""
    name = case.pod.scheduler_name
    known = [_DEFAULT, *([case.kai.scheduler_name] if case.kai else [])]
    if not case.schedules or not name or name in (*known, KAI_SCHEDULER) or _heard_of(case, name):
        return None
    near = nearest(name, known)
    return Finding(
        f"{case.title} waits for scheduler {name}, of which there is no sign in this cluster",
        f"correct spec.schedulerName: {near or ' or '.join(known)}",
        (f"schedulers known here: {', '.join(known)}", f"no event by {name}, no Lease and no container of that name"),
        Certainty.CERTAIN if near else Certainty.LIKELY,
    )


def _heard_of(case: PodContext, name: str) -> bool:
    world = case.world
    if any(event.reporter == name for event in world.events) or any(
        parts(lease)[0].get("name") == name for lease in world.of("Lease")
    ):
        return True
    words = [
        str(word)
        for pod in world.of("Pod")
        for container in parts(pod)[1].get("containers") or []
        for word in [*(container.get("args") or []), *(container.get("command") or [])]
    ]
    return any(word in (name, f"--scheduler-name={name}") for word in words)


@rule(
    "spec.fraction-without-kai",
    "A fraction, and a scheduler that does not know fractions",
    _ALIVE,
    "annotations gpu-fraction and gpu-memory are read by KAI alone",
)
def fraction_without_kai(case: PodContext) -> Finding | None:
    """Another scheduler places such a pod like one without a GPU."""
    kai = case.kai
    if not case.schedules or kai is None or case.by_kai or not case.needs.shares_gpu:
        return None
    return Finding(
        f"{case.title} asks for {case.needs.in_words()}, and {case.pod.scheduler_name or _DEFAULT} does not know that",
        f"set spec.schedulerName: {kai.scheduler_name}",
        (f"schedulerName: {case.pod.scheduler_name or _DEFAULT}",),
    )


@rule(
    "spec.share-key",
    "A key for a part of a GPU that KAI does not know",
    _ALIVE,
    "pkg/common/constants/constants.go: gpu-fraction, gpu-memory, gpu-fraction-num-devices in every version",
)
def share_key(case: PodContext) -> Finding | None:
    """kai.scheduler/gpu-fraction is ignored by every KAI; such a pod is placed like one without a GPU."""
    meta = parts(case.pod_obj)[0]
    wrong = [
        f"annotation {key}"
        for key in annotations_of(meta)
        if key not in _SHARE_KEYS and key.rpartition("/")[2] in _SHARE_KEYS
    ]
    wrong += [f"label {key}" for key in labels_of(meta) if key.rpartition("/")[2] in _SHARE_KEYS]
    if not wrong or not case.by_kai:
        return None
    return Finding(
        f"KAI does not read {', '.join(wrong)}: it places {case.title} as if it asked for {case.needs.in_words()}",
        f"write the annotation {wrong[0].rpartition(' ')[2].rpartition('/')[2]}, without a prefix",
    )


@rule(
    "spec.queue-key", "The queue is not in the label", _ALIVE[:2], "label kai.scheduler/queue; runai/queue before 0.6"
)
def queue_key(case: PodContext) -> Finding | None:
    """A queue as an annotation, or under its old name, is not read; the pod goes to default-queue."""
    if not case.by_kai or case.kai is None:
        return None
    key, meta = case.kai.queue_key, parts(case.pod_obj)[0]
    labels, owner = labels_of(meta), case.workload
    if labels.get(key) or (owner and owner.labels.get(key)):
        return None
    wrong = []
    if key in annotations_of(meta):
        wrong.append(f"annotation {key}={annotations_of(meta)[key]}")
    wrong += [f"label {old}={labels[old]}" for old in ("runai/queue", QUEUE_LABEL) if old != key and old in labels]
    if not wrong:
        return None
    return Finding(
        f"the queue of {case.title} is not in the label {key}, so it is in {case.queue_name}",
        f"write it as label {key} of the workload or the pod",
        tuple(wrong),
    )


@rule(
    "spec.no-pods-wanted",
    "The workload wants no pods now",
    (PodStage.MISSING,),
    "spec.suspend, spec.paused, spec.replicas",
)
def no_pods_wanted(case: PodContext) -> Finding | None:
    """Suspended, or scaled to 0."""
    owner = case.owners[0] if case.owners else None
    if owner is None or (owner.want and not owner.paused):
        return None
    why = "is suspended or paused" if owner.paused else "wants no pods (replicas 0, or all completions are done)"
    resume = "set spec.suspend or spec.paused to false" if owner.paused else "scale it up"
    return Finding(f"{owner.title} {why}", resume, (f"wants {owner.want} pods, has {owner.have}",))

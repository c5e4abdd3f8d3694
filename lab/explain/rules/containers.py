"""Containers that crash, wait for an init container, or run and are not ready."""

from __future__ import annotations

from lab.explain.pod_context import PodContext
from lab.explain.rule import BOUND, rule
from lab.findings import Certainty, Finding
from lab.objects.fields import Obj, parts
from lab.objects.views import ContainerView

_EXITS = {
    126: "the command cannot be executed",
    127: "the command was not found",
    137: "killed (SIGKILL), by memory or by the kubelet",
    139: "segmentation fault",
    143: "ended by SIGTERM",
}


def _containers(case: PodContext) -> tuple[ContainerView, ...]:
    return ContainerView.all_of(case.pod_obj)


def _logs(case: PodContext, container: str) -> tuple[list[str], str]:
    """The last lines of the run before, and the command that shows more."""
    pod = case.pod
    lines = case.world.logs.get(f"{pod.namespace}/{pod.name}", ())[-5:]
    command = case.kubectl("logs", pod.name, "-n", pod.namespace, "-c", container, "--previous")
    return [f"log: {line}" for line in lines], command


@rule("container.oom", "A container needs more memory than its limit", BOUND, "lastState.terminated.reason OOMKilled")
def oom(case: PodContext) -> Finding | None:
    """The kernel killed it at its memory limit."""
    hit = next((c for c in _containers(case) if "OOMKilled" in (c.last_reason, c.reason)), None)
    if hit is None:
        return None
    specs: list[Obj] = [c for c in parts(case.pod_obj)[1].get("containers") or [] if c.get("name") == hit.name]
    limits = ((specs[0].get("resources") or {}).get("limits") or {}) if specs else {}
    limit = limits.get("memory", "none of its own")
    return Finding(
        f"container {hit.name} of {case.title} was killed at its memory limit",
        "raise resources.limits.memory",
        (f"memory limit: {limit}", f"{hit.restarts} restarts"),
    )


@rule("container.crash-loop", "A container crashes again and again", BOUND, "waiting.reason CrashLoopBackOff")
def crash_loop(case: PodContext) -> Finding | None:
    """The kubelet waits longer before each restart, up to 5 minutes."""
    hit = next((c for c in _containers(case) if c.reason == "CrashLoopBackOff"), None)
    if hit is None or hit.last_reason in ("OOMKilled", "StartError", "ContainerCannotRun"):
        return None  # other rules say why
    logs, command = _logs(case, hit.name)
    meaning = _EXITS.get(hit.last_exit or 0, "")
    return Finding(
        f"container {hit.name} of {case.title} ends again and again"
        + (f", with exit code {hit.last_exit}" if hit.last_exit is not None else ""),
        command,
        (f"{hit.restarts} restarts{f'; {meaning}' if meaning else ''}", *logs),
    )


@rule("container.init", "An init container is not done", BOUND, "status.initContainerStatuses")
def init_container(case: PodContext) -> Finding | None:
    """The others start after it."""
    waiting = [
        c
        for c in _containers(case)
        if c.init and not c.ready and c.exit_code != 0 and c.state in ("running", "terminated")
    ]
    if not waiting:
        return None
    hit = waiting[0]
    logs, _ = _logs(case, hit.name)
    told = f"{hit.state}{f' with exit code {hit.exit_code}' if hit.exit_code is not None else ''}"
    return Finding(
        f"init container {hit.name} of {case.title} is not done, and the others wait for it",
        case.kubectl("logs", case.pod.name, "-n", case.pod.namespace, "-c", hit.name),
        (f"init container {hit.name}: {told}", *logs),
        Certainty.LIKELY if hit.state == "running" else Certainty.CERTAIN,
    )


def _probe(case: PodContext, kind: str) -> list[str]:
    return [saying.line for saying in case.kubelet if f"{kind} probe" in saying.text]


@rule("container.liveness", "The liveness probe restarts a container", BOUND, "event Unhealthy: Liveness probe failed")
def liveness(case: PodContext) -> Finding | None:
    """The kubelet kills what does not answer."""
    told = _probe(case, "Liveness")
    if not told or not case.pod.restarts:
        return None
    return Finding(
        f"the liveness probe of {case.title} fails, and the kubelet restarts the container",
        "correct the probe, or give the program more time (initialDelaySeconds, a startup probe)",
        tuple(told),
    )


@rule("container.startup", "The startup probe fails", BOUND, "event Unhealthy: Startup probe failed")
def startup(case: PodContext) -> Finding | None:
    """Readiness is not asked before it succeeds."""
    told = _probe(case, "Startup")
    if not told or any(c.reason == "CrashLoopBackOff" for c in _containers(case)):
        return None
    return Finding(
        f"the startup probe of {case.title} fails", "correct the probe, or raise its failureThreshold", tuple(told)
    )


@rule(
    "container.not-ready",
    "Running, and the readiness probe fails",
    BOUND,
    "status.containerStatuses.ready; event Unhealthy: Readiness probe failed",
)
def not_ready(case: PodContext) -> Finding | None:
    """Nothing is sent to such a pod."""
    slow = [c for c in _containers(case) if c.state == "running" and not c.ready and not c.init]
    if not slow or _probe(case, "Startup"):
        return None
    told = _probe(case, "Readiness")
    return Finding(
        f"container {slow[0].name} of {case.title} runs and is not ready",
        "correct the readiness probe, or see what the program waits for: "
        + case.kubectl("logs", case.pod.name, "-n", case.pod.namespace, "-c", slow[0].name),
        tuple(told) or (f"container {slow[0].name}: running, ready false",),
        Certainty.CERTAIN if told else Certainty.LIKELY,
    )


@rule("container.exited", "A container has ended and the others go on", BOUND, "status.containerStatuses: terminated")
def exited(case: PodContext) -> Finding | None:
    """A pod is Ready only while all of its containers run."""
    done = [c for c in _containers(case) if not c.init and c.state == "terminated"]
    if not done or case.pod.phase != "Running":
        return None
    return Finding(
        f"container {done[0].name} of {case.title} has ended, so the pod is not Ready",
        case.kubectl("logs", case.pod.name, "-n", case.pod.namespace, "-c", done[0].name),
        tuple(f"container {c.name}: {c.reason} with exit code {c.exit_code}" for c in done),
    )


@rule("container.waits", "A container cannot be started", BOUND, "waiting.reason of the kubelet", general=True)
def waits(case: PodContext) -> Finding | None:
    """CreateContainerConfigError, RunContainerError and others, in the kubelet's words."""
    dull = ("ContainerCreating", "PodInitializing", "CrashLoopBackOff")
    hit = next((c for c in _containers(case) if c.state == "waiting" and c.reason not in dull), None)
    if hit is None:
        return None
    return Finding(
        f"container {hit.name} of {case.title} cannot be started: {hit.reason}",
        case.kubectl("describe", "pod", case.pod.name, "-n", case.pod.namespace),
        (f"{hit.reason}: {' '.join(hit.message.split())[:300]}",),
    )


@rule("container.starting", "It is being started", BOUND, "ContainerCreating: image, volumes, network", general=True)
def starting(case: PodContext) -> Finding | None:
    """Bound, and no container has run yet."""
    states = _containers(case)
    fresh = all(c.state == "waiting" and c.reason in ("ContainerCreating", "PodInitializing") for c in states)
    if not fresh:
        return None
    newest = [f"event {e.reason}: {e.message}" for e in case.events[-2:]]
    return Finding(
        f"{case.title} is on node {case.pod.node}, and its containers are being made",
        "wait: image, volumes and network come first; then see its events",
        tuple(newest),
        Certainty.POSSIBLE,
    )

"""Rules about containers that crash, wait for an init container, or run and are not ready."""

from __future__ import annotations

from lab.explain.pod_context import PodContext
from lab.explain.rule import BOUND, rule
from lab.findings import Certainty, Finding
from lab.objects.fields import Obj
from lab.text import one_line

_EXITS = {
    126: "the command cannot be executed",
    127: "the command was not found",
    137: "killed (SIGKILL), by memory or by the kubelet",
    139: "segmentation fault",
    143: "ended by SIGTERM",
}
_STARTING = ("ContainerCreating", "PodInitializing")


def _log_lines(ctx: PodContext) -> list[str]:
    """Return the last lines of the previous run."""
    return [f"log: {line}" for line in ctx.snapshot.logs.get(f"{ctx.pod.namespace}/{ctx.pod.name}", ())[-5:]]


def _probe_failures(ctx: PodContext, kind: str) -> tuple[str, ...]:
    return tuple(message.line for message in ctx.kubelet if f"{kind} probe" in message.text)


@rule("container.oom", BOUND, "lastState.terminated.reason OOMKilled")
def oom(ctx: PodContext) -> Finding | None:
    """A container needs more memory than its limit."""
    killed = next((c for c in ctx.containers if "OOMKilled" in (c.last_reason, c.reason)), None)
    if killed is None:
        return None
    specs: list[Obj] = [c for c in ctx.spec.get("containers") or [] if c.get("name") == killed.name]
    limits = ((specs[0].get("resources") or {}).get("limits") or {}) if specs else {}
    return Finding(
        f"container {killed.name} of {ctx.title} was killed at its memory limit",
        "raise resources.limits.memory",
        (f"memory limit: {limits.get('memory', 'not set on the container')}", f"{killed.restarts} restarts"),
    )


@rule("container.crash-loop", BOUND, "waiting.reason CrashLoopBackOff")
def crash_loop(ctx: PodContext) -> Finding | None:
    """A container crashes repeatedly: the kubelet waits longer before each restart, up to 5 minutes."""
    crashed = next((c for c in ctx.containers if c.reason == "CrashLoopBackOff"), None)
    if crashed is None or crashed.last_reason in ("OOMKilled", "StartError", "ContainerCannotRun"):
        return None  # other rules explain it
    if _probe_failures(ctx, "Liveness"):
        return None  # container.liveness: the kubelet ends it, the container itself does not
    meaning = _EXITS.get(crashed.last_exit or 0, "")
    return Finding(
        f"container {crashed.name} of {ctx.title} ends repeatedly"
        + (f", with exit code {crashed.last_exit}" if crashed.last_exit is not None else ""),
        ctx.kubectl_logs(crashed.name, "--previous"),
        (f"{crashed.restarts} restarts{f'; {meaning}' if meaning else ''}", *_log_lines(ctx)),
    )


@rule("container.init", BOUND, "status.initContainerStatuses")
def init_container(ctx: PodContext) -> Finding | None:
    """An init container is not done; the others start after it."""
    states = ("running", "terminated")
    waiting = [c for c in ctx.containers if c.init and not c.ready and c.exit_code != 0 and c.state in states]
    if not waiting:
        return None
    first = waiting[0]
    exit_code = f" with exit code {first.exit_code}" if first.exit_code is not None else ""
    return Finding(
        f"init container {first.name} of {ctx.title} is not done, and the others wait for it",
        ctx.kubectl_logs(first.name),
        (f"init container {first.name}: {first.state}{exit_code}", *_log_lines(ctx)),
        Certainty.LIKELY if first.state == "running" else Certainty.CERTAIN,
    )


@rule("container.liveness", BOUND, "event Unhealthy: Liveness probe failed")
def liveness(ctx: PodContext) -> Finding | None:
    """The liveness probe restarts a container."""
    failures = _probe_failures(ctx, "Liveness")
    if not failures or not ctx.pod.restarts:
        return None
    return Finding(
        f"the liveness probe of {ctx.title} fails, and the kubelet restarts the container",
        "correct the probe, or allow more time (initialDelaySeconds, a startup probe)",
        failures,
    )


@rule("container.startup", BOUND, "event Unhealthy: Startup probe failed")
def startup(ctx: PodContext) -> Finding | None:
    """The startup probe fails; the readiness probe starts after it succeeds."""
    failures = _probe_failures(ctx, "Startup")
    if not failures or any(c.reason == "CrashLoopBackOff" for c in ctx.containers):
        return None
    return Finding(
        f"the startup probe of {ctx.title} fails", "correct the probe, or raise its failureThreshold", failures
    )


@rule("container.not-ready", BOUND, "status.containerStatuses.ready; event Unhealthy: Readiness probe failed")
def not_ready(ctx: PodContext) -> Finding | None:
    """A container runs, and its readiness probe fails."""
    unready = next((c for c in ctx.containers if c.state == "running" and not c.ready and not c.init), None)
    if unready is None or _probe_failures(ctx, "Startup"):
        return None
    failures = _probe_failures(ctx, "Readiness")
    return Finding(
        f"container {unready.name} of {ctx.title} runs and is not ready",
        f"correct the readiness probe, or read the program's log: {ctx.kubectl_logs(unready.name)}",
        failures or (f"container {unready.name}: running, ready false",),
        Certainty.CERTAIN if failures else Certainty.LIKELY,
    )


@rule("container.exited", BOUND, "status.containerStatuses: terminated")
def exited(ctx: PodContext) -> Finding | None:
    """A container has ended while others run; a pod is Ready only while all of its containers run."""
    ended = [c for c in ctx.containers if not c.init and c.state == "terminated"]
    if not ended or ctx.pod.phase != "Running":
        return None
    return Finding(
        f"container {ended[0].name} of {ctx.title} has ended, so the pod is not Ready",
        ctx.kubectl_logs(ended[0].name),
        tuple(f"container {c.name}: {c.reason} with exit code {c.exit_code}" for c in ended),
    )


@rule("container.waits", BOUND, "waiting.reason of the kubelet", general=True)
def waits(ctx: PodContext) -> Finding | None:
    """A container cannot be started: CreateContainerConfigError, RunContainerError and others."""
    known = (*_STARTING, "CrashLoopBackOff")
    waiting = next((c for c in ctx.containers if c.state == "waiting" and c.reason not in known), None)
    if waiting is None:
        return None
    return Finding(
        f"container {waiting.name} of {ctx.title} cannot be started: {waiting.reason}",
        ctx.kubectl("describe", "pod", ctx.pod.name, "-n", ctx.pod.namespace),
        (f"{waiting.reason}: {one_line(waiting.message)}",),
    )


@rule("container.starting", BOUND, "ContainerCreating: image, volumes, network", general=True)
def starting(ctx: PodContext) -> Finding | None:
    """The containers are starting."""
    if any(c.state != "waiting" or c.reason not in _STARTING for c in ctx.containers):
        return None
    return Finding(
        f"{ctx.title} is on node {ctx.pod.node}, and its containers are starting",
        "wait: image, volumes and network come first; then read its events",
        tuple(f"event {e.reason}: {e.message}" for e in ctx.events[-2:]),
        Certainty.POSSIBLE,
    )

"""Whether workloads would run: the outcome of a cycle, its reasons, and the smallest change that lets them run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from lab.fair_share import RESOURCES, UNLIMITED
from lab.kai.names import GPU_RESOURCE
from lab.objects.fields import parts
from lab.objects.kai import QueueShare, queue_path
from lab.prediction.actions import MOST_MOVED, Cycle, Outcome
from lab.prediction.manifests import Workload
from lab.prediction.model import Job, Task
from lab.prediction.reading import World
from lab.prediction.session import SchedulingSession
from lab.text import count

MODELLED = ("0.16",)
"""KAI lines whose actions the model follows; others are close."""


_MORE_CYCLES = 3
"""Cycles after one that evicts: its room may go to an older job, whose cycle may evict again."""


@dataclass(frozen=True)
class EvictedPod:
    """A pod that would be evicted."""

    pod: str
    workload: str
    queue: str
    node: str
    to: str = ""
    """The node on which KAI starts it again; empty if it must wait."""


Runs = Literal["now", "after-evictions", "after-deletions", "no"]


@dataclass(frozen=True)
class Answer:
    """Whether one workload would run."""

    workload: str
    file: str
    queue: str
    verdict: Runs
    """now, after-evictions, after-deletions (once pods that are being deleted are gone), or no."""
    action: str
    """KAI's action that places it: allocate, consolidation, reclaim or preempt; empty if none does."""
    pods: int
    placed: Mapping[str, int]
    """Node → number of its pods."""
    evictions: tuple[EvictedPod, ...] = ()
    reasons: tuple[str, ...] = ()
    """Why it does not run, or why not all of its pods do."""
    changes: tuple[str, ...] = ()
    """Each lets it run, the smallest first."""
    estimates: tuple[str, ...] = ()
    """What could make the answer wrong."""

    @property
    def runs(self) -> bool:
        return self.verdict != "no"


def answers(world: World, workloads: Iterable[Workload]) -> tuple[Answer, ...]:
    """Return an answer for each workload; each is judged on the cluster and the workloads before it that run."""
    found: list[Answer] = []
    before: tuple[Job, ...] = ()
    for workload in workloads:
        found.append(_answer(world, before, workload))
        before = (*before, *workload.jobs)
    return tuple(found)


def _answer(world: World, before: tuple[Job, ...], workload: Workload) -> Answer:
    queue = workload.jobs[0].queue
    session, outcomes = _run(world, (*before, *workload.jobs))
    done = [outcomes.get(job.id, Outcome()) for job in workload.jobs]
    placed: dict[str, int] = {}
    for outcome in done:
        for node in outcome.placed.values():
            placed[node] = placed.get(node, 0) + 1
    known = {job.id: job for job in (*world.jobs, *before, *workload.jobs)}
    # those for older workloads too: only what this one adds to its queue's fair share lets them evict
    earlier = {job.id for job in before}
    causes = (outcome for name, outcome in outcomes.items() if name not in earlier)
    moved = [(move, known[move.task.job]) for outcome in causes for move in outcome.moved]
    evictions = tuple(EvictedPod(move.task.id, job.title, job.queue, move.node, move.to) for move, job in moved)
    runs = all(outcome.action for outcome in done)
    later = any(not outcome.now for outcome in done)
    verdict: Runs = "no" if not runs else "after-evictions" if evictions else "after-deletions" if later else "now"
    whole = sum(placed.values()) == workload.tasks
    return Answer(
        workload.title,
        workload.file,
        queue,
        verdict,
        next((outcome.action for outcome in reversed(done) if outcome.action), "") if runs else "",
        workload.tasks,
        placed,
        evictions,
        () if runs and whole else tuple(_reasons(world, session, workload, done)),
        () if runs else tuple(_changes(world, before, workload))[:3],
        tuple(_estimates(world, workload, done)),
    )


def _run(
    world: World, jobs: tuple[Job, ...], changes: Mapping[str, Mapping[str, QueueShare]] | None = None
) -> tuple[SchedulingSession, dict[str, Outcome]]:
    """Return the session of the last cycle, and what became of the jobs once no cycle evicts any more."""
    here, ids = world.with_jobs(jobs, changes), {job.id for job in jobs}
    session, old = here.session(), world.queues().states
    grown = [
        name
        for name, queue in session.queues.states.items()
        if name in old and any(new > before for new, before in zip(queue.fair, old[name].fair, strict=True))
    ]
    found = outcomes = Cycle(session, world.strategy).run(only=ids, grown=grown)
    for _ in range(_MORE_CYCLES):
        if not any(outcome.moved for outcome in outcomes.values()):
            break
        here = here.after(session)
        session = here.session()
        outcomes = Cycle(session, world.strategy).run(only=ids)
        for job in jobs:
            before, now = found.setdefault(job.id, Outcome()), outcomes.get(job.id)
            if now is not None:
                before.moved, before.placed = (*before.moved, *now.moved), now.placed
                before.action = before.action or now.action
            if not session.satisfied(job):
                before.action, before.placed = "", {}
    return session, found


# Reasons


def _reasons(world: World, session: SchedulingSession, workload: Workload, done: list[Outcome]) -> Iterable[str]:
    job = next((j for j, o in zip(workload.jobs, done, strict=True) if not o.action), workload.jobs[-1])
    state = session.queues.states.get(job.queue)
    if state is None:
        yield f"queue {job.queue} does not exist"
        return
    if not state.leaf:
        yield f"queue {job.queue} has children, so it accepts no workload itself"
        return
    if not session.ready(job):
        yield f"its gang needs {sum(job.minimum.values())} pods, and the manifest has {len(job.tasks)}"
        return
    tasks = session.to_allocate(job, real=True) or list(job.tasks[:1])
    asked = session.asked_at_least(tasks)
    if bound := session.queues.bound(job.queue, asked, preemptible=job.preemptible):
        more = "" if bound.what == "limit" else "; it is not preemptible, so quota must cover it"
        yield bound.text + more
        return
    if not any(task.nodes for task in tasks):
        for node, why in list(world.nodes.mismatches(parts(workload.template)[1]).items())[:5]:
            yield f"node {node}: {why}"
        return
    if too_large := _too_large(world, session, tasks[0]):
        yield too_large
        return
    if any(outcome.moved for outcome in done):
        yield "an older workload takes the room that KAI makes for it"
    yield _room(session, tasks)
    yield from _no_victims(session, job)


def _too_large(world: World, session: SchedulingSession, task: Task) -> str:
    """Return why no allowed node has enough GPUs for a pod, even without other workloads of KAI; empty if one has."""
    nodes = [node for node in world.nodes.nodes if task.nodes is None or node.name in task.nodes]
    usable = {node.name: session.uses[node.name].machine.amounts.get(GPU_RESOURCE, 0.0) for node in nodes}
    if task.gpu_devices <= max(usable.values(), default=0.0):
        return ""
    asks = f"a pod asks for {count(task.gpu_devices, 'GPU')}, and"
    for node in nodes:
        if task.gpu_devices <= node.gpus:
            held = node.gpus - usable[node.name]
            return f"{asks} pods outside KAI's queues hold {held:g} of the {node.gpus} GPUs of node {node.name}"
    for node in nodes:
        if task.gpu_devices <= (capacity := int(node.capacity.get(GPU_RESOURCE, 0))):
            return f"{asks} {capacity - node.gpus} of the {capacity} GPUs of node {node.name} are unhealthy"
    most = max((max(node.gpus, int(node.capacity.get(GPU_RESOURCE, 0))) for node in nodes), default=0)
    labelled = next((node.name for node in nodes if node.gpu_product), "")
    if not most and labelled:
        return f"{asks} node {labelled} has GPUs by its labels but offers none: look at its device plugin"
    allowed = "" if len(nodes) == len(world.nodes.nodes) else "allowed "
    return f"{asks} the largest {allowed}node has {most}" if most else f"{asks} no {allowed}node has GPUs"


def _room(session: SchedulingSession, tasks: list[Task]) -> str:
    task = tasks[0]
    nodes = [session.uses[name] for name in task.nodes or () if name in session.uses]
    if not task.requests.wants_gpu:
        return f"no allowed node has room for {task.requests.in_words()}"
    free = sum(max(0.0, use.idle_gpus + use.releasing_gpus) for use in nodes)
    needed = f"{count(len(tasks), 'pod')} of {task.requests.in_words()}"
    return f"{count(len(nodes), 'allowed node')} with {free:g} whole GPUs free have no room for {needed}"


def _no_victims(session: SchedulingSession, job: Job) -> Iterable[str]:
    asked = session.asked(session.to_allocate(job, real=False))
    queue = session.queues.states[job.queue]
    if not session.queues.can_reclaim(job.queue, asked, preemptible=job.preemptible):
        for at, name in enumerate(RESOURCES):
            if queue.allocated[at] + asked[at] > queue.fair[at] and asked[at]:
                factor, unit = {"cpu": (1.0, "m cpu"), "memory": (1e6, " MB memory"), "gpu": (1.0, " GPUs")}[name]
                used, share = (queue.allocated[at] + asked[at]) / factor, queue.fair[at] / factor
                yield f"queue {job.queue} would hold {used:g}{unit}, over its fair share of {share:g}: no reclaim"
    else:
        yield f"no preemptible workload of another queue may be reclaimed for queue {job.queue}"
    lower = [j for j in session.jobs.values() if j.queue == job.queue and j.priority < job.priority and j.preemptible]
    if not any(session.active(one) for one in lower):
        yield f"no preemptible workload of queue {job.queue} has a priority below {job.priority}"


# Changes


def _changes(world: World, before: tuple[Job, ...], workload: Workload) -> Iterable[str]:
    def runs(jobs: tuple[Job, ...], changes: Mapping[str, Mapping[str, QueueShare]] | None = None) -> bool:
        outcomes = _run(world, (*before, *jobs), changes)[1]
        return all(outcomes.get(job.id, Outcome()).action for job in jobs)

    job = workload.jobs[0]
    if job.queue not in {claim.name for claim in world.claims}:
        parents = {claim.parent for claim in world.claims}
        for claim in world.claims:
            if claim.name not in parents and runs(tuple(replace(one, queue=claim.name) for one in workload.jobs)):
                yield f"use queue {claim.name}"
        return
    yield from _queue_changes(world, workload, runs)
    yield from _fewer_pods(workload, runs)
    yield from _fewer_gpus(workload, runs)
    if not job.preemptible and runs(tuple(replace(one, preemptible=True) for one in workload.jobs)):
        yield f"make it preemptible: label {world.line.keys.preemptibility or 'priorityClassName'}=" + (
            "preemptible" if world.line.keys.preemptibility else "train"
        )
    for name, value in sorted(world.line.priority_classes.items(), key=lambda row: row[1]):
        if value > job.priority:
            raised = tuple(replace(one, priority=value, preemptible=value < 100) for one in workload.jobs)
            if runs(raised):
                yield f"give it priority class {name} ({value})"
                break


def _queue_changes(world: World, workload: Workload, runs: Callable[..., bool]) -> Iterable[str]:
    """Yield the lowest quota of the queue, or of its path, with which the workload runs."""
    claims = {claim.name: claim for claim in world.claims}
    path = queue_path(workload.jobs[0].queue, {name: claim.parent for name, claim in claims.items()})
    unit = {"cpu": "m cpu", "memory": " MB memory", "gpu": " GPUs"}

    def changed(names: Iterable[str], resource: str, value: float, *, quota: bool) -> dict[str, dict[str, QueueShare]]:
        found = {}
        for name in names:
            old = claims[name].shares.get(resource, QueueShare())
            limit = old.limit if old.limit == UNLIMITED else max(old.limit, value)
            raised = old.quota if old.quota == UNLIMITED or not quota else max(old.quota, value)
            found[name] = {resource: QueueShare(raised, limit, old.weight)}
        return found

    for resource in reversed(RESOURCES):
        top = int(world.total.get(resource, 0.0))
        step = {"gpu": 1, "cpu": 500, "memory": 500}[resource]
        for names, quota in (((path[0],), False), ((path[0],), True), (path, False), (path, True)):
            if not runs(workload.jobs, changed(names, resource, top, quota=quota)):
                continue
            low, high = 0, -(-top // step)
            while low < high:
                middle = (low + high) // 2
                if runs(workload.jobs, changed(names, resource, middle * step, quota=quota)):
                    high = middle
                else:
                    low = middle + 1
            what = "quota" if quota else "limit"
            who = f"queue {names[0]}" if len(names) == 1 else f"queues {', '.join(names)}"
            yield f"raise the {resource} {what} of {who} to {high * step}{unit[resource]}"
            return


def _fewer_pods(workload: Workload, runs: Callable[..., bool]) -> Iterable[str]:
    job = workload.jobs[0]
    if len(workload.jobs) > 1:
        for number in range(len(workload.jobs) - 1, 0, -1):
            if runs(workload.jobs[:number]):
                yield f"ask for {count(number, 'pod')}"
                return
    for number in range(sum(job.minimum.values()) - 1, 0, -1):
        if runs((job.minimum_of(job.tasks[:number]),)):
            yield f"ask for {count(number, 'pod')}"
            return


def _fewer_gpus(workload: Workload, runs: Callable[..., bool]) -> Iterable[str]:
    gpus = workload.jobs[0].tasks[0].requests.gpus
    for number in range(min(gpus, 16) - 1, 0, -1):

        def smaller(task: Task, number: int = number) -> Task:
            most = min(task.requests.gpus, number)
            return replace(task, requests=replace(task.requests, gpus=most, devices=most))

        if runs(tuple(replace(job, tasks=tuple(map(smaller, job.tasks))) for job in workload.jobs)):
            yield f"ask for {count(number, 'GPU')} per pod"
            return


def _estimates(world: World, workload: Workload, done: list[Outcome]) -> Iterable[str]:
    yield from workload.notes
    if any(task.requests.mig for job in (*world.jobs, *workload.jobs) for task in job.tasks):
        yield "MIG instances count as resources of nodes, but in the model do not use the GPUs of queues"
    version = world.kai.version if world.kai else ""
    if not version.startswith(MODELLED):
        yield f"the model follows KAI 0.16.8, and the cluster runs {version or 'an unknown version'}"
    if any(outcome.action == "consolidation" for outcome in done) and len(world.jobs) > MOST_MOVED:
        yield f"KAI considers {MOST_MOVED} workloads for consolidation, at random"

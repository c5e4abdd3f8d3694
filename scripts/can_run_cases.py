"""Compare ``kailab can-run`` with what KAI does, on random cases in a running lab.

A situation has two or three queues and some running pods. Several new workloads follow each other in it; each is a
case: ``kailab can-run`` is asked, the workload is applied, and its outcome and the evicted pods are compared. The
next one finds the cluster as the last one left it. The lab must have no other GPU workloads meanwhile. KAI's
scheduler runs more often until the end (``--period``), since a case takes at least five of its cycles.

    python -m scripts.can_run_cases --name LAB --cases 50 --seed 1 --json result.json
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import yaml

from lab.config import QueueResource, QueueSpec
from lab.errors import LabError, WaitTimeout
from lab.kai import line_of
from lab.kube.readiness import is_ready
from lab.lint.document import read
from lab.objects.views import NodeView, PodView
from lab.operations.can_run import can_run
from lab.session.lab import Lab
from lab.steps.kai.step import NAMESPACE
from lab.steps.queues import temporary_queues
from lab.workloads.controllers import job
from lab.workloads.modifiers import brief
from lab.workloads.namespace import WorkloadNamespace
from lab.workloads.pods import cpu_pod, fraction_pod, gpu_pod
from lab.workloads.temporary import changed
from tests.e2e.scheduling_decisions import WAIT, refused
from tests.e2e.shards import SHARD

Json = dict[str, Any]
_DECISION, _SETTLED = 90.0, 120.0
"""Seconds at most in which KAI decides about a workload, and in which all pods run or are refused."""
_CYCLES = 3
"""Cycles of KAI's scheduler without a change after which it has nothing more to do."""
_CYCLE_WORK = 0.2
"""Seconds at most that a cycle works on a small cluster; it then pauses for its period."""
_KAIS_PERIOD = 1.0
"""Seconds between cycles unless the scheduler has the flag schedule-period (cmd/scheduler/app/options, 0.16)."""
_POLL = 0.1


@dataclass
class Workload:
    """A new workload: a pod, or a Job of which ``gang`` pods start together."""

    doc: Json
    pods: int
    gang: int


@dataclass
class Situation:
    """Queues, running pods, and the workloads that follow."""

    seed: str
    queues: list[QueueSpec]
    running: list[Json]
    new: list[Workload]


@dataclass
class Result:
    """What was predicted and what happened."""

    case: str
    new: str
    predicted: str
    observed: str
    evicted_predicted: list[str] = field(default_factory=list)
    evicted: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def same(self) -> bool:
        return self.predicted == self.observed

    @property
    def same_victims(self) -> bool:
        return self.evicted == self.evicted_predicted


def random_situation(seed: str, gpus: int, workloads: int) -> Situation:
    """Return the situation of a seed for a lab with ``gpus`` GPUs."""
    random = Random(seed)  # noqa: S311
    names = ["a", "b", "c"][: random.choice([2, 2, 3])]
    queues = [QueueSpec(name="top", gpu=QueueResource(quota=gpus))]
    for name in names:
        share = QueueResource(
            quota=random.choice([0, 1, 2, 3, 4]),
            limit=random.choice([-1, -1, -1, 2, 4]),
            weight=random.choice([0, 1, 1, 2]),
        )
        queues.append(QueueSpec(name=name, parent="top", gpu=share, priority=random.choice([None, None, 200])))
    running = [_pod(random, f"run-{n}", random.choice(names)) for n in range(random.randint(0, 9))]
    return Situation(seed, queues, running, [_workload(random, f"new-{n}", names) for n in range(workloads)])


def _workload(random: Random, name: str, queues: list[str]) -> Workload:
    pods = random.choice([1, 1, 1, 2, 3, 4])
    gang = random.choice([1, pods])
    pod = _pod(random, name, random.choice(queues))
    return Workload(pod if pods == 1 else job(name, pod, pods=pods, minimum=gang), pods, gang)


def _pod(random: Random, name: str, queue: str) -> Json:
    kind = random.random()
    if kind < 0.7:
        pod = gpu_pod(name, gpus=random.choice([1, 1, 1, 2, 2, 4]), queue=queue)
    elif kind < 0.92:
        pod = fraction_pod(name, fraction=random.choice([0.25, 0.5, 0.5, 0.75]), queue=queue)
    else:
        pod = cpu_pod(name, queue=queue)
    if (priority := random.choice(["", "", "", "train", "build", "inference"])) != "":
        pod["metadata"].setdefault("labels", {})["priorityClassName"] = priority
    return brief(pod)


def in_queues(doc: Json, names: dict[str, str]) -> Json:
    """Return the object with the queues' names in the cluster."""
    text = json.dumps(doc)
    for short, name in names.items():
        text = text.replace(f'"kai.scheduler/queue": "{short}"', f'"kai.scheduler/queue": "{name}"')
    found: Json = json.loads(text)
    return found


@contextmanager
def scheduler_period(lab: Lab, seconds: float) -> Iterator[None]:
    """Let KAI's scheduler pause for ``seconds`` between its cycles until the end of the block. Raises WaitTimeout."""
    flag = "schedule-period"
    value = f"{round(seconds * 1000)}ms"

    def rolled_out(what: str, *, wanted: bool) -> None:
        def runs(deployments: list[Json]) -> bool:
            arguments = [*deployments[0]["spec"]["template"]["spec"]["containers"][0]["args"]] if deployments else []
            return bool(arguments) and is_ready(deployments[0]) and (f"--{flag}={value}" in arguments) == wanted

        name = line_of(str(lab.kai_version)).scheduler_app
        fields = f"metadata.name={name}"
        lab.cluster.wait("Deployment", runs, namespace=NAMESPACE, fields=fields, timeout=WAIT, what=what)

    try:
        with changed(lab.cluster, lab.spec.name, *SHARD, {"spec": {"args": {flag: value}}}):
            rolled_out(f"KAI's scheduler runs with --{flag}={value}", wanted=True)
            yield
    finally:
        rolled_out("KAI's scheduler runs as it did before", wanted=False)


def cases(lab: Lab, space: WorkloadNamespace, situation: Situation, seconds: float) -> Iterator[Result]:
    """Bring up a situation, try its workloads one after another, and remove it.

    ``seconds`` without a change mean that KAI has nothing more to do. Raises LabError.
    """
    calm = Calm(seconds)
    with temporary_queues(lab.cluster, lab.spec.name, situation.queues) as names:
        try:
            space.submit(*(in_queues(doc, names) for doc in situation.running))
            for number, workload in enumerate(situation.new):
                start = time.monotonic()
                _settle(space, calm)
                doc = in_queues(workload.doc, names)
                result = _tried(space, replace(workload, doc=doc), f"{situation.seed}.{number}", calm)
                yield replace(result, seconds=round(time.monotonic() - start, 1))
        finally:
            space.empty("Job")


def _tried(space: WorkloadNamespace, workload: Workload, case: str, calm: Calm) -> Result:
    """Predict, apply and compare one workload."""
    doc = workload.doc
    doc["metadata"]["namespace"] = space.namespace
    before = {pod.name: pod.uid for pod in space.host_pods() if pod.node}
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump(doc, file)
        file.flush()
        answer = can_run(space.host, read(Path(file.name))).answers[0]
    space.submit(doc)
    runs = _outcome(space, workload, calm)
    return Result(
        case,
        f"{doc['kind']} of {workload.pods} ({workload.gang} together)",
        "runs" if answer.runs else "stays",
        "runs" if runs else "stays",
        sorted(move.pod.partition("/")[2] for move in answer.evictions),
        _evicted(space, before),
        list(answer.reasons),
    )


def _settle(space: WorkloadNamespace, calm: Calm) -> None:
    """Wait until all pods run or are refused, and nothing changes any more."""

    def settled(found: tuple[PodView, ...]) -> bool:
        ended = all(pod.ready or pod.ended if pod.node else refused(pod) for pod in found)
        return calm.lasts(found) and ended and not any(pod.deleting for pod in found)

    _until(space, settled, _SETTLED, "all pods run or are refused")


def _outcome(space: WorkloadNamespace, workload: Workload, calm: Calm) -> bool:
    """Wait for KAI's decision about a new workload; return whether enough of it is bound."""
    name, runs = workload.doc["metadata"]["name"], False

    def decided(found: tuple[PodView, ...]) -> bool:
        nonlocal runs
        new = [pod for pod in found if pod.name == name or pod.name.startswith(f"{name}-")]
        runs = sum(bool(pod.node) for pod in new) >= workload.gang
        ended = len(new) >= workload.pods and all(pod.node or refused(pod) for pod in new)
        return calm.lasts(found) and (runs or ended)  # a Job beyond its minimum may still evict

    _until(space, decided, _DECISION, f"KAI decides about {name}")
    return runs


class Calm:
    """Since when nothing changes that concerns the scheduler."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._last, self._since = seconds, "", time.monotonic()

    def lasts(self, pods: Iterable[PodView]) -> bool:
        """Whether the pods have been as they are for so many seconds."""
        state = repr(sorted((pod.name, pod.node, pod.deleting, pod.gpu_groups, refused(pod)) for pod in pods))
        if state != self._last:
            self._last, self._since = state, time.monotonic()
        return time.monotonic() - self._since >= self._seconds


def _until(space: WorkloadNamespace, done: Callable[[tuple[PodView, ...]], bool], seconds: float, what: str) -> None:
    end = time.monotonic() + seconds
    while not done(space.host_pods()):
        if time.monotonic() > end:
            raise WaitTimeout(f"{space.namespace}: not within {seconds:g} s: {what}", fix="run kailab explain --all")
        space.cluster.calls.pause(_POLL)


def _evicted(space: WorkloadNamespace, before: dict[str, str]) -> list[str]:
    """Return pods that ran before and are gone or being deleted."""
    now = {pod.name: pod.uid for pod in space.host_pods() if not pod.deleting}
    return sorted(name for name, uid in before.items() if now.get(name) != uid)


def terminated(number: int, _: object) -> None:
    """End by way of each ``finally``, which a second signal does not interrupt."""
    signal.signal(number, lambda *_: None)
    raise SystemExit(128 + number)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cases; exit code 1 if an outcome differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--name", help="which lab")
    parser.add_argument("--cases", type=int, default=20, help="how many")
    parser.add_argument("--in-a-row", type=int, default=8, help="cases of one situation, one after another")
    parser.add_argument("--seed", type=int, default=1, help="the first situation's seed")
    parser.add_argument("--seconds", type=float, default=1e9, help="start no situation after this time")
    parser.add_argument("--period", type=float, default=0.3, help="seconds between KAI's cycles; 0: KAI's own 1")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, terminated)
    lab = Lab.attach(options.name)
    gpus = sum(NodeView.of(obj).gpus for obj in lab.cluster.list("Node"))
    results: list[Result] = []
    failed: list[str] = []
    end = time.monotonic() + options.seconds
    calm = _CYCLES * ((options.period or _KAIS_PERIOD) + _CYCLE_WORK)
    with ExitStack() as undo:
        if options.period:
            undo.enter_context(scheduler_period(lab, options.period))
        space = WorkloadNamespace.open(lab.spec.name, lab.cluster, "can-run")
        undo.callback(space.clear)
        for first in range(0, options.cases, options.in_a_row):
            if time.monotonic() > end:
                break
            seed = str(options.seed + first // options.in_a_row)
            situation = random_situation(seed, gpus, min(options.in_a_row, options.cases - first))
            try:
                for result in cases(lab, space, situation, calm):
                    results.append(result)
                    mark = "same" if result.same and result.same_victims else "VICTIMS" if result.same else "DIFFERS"
                    print(f"{result.case}: {mark} {asdict(result)}", flush=True)
            except LabError as error:
                failed.append(f"{seed}: {error}")
                print(f"{seed}: ended early: {error}", file=sys.stderr, flush=True)
            if options.json:
                rows = [asdict(one) | {"same": one.same, "same_victims": one.same_victims} for one in results]
                options.json.write_text(json.dumps({"results": rows, "ended_early": failed}, indent=1))
    same, victims = sum(one.same for one in results), sum(one.same and one.same_victims for one in results)
    print(f"{len(results)} cases: {same} same outcome, {victims} also the same victims; {len(failed)} ended early")
    return 0 if same == options.cases and not failed else 1


if __name__ == "__main__":
    sys.exit(main())

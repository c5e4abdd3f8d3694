"""Compare ``lab can-run`` with what KAI does, on random cases in a running lab.

Each case creates two or three queues and some running pods, asks ``lab can-run`` about a new workload, applies it, and
compares: whether it runs, and which pods are evicted. The lab must have no other GPU workloads meanwhile.

    python -m scripts.can_run_cases --name LAB --cases 50 --seed 1 --json result.json
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import yaml

from lab.config import QueueResource, QueueSpec
from lab.errors import LabError, WaitTimeout
from lab.objects.views import NodeView
from lab.operations.can_run import can_run
from lab.session.lab import Lab
from lab.steps.queues import temporary_queues
from lab.workloads.controllers import job
from lab.workloads.modifiers import brief
from lab.workloads.namespace import WorkloadNamespace
from lab.workloads.pods import cpu_pod, fraction_pod, gpu_pod

Json = dict[str, Any]
_RUNS, _STAYS = 30.0, 9.0
"""Seconds in which a workload must be bound, or must stay pending and evict nothing."""
_ACCOUNT = 30.0
"""Seconds in which a new namespace gets its ServiceAccount, without which a Job's pods are refused and come late."""


@dataclass
class Case:
    """One random situation."""

    seed: str
    queues: list[QueueSpec]
    running: list[Json]
    new: Json
    pods: int = 1
    gang: int = 1


@dataclass
class Result:
    """What was predicted and what happened."""

    seed: str
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


def random_case(seed: str, gpus: int) -> Case:
    """Return the case of a seed for a lab with ``gpus`` GPUs."""
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
    pods = random.choice([1, 1, 1, 2, 3, 4])
    gang = random.choice([1, pods])
    new = _pod(random, "new", random.choice(names))
    return Case(seed, queues, running, new if pods == 1 else job("new", new, pods=pods, minimum=gang), pods, gang)


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


def _in_queues(doc: Json, names: dict[str, str]) -> Json:
    """Return the object with the queues' names in the cluster."""
    text = json.dumps(doc)
    for short, name in names.items():
        text = text.replace(f'"kai.scheduler/queue": "{short}"', f'"kai.scheduler/queue": "{name}"')
    found: Json = json.loads(text)
    return found


def run_case(lab: Lab, case: Case) -> Result:
    """Bring up a case, predict, apply, compare, and remove it. Raises LabError."""
    start = time.monotonic()
    with temporary_queues(lab.cluster, lab.spec.name, case.queues) as names:
        space = WorkloadNamespace.open(lab.spec.name, lab.cluster, "can-run")
        try:
            what = f"ServiceAccount of {space.namespace}"
            lab.cluster.wait("ServiceAccount", bool, namespace=space.namespace, timeout=_ACCOUNT, what=what)
            space.submit(*(_in_queues(doc, names) for doc in case.running))
            _settled(space, len(case.running))
            new = _in_queues(case.new, names)
            new["metadata"]["namespace"] = space.namespace
            before = {pod.name: pod.uid for pod in space.host_pods() if pod.node}
            with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
                yaml.safe_dump(new, file)
                file.flush()
                answer = can_run(lab.cluster, [Path(file.name)]).answers[0]
            space.submit(new)
            runs = _outcome(space, case, before, wait=_RUNS if answer.runs else _STAYS)
            gone = _evicted(space, before)
            return Result(
                case.seed,
                f"{new['kind']} of {case.pods} ({case.gang} together)",
                "runs" if answer.runs else "stays",
                "runs" if runs else "stays",
                sorted(move.pod.partition("/")[2] for move in answer.evictions),
                gone,
                list(answer.reasons),
                round(time.monotonic() - start, 1),
            )
        finally:
            lab.cluster.delete_all("Job", space.namespace)
            space.clear()


def _settled(space: WorkloadNamespace, pods: int) -> None:
    """Wait until no pod of the namespace changes any more: bound ones run, the others wait."""
    last, since = "", time.monotonic()
    end = since + 90
    while time.monotonic() < end:
        found = space.host_pods()
        state = repr(sorted((pod.name, pod.node, pod.ready, pod.deleting, pod.gpu_groups) for pod in found))
        if state != last:
            last, since = state, time.monotonic()
        calm = time.monotonic() - since
        if all(pod.ready or not pod.node for pod in found) and not any(pod.deleting for pod in found) and calm > 4:
            return
        space.cluster.calls.pause(0.5)
    raise WaitTimeout(f"the {pods} pods of {space.namespace} do not settle", fix="run lab explain --all")


def _outcome(space: WorkloadNamespace, case: Case, before: dict[str, str], wait: float) -> bool:
    """Return whether the new workload is bound; wait longer once it evicts something."""
    end = time.monotonic() + wait
    while time.monotonic() < end:
        new = [pod for pod in space.host_pods() if pod.name not in before and pod.name.startswith("new")]
        if sum(bool(pod.node) for pod in new) >= case.gang:
            space.cluster.calls.pause(3.0)  # a Job beyond its minimum may still evict
            return True
        if _evicted(space, before):
            end = max(end, time.monotonic() + 5)
        space.cluster.calls.pause(0.5)
    return False


def _evicted(space: WorkloadNamespace, before: dict[str, str]) -> list[str]:
    """Return pods that ran before and are gone or being deleted."""
    now = {pod.name: pod.uid for pod in space.host_pods() if not pod.deleting}
    return sorted(name for name, uid in before.items() if now.get(name) != uid)


def _terminated(number: int, _: object) -> None:
    """End by way of each ``finally``, which a second signal does not interrupt."""
    signal.signal(number, lambda *_: None)
    raise SystemExit(128 + number)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cases; exit code 1 if an outcome differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--name", help="which lab")
    parser.add_argument("--cases", type=int, default=20, help="how many")
    parser.add_argument("--seed", type=int, default=1, help="the first case's seed")
    parser.add_argument("--seconds", type=float, default=1e9, help="start no case after this time")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, _terminated)
    lab = Lab.attach(options.name)
    gpus = sum(NodeView.of(obj).gpus for obj in lab.cluster.list("Node"))
    results: list[Result] = []
    failed: list[str] = []
    end = time.monotonic() + options.seconds
    for number in range(options.cases):
        if time.monotonic() > end:
            break
        case = random_case(str(options.seed + number), gpus)
        try:
            result = run_case(lab, case)
        except LabError as error:
            failed.append(f"{case.seed}: {error}")
            print(f"{case.seed}: not run: {error}", file=sys.stderr, flush=True)
            continue
        results.append(result)
        mark = "same" if result.same and result.same_victims else "VICTIMS" if result.same else "DIFFERS"
        print(f"{case.seed}: {mark} {asdict(result)}", flush=True)
        if options.json:
            rows = [asdict(one) | {"same": one.same, "same_victims": one.same_victims} for one in results]
            options.json.write_text(json.dumps({"results": rows, "not_run": failed}, indent=1))
    same, victims = sum(one.same for one in results), sum(one.same and one.same_victims for one in results)
    print(f"{len(results)} cases: {same} same outcome, {victims} also the same victims; {len(failed)} not run")
    return 0 if same == len(results) and not failed else 1


if __name__ == "__main__":
    sys.exit(main())

"""Compare ``lab.fair_share`` with the fair shares that a running KAI reports, on random queue trees.

Each tree has up to a dozen queues on up to three levels and pods that request more than the lab has. It is compared
when the scheduler's metrics have the values that the snapshot gives, or after ``--wait`` seconds. The lab must have no
other GPU workloads meanwhile.

    python -m scripts.fair_share_cases --name LAB --trees 40 --json result.json
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any

from lab.config import QueueResource, QueueSpec
from lab.errors import LabError
from lab.explain.queue_explanation import UNITS, QueueTree, explain_queues, fair_share_differs
from lab.objects.views import NodeView
from lab.session.lab import Lab
from lab.snapshot.cluster_snapshot import take
from lab.steps.queues import temporary_queues
from lab.workloads.modifiers import brief
from lab.workloads.namespace import WorkloadNamespace
from lab.workloads.pods import cpu_pod, fraction_pod, gpu_pod
from scripts.can_run_cases import in_queues, scheduler_period, terminated

Json = dict[str, Any]


def random_tree(seed: str, gpus: int) -> tuple[list[QueueSpec], list[Json]]:
    """Return queues and the pods of their leaves for a lab with ``gpus`` GPUs."""
    random = Random(seed)  # noqa: S311
    queues: list[QueueSpec] = []
    levels: dict[str, int] = {}
    for number in range(random.randint(2, 12)):
        parents = [name for name, level in levels.items() if level < 3]
        parent = random.choice(parents) if parents and random.random() < 0.7 else None
        name = f"q{number}"
        levels[name] = levels[parent] + 1 if parent else 1
        queues.append(
            QueueSpec(
                name=name,
                parent=parent,
                priority=random.choice([None, None, None, 50, 200]),
                gpu=_share(random, 1, gpus // 2),
                cpu=_share(random, 100, 20),
                memory=_share(random, 500, 20),
            )
        )
    leaves = sorted(set(levels) - {queue.parent for queue in queues})
    pods = [_pod(random, f"p-{number}", random.choice(leaves)) for number in range(random.randint(2, 24))]
    return queues, pods


def _share(random: Random, unit: int, most: int) -> QueueResource:
    return QueueResource(
        quota=random.choice([-1, 0, 0, *(unit * random.randint(0, most) for _ in range(4))]),
        limit=random.choice([-1, -1, -1, unit * random.randint(1, most)]),
        weight=random.choice([0, 1, 1, 1, 2, 3, 0.7]),
    )


def _pod(random: Random, name: str, queue: str) -> Json:
    kind = random.random()
    if kind < 0.5:
        pod = gpu_pod(name, gpus=random.choice([1, 1, 2, 4]), queue=queue)
    elif kind < 0.8:
        pod = fraction_pod(name, fraction=random.choice([0.1, 0.25, 0.5, 0.7]), queue=queue)
    else:
        pod = cpu_pod(name, queue=queue)
    return brief(pod)


def differences(tree: QueueTree, queues: Sequence[str]) -> Iterator[str]:
    """Yield each share of these queues that KAI reports otherwise, or not at all."""
    for queue in tree.queues:
        if queue.name not in queues:
            continue
        for resource, row in queue.resources.items():
            if row.kai_fair is None or fair_share_differs(resource, row):
                yield f"{queue.name} {resource}: KAI {row.kai_fair}, computed {row.fair:g} {UNITS[resource]}"


def compare(lab: Lab, space: WorkloadNamespace, seed: str, gpus: int, wait: float) -> tuple[int, list[str]]:
    """Bring up a tree, compare and remove it; return the number of shares and those that differ."""
    queues, pods = random_tree(seed, gpus)
    with temporary_queues(lab.cluster, lab.spec.name, queues) as names:
        try:
            space.submit(*(in_queues(pod, names) for pod in pods))
            end = time.monotonic() + wait
            while True:
                tree = explain_queues(take(lab.cluster, scheduler=True))
                differing = list(differences(tree, tuple(names.values())))
                if not differing or time.monotonic() > end:
                    return len(names) * len(UNITS), differing
                lab.cluster.calls.pause(0.5)
        finally:
            space.empty()


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare the trees; exit code 1 if a share differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--name", help="which lab")
    parser.add_argument("--trees", type=int, default=20, help="how many")
    parser.add_argument("--seed", type=int, default=1, help="the first tree's seed")
    parser.add_argument("--wait", type=float, default=15.0, help="seconds after which a difference counts")
    parser.add_argument("--period", type=float, default=0.3, help="seconds between KAI's cycles")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, terminated)
    lab = Lab.attach(options.name)
    gpus = sum(NodeView.of(obj).gpus for obj in lab.cluster.list("Node"))
    rows: list[Json] = []
    with ExitStack() as undo:
        undo.enter_context(scheduler_period(lab, options.period))
        space = WorkloadNamespace.open(lab.spec.name, lab.cluster, "fair-share")
        undo.callback(space.clear)
        for seed in range(options.seed, options.seed + options.trees):
            try:
                shares, differing = compare(lab, space, str(seed), gpus, options.wait)
            except LabError as error:
                shares, differing = 0, [f"ended early: {error}"]
            rows.append({"seed": seed, "shares": shares, "differing": differing})
            print(f"tree {seed}: {shares} shares, {'; '.join(differing) or 'all the same'}", flush=True)
            if options.json:
                options.json.write_text(json.dumps(rows, indent=1))
    total, bad = sum(row["shares"] for row in rows), sum(len(row["differing"]) for row in rows)
    print(f"{len(rows)} trees: {total} shares, {bad} differ")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

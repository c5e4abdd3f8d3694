"""``kailab can-run``: its answer about a workload, compared with what KAI does when the workload is applied."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.config import QueueResource, QueueSpec
from lab.lint.document import read
from lab.objects.views import NodeView
from lab.operations.can_run import can_run
from lab.prediction import Answer
from lab.workloads.modifiers import brief, staying_on
from lab.workloads.namespace import WorkloadNamespace
from lab.workloads.pods import gpu_pod

from .checks import department, on_one_node
from .scheduling_decisions import WAIT, bound, decided, evictions, refused, surviving

pytestmark = [pytest.mark.kai, pytest.mark.places("host")]

NewQueues = Callable[..., dict[str, str]]


def ask(workloads: WorkloadNamespace, folder: Path, pod: dict[str, Any]) -> Answer:
    """The answer about a pod as ``workloads`` would submit it."""
    file = folder / "pod.yaml"
    file.write_text(yaml.safe_dump(staying_on(workloads.node, pod)))
    (answer,) = can_run(workloads.cluster, read(file), workloads.namespace).answers
    return answer


@on_one_node(2)
def test_runs_now_then_after_evictions_then_not_at_all(
    workloads: WorkloadNamespace, new_queues: NewQueues, leased_node: NodeView, tmp_path: Path
) -> None:
    """The borrower takes every GPU of the node, the owner reclaims its quota of one, and asks for one more."""
    names = new_queues(
        department(leased_node),
        QueueSpec(name="borrower", parent="department", gpu=QueueResource(quota=leased_node.gpus - 1)),
        QueueSpec(name="owner", parent="department", gpu=QueueResource(quota=1, weight=0)),
    )
    last = f"loan-{leased_node.gpus - 1}"
    borrowing = [f"loan-{number}" for number in range(leased_node.gpus)]
    workloads.submit(*(brief(gpu_pod(name, queue=names["borrower"])) for name in borrowing[:-1]))
    workloads.running(*borrowing[:-1], timeout=WAIT)

    pod = brief(gpu_pod(last, queue=names["borrower"]))
    answer = ask(workloads, tmp_path, pod)
    assert (answer.verdict, answer.placed) == ("now", {leased_node.name: 1}), answer
    workloads.submit(pod)
    loans = workloads.running(*borrowing, timeout=WAIT)

    pod = gpu_pod("owner", queue=names["owner"])
    answer = ask(workloads, tmp_path, pod)
    assert (answer.verdict, answer.action) == ("after-evictions", "reclaim"), answer
    workloads.submit(pod)
    workloads.running("owner", timeout=WAIT)
    kept = {one.name for one in surviving(workloads, loans)}
    assert [move.pod for move in answer.evictions] == [
        f"{workloads.namespace}/{one.name}" for one in loans if one.name not in kept
    ]
    assert evictions(workloads, *loans) == [answer.action]

    pod = gpu_pod("more", queue=names["owner"])
    answer = ask(workloads, tmp_path, pod)
    assert answer.verdict == "no", answer
    assert answer.reasons
    workloads.submit(pod)
    (more,) = workloads.on_host(decided, "more", timeout=WAIT, what="placed or refused")
    assert refused(more)
    assert not bound(more)

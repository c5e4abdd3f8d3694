"""Queues that contend for 4 GPUs in one scheduling cycle.

All pods wait behind their department's limit of 0 GPUs until KAI has refused each of them; then that limit is raised,
and the next cycle finds all of them at once: who came first decides nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from lab.config import QueueResource, QueueSpec
from lab.kube import Cluster
from lab.workloads.namespace import WorkloadNamespace
from lab.workloads.pods import gpu_pod

from .scheduling_decisions import CLOSED, WAIT, bound, refusal, refused

GPUS = 4
DEPARTMENT = QueueSpec(name="department", gpu=QueueResource(limit=0))
"""The queue above the others; ``contend`` raises its limit."""


def leaf(name: str, *, parent: str = "department", priority: int | None = None, **gpu: float) -> QueueSpec:
    """A queue with this share of the GPUs; the defaults are quota 0 and weight 1."""
    return QueueSpec(name=name, parent=parent, priority=priority, gpu=QueueResource(**{"quota": 0, **gpu}))


def contend(
    workloads: WorkloadNamespace, cluster: Cluster, names: Mapping[str, str], asked: Mapping[str, int]
) -> dict[str, int]:
    """How many GPUs each queue gets of the department's four.

    Args:
        workloads: where the pods are.
        cluster: the lab's own cluster.
        names: each queue's name in the cluster, by its own; ``department`` among them.
        asked: how many pods of one GPU each queue runs.
    """
    pods = {f"{queue}-{number}": queue for queue, count in asked.items() for number in range(count)}
    workloads.submit(*(gpu_pod(name, queue=names[queue]) for name, queue in pods.items()))
    workloads.on_host(lambda pod: CLOSED in refusal(pod), *pods, timeout=WAIT, what="refused: no GPU may be given")
    cluster.patch("Queue", names["department"], {"spec": {"resources": {"gpu": {"limit": GPUS}}}})
    after = workloads.on_host(
        lambda pod: bound(pod) or (refused(pod) and CLOSED not in refusal(pod)),
        *pods,
        timeout=WAIT,
        what="placed or refused once GPUs may be given",
    )
    got = Counter(dict.fromkeys(asked, 0))
    got.update(queue for queue, pod in zip(pods.values(), after, strict=True) if bound(pod))
    return dict(got)

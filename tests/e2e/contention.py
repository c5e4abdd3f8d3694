"""Queues that contend for 4 GPUs in one scheduling cycle.

Their department has a limit of 0 GPUs until KAI has refused every pod. Then the limit is raised, and the next cycle
sees all pods at once: the order of creation does not matter.
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
"""The parent of the other queues; ``contend`` raises its limit."""


def leaf(name: str, *, parent: str = "department", priority: int | None = None, **gpu: float) -> QueueSpec:
    """A queue with this share of the GPUs; the defaults are quota 0 and weight 1."""
    return QueueSpec(name=name, parent=parent, priority=priority, gpu=QueueResource(**{"quota": 0, **gpu}))


def contend(
    workloads: WorkloadNamespace, cluster: Cluster, names: Mapping[str, str], asked: Mapping[str, int]
) -> dict[str, int]:
    """Return how many of the department's four GPUs each queue gets.

    Args:
        workloads: namespace of the pods.
        cluster: the lab's own cluster.
        names: short name → name in the cluster, ``department`` included.
        asked: number of pods of one GPU for each queue.
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

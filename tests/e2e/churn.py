"""Create and delete many pods on two sides in parallel, while a watch verifies that other pods do not change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from lab.errors import ApiFailed
from lab.kube import Cluster
from lab.kube.informers import EventLoop, InformerEvent, Informers, InformerSource
from lab.objects.views import PodView
from lab.workloads.namespace import WorkloadNamespace

from .scheduling_decisions import WAIT, bound

Json = dict[str, Any]


@dataclass
class Ledger:
    """Changes of protected pods, and the host PodGroups of tenants' pods.

    Args:
        protected: uid → name of the pod in messages.
        spaces: host namespaces of tenants with their own KAI.
    """

    protected: Mapping[str, str]
    spaces: frozenset[str] = frozenset()
    losses: list[str] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)
    """Interruptions of the watch: changes in between appear as one."""
    _of_host: set[str] = field(default_factory=set)
    _worn: set[tuple[str, str]] = field(default_factory=set)

    def hear(self, news: InformerEvent) -> None:
        """Process one watch event."""
        if news.trouble or news.refused:
            self.gaps.append(news.trouble or news.refused)
        for change, obj in news.changes:
            if news.kind == "Pod":
                self._pod(change, PodView.of(obj))
            elif news.kind == "PodGroup":
                self._of_host.add(obj["metadata"]["name"])

    @property
    def overwritten(self) -> list[str]:
        """Pods of tenants that were in a PodGroup of the host at any time."""
        return sorted(f"{pod} in PodGroup {group} of the host" for pod, group in self._worn if group in self._of_host)

    def _pod(self, change: str, pod: PodView) -> None:
        if pod.namespace in self.spaces and pod.pod_group:
            self._worn.add((f"pod {pod.namespace}/{pod.name}", pod.pod_group))
        if (name := self.protected.get(pod.uid)) is None:
            return
        found = {
            "is gone": change == "DELETED",
            "is being deleted": pod.deleting,
            f"has ended ({pod.phase} {pod.reason})": pod.ended,
            f"was restarted {pod.restarts} times": bool(pod.restarts),
        }
        self.losses += [
            f"{name} {what}" for what, true in found.items() if true and f"{name} {what}" not in self.losses
        ]


@contextmanager
def watched(cluster: Cluster, protected: Iterable[PodView], spaces: Iterable[str] = ()) -> Iterator[Ledger]:
    """Watch all pods and PodGroups of a cluster until the end of the block.

    Args:
        cluster: the host.
        protected: pods that must not change.
        spaces: host namespaces of tenants with their own KAI.
    """
    ledger = Ledger({pod.uid: f"pod {pod.namespace}/{pod.name}" for pod in protected}, frozenset(spaces))
    informers = Informers([InformerSource("host", cluster, ("Pod", "PodGroup"))])
    with EventLoop(informers, ledger.hear, "watched") as loop:
        assert loop.wait_for(lambda: ("host", "Pod") in loop.listed, WAIT), "the pods could not be listed"
        yield ledger


@dataclass(frozen=True)
class Side:
    """One side of a churn: a workload namespace, and a function from a number to the pods of that round."""

    workloads: WorkloadNamespace
    pods: Callable[[int], Sequence[Json]]


def churn(sides: Sequence[Side], rounds: int) -> dict[str, int]:
    """Create, bind and delete pods in rounds, on all sides in parallel. Return their number by namespace.

    Every fourth round waits until its pods are Ready, since KAI does some things to running pods only.

    Raises:
        WaitTimeout: pods of a round are not bound, or not deleted.
    """

    def side(one: Side) -> int:
        count = 0
        for number in range(rounds):
            pods = one.pods(number)
            names = [pod["metadata"]["name"] for pod in pods]
            one.workloads.submit(*pods)
            if number % 4:
                one.workloads.on_host(bound, *names, timeout=WAIT, what="bound")
            else:
                one.workloads.running(*names, timeout=WAIT)
            one.workloads.remove(*names, timeout=WAIT)
            count += len(pods)
        return count

    with ThreadPoolExecutor(len(sides)) as pool:
        counts = list(pool.map(side, sides))
    return {one.workloads.namespace: count for one, count in zip(sides, counts, strict=True)}


def log_of(cluster: Cluster, namespace: str, app: str) -> str:
    """Return the logs of a component's pods; empty for a pod that has not started."""
    texts = []
    for pod in cluster.list("Pod", namespace, labels=f"app={app}"):
        try:
            texts.append(cluster.logs(pod["metadata"]["name"], namespace))
        except ApiFailed as error:
            if error.status not in (400, 404):  # not started yet
                raise
    return "\n".join(texts)

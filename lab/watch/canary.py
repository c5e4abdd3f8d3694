"""Canary pods: at an interval one tiny pod in each watched queue, to measure the seconds until KAI binds it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from lab.errors import ApiFailed, Interrupted, LabError, WaitTimeout
from lab.kai.names import KAI_SCHEDULER, QUEUE_LABEL
from lab.kube import Cluster
from lab.tools.background import Background
from lab.watch.names import CANARY_LABEL

BOUND_SECONDS = 60.0
"""Limit for the bind; then the canary has failed."""

_GONE_SECONDS = 30.0
_AT_ONCE = 8


@dataclass(frozen=True)
class Canary:
    """Creates canary pods in one namespace; they request no GPU and are deleted as soon as they are bound."""

    cluster: Cluster
    namespace: str
    image: str
    labels: Mapping[str, str] = field(default_factory=dict)
    limit: float = BOUND_SECONDS

    def measure(self, queue: str) -> float:
        """Create a pod in a queue, wait until it is bound, and delete it; returns the seconds until it was bound.

        Raises WaitTimeout with its events, ApiFailed and Interrupted. A pod that is not deleted in time is deleted
        before the next one.
        """
        pod = self.pod(queue)
        name = pod["metadata"]["name"]
        self._remove(name)  # of a process that was killed
        began = time.monotonic()
        self.cluster.create(pod)
        try:
            self.cluster.wait(
                "Pod",
                lambda pods: any(pod["spec"].get("nodeName") for pod in pods),
                namespace=self.namespace,
                fields=f"metadata.name={name}",
                timeout=self.limit,
                what=f"canary pod of queue {queue} is bound",
            )
            return time.monotonic() - began
        finally:
            # a kubelet that does not end it says nothing about the scheduler
            with suppress(ApiFailed, WaitTimeout):
                self._remove(name)

    def pod(self, queue: str) -> dict[str, Any]:
        """A pod without a GPU that the Pod Security Standard "restricted" permits.

        It has no limits: runc needs about 20 MiB and some CPU time to start any container. With 8Mi and 1m it was
        killed or hung for 2 minutes, and the pod could not be deleted until then (seen with Kubernetes 1.34).
        """
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"canary-{queue}",
                "namespace": self.namespace,
                "labels": {**self.labels, CANARY_LABEL: "true", QUEUE_LABEL: queue},
            },
            "spec": {
                "schedulerName": KAI_SCHEDULER,
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 1,
                "automountServiceAccountToken": False,
                "enableServiceLinks": False,
                "securityContext": {
                    "runAsNonRoot": True,
                    "runAsUser": 65532,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "containers": [
                    {
                        "name": "canary",
                        "image": self.image,
                        "command": ["true"],
                        "resources": {"requests": {"cpu": "1m", "memory": "8Mi"}},
                        "securityContext": {
                            "allowPrivilegeEscalation": False,
                            "readOnlyRootFilesystem": True,
                            "capabilities": {"drop": ["ALL"]},
                        },
                    }
                ],
            },
        }

    def _remove(self, name: str) -> None:
        self.cluster.delete("Pod", name, self.namespace, wait=_GONE_SECONDS)


class CanaryRounds(Background):
    """A context manager that measures all queues at an interval, one pod per queue at a time.

    ``queues`` returns the queues of a round; ``bound`` is called with a queue and its seconds, ``failed`` with a queue
    and the reason, both in several threads.
    """

    def __init__(
        self,
        canary: Canary,
        queues: Callable[[], tuple[str, ...]],
        interval: float,
        bound: Callable[[str, float], None],
        failed: Callable[[str, LabError], None],
    ) -> None:
        super().__init__(self._measure_all, "canaries")
        self._canary = canary
        self._queues = queues
        self._interval = interval
        self._bound = bound
        self._failed = failed

    def _measure_all(self, stopping: threading.Event) -> None:
        with ThreadPoolExecutor(_AT_ONCE, "canary") as pool:
            while not stopping.is_set():
                began = time.monotonic()
                list(pool.map(self._one, self._queues()))
                stopping.wait(max(0.0, began + self._interval - time.monotonic()))

    def _one(self, queue: str) -> None:
        try:
            self._bound(queue, self._canary.measure(queue))
        except Interrupted:
            self.stopping.set()
        except LabError as error:
            self._failed(queue, error)

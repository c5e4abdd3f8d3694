"""Measures scheduling downtime: small pods that are created while KAI changes.

Each is created as by a user who does not know of the upgrade: again and again while the webhooks do not answer.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from lab.errors import WaitTimeout
from lab.kube import Cluster
from lab.kube.retry import retry
from lab.objects.views import PodView
from lab.tools.background import Background
from lab.workloads.namespace import WorkloadNamespace
from lab.workloads.pods import cpu_pod
from lab.workloads.temporary import owner_labels

SCHEDULED, RUNNING = "first pod scheduled", "first pod running"

NAME = "kailab-first-pod"

_TIMEOUT = 300.0
_RESULT_SECONDS = 180.0
_GONE_SECONDS = 60.0


class DowntimeProbe(Background):
    """A context manager; deletes the pod at the end. After a kill, the temporary namespace is removed with the pod.

    Where the old version has stopped, the first pod waits for the new one. Where Helm replaces it while it runs, one
    pod is created after the other (``repeat``), and ``longest`` is the downtime.

    Args:
        cluster: where KAI changes.
        lab: name of the lab, for the pod's label.
        space: namespace of the pods.
        queue: their leaf queue.
        note: called with ``SCHEDULED`` and ``RUNNING`` when the first pod is, from another thread.
        repeat: create pods until ``result`` is called; the last one is created after that.
    """

    def __init__(
        self,
        cluster: Cluster,
        lab: str,
        space: WorkloadNamespace,
        queue: str,
        note: Callable[[str], None],
        *,
        repeat: bool = False,
    ) -> None:
        super().__init__(self._follow, "first pod", join=0, cleanup=self._delete)
        self._cluster, self._note = cluster, note
        self._namespace = space.namespace
        self._closing = threading.Event()
        if not repeat:
            self._closing.set()
        self._pod = space.fitted(cpu_pod(NAME, namespace=self._namespace, queue=queue))
        self._pod["metadata"]["labels"] |= owner_labels(lab)
        self._longest, self._begun = 0.0, float("inf")

    @property
    def longest(self) -> float:
        """Seconds from the creation of a pod until it was scheduled, or until now, of the pod that waited longest."""
        return max(self._longest, time.monotonic() - self._begun)

    def _delete(self, wait: float | None = None) -> None:
        self._cluster.delete("Pod", NAME, self._namespace, grace=0, wait=wait)

    def result(self) -> None:
        """Wait until the last pod runs, at most three minutes. Raises LabError: it does not."""
        self._closing.set()
        self.join(_RESULT_SECONDS)
        self.check()
        if self.running:
            raise WaitTimeout(
                f"no new pod runs {_RESULT_SECONDS:.0f} s after all components are Ready",
                fix="read the logs of KAI's scheduler and pod-grouper",
            )

    def _follow(self, stopping: threading.Event) -> None:
        while True:
            last = self._closing.is_set()
            self._begun = time.monotonic()
            retry(
                lambda: self._cluster.create(self._pod),
                # 5xx: the webhook does not answer yet, instead of denying the pod
                when=lambda error: error.status >= 500 and not stopping.is_set(),
                timeout=_TIMEOUT,
                sleep=self._cluster.calls.pause,
            )
            self._wait(lambda pod: bool(pod.node), "is scheduled")
            self._longest, self._begun = self.longest, float("inf")
            if last:
                break
            self._delete(wait=_GONE_SECONDS)
        self._note(SCHEDULED)
        self._wait(lambda pod: pod.ready, "is Ready")
        self._note(RUNNING)

    def _wait(self, until: Callable[[PodView], bool], what: str) -> None:
        self._cluster.wait(
            "Pod",
            lambda pods: any(map(until, map(PodView.of, pods))),
            namespace=self._namespace,
            fields=f"metadata.name={NAME}",
            timeout=_TIMEOUT,
            fail=lambda pods: None if pods or not self.stopping.is_set() else "the upgrade has ended",
            what=f"the first pod {what}",
        )

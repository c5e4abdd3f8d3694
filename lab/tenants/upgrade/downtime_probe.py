"""Measures scheduling downtime: a small pod that waits for KAI's new version from the moment the old one has stopped.

It is created as by a user who does not know of the upgrade: again and again while the webhooks do not answer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Self

from lab.kube import Cluster
from lab.kube.retry import retry
from lab.objects.views import PodView
from lab.tools.background import Background
from lab.workloads.pods import cpu_pod
from lab.workloads.temporary import owner_labels

SCHEDULED, RUNNING = "first pod scheduled", "first pod running"

NAME, NAMESPACE = "kailab-first-pod", "default"

_TIMEOUT = 300.0
_GONE_SECONDS = 60.0


class DowntimeProbe(Background):
    """A context manager; deletes the pod at the end.

    Args:
        cluster: the tenant's.
        lab: name of the lab, for the pod's label.
        queue: a leaf queue.
        note: called with ``SCHEDULED`` and ``RUNNING`` when the pod is, from another thread.
    """

    def __init__(self, cluster: Cluster, lab: str, queue: str, note: Callable[[str], None]) -> None:
        super().__init__(self._follow, "first pod", join=0, cleanup=self._delete)
        self._cluster, self._note = cluster, note
        self._pod = cpu_pod(NAME, namespace=NAMESPACE, queue=queue)
        self._pod["metadata"]["labels"] |= owner_labels(lab)

    def __enter__(self) -> Self:
        self._delete(wait=_GONE_SECONDS)  # an upgrade that was killed leaves one
        return super().__enter__()

    def _delete(self, wait: float | None = None) -> None:
        self._cluster.delete("Pod", NAME, NAMESPACE, grace=0, wait=wait)

    def result(self) -> None:
        """Wait until the pod runs. Raises LabError: it does not."""
        self.join(_TIMEOUT * 2)
        self.check()

    def _follow(self, stopping: threading.Event) -> None:
        retry(
            lambda: self._cluster.create(self._pod),
            # 5xx: the webhook does not answer yet, instead of denying the pod
            when=lambda error: error.status >= 500 and not stopping.is_set(),
            timeout=_TIMEOUT,
            sleep=self._cluster.calls.pause,
        )
        self._wait(lambda pod: bool(pod.node), "is scheduled")
        self._note(SCHEDULED)
        self._wait(lambda pod: pod.ready, "is Ready")
        self._note(RUNNING)

    def _wait(self, until: Callable[[PodView], bool], what: str) -> None:
        self._cluster.wait(
            "Pod",
            lambda pods: any(map(until, map(PodView.of, pods))),
            namespace=NAMESPACE,
            fields=f"metadata.name={NAME}",
            timeout=_TIMEOUT,
            fail=lambda pods: None if pods or not self.stopping.is_set() else "the upgrade has ended",
            what=f"the first pod {what}",
        )

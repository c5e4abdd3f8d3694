"""A small pod that waits for KAI's new version from the moment the old one has stopped: when is it placed, when Ready?

It is sent as somebody would send it who does not know of the change: again and again while the webhooks do not answer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from lab.errors import LabError
from lab.kube import OWNER_LABEL, Cluster
from lab.kube.retry import retry
from lab.objects.views import PodView
from lab.tools.background import Background
from lab.workloads.pods import cpu_pod

SCHEDULED, RUNNING = "first pod scheduled", "first pod running"

NAME, NAMESPACE = "kailab-first-pod", "default"

_GONE_SECONDS = 60.0


class DowntimeProbe(Background):
    """A context manager; the pod is removed at the end.

    Args:
        cluster: the tenant's.
        lab: name of the lab, for the pod's label.
        queue: a leaf queue.
        note: called with ``SCHEDULED`` and ``RUNNING`` when it comes to that; from another thread.
        timeout: seconds in all.
    """

    def __init__(
        self, cluster: Cluster, lab: str, queue: str, note: Callable[[str], None], timeout: float = 300.0
    ) -> None:
        super().__init__(self._follow, "first pod", join=0)
        self._cluster = cluster
        self._note = note
        self._timeout = timeout
        self._pod = cpu_pod(NAME, namespace=NAMESPACE, queue=queue)
        self._pod["metadata"]["labels"][OWNER_LABEL] = lab

    def __enter__(self) -> Self:
        # one that a killed change left
        self._cluster.delete("Pod", NAME, NAMESPACE, grace=0, wait=_GONE_SECONDS)
        return super().__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        try:
            self._cluster.delete("Pod", NAME, NAMESPACE, grace=0)
        except LabError:
            if error is None:
                raise
        super().__exit__(kind, error, trace)

    def result(self) -> None:
        """Wait until it runs. Raises LabError: it never will."""
        self.join(self._timeout * 2)
        self.check()

    def _follow(self, stopping: threading.Event) -> None:
        self._send()
        self._wait(lambda pod: bool(pod.node), "is scheduled")
        self._note(SCHEDULED)
        self._wait(lambda pod: pod.ready, "is Ready")
        self._note(RUNNING)

    def _send(self) -> None:
        retry(
            lambda: self._cluster.create(self._pod),
            # the webhook that refused it is not up, rather than against it
            when=lambda error: error.status >= 500 and not self.stopping.is_set(),
            timeout=self._timeout,
            sleep=self._cluster.calls.pause,
        )

    def _wait(self, until: Callable[[PodView], bool], what: str) -> None:
        def holds(pods: list[dict[str, Any]]) -> bool:
            return any(until(PodView.of(pod)) for pod in pods)

        self._cluster.wait(
            "Pod",
            holds,
            namespace=NAMESPACE,
            fields=f"metadata.name={NAME}",
            timeout=self._timeout,
            fail=lambda pods: None if pods or not self.stopping.is_set() else "it was given up",
            what=f"the first pod {what}",
        )

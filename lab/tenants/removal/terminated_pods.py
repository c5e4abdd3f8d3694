"""Pods that have ended, and that the kubelet does not let go of.

When it fails to remove a pod's cgroup at the first try ("failed to delete cgroup paths", kubelet 1.34 on cgroup v1), it
tries again half a minute later, and the object stays until then although all of its containers have ended: seen in one
of eight removals. Such an object is deleted at once; of what runs nothing is.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from lab.errors import LabError
from lab.kube import Cluster
from lab.tools.background import Background

_FIRST_LOOK = 3.0
_NEXT_LOOK = 1.0
"""Seconds: what the kubelet lets go of by itself is gone by then."""


def has_ended(pod: Mapping[str, Any]) -> bool:
    """Whether a pod that is being deleted has no container any more that runs or may still start."""
    status = pod.get("status") or {}
    containers = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    ended = [(one.get("state") or {}).get("terminated") for one in containers]
    return "deletionTimestamp" in pod["metadata"] and bool(ended) and all(ended)


@contextmanager
def let_go(cluster: Cluster, namespace: str) -> Iterator[None]:
    """While pods of a namespace go: delete the objects of those that have ended and stay all the same."""
    with Background(functools.partial(_sweep, cluster, namespace), "terminated pods"):
        yield


def _sweep(cluster: Cluster, namespace: str, stopping: threading.Event) -> None:
    pause = _FIRST_LOOK
    while not stopping.wait(pause):
        pause = _NEXT_LOOK
        with contextlib.suppress(LabError):  # the wait beside it says what is wrong with the server
            for pod in cluster.list("Pod", namespace):
                if has_ended(pod):
                    cluster.delete("Pod", pod["metadata"]["name"], namespace, grace=0)

"""Deletes terminated pods that the kubelet keeps.

When the kubelet fails to remove a pod's cgroup ("failed to delete cgroup paths", kubelet 1.34 on cgroup v1), it
retries after half a minute, and the object stays until then although all containers have terminated: measured in one
of eight removals. Such an object is deleted at once; pods with a running container are left alone.
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

_FIRST_CHECK = 3.0
"""Seconds, in which the kubelet removes most pods."""
_INTERVAL = 1.0


def has_terminated(pod: Mapping[str, Any]) -> bool:
    """Whether a pod is being deleted and all of its containers have terminated."""
    status = pod.get("status") or {}
    containers = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    terminated = [(container.get("state") or {}).get("terminated") for container in containers]
    return "deletionTimestamp" in pod["metadata"] and bool(terminated) and all(terminated)


@contextmanager
def delete_terminated(cluster: Cluster, namespace: str) -> Iterator[None]:
    """During the block, delete pods of a namespace that have terminated but remain."""
    with Background(functools.partial(_sweep, cluster, namespace), "terminated pods"):
        yield


def _sweep(cluster: Cluster, namespace: str, stopping: threading.Event) -> None:
    pause = _FIRST_CHECK
    while not stopping.wait(pause):
        pause = _INTERVAL
        with contextlib.suppress(LabError):  # the caller waits for these pods, and reports errors
            for pod in cluster.list("Pod", namespace):
                if has_terminated(pod):
                    cluster.delete("Pod", pod["metadata"]["name"], namespace, grace=0)

"""Has the kubelets probe pods as soon as that can succeed.

A kubelet probes a container at intervals of 10 s by default, counted from the moment it got the pod, and not before the
probe's initial delay is over. So KAI's webhook, with 5 s, is Ready 10 s after its start. At every update of a pod, the
kubelet also probes at once those of its containers that are not Ready (kubernetes 1.34, UpdatePodStatus in
pkg/kubelet/prober/prober_manager.go). An annotation is such an update.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from lab.errors import LabError
from lab.kube import Cluster
from lab.objects.views import ContainerView

ANNOTATION = "kailab.dev/probed"
"""On the pods: when they were last probed for the lab."""

_MARGIN = 1.2
"""Seconds on top of the initial delay: a container's start is given in whole seconds."""

_INTERVAL = 1.0
"""Seconds between two probes of a container that is not Ready."""

Json = dict[str, Any]


class EarlyProbes:
    """Probes of the pods of one namespace."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._lock = threading.Lock()
        self._timers: dict[str, threading.Timer] = {}

    def see(self, pods: Iterable[Json]) -> None:
        """Plan the probes of these pods; call it whenever one of them changes."""
        waiting = {pod["metadata"]["name"]: due for pod in pods if (due := _due(pod)) is not None}
        with self._lock:
            for name in self._timers.keys() - waiting:
                self._timers.pop(name).cancel()
            for name in waiting.keys() - self._timers:
                self._plan(name, waiting[name])

    def stop(self) -> None:
        """Probe no more."""
        with self._lock:
            for timer in self._timers.values():
                timer.cancel()
            self._timers.clear()

    def _plan(self, name: str, seconds: float) -> None:
        timer = threading.Timer(seconds, self._probe, (name,))
        timer.daemon = True
        self._timers[name] = timer
        timer.start()

    def _probe(self, name: str) -> None:
        change = {"metadata": {"annotations": {ANNOTATION: datetime.now(UTC).isoformat(timespec="milliseconds")}}}
        with contextlib.suppress(LabError):  # without it the pod is Ready later
            self._cluster.patch("Pod", name, change, self._namespace)
        with self._lock:
            if name in self._timers:
                self._plan(name, _INTERVAL)


def _due(pod: Json) -> float | None:
    """Seconds until a probe of the pod can succeed; None if none of its running containers waits for one."""
    probes = {one["name"]: one.get("readinessProbe") for one in pod["spec"]["containers"]}
    found = []
    for one in ContainerView.all_of(pod):
        if (probe := probes.get(one.name)) and one.started and not one.ready:
            age = datetime.now(UTC) - one.started
            delay = probe.get("initialDelaySeconds", 0)
            found.append(max(delay + _MARGIN - age.total_seconds() if delay else 0, 0))
    return min(found, default=None)


@contextlib.contextmanager
def early_probes(cluster: Cluster, namespace: str) -> Iterator[EarlyProbes]:
    """Early probes for the block that waits for the pods."""
    probes = EarlyProbes(cluster, namespace)
    try:
        yield probes
    finally:
        probes.stop()

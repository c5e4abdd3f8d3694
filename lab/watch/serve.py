"""Watches one cluster until it is stopped, and serves what it sees as metrics."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from lab.invariants import Scope, Watcher
from lab.kube import Cluster
from lab.watch.api_load import CountedTransport
from lab.watch.canary import Canary, CanaryRounds
from lab.watch.exporter import Exporter
from lab.watch.log import JsonLog
from lab.watch.metrics import CONTENT_TYPE
from lab.watch.names import INVARIANTS, PORT
from lab.watch.server import Answer, serving

INTERVAL = 60.0
"""Default seconds from one canary pod of a queue to the next."""

_KEPT = 1000
"""Violations that are kept in memory."""


@dataclass(frozen=True)
class WatchSettings:
    """What to serve; canary pods only with a ``canary_image``."""

    port: int = PORT
    host: str = ""
    """Address to listen on; empty: all of IPv4."""
    canary_image: str = ""
    queues: tuple[str, ...] = ()
    """Queues of the canary pods; empty: all leaf queues."""
    interval: float = INTERVAL
    namespace: str = ""
    """Of the canary pods."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Of the canary pods."""


def serve(
    cluster: Cluster, api: CountedTransport, settings: WatchSettings, stopping: threading.Event, log: JsonLog
) -> None:
    """Watch a cluster and serve ``/metrics``, ``/healthz`` and ``/readyz`` until ``stopping`` is set.

    ``api`` is the cluster's transport. Raises ApiFailed for an untrusted API server, and LabError for a taken port.
    """
    exporter = Exporter(log, api)

    def text() -> Answer:
        return 200, CONTENT_TYPE, exporter.metrics.text()

    def probe(fine: bool, problem: str) -> Answer:
        return (200, "text/plain", "ok\n") if fine else (503, "text/plain", f"{problem}\n")

    routes = {
        "/metrics": text,
        "/healthz": lambda: probe(exporter.healthy, "the watch does not advance"),
        "/readyz": lambda: probe(exporter.ready, "not every kind has been listed"),
    }
    with contextlib.ExitStack() as running:
        watcher = running.enter_context(
            Watcher((Scope("", cluster),), INVARIANTS, on_violation=exporter.violation, keep=_KEPT)
        )
        exporter.publish(watcher)
        port = running.enter_context(serving(settings.port, routes, settings.host))
        log("serving", port=port)
        canary = Canary(cluster, settings.namespace, settings.canary_image, settings.labels)
        rounds = CanaryRounds(
            canary, lambda: settings.queues or exporter.leaf_queues, settings.interval, exporter.bound, exporter.failed
        )
        if settings.canary_image:
            running.enter_context(rounds)

        def until() -> bool:
            exporter.publish(watcher)
            rounds.check()
            return stopping.is_set()

        watcher.run(until)

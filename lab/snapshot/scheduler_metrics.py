"""The Prometheus metrics of KAI's schedulers about queues and evictions, and the log lines about evictions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from lab.errors import ApiFailed
from lab.kai.names import KAI_SCHEDULER
from lab.kube import Cluster
from lab.kube.proxy import Proxy
from lab.objects.fields import Obj, labels_of, parts
from lab.objects.redact import redact_text

_PORT = 8080
"""Port of the schedulers' metrics (cmd/scheduler/app/options, 0.9.8 to 0.17.0)."""
_WANTED = re.compile(r"kai_(queue_|pod_group_evicted_pods_total)")
_EVICTIONS = re.compile(r"Reclaimed resources for job|uccessfully preempted|fully consolidated|Evicted task")
_LOG_LINES = 4000
_SAMPLE = re.compile(r"(?P<name>[a-z_]+)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def scheduler_records(cluster: Cluster, pods: Iterable[Obj]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Read metrics and log lines about evictions from the schedulers' pods, through the API server.

    What cannot be read is left out.
    """
    metrics: list[str] = []
    lines: list[str] = []
    for meta in (parts(pod)[0] for pod in pods):
        app = labels_of(meta).get("app", "")
        if meta.get("namespace") != KAI_SCHEDULER or "scheduler" not in app:
            continue
        name = meta["name"]
        try:
            proxy = Proxy(cluster, "Pod", KAI_SCHEDULER, name, _PORT)
            # A scheduler deletes the samples of all queues when it begins a division: the fuller of two reads counts.
            first, second = (_wanted(proxy.raw("GET", "/metrics")) for _ in range(2))
            metrics += first if len(first) > len(second) else second
            log = redact_text(cluster.logs(name, KAI_SCHEDULER, tail=_LOG_LINES))
            lines += [line for line in log.splitlines() if _EVICTIONS.search(line)]
        except ApiFailed:
            continue
    return tuple(metrics), tuple(lines)


def _wanted(raw: bytes) -> list[str]:
    return [line for line in raw.decode(errors="replace").splitlines() if _WANTED.match(line)]


def samples(metrics: Iterable[str], name: str) -> Iterator[tuple[Mapping[str, str], float]]:
    """Yield labels and value of each sample of a metric."""
    for line in metrics:
        match = _SAMPLE.match(line)
        if match and match["name"] == name:
            yield dict(_LABEL.findall(match["labels"] or "")), float(match["value"])

"""Turns what a watcher of invariants sees into metrics and log lines."""

from __future__ import annotations

import os
import platform
import time
from collections import Counter
from pathlib import Path

from lab.errors import LabError
from lab.invariants import Violation, Watcher
from lab.invariants.known_defects import Cause, cause_of
from lab.serialization import to_json
from lab.version import VERSION
from lab.watch.api_load import CountedTransport
from lab.watch.log import JsonLog
from lab.watch.metrics import Labels, Metric, Metrics
from lab.watch.names import INVARIANTS

PUBLISH_SECONDS = 1.0
"""Minimum interval between two updates of the metrics."""

_HUNG_SECONDS = 60.0

_BLIND_SECONDS = 600.0
"""Time without any answer of the API server after which a restart may help: it reads the CA certificate again."""

_BY_CAUSE = ("invariant", "defect", "cured_in", "proven")


def metrics() -> Metrics:
    """All metrics of the watch; the counters of invariants begin at 0."""
    made = Metrics(
        Metric("kailab_build_info", "Version of kailab; always 1.", labels=("version", "python")),
        Metric("kailab_kai_info", "Version of the KAI that runs; always 1, absent without KAI.", labels=("version",)),
        Metric(
            "kailab_invariant_violations",
            "Violations that last now, with the known defects of KAI behind them and the first release without these.",
            labels=_BY_CAUSE,
        ),
        Metric("kailab_invariant_violations_total", "Violations so far.", "counter", ("invariant",)),
        Metric("kailab_invariant_evaluated", "Whether the invariant can be evaluated now.", labels=("invariant",)),
        Metric("kailab_objects", "Objects that are watched, by kind.", labels=("kind",)),
        Metric("kailab_kind_up_to_date", "Whether the watch of a kind works.", labels=("kind",)),
        Metric("kailab_evaluation_timestamp_seconds", "Time of the last evaluation, in seconds since 1970."),
        Metric("kailab_evaluation_duration_seconds", "Duration of the last evaluation."),
        Metric("kailab_canary_bound_seconds", "Seconds until KAI bound a canary pod.", "histogram", ("queue",)),
        Metric("kailab_canary_failures_total", "Canary pods that KAI did not bind in time.", "counter", ("queue",)),
        Metric("kailab_api_requests_total", "Requests to the API server.", "counter", ("verb",)),
        Metric("kailab_api_received_bytes_total", "Bytes of the API server's answers.", "counter"),
        Metric("process_resident_memory_bytes", "Resident memory of this process."),
        Metric("process_cpu_seconds_total", "CPU time of this process.", "counter"),
        Metric("process_start_time_seconds", "Start of this process, in seconds since 1970."),
    )
    made.set("kailab_build_info", 1, VERSION, platform.python_version())
    made.set("process_start_time_seconds", time.time())
    for invariant in INVARIANTS:
        made.add("kailab_invariant_violations_total", 0, invariant.id)
    return made


class Exporter:
    """The metrics of one watcher of one cluster. ``publish`` is called in the watching thread, the rest in any."""

    def __init__(self, log: JsonLog, api: CountedTransport) -> None:
        self.metrics = metrics()
        self.ready = False
        """Whether every kind was answered."""
        self.leaf_queues: tuple[str, ...] = ()
        """Queues without children, as of the last ``publish``."""
        self._log = log
        self._api = api
        self._published = float("-inf")
        self._answered = time.monotonic()
        self._kai_version = ""
        self._lasting: dict[tuple[str, str], Violation] = {}

    @property
    def healthy(self) -> bool:
        """Whether the watching thread is alive, and the API server has answered in the last ten minutes."""
        now = time.monotonic()
        return now - self._published < _HUNG_SECONDS and now - self._answered < _BLIND_SECONDS

    def violation(self, violation: Violation) -> None:
        """Count and log a new violation."""
        self.metrics.add("kailab_invariant_violations_total", 1, violation.rule)
        self._log("violation", **to_json(violation), **self._cause(violation))

    def bound(self, queue: str, seconds: float) -> None:
        """Record that a canary pod was bound."""
        self.metrics.observe("kailab_canary_bound_seconds", seconds, queue)
        self.metrics.add("kailab_canary_failures_total", 0, queue)

    def failed(self, queue: str, error: LabError) -> None:
        """Record and log that a canary pod was not bound."""
        self.metrics.add("kailab_canary_failures_total", 1, queue)
        self._log("canary failed", queue=queue, what=error.what, evidence=error.evidence)

    def publish(self, watcher: Watcher) -> None:
        """Update the metrics, at most once a second."""
        now = time.monotonic()
        if now - self._published < PUBLISH_SECONDS:
            return
        self._published = now
        made, evaluator = self.metrics, watcher.evaluators[""]
        if evaluator.scope.kai_version != self._kai_version:
            self._kai_version = evaluator.scope.kai_version
            self._log("kai version", version=self._kai_version)
            made.replace("kailab_kai_info", {(self._kai_version,): 1})
        if watcher.synced != self.ready:
            self.ready = watcher.synced
            self._log("synced", objects=evaluator.counts())
        self._publish_violations(watcher)
        for invariant in INVARIANTS:
            made.set("kailab_invariant_evaluated", not evaluator.not_evaluated_now(invariant), invariant.id)
        counts = evaluator.counts()
        self._answered = now if counts else self._answered
        made.replace("kailab_objects", {(kind,): number for kind, number in counts.items()})
        made.replace("kailab_kind_up_to_date", {(kind,): kind in counts for kind in evaluator.kinds})
        if evaluator.look_seconds:
            made.set("kailab_evaluation_timestamp_seconds", time.time() - (now - evaluator.looked))
            made.set("kailab_evaluation_duration_seconds", evaluator.look_seconds)
        self.leaf_queues = evaluator.leaf_queues()
        made.replace("kailab_api_requests_total", {(verb,): float(n) for verb, n in dict(self._api.requests).items()})
        made.set("kailab_api_received_bytes_total", self._api.received)
        made.set("process_resident_memory_bytes", _resident_bytes())
        made.set("process_cpu_seconds_total", time.process_time())

    def _publish_violations(self, watcher: Watcher) -> None:
        lasting = {(one.rule, one.subject): one for one in watcher.lasting}
        for key, ended in self._lasting.items():
            if key not in lasting:
                self._log("violation ended", rule=ended.rule, subject=ended.subject, since=ended.since)
        self._lasting = lasting
        series: Counter[Labels] = Counter({(invariant.id, "", "", ""): 0 for invariant in INVARIANTS})
        for violation in lasting.values():
            cause = self._cause_of(violation)
            proven = str(cause.proven).lower() if cause.defects else ""
            series[violation.rule, ",".join(cause.defects), ",".join(cause.cured_in), proven] += 1
        self.metrics.replace("kailab_invariant_violations", series)

    def _cause_of(self, violation: Violation) -> Cause:
        return cause_of(violation, self._kai_version)

    def _cause(self, violation: Violation) -> dict[str, object]:
        cause = self._cause_of(violation)
        return {"kai_version": self._kai_version, "defects": cause.defects, "cured_in": cause.cured_in}


def _resident_bytes() -> int:
    """Resident memory of this process (proc_pid_statm(5)); 0 where the kernel does not report it."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0

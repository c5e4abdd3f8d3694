"""The neighbour monitor: latency figures, guarded pods, and the probe pods it times over a scripted feed."""

from __future__ import annotations

import math
import queue
import threading
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from lab.errors import ApiFailed, WaitTimeout
from lab.kube.informers import InformerEvent
from tests.e2e.noisy_neighbour.latency import AFTER, BEFORE, DURING, RUNNING, Latency, MonitorReport, Sample, percentile
from tests.e2e.noisy_neighbour.monitor import MARK, Neighbour, NeighbourMonitor
from tests.e2e.noisy_neighbour.pod_guard import PodGuard

Json = dict[str, Any]


def pod(name: str, *, space: str = "team", uid: str = "", ready: bool = True, restarts: int = 0, **more: Any) -> Json:
    status: Json = {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": str(ready)}],
        "containerStatuses": [{"name": "main", "restartCount": restarts, "state": more.pop("state", {})}],
    }
    meta = {"name": name, "namespace": space, "uid": uid or f"uid-{name}", **more.pop("meta", {})}
    return {"kind": "Pod", "metadata": meta, "spec": {"nodeName": "w1"}, "status": {**status, **more}}


# --- figures


@pytest.mark.parametrize(("percent", "value"), [(50, 2.0), (95, 4.0), (100, 4.0), (25, 1.0)])
def test_percentile_is_one_of_the_measured_values(percent: float, value: float) -> None:
    assert percentile([1.0, 2.0, 3.0, 4.0], percent) == value


def test_missed_pod_counts_as_the_limit() -> None:
    assert Latency.of([1.0, None, 2.0], 45.0) == Latency(3, 1, 2.0, 45.0, 45.0)


def test_latency_of_no_pods_is_nan() -> None:
    latency = Latency.of([], 45.0)
    assert (latency.count, latency.missed) == (0, 0)
    assert math.isnan(latency.p50)


def report(before: Iterable[float | None], during: Iterable[float | None]) -> MonitorReport:
    phases = ((BEFORE, before), (DURING, during))
    samples = tuple(Sample("host", phase, value, value) for phase, values in phases for value in values)
    return MonitorReport(45.0, {"host": 3}, samples)


def test_slowdown_compares_medians_with_a_margin() -> None:
    assert report([0.2, 0.2, 9.0], [2.5, 2.5, 40.0]).slowed(3, 2) == ()
    (line,) = report([0.2, 0.2, 0.2], [2.7, 2.7, 2.7]).slowed(3, 2)
    assert line == "host: scheduled p50 2.70 s, 0.20 s before (bound 2.60 s)"


def test_missed_pods_count_as_slowdown() -> None:
    assert report([0.2], [None]).slowed(3, 2, RUNNING)
    assert report([0.2], [None]).unserved(DURING) == ("host: not running within 45 s",)
    assert report([0.2], [None]).unserved(BEFORE) == ()


@pytest.mark.parametrize(("before", "during"), [([], [0.1]), ([0.1], [])])
def test_neighbour_without_samples_counts_as_slowed(before: list[float], during: list[float]) -> None:
    assert len(report(before, during).slowed(3, 2)) == 1


def test_json_has_no_nan() -> None:
    figures = report([0.25], []).as_json()["figures"]["host"]
    assert figures[BEFORE]["scheduled"] == {"count": 1, "missed": 0, "p50": 0.25, "p95": 0.25, "worst": 0.25}
    assert figures[AFTER]["running"]["p50"] is None


# --- guarded pods


def guard(*pods: Json, ignore: Iterable[str] = ()) -> PodGuard:
    pod_guard = PodGuard(frozenset(ignore), MARK)
    assert list(pod_guard.update([("ADDED", obj) for obj in pods])) == []
    pod_guard.start()
    return pod_guard


@pytest.mark.parametrize(
    ("kind", "now", "change"),
    [
        ("DELETED", pod("a"), "is gone (uid uid-a)"),
        ("MODIFIED", pod("a", restarts=1), "restarted: 0 → 1 restarts"),
        ("MODIFIED", pod("a", meta={"deletionTimestamp": "now"}), "is being deleted"),
        ("MODIFIED", pod("a", ready=False), "is no longer Ready"),
        (
            "MODIFIED",
            pod("a", ready=False, state={"waiting": {"reason": "CreateContainerConfigError"}}),
            "is no longer Ready: CreateContainerConfigError",
        ),
        ("MODIFIED", pod("a", ready=False, phase="Failed", reason="Evicted"), "has ended: Failed, Evicted"),
    ],
)
def test_change_of_a_running_pod_is_reported_once(kind: str, now: Json, change: str) -> None:
    watched = guard(pod("a"))
    assert list(watched.update([(kind, now)])) == [("team/a", change)]
    assert list(watched.update([(kind, now)])) == []


def test_recreated_pod_is_reported_as_gone() -> None:
    watched = guard(pod("a", uid="1"))
    changes = [("DELETED", pod("a", uid="1")), ("ADDED", pod("a", uid="2"))]
    assert list(watched.update(changes)) == [("team/a", "is gone (uid 1)")]


def test_changed_labels_are_not_reported() -> None:
    watched = guard(pod("a"))
    assert list(watched.update([("MODIFIED", pod("a", meta={"labels": {"x": "y"}}))])) == []


def test_only_running_pods_are_watched() -> None:
    pod_guard = PodGuard(frozenset(), MARK)
    list(
        pod_guard.update(
            [("ADDED", pod("waits", ready=False)), ("ADDED", pod("ends", meta={"deletionTimestamp": "now"}))]
        )
    )
    assert pod_guard.start() == 0
    assert list(pod_guard.update([("DELETED", pod("waits")), ("DELETED", pod("ends")), ("ADDED", pod("new"))])) == []


def test_pods_of_the_faulty_tenant_and_probe_pods_are_not_watched() -> None:
    small = pod("small", meta={"labels": {MARK: "small"}})
    watched = guard(pod("faulty", space="vcluster-team"), small, pod("a"), ignore=["vcluster-team"])
    gone = [("DELETED", pod("faulty", space="vcluster-team")), ("DELETED", small)]
    assert list(watched.update(gone)) == []
    assert watched.start() == 1


# --- the monitor


class Script:
    """A feed of events queued by the test or the fake namespace."""

    def __init__(self) -> None:
        self.events: queue.SimpleQueue[InformerEvent | Exception] = queue.SimpleQueue()

    def __enter__(self) -> Script:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def take(self, seconds: float) -> InformerEvent | None:
        try:
            item = self.events.get(timeout=min(seconds, 0.05))
        except queue.Empty:
            return None
        if isinstance(item, Exception):
            raise item
        return item


class FakeNamespace:
    """A workload namespace whose pods run as soon as they are submitted, unless ``hold`` is set."""

    def __init__(self, script: Script, source: str) -> None:
        self.script, self.source, self.namespace, self.cluster = script, source, f"t-{source}", self
        self.refuse: ApiFailed | None = None
        self.hold = threading.Event()
        self.deleted: list[str] = []
        self.submitted: list[Json] = []
        self.cleared = False

    def submit(self, *pods: Json) -> None:
        for doc in pods:
            self.submitted.append(doc)
            if self.refuse is not None:
                raise self.refuse
            if not self.hold.is_set():
                made = pod(doc["metadata"]["name"], space=self.namespace, meta={"labels": doc["metadata"]["labels"]})
                self.script.events.put(InformerEvent(self.source, "Pod", (("ADDED", made),)))

    def running(self, *names: str, timeout: float) -> None:
        return None

    def delete(self, kind: str, name: str, namespace: str, grace: int) -> None:
        self.deleted.append(name)

    def clear(self) -> None:
        self.cleared = True


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def namespace(script: Script) -> FakeNamespace:
    return FakeNamespace(script, "host")


@pytest.fixture
def monitor(script: Script, namespace: FakeNamespace) -> NeighbourMonitor:
    script.events.put(InformerEvent("host", "Pod", (("ADDED", pod("works")),), listed=True))
    feed: Callable[[Iterable[Any]], Script] = lambda sources: script  # noqa: E731
    one = Neighbour("host", namespace, "kai-scheduler", "test")  # type: ignore[arg-type]
    return NeighbourMonitor([one], limit=0.2, pause=0.0, feed=feed)


def test_probe_pods_are_timed_per_phase_and_deleted(monitor: NeighbourMonitor, namespace: FakeNamespace) -> None:
    with monitor:
        monitor.gather(2)
        monitor.begin(DURING)
        monitor.gather(3)
        result = monitor.report()
    assert result.watched == {"host": 1}
    assert result.latency("host", BEFORE).count >= 2
    assert result.latency("host", DURING, RUNNING).count >= 3
    assert result.unserved(DURING) == ()
    assert result.findings == ()
    assert {"small-1", "small-2"} <= set(namespace.deleted)
    assert namespace.cleared
    first = namespace.submitted[0]
    assert first["spec"]["schedulerName"] == "kai-scheduler"
    assert first["metadata"]["labels"]["kai.scheduler/queue"] == "test"


def test_pod_that_does_not_run_counts_as_missed(monitor: NeighbourMonitor, namespace: FakeNamespace) -> None:
    namespace.hold.set()
    with monitor:
        monitor.gather(1)
        result = monitor.report()
    assert result.samples[0] == Sample("host", BEFORE, None, None)
    assert result.unserved(BEFORE)[0] == "host: not running within 0.2 s"


def test_rejected_pod_counts_as_missed_with_the_error(monitor: NeighbourMonitor, namespace: FakeNamespace) -> None:
    namespace.refuse = ApiFailed("failed calling webhook")
    with monitor:
        monitor.gather(1)
        result = monitor.report()
    assert result.unserved(BEFORE)[0] == "host: failed calling webhook"


def test_change_of_a_running_pod_is_a_finding_of_its_phase(monitor: NeighbourMonitor, script: Script) -> None:
    with monitor:
        monitor.begin(DURING)
        script.events.put(InformerEvent("host", "Pod", (("DELETED", pod("works")),)))
        script.events.put(InformerEvent("host", "Pod", trouble="cut off"))
        monitor.gather(3)
        result = monitor.report()
    (finding,) = result.findings
    assert (finding.neighbour, finding.phase, finding.pod, finding.change) == (
        "host",
        DURING,
        "team/works",
        "is gone (uid uid-works)",
    )
    assert result.gaps[0].endswith("host: cut off")


def test_gather_raises_errors_of_the_watch(monitor: NeighbourMonitor, script: Script, namespace: FakeNamespace) -> None:
    with monitor:
        script.events.put(ApiFailed("forbidden"))
        with pytest.raises(ApiFailed, match="forbidden"):
            monitor.gather(10_000)
    assert namespace.cleared


def test_neighbour_that_cannot_be_listed_is_an_error(
    namespace: FakeNamespace, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.e2e.noisy_neighbour.monitor.FIRST_SECONDS", 0.1)
    one = Neighbour("host", namespace, None, None)  # type: ignore[arg-type]
    with pytest.raises(WaitTimeout, match="pods are listed"), NeighbourMonitor([one], feed=lambda sources: script):
        pytest.fail("monitoring started")
    assert namespace.cleared

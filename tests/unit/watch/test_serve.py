"""The whole watch against a fake API server: metrics, log, probes, and what it asks of the API."""

from __future__ import annotations

import io
import json
import socket
import struct
import threading
import time
import urllib.request  # noqa: TID251 - a scrape of a server on this machine
from collections.abc import Callable
from typing import Any

import pytest

from lab.errors import LabError
from lab.invariants import ALL
from lab.kube.transport import TransportError
from lab.watch.api_load import CountedTransport
from lab.watch.log import JsonLog
from lab.watch.names import INVARIANTS, KINDS
from lab.watch.serve import WatchSettings, serve
from tests.support.fake_api_server import FakeApiServer
from tests.support.fake_cluster import FakeCluster
from tests.support.invariants_world import node, pod, queue, reservation, share
from tests.support.scrape import scraped

pytestmark = pytest.mark.loopback

SECONDS = 20.0
COMPONENTS = ("binder", "podgrouper", "queue-controller", "scheduler")


def component(app: str, version: str) -> dict[str, Any]:
    """A pod of one of KAI's components."""
    doc = pod(app, namespace="kai-scheduler", scheduler="default-scheduler", labels={"app": app})
    doc["spec"]["containers"] = [{"name": app, "image": f"registry.example/{app}:v{version}"}]
    return doc


class Watch:
    """A running watch."""

    def __init__(self, *docs: dict[str, Any], **settings: Any) -> None:
        self.server = FakeApiServer(*docs)
        self.out = io.StringIO()
        self.stopping = threading.Event()
        self.settings = WatchSettings(port=0, **settings)
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        api = CountedTransport(self.server)
        try:
            serve(FakeCluster(api), api, self.settings, self.stopping, JsonLog(self.out))
        except Exception as error:  # noqa: BLE001 - the test looks at it
            self.error = error

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()

    def events(self, name: str) -> list[dict[str, Any]]:
        """Rows of the log."""
        rows = [json.loads(line) for line in self.out.getvalue().splitlines()]
        return [row for row in rows if row["event"] == name]

    def get(self, path: str) -> tuple[int, str]:
        """GET a path of its server."""
        self.until(lambda: self.events("serving"))
        url = f"http://127.0.0.1:{self.events('serving')[0]['port']}{path}"
        try:
            with urllib.request.urlopen(url, timeout=5) as reply:  # noqa: TID251 - as above
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def metrics(self) -> dict[str, float]:
        """The series of a scrape."""
        return scraped(self.get("/metrics")[1])

    def until(self, holds: Callable[[], object]) -> None:
        """Wait until something holds."""
        pause, end = threading.Event(), time.monotonic() + SECONDS
        while not holds():
            assert time.monotonic() < end, self.out.getvalue()
            assert self.error is None
            pause.wait(0.02)


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.watch.exporter.PUBLISH_SECONDS", 0.0)
    monkeypatch.setattr("lab.invariants.watcher.IDLE_SECONDS", 0.02)
    monkeypatch.setattr("lab.kube.informers.ABSENT_SECONDS", 0.05)
    monkeypatch.setattr("lab.kube.reflector.PAUSE", 0.05)


def violated(invariant: str, defect: str = "", cured_in: str = "", proven: str = "") -> str:
    """The name of a series."""
    labels = f'invariant="{invariant}",defect="{defect}",cured_in="{cured_in}",proven="{proven}"'
    return f"kailab_invariant_violations{{{labels}}}"


HALVES = [share("a", 0.5), share("b", 0.5)]
CLUSTER = [node(), queue("root"), queue("leaf", "root"), reservation(), *HALVES]


@pytest.mark.usefixtures("fast")
def test_every_invariant_has_series_that_begin_at_zero() -> None:
    with Watch(*CLUSTER) as watch:
        watch.until(lambda: watch.events("synced"))
        watch.until(lambda: watch.metrics()['kailab_invariant_evaluated{invariant="gpu-fractions"}'])
        found = watch.metrics()
    for invariant in INVARIANTS:
        assert found[violated(invariant.id)] == 0
        assert found[f'kailab_invariant_violations_total{{invariant="{invariant.id}"}}'] == 0
        assert found[f'kailab_invariant_evaluated{{invariant="{invariant.id}"}}'] == 1
    assert found['kailab_objects{kind="Pod"}'] == 3
    assert found['kailab_kind_up_to_date{kind="Queue"}'] == 1
    assert found["kailab_evaluation_duration_seconds"] > 0
    assert found["kailab_evaluation_timestamp_seconds"] == pytest.approx(time.time(), abs=60)
    assert found["process_resident_memory_bytes"] > 1e6
    assert found["kailab_api_received_bytes_total"] > 1000
    assert found['kailab_api_requests_total{verb="watch"}'] == len(KINDS)
    assert not any(name.startswith(("kailab_kai_info", "kailab_canary")) for name in found)


@pytest.mark.usefixtures("fast")
def test_violation_appears_with_its_defect_and_ends() -> None:
    with Watch(*CLUSTER, *(component(app, "0.14.0") for app in COMPONENTS)) as watch:
        watch.until(lambda: 'kailab_kai_info{version="0.14.0"}' in watch.metrics())
        watch.server.add(share("late", 0.5))
        defects = ["over-packed-on-retry", "counted-in-another-group", "double-reservation"]
        name = violated("gpu-fractions", ",".join(defects), "none,0.14.6", "false")
        watch.until(lambda: watch.metrics().get(name) == 1)
        assert watch.metrics()['kailab_invariant_violations_total{invariant="gpu-fractions"}'] == 1
        watch.server.remove("Pod", "late", "t")
        watch.until(lambda: name not in watch.metrics())
        assert watch.metrics()['kailab_invariant_violations_total{invariant="gpu-fractions"}'] == 1
        assert watch.metrics()[violated("gpu-fractions")] == 0
    (row,) = watch.events("violation")
    assert (row["rule"], row["kai_version"], row["defects"]) == ("gpu-fractions", "0.14.0", defects)
    assert row["cured_in"] == ["none", "0.14.6"]
    assert "known defect of KAI 0.14.0" in row["evidence"][-1]
    assert [one["subject"] for one in watch.events("violation ended")] == [row["subject"]]


@pytest.mark.usefixtures("fast")
def test_without_the_binders_log_each_possible_defect_is_named() -> None:
    with Watch(*CLUSTER, *(component(app, "0.16.8") for app in COMPONENTS)) as watch:
        watch.until(lambda: 'kailab_kai_info{version="0.16.8"}' in watch.metrics())
        watch.server.add(share("late", 0.5, "g2"))
        defects = "reservation-lost-on-retry,reservation-lost-in-storm,counted-in-another-group"
        name = violated("reserved", defects, "none", "false")
        watch.until(lambda: watch.metrics().get(name) == 1)


@pytest.mark.usefixtures("fast")
def test_upgraded_kai_is_noticed() -> None:
    with Watch(*CLUSTER, *(component(app, "0.16.8") for app in COMPONENTS)) as watch:
        watch.until(lambda: 'kailab_kai_info{version="0.16.8"}' in watch.metrics())
        for app in COMPONENTS:
            watch.server.add(component(app, "0.17.0"))
        watch.until(lambda: 'kailab_kai_info{version="0.17.0"}' in watch.metrics())
        assert 'kailab_kai_info{version="0.16.8"}' not in watch.metrics()


@pytest.mark.usefixtures("fast")
def test_canaries_of_all_leaf_queues() -> None:
    with Watch(*CLUSTER, queue("other", "root"), canary_image="watch:1", namespace="kailab-watch", interval=0.05) as w:

        def bound(call: Any) -> None:
            if w.server.get("Pod", call.name, "kailab-watch"):
                w.server.change("Pod", call.name, "kailab-watch", spec={"nodeName": "w1"})

        w.server.after("create", "Pod", bound)
        w.server.fail("create", "Pod", *[(403, "quota")] * 3, name="canary-other")
        w.until(lambda: w.metrics().get('kailab_canary_bound_seconds_count{queue="leaf"}', 0) >= 1)
        w.until(lambda: w.metrics().get('kailab_canary_failures_total{queue="other"}', 0) >= 1)
        assert w.metrics()['kailab_canary_failures_total{queue="leaf"}'] == 0
        w.server.cluster.patience = 0.01
    assert w.events("canary failed")[0]["queue"] == "other"
    assert w.server.of_kind("Pod", "kailab-watch") == []


@pytest.mark.usefixtures("fast")
def test_it_only_lists_and_watches_its_kinds() -> None:
    with Watch(*CLUSTER) as watch:
        watch.until(lambda: watch.events("synced"))
        watch.until(lambda: len(watch.server.calls_of("watch")) == len(KINDS))
    assert {(call.verb, call.kind) for call in watch.server.calls} == {
        (verb, kind) for verb in ("list", "watch") for kind in KINDS
    }
    assert {kind for one in ALL if not one.tenant_needs for kind in one.needs} == set(KINDS)


@pytest.mark.usefixtures("fast")
def test_probes() -> None:
    with Watch(*CLUSTER) as watch:
        watch.until(lambda: watch.get("/readyz")[0] == 200)
        assert watch.get("/healthz") == (200, "ok\n")
        assert watch.get("/else")[0] == 404


@pytest.mark.usefixtures("fast")
def test_scrape_that_is_cut_leaves_no_trace(capsys: pytest.CaptureFixture[str]) -> None:
    with Watch(*CLUSTER) as watch:
        watch.until(lambda: watch.events("serving"))
        for _ in range(5):
            with socket.create_connection(("127.0.0.1", watch.events("serving")[0]["port"])) as cut:
                cut.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # close by a reset
                cut.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        assert watch.get("/healthz")[0] == 200
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.usefixtures("fast")
def test_silent_api_server_is_not_ready_but_alive() -> None:
    watch = Watch(*CLUSTER)
    watch.server.alive = False
    with watch:
        assert watch.get("/readyz") == (503, "not every kind has been listed\n")
        assert watch.get("/healthz")[0] == 200
        watch.server.alive = True
        watch.until(lambda: watch.get("/readyz")[0] == 200)


@pytest.mark.usefixtures("fast")
def test_refused_kind_is_not_up_to_date_and_its_invariants_not_evaluated() -> None:
    watch = Watch(*CLUSTER)
    watch.server.fail("list", "ConfigMap", *[(403, "forbidden")] * 99)
    with watch:
        watch.until(lambda: watch.events("synced"))
        watch.until(lambda: watch.metrics()['kailab_invariant_evaluated{invariant="gpu-fractions"}'])
        found = watch.metrics()
    assert found['kailab_kind_up_to_date{kind="ConfigMap"}'] == 0
    assert 'kailab_objects{kind="ConfigMap"}' not in found
    assert found['kailab_invariant_evaluated{invariant="gpu-given"}'] == 0


@pytest.mark.usefixtures("fast")
def test_untrusted_api_server_is_asked_again_after_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Watch()
    watch.server.fail("*", "*", *[TransportError("CERTIFICATE", tls=True)] * 99)
    with watch:
        watch.until(lambda: watch.events("synced"))
        assert watch.get("/healthz")[0] == 200
        monkeypatch.setattr("lab.watch.exporter._BLIND_SECONDS", 0.0)
        assert watch.get("/healthz")[0] == 503
        assert not any(watch.metrics()[f'kailab_kind_up_to_date{{kind="{kind}"}}'] for kind in KINDS)


def test_taken_port_is_an_error() -> None:
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        api = CountedTransport(FakeApiServer())
        settings = WatchSettings(port=taken.getsockname()[1])
        with pytest.raises(LabError, match="cannot be used"):
            serve(FakeCluster(api), api, settings, threading.Event(), JsonLog(io.StringIO()))

from __future__ import annotations

import threading

import pytest

from lab.errors import ApiFailed, WaitTimeout
from lab.steps.kai.upgrade import downtime_probe
from lab.steps.kai.upgrade.downtime_probe import NAME, RUNNING, SCHEDULED, DowntimeProbe
from lab.workloads.namespace import WorkloadNamespace
from tests.support.builders import running_pod
from tests.support.fake_api_server import FakeApiServer
from tests.support.kai_install import DENIED
from tests.support.tenant_kai_world import placed


def space(api: FakeApiServer) -> WorkloadNamespace:
    return WorkloadNamespace("demo", api.cluster, api.cluster, "t-trial-1", image="mirror.example/probe:2")


DOWN = (500, "failed calling webhook: no endpoints available")


def test_pod_creation_is_retried_until_the_webhooks_answer() -> None:
    api = FakeApiServer()
    api.fail("create", "Pod", DOWN, DOWN)
    api.after("watch", "Pod", lambda _: api.add(placed(running_pod(NAME, "t-trial-1", labels={}))))
    milestones: list[str] = []
    with DowntimeProbe(api.cluster, "demo", space(api), "test", milestones.append) as probe:
        probe.result()
    assert milestones == [SCHEDULED, RUNNING]
    (container,) = api.calls_of("create", "Pod")[-1].body["spec"]["containers"]
    assert container["image"] == "mirror.example/probe:2", "the nodes of others pull it from there"
    assert api.cluster.pauses.slept == pytest.approx(0.5)


def test_denied_pod_creation_is_not_retried() -> None:
    api = FakeApiServer()
    api.fail("create", "Pod", DENIED)
    with (
        DowntimeProbe(api.cluster, "demo", space(api), "test", lambda name: None) as probe,
        pytest.raises(ApiFailed) as caught,
    ):
        probe.result()
    assert caught.value.status == 403
    assert DENIED[1] in caught.value.what


def test_pods_are_repeated_until_the_change_has_ended() -> None:
    """The pod that waits longest counts, also one that is never scheduled."""
    api, created = FakeApiServer(), threading.Event()

    def start(_: object) -> None:
        created.set()
        api.add(placed(running_pod(NAME, "t-trial-1", labels={})))

    api.after("create", "Pod", start)
    with DowntimeProbe(api.cluster, "demo", space(api), "test", lambda name: None, repeat=True) as probe:
        assert created.wait(10)
        probe.result()
        assert 0 < probe.longest < 10
    assert api.get("Pod", NAME, "t-trial-1") is None


def test_pod_that_is_never_scheduled_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downtime_probe, "_RESULT_SECONDS", 0.05)
    api = FakeApiServer()
    api.cluster.patience = 5.0
    with DowntimeProbe(api.cluster, "demo", space(api), "test", lambda name: None, repeat=True) as probe:
        with pytest.raises(WaitTimeout, match="no new pod runs"):
            probe.result()
        assert probe.longest >= 0.05

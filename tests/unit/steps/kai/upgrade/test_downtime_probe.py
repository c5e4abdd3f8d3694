from __future__ import annotations

import pytest

from lab.errors import ApiFailed
from lab.steps.kai.upgrade.downtime_probe import NAME, RUNNING, SCHEDULED, DowntimeProbe
from tests.support.builders import running_pod
from tests.support.fake_api_server import FakeApiServer
from tests.support.kai_install import DENIED
from tests.support.tenant_kai_world import placed

DOWN = (500, "failed calling webhook: no endpoints available")


def test_pod_creation_is_retried_until_the_webhooks_answer() -> None:
    api = FakeApiServer()
    api.fail("create", "Pod", DOWN, DOWN)
    api.after("watch", "Pod", lambda _: api.add(placed(running_pod(NAME, "t-trial-1", labels={}))))
    milestones: list[str] = []
    with DowntimeProbe(api.cluster, "demo", ("t-trial-1", "test"), milestones.append) as probe:
        probe.result()
    assert milestones == [SCHEDULED, RUNNING]
    assert api.cluster.pauses.slept == pytest.approx(0.5)


def test_denied_pod_creation_is_not_retried() -> None:
    api = FakeApiServer()
    api.fail("create", "Pod", DENIED)
    with (
        DowntimeProbe(api.cluster, "demo", ("t-trial-1", "test"), lambda name: None) as probe,
        pytest.raises(ApiFailed) as caught,
    ):
        probe.result()
    assert caught.value.status == 403
    assert DENIED[1] in caught.value.what

from __future__ import annotations

import pytest

from lab.errors import ApiFailed
from lab.tenants.upgrade.downtime_probe import RUNNING, SCHEDULED, DowntimeProbe
from tests.support.tenant_kai_world import TenantFake
from tests.unit.steps.kai.test_step import DENIED

DOWN = ApiFailed("POST Pod: failed calling webhook: no endpoints available", status=500)


def test_the_first_pod_is_sent_until_the_webhooks_answer() -> None:
    fake = TenantFake([])
    fake.first_refusals = [DOWN, DOWN]
    fake.installed.set()
    noted: list[str] = []
    with DowntimeProbe(fake, "demo", "test", noted.append) as first:  # type: ignore[arg-type]
        first.result()
    assert noted == [SCHEDULED, RUNNING]
    assert fake.slept == pytest.approx(0.5)


def test_the_first_pod_takes_no_for_an_answer() -> None:
    fake = TenantFake([])
    fake.first_refusals = [DENIED]
    with (
        DowntimeProbe(fake, "demo", "test", lambda name: None) as first,  # type: ignore[arg-type]
        pytest.raises(ApiFailed) as caught,
    ):
        first.result()
    assert caught.value is DENIED

"""``kailab try`` on a fake cluster that schedules as many halves of a GPU as fit."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lab.errors import WaitTimeout
from lab.operations import trial
from lab.operations.trial import NAMESPACE, try_out
from tests.support.api_requests import Call
from tests.support.fake_api_server import FakeApiServer


class Kai:
    """Runs two pods, and refuses others; ``lazy``: decides nothing."""

    def __init__(self, api: FakeApiServer) -> None:
        self.api, self.running, self.lazy = api, 0, False
        api.put("ServiceAccount", "default", NAMESPACE)
        api.after("create", "Pod", self.decide)

    def decide(self, call: Call) -> None:
        if self.lazy:
            return
        fits = self.running < 2
        self.running += fits
        condition = {"type": "Ready" if fits else "PodScheduled", "status": "True" if fits else "False"}
        status = {"phase": "Running" if fits else "Pending", "conditions": [condition]}
        self.api.change("Pod", call.body["metadata"]["name"], NAMESPACE, status=status)


@pytest.fixture
def api() -> FakeApiServer:
    return FakeApiServer()


@pytest.fixture
def lab(api: FakeApiServer, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(trial.GpuSource, "of", lambda ctx: SimpleNamespace(read=lambda: "map"))
    monkeypatch.setattr(trial, "read", lambda lab: "snapshot")
    monkeypatch.setattr(trial, "explained", lambda *asked: asked)
    return SimpleNamespace(spec=SimpleNamespace(name="try"), cluster=api.cluster, context=lambda step: None)


def test_two_halves_run_and_a_third_waits(api: FakeApiServer, lab: Any) -> None:
    Kai(api)
    found = try_out(lab)
    assert (found.gpus, found.explanation) == ("map", ("snapshot", "third", "try"))
    pods = {pod["metadata"]["name"]: pod for pod in api.of_kind("Pod", NAMESPACE)}
    assert list(pods) == ["first", "second", "third"]
    assert {pod["metadata"]["annotations"]["gpu-fraction"] for pod in pods.values()} == {"0.5"}
    namespace = api.get("Namespace", NAMESPACE)
    assert namespace is not None
    assert namespace["metadata"]["labels"]["kailab"] == "try"


def test_a_second_call_submits_nothing(api: FakeApiServer, lab: Any) -> None:
    Kai(api)
    try_out(lab)
    before = len(api.calls_of("create", "Pod"))
    try_out(lab)
    assert len(api.calls_of("create", "Pod")) == before == 3


def test_pods_that_do_not_run_are_an_error(api: FakeApiServer, lab: Any) -> None:
    Kai(api).lazy = True
    lab.cluster.patience = 0.1
    with pytest.raises(WaitTimeout, match="pods first, second: Ready"):
        try_out(lab)

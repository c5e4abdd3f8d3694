"""Early probes of KAI's pods."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lab.steps.early_probes import ANNOTATION, early_probes
from lab.steps.kai.release import NAMESPACE
from tests.support.fakes import FakeRunner
from tests.support.kai_install import kai_world


def pod(name: str, *, started: float | None, ready: bool = False) -> dict[str, Any]:
    """A pod whose container started so many seconds ago; None: it waits."""
    at = (datetime.now(UTC) - timedelta(seconds=started or 0)).isoformat(timespec="seconds")
    state = {"waiting": {"reason": "ContainerCreating"}} if started is None else {"running": {"startedAt": at}}
    status = {"name": "main", "containerID": f"containerd://{name}", "state": state, "ready": ready}
    return {
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"containers": [{"name": "main", "readinessProbe": {"initialDelaySeconds": 5}}]},
        "status": {"containerStatuses": [status]},
    }


def test_pod_is_touched_once_its_initial_delay_is_over(runner: FakeRunner, tmp_path: Path) -> None:
    world = kai_world(runner, tmp_path)
    pods = [
        pod("due", started=10),
        pod("ready", started=10, ready=True),
        pod("starting", started=None),
        pod("later", started=0),
    ]
    for one in pods:
        world.api.put("Pod", one["metadata"]["name"], NAMESPACE)

    def touched() -> list[str]:
        found = {name: doc["metadata"] for (kind, _, name), doc in world.api.objects.items() if kind == "Pod"}
        return [name for name, meta in found.items() if ANNOTATION in meta.get("annotations", {})]

    with early_probes(world.ctx.cluster(), NAMESPACE) as probes:
        probes.see(pods)
        probes.see(pods)
        deadline = time.monotonic() + 5
        while not touched() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert touched() == ["due"]


def test_pod_is_probed_again_until_it_is_ready(
    runner: FakeRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lab.steps.early_probes._INTERVAL", 0.01)
    world = kai_world(runner, tmp_path)
    world.api.put("Pod", "slow", NAMESPACE)
    with early_probes(world.ctx.cluster(), NAMESPACE) as probes:
        probes.see([pod("slow", started=10)])
        deadline = time.monotonic() + 5
        while len(world.api.calls_of("patch")) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
        probes.see([pod("slow", started=10, ready=True)])
        time.sleep(0.05)
        count = len(world.api.calls_of("patch"))
        time.sleep(0.1)
        assert len(world.api.calls_of("patch")) == count >= 3


def test_pod_that_is_gone_does_not_matter(runner: FakeRunner, tmp_path: Path) -> None:
    world = kai_world(runner, tmp_path)
    with early_probes(world.ctx.cluster(), NAMESPACE) as probes:
        probes.see([pod("gone", started=10)])
        time.sleep(0.1)
    assert not [key for key in world.api.objects if key[0] == "Pod"]

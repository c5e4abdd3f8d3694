"""The program that compares predictions with KAI on a lab: what needs no lab."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lab.objects.views import PodView
from lab.session.lab import Lab
from scripts import can_run_cases
from scripts.can_run_cases import Calm, random_situation, scheduler_period

Json = dict[str, Any]


def test_a_seed_is_one_situation() -> None:
    assert random_situation("7", 8, 3) == random_situation("7", 8, 3)
    assert random_situation("7", 8, 3) != random_situation("8", 8, 3)


def test_calm_begins_again_with_each_change(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(can_run_cases, "time", SimpleNamespace(monotonic=lambda: now))
    pending = (PodView.of({"metadata": {"name": "a"}, "spec": {}}),)
    bound = (PodView.of({"metadata": {"name": "a"}, "spec": {"nodeName": "n"}}),)
    calm = Calm(1.5)
    assert not calm.lasts(pending)
    now += 1.4
    assert not calm.lasts(pending)
    assert not calm.lasts(bound)
    now += 1.4
    assert not calm.lasts(bound)
    now += 0.1
    assert calm.lasts(bound)


def test_the_period_is_waited_for_and_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    flags = ["--namespace=kai-scheduler"]
    seen: list[str] = []

    @contextmanager
    def changed(cluster: object, lab: str, kind: str, name: str, change: Json) -> Iterator[None]:
        flags.extend(f"--{flag}={value}" for flag, value in change["spec"]["args"].items())
        yield
        flags.pop()

    def deployment(arguments: list[str]) -> Json:
        status = {"replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1}
        containers = [{"args": arguments}]
        return {
            "kind": "Deployment",
            "metadata": {"generation": 1},
            "spec": {"replicas": 1, "template": {"spec": {"containers": containers}}},
            "status": {"observedGeneration": 1, **status},
        }

    def wait(kind: str, done: Callable[[list[Json]], bool], *, fields: str, what: str, **_: object) -> None:
        assert (kind, fields) == ("Deployment", "metadata.name=kai-scheduler-default")
        assert done([deployment(list(flags))])
        assert not done([])
        seen.append(what)

    monkeypatch.setattr(can_run_cases, "changed", changed)
    lab = SimpleNamespace(kai_version="0.16.8", spec=SimpleNamespace(name="l"), cluster=SimpleNamespace(wait=wait))
    with scheduler_period(cast("Lab", lab), 0.3):
        assert seen == ["KAI's scheduler runs with --schedule-period=300ms"]
    assert seen[1:] == ["KAI's scheduler runs as it did before"]

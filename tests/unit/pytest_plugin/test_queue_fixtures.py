"""The fixture ``new_queues``: workloads and pods are deleted before their queues."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from lab.steps import queues
from tests.support.fake_lab import FakeLab, Run, runner

pytest_plugins = ["pytester"]


@pytest.fixture
def lab() -> FakeLab:
    return FakeLab()


@pytest.fixture
def run(pytester: pytest.Pytester, lab: FakeLab, monkeypatch: pytest.MonkeyPatch) -> Run:
    @contextmanager
    def temporary(cluster: Any, lab_name: str, tree: tuple[Any, ...], *, top: str) -> Iterator[dict[str, str]]:
        lab.api.brief.append(f"{lab_name}: make {len(tree)}{top}")
        yield {"leaf": "t-leaf-1"}
        lab.api.brief.append("remove queues")

    monkeypatch.setattr(queues, "temporary_queues", temporary)
    return runner(pytester, lab, monkeypatch)


@pytest.mark.parametrize("fixtures", ["workloads, new_queues", "new_queues, workloads"])
def test_pods_are_deleted_before_queues_in_any_fixture_order(run: Run, lab: FakeLab, fixtures: str) -> None:
    done = run(
        f"""
        def test_it({fixtures}):
            assert new_queues(1, 2) == {{"leaf": "t-leaf-1"}}
        """
    )
    done.assert_outcomes(passed=1)
    assert lab.api.brief == [
        "create Namespace",
        "demo: make 2",
        "delete all Deployment grace None",
        "delete all Job grace None",
        "delete all Pod grace 0",
        "delete all PodGroup grace None",
        "list Pod",
        "remove queues",
        "delete all Pod grace 0",
        "delete all PodGroup grace None",
        "list Pod",
        "delete Namespace",
    ]


def test_unused_fixture_creates_no_queues(run: Run, lab: FakeLab) -> None:
    run("def test_it(new_queues): pass").assert_outcomes(passed=1)
    assert lab.api.brief == []

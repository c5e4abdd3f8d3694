"""A rehearsal of KAI, in a tenant or on the host, with configurable results."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from lab.config import KaiSpec, LabSpec, QueueSpec
from lab.engine.milestones import Milestone
from lab.errors import LabError, SpecError
from lab.invariants import ALL, InvariantReport, InvariantResult, Violation
from lab.operations.kai import rehearse as rehearsal
from lab.operations.kai.cluster_kai import ClusterKai
from lab.paths import LabPaths
from lab.session.kai_changes import WantedKai, last_change
from lab.steps.kai.upgrade.change import READY, SCHEDULED, Change
from lab.steps.kai.upgrade.rehearsal_result import Suites
from lab.steps.kai.upgrade.smoke_test import SmokeTest
from lab.steps.kai.upgrade.uninstall import REINSTALL
from lab.steps.kai.upgrade.workload_snapshot import SnapshotDiff, WorkloadSnapshot
from tests.support.fakes import FakeRunner
from tests.support.workload_snapshots import BEFORE

PASSED = (SmokeTest("cpu", 2.0), SmokeTest("gpu", 3.0), SmokeTest("fraction", 5.0))
OLD = replace(BEFORE, kai="0.9.8")


class FakeWatcher:
    """Invariants that hold, or those in ``Bench.violated``."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self.trouble = bench, bench.watch_trouble

    def __enter__(self) -> FakeWatcher:
        return self

    def __exit__(self, *error: object) -> None:
        self.bench.log.append("watch ends")

    def run(self, until: object) -> None: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def settle(self, limit: float) -> None: ...

    def report(self) -> InvariantReport:
        results = (InvariantResult(ALL[0], "", self.bench.violated),)
        return InvariantReport(datetime.now(UTC), 9.0, results)


class FakeKai(ClusterKai):
    """KAI of a cluster, with a wanted version and no checks."""

    bench: Bench

    @property
    def cluster(self) -> Any:
        return None

    @property
    def where(self) -> str:
        return f"tenant {self.tenant}" if self.tenant else "lab demo"

    @property
    def rollback(self) -> str:
        return "kailab kai rollback"

    def wanted(self) -> WantedKai:
        return self.bench.wanted

    def context(self, wanted: WantedKai) -> Any:
        spec = SimpleNamespace(kai=wanted.kai, queues=(), leaf_queues=())
        return SimpleNamespace(spec=spec, wanted=wanted, progress=lambda text: None)

    def check(self, wanted: WantedKai) -> None:
        if self.bench.refuses:
            raise SpecError("no")

    def save(self, wanted: WantedKai) -> None: ...

    @property
    def scopes(self) -> tuple[Any, ...]:
        return ()

    @contextlib.contextmanager
    def namespace(self, slug: str) -> Any:
        self.bench.log.append(f"namespace {slug}")
        removed = self.bench.removed
        yield SimpleNamespace(namespace=f"t-{slug}-1", remove=removed.append)
        self.bench.log.append(f"no namespace {slug}")


class Bench:
    """A lab with KAI 0.9.8 in tenant ``ml``, or on the host, and a rehearsal with configurable results."""

    def __init__(self, patch: pytest.MonkeyPatch, runner: FakeRunner, tenant: str) -> None:
        self.paths = LabPaths("demo")
        self.paths.root.mkdir(parents=True)
        self.log: list[str] = []
        self.removed: list[str] = []
        self.refuses = False
        self.old_works = True
        self.wanted = wanted("0.9.8")
        self.changes: list[LabError | SnapshotDiff] = []
        self.problems: tuple[str, ...] = ()
        self.snapshots: list[WorkloadSnapshot] = [OLD]
        self.smoke_tests = PASSED
        self.loaded = (SmokeTest("gang", 1.0), SmokeTest("fractions", 2.0), SmokeTest("gpu", 2.0))
        self.suites = Suites(ran=True, summary="4 passed", passed=4)
        self.violated: tuple[Violation, ...] = ()
        self.watch_trouble: Exception | None = None
        self.lab: Any = SimpleNamespace(
            spec=LabSpec(name="demo"),
            paths=self.paths,
            runner=runner,
            session=SimpleNamespace(locked=contextlib.nullcontext),
        )
        self.kai = FakeKai(self.lab, tenant)
        FakeKai.bench = self
        self.queues: list[tuple[list[str | None], str]] = []
        patch.setattr(rehearsal, "change_kai", self.change)
        patch.setattr(rehearsal, "_works", lambda kai, version: self.old_works)
        patch.setattr(rehearsal, "remove_abandoned", lambda lab: ())
        patch.setattr(rehearsal, "Watcher", lambda scopes: FakeWatcher(self))
        patch.setattr(rehearsal, "take_snapshot", lambda cluster: self.snapshot())
        patch.setattr(rehearsal, "smoke_test_queue", lambda spec: "test")
        patch.setattr(rehearsal, "run_smoke_tests", lambda place, queue, line, sharing: self.smoke_tests)
        patch.setattr(rehearsal, "start_load", lambda place, queue, line, sharing: self.loaded)
        patch.setattr(rehearsal, "temporary_queues", self.temporary_queues)
        patch.setattr(rehearsal, "run_suites", self.run_suites)

    def temporary_queues(
        self, cluster: object, lab: str, queues: tuple[QueueSpec, ...], *, top: str
    ) -> contextlib.AbstractContextManager[dict[str, str]]:
        self.queues.append(([queue.parent for queue in queues], top))
        return contextlib.nullcontext({"rehearsal": "t-rehearsal-1"})

    @property
    def versions(self) -> list[str]:
        """The versions that KAI was changed to."""
        return [line for line in self.log if line[0].isdigit()]

    def run_suites(self, lab: object, tenant: str) -> Suites:
        self.log.append(f"suites {tenant}")
        return self.suites

    def snapshot(self) -> WorkloadSnapshot:
        return self.snapshots.pop(0) if len(self.snapshots) > 1 else self.snapshots[0]

    def change(self, ctx: Any, *, tenant: str, save: object, space: Any, queue: str) -> Change:
        version = ctx.wanted.version
        self.log.append(version)
        last = last_change(self.paths, tenant)
        assert last is not None, "the wanted version is recorded before any change"
        assert last.wanted.version == version
        assert space.namespace == "t-trial-1"
        outcome = self.changes.pop(0) if self.changes else SnapshotDiff(kept=2)
        if isinstance(outcome, LabError):
            raise outcome
        milestones = (Milestone(SCHEDULED, 11.5), Milestone(READY, 14.0))
        problems = () if version == "0.9.8" else self.problems
        return Change(tenant, OLD.kai, version, REINSTALL, milestones, OLD, outcome, problems)


def wanted(version: str, **more: Any) -> WantedKai:
    return WantedKai(KaiSpec(version=version, **more))

"""Injects every fault of ``faults.py`` into a running lab, and checks that its tests fail.

Before that, each of these tests runs without a fault, under the same limit, and must pass. A fault is injected once for
all of its suites, and undone before the next. The results go to a JSON file, from which an interrupted run continues.
Exit code 1: a fault was missed, or a suite failed without one; 15: no fault was tried.

The lab must be named, and nothing else may use it: it is broken on purpose, again and again.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from lab.errors import Busy, CommandFailed, LabError, NotProven, SpecError
from lab.kube import OWNER_LABEL
from lab.pytest_plugin.fixtures import kai_lacks
from lab.session.lab import Lab
from lab.steps.queues import KIND as QUEUE
from lab.steps.queues import TEST_LABEL, delete_queues
from lab.tools.lock import file_lock
from lab.workloads.temporary import LOCK_HELD, lab_lock_file
from scripts.fault_injection.faults import FAULTS
from scripts.fault_injection.results import BROKEN, CAUGHT, CONTROL, IDLE, Ran, Record, Trial, bad, show, verdict
from scripts.fault_injection.seeding import Fault
from tests.e2e.kai_components import wait_until_up

ROOT = Path(__file__).parents[2]

WAIT_LIMIT = "KAILAB_WAIT_LIMIT"
"""Seconds at most for any wait of the suites (lab/kube/wait.py)."""

SUITE_SECONDS = 600.0
UNDO_SECONDS = 120.0
Objects = dict[str, dict[str, Any]]


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lab", metavar="NAME", help="the lab to break")
    parser.add_argument("--fault", action="append", metavar="ID", help="only this fault (may be repeated)")
    parser.add_argument("--suite", action="append", metavar="NAME", help="only this suite, such as test_reclaim.py")
    parser.add_argument("--limit", type=float, default=30.0, metavar="S", help="seconds for each wait (default: 30)")
    parser.add_argument(
        "--json", type=Path, default=ROOT / "artifacts" / "faults.json", metavar="FILE", help="the results"
    )
    parser.add_argument("--again", action="store_true", help="discard the results of an earlier run")
    parser.add_argument("--list", action="store_true", help="print the faults and their tests, and exit")
    return parser.parse_args(argv)


def chosen(faults: Sequence[str] | None, suites: Sequence[str] | None) -> list[tuple[Fault, dict[str, str]]]:
    """The faults and, for each, its suites and tests. Raises SystemExit: an unknown name."""
    names = {name.removesuffix(".py") + ".py" for name in suites or ()}
    known = {suite for fault in FAULTS for suite in fault.reds}
    unknown = (set(faults or ()) - {fault.id for fault in FAULTS}) | (names - known)
    if unknown:
        raise SystemExit(f"unknown: {', '.join(sorted(unknown))} (--list shows the known names)")
    picked = [
        (fault, {suite: tests for suite, tests in fault.reds.items() if not names or suite in names})
        for fault in FAULTS
        if not faults or fault.id in faults
    ]
    return [(fault, reds) for fault, reds in picked if reds]


class FaultRun:
    """Runs suites with faults on one lab."""

    def __init__(self, lab: Lab, record: Record, limit: float) -> None:
        self.lab = lab
        self.record = record
        self.limit = limit
        self.done: list[Trial] = []
        self.others = self._left()

    def controls(self, plan: Sequence[tuple[Fault, dict[str, str]]]) -> None:
        """Run each test of the plan once without a fault."""
        tests: dict[str, list[str]] = {}
        for _, reds in plan:
            for suite, words in reds.items():
                tests.setdefault(suite, []).append(words)
        for suite, each in tests.items():
            every = "" if "" in each else " or ".join(f"({words})" for words in dict.fromkeys(each))
            if not self.known(CONTROL, suite, every):
                self.attempt(None, suite, every)

    def fault(self, fault: Fault, reds: dict[str, str]) -> None:
        """Run the suites of a fault that have no verdict yet.

        Raises:
            LabError: the fault could not be undone, so the lab stays changed.
        """
        todo = {suite: tests for suite, tests in reds.items() if not self.known(fault.id, suite, tests)}
        if not todo:
            return
        with ExitStack() as seeded:
            try:
                seeded.enter_context(fault.seed(self.lab))
            except LabError as error:
                self.give_up(fault, todo, BROKEN, f"the fault: {error.what}")
            else:
                for suite, tests in todo.items():
                    self.attempt(fault, suite, tests)
        self.tidy()

    def fitting(self, plan: Sequence[tuple[Fault, dict[str, str]]]) -> list[tuple[Fault, dict[str, str]]]:
        """The part of a plan that fits this lab; records the reason for the rest."""
        found = []
        for fault, reds in plan:
            if why := self._lacks(fault):
                self.give_up(fault, {s: t for s, t in reds.items() if not self.known(fault.id, s, t)}, IDLE, why)
            else:
                found.append((fault, reds))
        return found

    def _lacks(self, fault: Fault) -> str:
        modes = {tenant.mode for tenant in self.lab.tenants}
        if fault.tenant and fault.tenant not in modes:
            return f"lab {self.lab.spec.name} has no tenant of mode {fault.tenant}"
        return kai_lacks(self.lab, fault.kai) if fault.kai else ""

    def known(self, fault: str, suite: str, tests: str) -> bool:
        """Whether an earlier run has a verdict, which then counts for this run."""
        trial = self.record.find(fault, suite, tests)
        if trial is not None:
            self.done.append(trial)
        return trial is not None

    def give_up(self, fault: Fault, todo: dict[str, str], word: str, why: str) -> None:
        """Record that a fault could not be tried."""
        for suite, tests in todo.items():
            self.keep(Trial(fault.id, suite, tests, word, 0.0, why))

    def attempt(self, fault: Fault | None, suite: str, tests: str) -> None:
        """Run pytest once and record the verdict."""
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="kailab-faults-") as folder:
            junit = Path(folder, "junit.xml")
            code = self._pytest(suite, tests, junit)
            word, evidence = verdict(code, Ran.of(junit), seeded=fault is not None)
        label = fault.id if fault else CONTROL
        self.keep(Trial(label, suite, tests, word, time.monotonic() - began, evidence))

    def keep(self, trial: Trial) -> None:
        """Record and print a trial."""
        self.record.add(trial)
        self.done.append(trial)
        print(f"{trial.verdict:8} {trial.fault:26} {trial.suite} {trial.tests}  {trial.evidence}", flush=True)

    def tidy(self) -> None:
        """Delete what tests of this run left behind, and wait until KAI is up."""
        cluster = self.lab.cluster
        spaces, queues = self._left()
        for name in spaces.keys() - self.others[0].keys():
            cluster.delete_all("Pod", name, grace=0)
            cluster.delete("Namespace", name, wait=UNDO_SECONDS)
        wait_until_up(self.lab)
        delete_queues(cluster, {name: queue for name, queue in queues.items() if name not in self.others[1]})

    def _left(self) -> tuple[Objects, Objects]:
        """Namespaces and queues of tests by name."""
        cluster = self.lab.cluster
        spaces = cluster.list("Namespace", labels=f"{OWNER_LABEL}={self.lab.spec.name}")
        queues = cluster.list(QUEUE, labels=TEST_LABEL)
        found = [{obj["metadata"]["name"]: obj for obj in objects} for objects in (spaces, queues)]
        return {name: obj for name, obj in found[0].items() if name.startswith("t-")}, found[1]

    def _pytest(self, suite: str, tests: str, junit: Path) -> int:
        argv = [sys.executable, "-m", "pytest", f"tests/e2e/{suite}", "-q", "-x", "-p", "no:cacheprovider"]
        # not kai: tests for other KAI versions are skipped
        argv += ["--lab", self.lab.spec.name, "--lab-require", "gpus,tenants", "--lab-artifacts-seconds", "0"]
        argv += [f"--junitxml={junit}", "--timeout", "300", *(["-k", tests] if tests else [])]
        environment = {
            WAIT_LIMIT: f"{self.limit:g}",
            LOCK_HELD: str(lab_lock_file(self.lab.paths)),
            "PYTEST_ADDOPTS": "",
        }
        try:
            return self.lab.runner.run(argv, env=environment, cwd=ROOT, timeout=SUITE_SECONDS, check=False).code
        except CommandFailed as error:
            return error.code or -1


def main(argv: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    asked = arguments(argv)
    plan = chosen(asked.fault, asked.suite)
    if asked.list:
        for fault, reds in plan:
            print(f"{fault.id}: {fault.what}")
            for suite, tests in reds.items():
                print(f"    {suite}: {tests or 'all tests'}")
        return 0
    if not asked.lab:
        raise SpecError("faults are injected only into a lab that is named", fix="add --lab NAME")
    lab = Lab.attach(asked.lab)
    if not lab.has_kai:
        raise LabError(f"lab {lab.spec.name} has no KAI to inject faults into", fix="kailab up --require kai")
    try:
        with file_lock(lab_lock_file(lab.paths), exclusive=True, wait=False):
            return tried(asked, lab, plan)
    except BlockingIOError as error:
        raise Busy(f"tests run on lab {lab.spec.name}", fix="wait for them, or use another lab") from error


def tried(asked: argparse.Namespace, lab: Lab, plan: Sequence[tuple[Fault, dict[str, str]]]) -> int:
    """Run the faults on a lab that nothing else uses; returns the exit code."""
    record = Record(asked.json, {"lab": lab.spec.name, "kai": str(lab.kai_version)}, fresh=asked.again)
    run = FaultRun(lab, record, asked.limit)
    try:
        served = run.fitting(plan)
        run.controls(served)
        for fault, reds in served:
            run.fault(fault, reds)
    finally:
        show(run.done)
    if bad(run.done):
        return 1
    if not any(trial.verdict == CAUGHT for trial in run.done):
        print("not proven: no fault was tried")
        return NotProven.exit_code
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except LabError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)

"""Watches the lab's invariants during a test run.

One process watches for all; with pytest-xdist that is the controller. A test fails for violations that began while it
ran and that name its namespace, or GPUs that it reserved (``gpu_lock``, ``gpu_node_lease``). Violations that belong to
no test fail the run; in a cluster that others use, those that name no test are reported and fail nothing.

A violation that a known defect of KAI is proven to have caused (``lab.invariants.known_defects``) is reported at the
end and fails nothing; a test that failed because of one is an expected failure.

A test declares violations that it causes on purpose: ``@pytest.mark.disturbs("reason")`` waives all violations in the
lab while it runs alone, ``@pytest.mark.breaks("reserved", reason="…")`` only those invariants on its own pods and GPUs.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from collections.abc import Generator, Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lab.errors import LabError
from lab.invariants import InvariantReport, Violation, Watcher, broken, known
from lab.invariants.run_log import ViolationLog, Waiver, names_a_test, text_of
from lab.operations.verify import scopes_of_lab
from lab.pytest_plugin.gpu_fixtures import LEASED_NODE
from lab.pytest_plugin.invariant_watch import Watch, fail_run
from lab.pytest_plugin.state import ATTACHED, NAMESPACES, uses
from lab.session.lab import Lab

MARKER = "breaks(*invariants, reason): violates these on purpose, on its own pods and GPUs (kailab verify names them)"

DEFECT_SECONDS = known(["bound-as-requested"])[0].grace + 1
"""How long a failed test waits for a violation that explains it: the grace period, and a look."""

_FOLDER = "kailab_watch"
_LOG = pytest.StashKey[ViolationLog]()
_BEGIN = pytest.StashKey[datetime]()
_WAIVERS = pytest.StashKey[tuple[Waiver, ...]]()
_WATCH = pytest.StashKey[Watch]()


def pytest_configure(config: pytest.Config) -> None:
    """Create the folder that the processes of the run share; a worker of pytest-xdist receives its path."""
    config.addinivalue_line("markers", MARKER)
    folder = getattr(config, "workerinput", {}).get(_FOLDER)
    off = config.getoption("lab_no_watch", default=False) or config.getoption("collectonly", default=False)
    if folder:
        config.stash[_LOG] = ViolationLog(Path(folder))
    elif not (off or hasattr(config, "workerinput")):
        config.stash[_LOG] = ViolationLog(Path(tempfile.mkdtemp(prefix="kailab-watch-")))


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the folder."""
    log = config.stash.get(_LOG, None)
    if log is not None and not hasattr(config, "workerinput"):
        shutil.rmtree(log.folder, ignore_errors=True)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Send the folder's path to a worker of pytest-xdist."""
    if (log := node.config.stash.get(_LOG, None)) is not None:
        node.workerinput[_FOLDER] = str(log.folder)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """Watch while the tests run, except in workers of pytest-xdist."""
    lab = _lab_of(session)
    if lab is None:
        return (yield)
    watch = session.config.stash[_WATCH] = Watch(session.config.stash[_LOG], shared=not lab.spec.cluster.own)
    session.config.pluginmanager.register(watch, "kailab-watch")
    try:
        with watch.over(lab):
            return (yield)
    finally:
        if text := watch.failure():
            fail_run(session.config, text)


@pytest.fixture(autouse=True)
def _watched(request: pytest.FixtureRequest) -> Iterator[None]:
    """Record when the test begins and what it waives, and check it again when its pods are gone."""
    item, log = request.node, request.config.stash.get(_LOG, None)
    if log is None or not uses(item, "lab"):
        yield
        return
    # A skipped test does not wait, and violations while a test waits for locks are caused by others.
    for before in ("_needs", "_exclusion", "gpu_lock", "gpu_node_lease"):
        if before in request.fixturenames:
            request.getfixturevalue(before)
    begin = item.stash[_BEGIN] = datetime.now(UTC)
    waivers = item.stash[_WAIVERS] = tuple(_waivers(item, begin))
    for waiver in waivers:
        log.waive(waiver)
    yield
    for waiver in waivers:
        own = None if waiver.spaces is None else _namespaces(item)
        log.waive(replace(waiver, end=datetime.now(UTC), spaces=own))
    _check(item)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail the test for the violations known when its body ends."""
    with _expecting_defects(item):
        result = yield
    _check(item)
    return result


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    """Expect known defects during setup: fixtures start pods, too."""
    with _expecting_defects(item):
        return (yield)


@contextlib.contextmanager
def _expecting_defects(item: pytest.Item) -> Iterator[None]:
    """Turn a failure into an expected one if a known defect of KAI affected the test."""
    try:
        yield
    except (Exception, pytest.fail.Exception) as error:
        if mine := _by_defects(item):
            pytest.xfail(f"known defect {mine[0].defect} of KAI struck: {str(error).partition(chr(10))[0]}")
        raise


def _by_defects(item: pytest.Item) -> list[Violation]:
    """The test's violations by known defects of KAI; waits for the first while its pods are there."""
    log = item.config.stash.get(_LOG, None)
    if log is None:
        return []
    until = time.monotonic() + (DEFECT_SECONDS if _namespaces(item) else 0)
    while not (mine := _own(item, log.by_defects())) and time.monotonic() < until:
        time.sleep(0.2)
    return mine


class Held:
    """The fixture ``invariants``: a watcher for one test."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self.checked = False

    def check(self) -> InvariantReport:
        """Wait until breaches have cleared, and fail the test with the evidence if an invariant is violated."""
        self.checked = True
        self._watcher.stop()
        if self._watcher.trouble is not None:
            raise self._watcher.trouble
        self._watcher.settle()
        report = self._watcher.report()
        if any(not violation.defect for violation in report.violations):
            pytest.fail(str(report.error()), pytrace=False)
        return report


@pytest.fixture
def invariants(lab: Lab) -> Iterator[Held]:
    """Watch the lab until ``invariants.check()``, which the fixture calls at the end unless the test did."""
    with Watcher(scopes_of_lab(lab)) as watcher:
        watcher.look()
        watcher.start()
        held = Held(watcher)
        yield held
        if not held.checked:
            held.check()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Report what was watched, so that an unwatched run does not look like one without violations."""
    watch = config.stash.get(_WATCH, None)
    if watch is None or watch.report is None:
        return
    states = [result.state for result in watch.report.results]
    counts = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    terminalreporter.write_sep("-", "invariants")
    terminalreporter.write_line(f"{counts}; watched for {watch.report.seconds:.0f} s")
    for violation, waiver in watch.log.waived():
        terminalreporter.write_line(f"expected: {violation.rule} in {waiver.test} ({waiver.reason})")
    warnings = []
    for violation in watch.log.by_defects():
        head, *evidence = violation.lines()
        warnings += [f"known defect {violation.defect}: {head}", *(f"  {line}" for line in evidence)]
    warnings += [f"of others in the cluster: {violation.lines()[0]}" for violation in watch.of_others()]
    warnings += [f"watching ended early: {watch.trouble}"] if watch.trouble else []
    for line in (*warnings, *watch.report.gaps[:5]):
        terminalreporter.write_line(line, yellow=True)


def _lab_of(session: pytest.Session) -> Lab | None:
    """The lab to watch; None in a worker, without a lab, and if no test uses it."""
    config = session.config
    if hasattr(config, "workerinput") or _LOG not in config.stash:
        return None
    # The controller of pytest-xdist collects no tests.
    if session.items and not any(uses(item, "lab") for item in session.items):
        return None
    if ATTACHED in config.stash:
        return config.stash[ATTACHED]
    try:
        return Lab.attach(config.getoption("lab_name"))
    except LabError:  # the tests that use the lab report the error
        return None


def _waivers(item: pytest.Item, begin: datetime) -> Iterator[Waiver]:
    """The test's waivers; its namespaces are only known at its end."""
    if mark := item.get_closest_marker("disturbs"):
        yield Waiver(item.nodeid, str(next(iter(mark.args), "")), begin)
    for mark in item.iter_markers("breaks"):
        names = tuple(invariant.id for invariant in known(mark.args))
        yield Waiver(item.nodeid, str(mark.kwargs["reason"]), begin, invariants=names, spaces=())


def _check(item: pytest.Item) -> None:
    """Fail the test for its violations."""
    log = item.config.stash.get(_LOG, None)
    if log is None:
        return
    waived = {name for waiver in item.stash.get(_WAIVERS, ()) for name in waiver.invariants}
    if mine := tuple(one for one in _own(item, log.violations()) if one.rule not in waived):
        log.claim(mine, item.nodeid)
        pytest.fail(str(broken(mine, f"{len(mine)} violations of invariants in this test")), pytrace=False)


def _own(item: pytest.Item, violations: Iterable[Violation]) -> list[Violation]:
    """The violations that began while the test ran and belong to it; none before it has begun."""
    begin = item.stash.get(_BEGIN, None)
    return [one for one in violations if begin is not None and one.since >= begin and _is_of(item, one)]


def _is_of(item: pytest.Item, violation: Violation) -> bool:
    """Whether a violation that began while the test ran belongs to it."""
    text = text_of(violation)
    if any(namespace in text for namespace in _namespaces(item)):
        return True
    if names_a_test(violation) or not item.config.stash[ATTACHED].spec.cluster.own:
        return False
    # GPUs belong to the test that reserved them, everything else to the only test that runs.
    if node := item.stash.get(LEASED_NODE, ""):
        return node in text
    return uses(item, "gpu_lock") or not hasattr(item.config, "workerinput")


def _namespaces(item: pytest.Item) -> tuple[str, ...]:
    return tuple(workloads.namespace for workloads in item.stash.get(NAMESPACES, []))

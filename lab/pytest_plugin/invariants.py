"""Watches the lab by its invariants while its suites run; ``lab.pytest_plugin.plugin.activate`` brings this in.

One process watches for all: the one that hands out the tests. A test fails for what began to be wrong while it ran
and names its namespace, or GPUs that it had for itself (``gpu_lock``, ``gpu_home``); what no test can be blamed for
fails the run.

What a known defect of KAI is proven to have done (``lab.invariants.known_defects``) is told at the end and fails
nothing; a test that it made fail is an expected failure, with that reason.

A test that breaks things on purpose says so: ``@pytest.mark.disturbs("reason")`` excuses everything in the lab while it
runs alone, ``@pytest.mark.breaks("reserved", reason="…")`` only the invariants it names, on its own pods and GPUs.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Generator, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lab.errors import LabError
from lab.invariants import InvariantReport, Violation, Watcher, broken, known
from lab.invariants.run_log import ViolationLog, Waiver, names_a_test, text_of
from lab.operations.verify import scopes_of_lab
from lab.pytest_plugin.gpu_fixtures import HOME
from lab.pytest_plugin.invariant_watch import Watch, fail_run
from lab.pytest_plugin.state import ATTACHED, PLACES
from lab.session.lab import Lab

MARKER = "breaks(*invariants, reason): breaks these on purpose, on its own pods and GPUs (lab verify names them)"

_FOLDER = "kailab_watch"
_BLOTTER = pytest.StashKey[ViolationLog]()
_BEGIN = pytest.StashKey[datetime]()
_EXCUSES = pytest.StashKey[tuple[Waiver, ...]]()
_WATCH = pytest.StashKey[Watch]()


def pytest_configure(config: pytest.Config) -> None:
    """Make the folder that the processes of the run share; a worker of pytest-xdist has been told of it."""
    config.addinivalue_line("markers", MARKER)
    told = getattr(config, "workerinput", {}).get(_FOLDER)
    off = config.getoption("lab_no_watch", default=False) or config.getoption("collectonly", default=False)
    if told:
        config.stash[_BLOTTER] = ViolationLog(Path(told))
    elif not (off or hasattr(config, "workerinput")):
        config.stash[_BLOTTER] = ViolationLog(Path(tempfile.mkdtemp(prefix="kailab-watch-")))


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the folder."""
    blotter = config.stash.get(_BLOTTER, None)
    if blotter is not None and not hasattr(config, "workerinput"):
        shutil.rmtree(blotter.folder, ignore_errors=True)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of pytest-xdist where the folder is."""
    if (blotter := node.config.stash.get(_BLOTTER, None)) is not None:
        node.workerinput[_FOLDER] = str(blotter.folder)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """Watch while the tests run, in the process that hands them out."""
    lab = _lab_of(session)
    if lab is None:
        return (yield)
    watch = session.config.stash[_WATCH] = Watch(session.config.stash[_BLOTTER])
    session.config.pluginmanager.register(watch, "kailab-watch")
    try:
        with watch.over(lab):
            return (yield)
    finally:
        if text := watch.failure():
            fail_run(session.config, text)


@pytest.fixture(autouse=True)
def _watched(request: pytest.FixtureRequest) -> Iterator[None]:
    """When the test's own time begins, and what was wrong in it when its pods are gone."""
    blotter = request.config.stash.get(_BLOTTER, None)
    if blotter is None or "lab" not in request.fixturenames:
        yield
        return
    # A test that is skipped waits for nobody, and what happens while a test waits is the doing of others.
    for before in ("_needs", "_turn", "gpu_lock", "gpu_home"):
        if before in request.fixturenames:
            request.getfixturevalue(before)
    begin = request.node.stash[_BEGIN] = datetime.now(UTC)
    excuses = request.node.stash[_EXCUSES] = tuple(_excuses(request.node, begin))
    for excuse in excuses:
        blotter.excuse(excuse)
    yield
    spaces = _spaces(request.node)
    for excuse in excuses:
        own = None if excuse.spaces is None else spaces
        blotter.excuse(replace(excuse, end=datetime.now(UTC), spaces=own))
    _check(request.node)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail the test for what is known to be wrong when its body ends."""
    with _excusing(item):
        result = yield
    _check(item)
    return result


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    """Fixtures bring pods up, too, and a known defect may strike those."""
    with _excusing(item):
        return (yield)


@contextlib.contextmanager
def _excusing(item: pytest.Item) -> Iterator[None]:
    """A failure that comes when a known defect of KAI has struck the test is an expected one."""
    try:
        yield
    except (Exception, pytest.fail.Exception) as error:
        if struck := _struck(item):
            pytest.xfail(f"{struck}: {str(error).partition(chr(10))[0]}")
        raise


class Held:
    """The fixture ``invariants``: a watcher of this test's own."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self.checked = False

    def check(self) -> InvariantReport:
        """Wait until what may pass has passed, and fail the test with the evidence if an invariant was broken."""
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
    """Watches the lab from here to ``invariants.check()``, which is called at the end at the latest."""
    with Watcher(scopes_of_lab(lab)) as watcher:
        watcher.look()
        watcher.start()
        held = Held(watcher)
        yield held
        if not held.checked:
            held.check()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say what was watched; a run that was not watched must not look like one in which all held."""
    watch = config.stash.get(_WATCH, None)
    if watch is None or watch.report is None:
        return
    states = [result.state for result in watch.report.results]
    counts = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    terminalreporter.write_sep("-", "invariants")
    terminalreporter.write_line(f"{counts}; watched for {watch.report.seconds:.0f} s")
    for violation, excuse in watch.blotter.excused():
        terminalreporter.write_line(f"expected: {violation.rule} in {excuse.test} ({excuse.reason})")
    for violation in watch.blotter.by_defects():
        for number, line in enumerate(violation.lines()):
            words = f"known defect {violation.defect}: {line}" if number == 0 else f"  {line}"
            terminalreporter.write_line(words, yellow=True)
    for line in (*([f"watching ended early: {watch.trouble}"] if watch.trouble else []), *watch.report.gaps[:5]):
        terminalreporter.write_line(line, yellow=True)


def _lab_of(session: pytest.Session) -> Lab | None:
    """The lab to watch; None in a worker, without a lab, and where no test uses it."""
    config = session.config
    if hasattr(config, "workerinput") or _BLOTTER not in config.stash:
        return None
    # With pytest-xdist this process collects nothing.
    if session.items and not any("lab" in getattr(item, "fixturenames", ()) for item in session.items):
        return None
    if ATTACHED in config.stash:
        return config.stash[ATTACHED]

    try:
        return Lab.attach(config.getoption("lab_name"))
    except LabError:  # the tests that use the lab say why there is none
        return None


def _excuses(item: pytest.Item, begin: datetime) -> Iterator[Waiver]:
    """What the test says that it breaks; its namespaces are known at its end."""
    if mark := item.get_closest_marker("disturbs"):
        yield Waiver(item.nodeid, str(next(iter(mark.args), "")), begin)
    for mark in item.iter_markers("breaks"):
        names = tuple(invariant.id for invariant in known(mark.args))
        yield Waiver(item.nodeid, str(mark.kwargs["reason"]), begin, invariants=names, spaces=())


def _check(item: pytest.Item) -> None:
    """Fail for the violations that are this test's."""
    blotter, begin = item.config.stash.get(_BLOTTER, None), item.stash.get(_BEGIN, None)
    if blotter is None or begin is None:
        return
    expected = {name for excuse in item.stash.get(_EXCUSES, ()) for name in excuse.invariants}
    mine = tuple(
        violation
        for violation in blotter.violations()
        if violation.since >= begin and violation.rule not in expected and _is_of(item, violation)
    )
    if mine:
        blotter.claim(mine, item.nodeid)
        pytest.fail(str(broken(mine, f"{len(mine)} violations of invariants in this test")), pytrace=False)


def _struck(item: pytest.Item) -> str:
    """The known defect of KAI that struck while the test ran; empty when none did."""
    blotter, begin = item.config.stash.get(_BLOTTER, None), item.stash.get(_BEGIN, None)
    if blotter is None or begin is None:
        return ""
    mine = [one for one in blotter.by_defects() if one.since >= begin and _is_of(item, one)]
    return f"known defect {mine[0].defect} of KAI struck" if mine else ""


def _is_of(item: pytest.Item, violation: Violation) -> bool:
    """Whether the test is to blame for a violation that began while it ran."""
    text = text_of(violation)
    if any(space in text for space in _spaces(item)):
        return True
    if names_a_test(violation):
        return False
    # GPUs are of whoever has them alone, all else of the only test that runs.
    if home := item.stash.get(HOME, ""):
        return home in text
    return "gpu_lock" in getattr(item, "fixturenames", ()) or not hasattr(item.config, "workerinput")


def _spaces(item: pytest.Item) -> tuple[str, ...]:
    """The namespaces of a test's places."""
    return tuple(place.namespace for place in item.stash.get(PLACES, []))

"""pytest plugin ``kailab``: options, markers, the lab's facts in JUnit, and artifacts of failed tests.

Every pytest run loads it where kailab is installed, so it imports only pytest and does nothing until a run asks for a
lab: with ``--lab NAME``, with ``KAILAB_LAB``, or with a conftest.py that calls ``activate``. Only then are the fixtures
available.
"""

from __future__ import annotations

import importlib
import os
import re
from collections import Counter
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lab.pytest_plugin.state import ATTACHED, NAMESPACES, NEEDS, REMOVED, required, uses

if TYPE_CHECKING:
    from lab.session.lab import Lab
    from lab.workloads.namespace import WorkloadNamespace

_FACTS = pytest.StashKey[dict[str, str]]()
_BEGAN = pytest.StashKey[float]()
_COLLECTED = pytest.StashKey[bool]()
_NOTHING_PASSED = pytest.StashKey[bool]()
_REMOVED = "removed"
"""Fact of a run: what it removed of killed ones, a line each."""
_LIMITS = "limits"
"""Fact of a run on an existing cluster: the GPUs that the suites may use."""
_PARTS = ("fixtures", "queue_fixtures", "gpu_fixtures", "scheduling", "invariants", "annotations")
_OPTIONS = (
    ("--lab-require", "LIST", f"of {','.join(NEEDS)}: tests that lack these fail instead of being skipped"),
    ("--lab-artifacts", "DIR", "folder for artifacts of failed tests (default: artifacts in pytest's rootdir)"),
    ("--lab-report", "FILE", "write one HTML page: tests, times, the lab's facts, its GPUs before and after"),
)
MARKERS = (
    "kai(version=''): needs KAI in the lab, in a version such as '>=0.13'",
    "gpus(min=1, nodes=1, per_node=1): needs that many GPUs in the lab, and that many on each of so many nodes",
    "devices: needs GPUs that containers see",
    "quota: its pods are not preemptible, and run only within the quota of their queue",
    "tenants(*which, min=1): needs tenants of these names or modes; the fixture 'tenant' is each of them",
    "places(*which): the fixture 'workloads' is in each of these: 'host', or tenants by name or mode",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options; all start with ``--lab``."""
    group = parser.getgroup("kailab", "kailab: tests against a running lab")
    name = "the lab (default: KAILAB_LAB, or the only one)"
    group.addoption("--lab", dest="lab_name", metavar="NAME", help=name)
    for option, metavar, text in _OPTIONS:
        group.addoption(option, metavar=metavar, help=text)
    group.addoption("--lab-long", action="store_true", help="also tests that take minutes (marker long)")
    group.addoption("--lab-no-watch", action="store_true", help="do not watch invariants during the run")
    keep = "keep the namespaces of failed tests, with their pods, and name the commands to look at and remove them"
    group.addoption("--lab-keep", choices=["failed"], help=keep)
    seconds = "time for the artifacts of one test (default: 20); 0 collects none"
    group.addoption("--lab-artifacts-seconds", type=float, default=20.0, metavar="S", help=seconds)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Register the markers, and activate the fixtures if the run asks for a lab."""
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
    if unknown := sorted(required(config) - set(NEEDS)):
        raise pytest.UsageError(f"--lab-require: unknown {', '.join(unknown)} (known: {', '.join(NEEDS)})")
    if config.getoption("lab_name") or os.environ.get("KAILAB_LAB"):
        activate(config)
    if page := config.getoption("lab_report"):
        importlib.import_module("lab.pytest_plugin.html_report").register(config, Path(page).expanduser().absolute())


def activate(config: pytest.Config) -> None:
    """Register the fixtures; call it from ``pytest_configure`` of a conftest.py.

    They are registered after those of installed plugins, so that ``kind_cluster`` is the lab's and not pytest-kind's.
    """
    for name in _PARTS:
        if not config.pluginmanager.has_plugin(f"kailab-{name}"):
            config.pluginmanager.register(importlib.import_module(f"lab.pytest_plugin.{name}"), f"kailab-{name}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Collect artifacts after the first failure of a test, while its pods still exist unless it failed in teardown."""
    report = yield
    lab = item.config.stash.get(ATTACHED, None)
    seconds = float(item.config.getoption("lab_artifacts_seconds"))
    if report.when == "setup":  # again if a plugin repeats the test
        item.stash[_BEGAN], item.stash[_COLLECTED] = report.start, False
    wanted = report.failed and seconds > 0 and not item.stash[_COLLECTED]
    if lab is not None and wanted and (NAMESPACES in item.stash or uses(item, "lab")):
        item.stash[_COLLECTED] = True
        report.sections.append(("kailab artifacts", _collect(item, lab, seconds)))
    return report


def _collect(item: pytest.Item, lab: Lab, seconds: float) -> str:
    """The text for the report; an error here never becomes an error of the test."""
    from lab.report.artifacts import collect

    namespaces: list[WorkloadNamespace] = item.stash.get(NAMESPACES, [])
    given = item.config.getoption("lab_artifacts")
    root = Path(given).expanduser().absolute() if given else item.config.rootpath / "artifacts"
    folder = root / (re.sub(r"[^\w.=-]+", "-", item.nodeid).strip("-")[-150:])
    try:
        facts, since = lab.facts(), item.stash[_BEGAN]
        done = collect(folder, lab.cluster, namespaces, title=item.nodeid, facts=facts, seconds=seconds, since=since)
    except Exception as error:  # noqa: BLE001 - see above
        return f"could not be collected: {type(error).__name__}: {error}"
    item.user_properties.append(("kailab.artifacts", str(done.folder)))
    missed = f", {len(done.missed)} missing (see kailab-index.txt)" if done.missed else ""
    return f"{done.folder} ({len(done.files)} files{missed})"


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Add the lab's facts to JUnit; a worker of pytest-xdist sends them to the process that writes it.

    A run in which no test passed does not end with 0.
    """
    config = session.config
    lab = config.stash.get(ATTACHED, None)
    _refuse_nothing(session)
    if lab is not None:
        removed = config.stash.get(REMOVED, None) or []
        config.stash[_FACTS] = {
            **lab.facts(),
            **({} if lab.spec.cluster.own else {_LIMITS: _limits(lab)}),
            **({_REMOVED: "\n".join(removed)} if removed else {}),
        }
    facts = config.stash.get(_FACTS, {})
    output: dict[str, Any] | None = getattr(config, "workeroutput", None)
    if output is not None:
        output["kailab"] = facts
        return
    junit: Any = next((p for p in config.pluginmanager.get_plugins() if hasattr(p, "add_global_property")), None)
    if junit is not None:
        for key, value in facts.items():
            junit.add_global_property(f"kailab.{key}", value)


def _limits(lab: Lab) -> str:
    """What the lab may take of an existing cluster."""
    gpus, budget = lab.spec.budget.gpus, "no budget"
    if gpus is not None:
        outside = lab.spec.gpus_outside_queues
        budget = f"budget {gpus:g} GPUs" + (f", {outside} of them for tenants outside its queues" if outside else "")
    return f"{budget}, {'exclusive' if lab.spec.cluster.exclusive else 'others use it'}"


def _refuse_nothing(session: pytest.Session) -> None:
    """End a run against a lab as one without tests (exit status 5) if all were skipped or failed as expected."""
    if getattr(session, "exitstatus", None) != pytest.ExitCode.OK or hasattr(session.config, "workerinput"):
        return
    plugins = session.config.pluginmanager
    stats = getattr(plugins.get_plugin("terminalreporter"), "stats", {})
    unproven = stats.get("skipped") or stats.get("xfailed")
    if plugins.has_plugin("kailab-fixtures") and unproven and not stats.get("passed"):
        session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED
        session.config.stash[_NOTHING_PASSED] = True


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Store the facts that a worker of pytest-xdist sent."""
    if facts := (getattr(node, "workeroutput", None) or {}).get("kailab"):
        # one worker has removed what killed runs left
        node.config.stash[_FACTS] = {**node.config.stash.get(_FACTS, {}), **facts}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Report which lab the tests ran against: a lab without KAI or GPUs must not look like a full one."""
    facts = config.stash.get(_FACTS, {})
    if config.stash.get(_NOTHING_PASSED, False):
        terminalreporter.write_line("not proven: no test passed, all were skipped or failed as expected", yellow=True)
    if not facts:
        return
    without = facts.get("no_kai", "")
    scheduler = f"NO KAI ({without})" if without else f"KAI {facts.get('kai_version', '?')}"
    terminalreporter.write_sep("-", "kailab")
    gpus = f"GPUs {facts.get('gpu_mode', '?')}"
    terminalreporter.write_line(f"lab {facts.get('lab', '?')}: {gpus}, {scheduler}", yellow=bool(without))
    if context := facts.get("context"):
        limits = facts.get(_LIMITS, "")
        terminalreporter.write_line(f"existing cluster {context} at {facts.get('server', '?')}, {limits}")
        for why, tests in _skips(terminalreporter.stats.get("skipped", ())).items():
            terminalreporter.write_line(f"skipped {tests}: {why}")
    for line in facts.get(_REMOVED, "").splitlines():
        terminalreporter.write_line(f"removed: {line}", yellow=True)


def _skips(reports: Iterable[Any]) -> Counter[str]:
    """Reason → number of tests that were skipped for it, most frequent first."""
    reasons = (report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr) for report in reports)
    return Counter(dict(Counter(reason.removeprefix("Skipped: ") for reason in reasons).most_common()))

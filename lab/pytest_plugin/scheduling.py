"""Test scheduling: tests that disrupt KAI or nodes run last, in one worker, exclusively.

Such a test is marked ``@pytest.mark.disturbs("reason")``. All other tests of a lab share the lab's lock, in every
worker and process; a disturbing test holds it exclusively, until it has restored what it disturbed. With ``only="kai"``
it excludes only tests that involve KAI: tests marked ``without_kai`` run beside it.

A worker keeps its share of KAI's lock from one test to the next one that shares it, so that a disturbing test of
another worker starts when this worker has no such tests left, and not between two of them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from lab.kai import line_of
from lab.operations.abandoned import in_words
from lab.operations.abandoned_removal import remove_abandoned
from lab.pytest_plugin.gpu_fixtures import GROUP
from lab.pytest_plugin.state import REMOVED, uses
from lab.session.lab import Lab
from lab.tools.lock import file_lock
from lab.workloads.temporary import LOCK_HELD, kai_lock_file, lab_lock_file

MARKER = "disturbs"
WITHOUT_KAI = "without_kai"
LONG = "long"
MARKERS = (
    f"{MARKER}(reason, only=''): stops or changes what others need; runs last, alone; only='kai': beside {WITHOUT_KAI}",
    f"{WITHOUT_KAI}: does not involve KAI, which may be down meanwhile",
    f"{LONG}: takes minutes; runs with --lab-long",
)
PATIENCE = 60.0
"""Seconds that a disturbing test may wait while another worker keeps its share of KAI's lock over several tests."""


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers."""
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
    config.stash[SHARE] = SharedLock()
    config.add_cleanup(config.stash[SHARE].release)


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the disturbing tests last, and into one group with those that need all GPUs.

    The order suits two workers. Both begin with the tests that lease one node. Then one of them runs the tests that
    need all GPUs and those that disturb KAI. Meanwhile the other runs the tests without GPUs, and, beside those that
    disturb KAI, the tests without KAI.
    """
    for item in items:
        if _marked(item, LONG) and not config.getoption("lab_long"):
            item.add_marker(pytest.mark.skip(reason="takes minutes: --lab-long runs it"))
        if (group := _group(item)) and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=lambda item: (_marked(item, MARKER), _rank(item)))


def _group(item: pytest.Item) -> str:
    """The test's group of pytest-xdist; empty if any worker may run it."""
    if _marked(item, WITHOUT_KAI):
        return WITHOUT_KAI
    return GROUP if _marked(item, MARKER) or uses(item, "gpu_lock") else ""


def _rank(item: pytest.Item) -> int:
    """Position of a test among the disturbing or the other tests.

    Tests that disturb KAI need fewer and fewer GPUs, as the tests beside them need more and more.
    """
    gpus = 2 if uses(item, "gpu_lock") else int(uses(item, "gpu_node_lease"))
    if _marked(item, MARKER):
        return -gpus
    if _marked(item, WITHOUT_KAI):
        return 4 + gpus
    mark = item.get_closest_marker("xdist_group")
    if mark is not None and mark.args[:1] == (GROUP,):
        return 2 if gpus == 2 else 1
    return 0 if gpus else 3


def _marked(item: pytest.Item, *markers: str) -> bool:
    return any(item.get_closest_marker(marker) is not None for marker in markers)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """Release the share of KAI's lock if the next test does not need it, or a disturbing test waits too long."""
    try:
        return (yield)
    finally:
        share = item.config.stash[SHARE]
        kept = nextitem is not None and uses(nextitem, "lab") and not _marked(nextitem, MARKER, WITHOUT_KAI)
        if not kept or share.waited_for():
            share.release()


class SharedLock:
    """This worker's share of the locks of a lab and of its KAI, kept over several tests."""

    def __init__(self) -> None:
        self._held = ExitStack()
        self._path: Path | None = None
        self._since = 0.0

    def take(self, path: Path) -> None:
        """Hold both locks, shared; does nothing if they are held already."""
        if self._path == path:
            return
        self.release()
        with ExitStack() as taken:
            taken.enter_context(file_lock(path, exclusive=False))
            taken.enter_context(file_lock(kai_lock_file(path), exclusive=False))
            self._held = taken.pop_all()
        self._path, self._since = path, time.time()

    def release(self) -> None:
        """Release both locks if they are held."""
        self._held.close()
        self._path = None

    def waited_for(self) -> bool:
        """Whether a disturbing test has waited for PATIENCE seconds; its own time runs out."""
        if self._path is None:
            return False
        try:
            asked = max(path.stat().st_mtime for path in (self._path, kai_lock_file(self._path)))
        except FileNotFoundError:  # the lab was removed meanwhile: no test can wait for these files
            return True
        return self._since < asked < time.time() - PATIENCE


SHARE: pytest.StashKey[SharedLock] = pytest.StashKey()


@pytest.fixture(autouse=True)
def _exclusion(request: pytest.FixtureRequest) -> Iterator[None]:
    """Hold the locks that the test needs; a test that does not use a lab needs none."""
    mark = request.node.get_closest_marker(MARKER)
    if mark is None and not uses(request.node, "lab"):
        yield
        return
    lab = request.getfixturevalue("lab")
    if mark is not None and (why := disturbs_others(lab, str(next(iter(mark.args), "")))):
        pytest.skip(why)
    _tidy(request.config, lab)
    path = lab_lock_file(lab.paths)
    if os.environ.get(LOCK_HELD) == str(path):
        yield
        return
    share = request.config.stash[SHARE]
    if mark is None and (not _marked(request.node, WITHOUT_KAI) or _webhooks_see_all_pods(lab)):
        share.take(path)
        yield
        return
    share.release()
    only_kai = mark is not None and mark.kwargs.get("only") == "kai"
    with ExitStack() as held:
        held.enter_context(file_lock(path, exclusive=mark is not None and not only_kai))
        if only_kai:
            held.enter_context(file_lock(kai_lock_file(path), exclusive=True))
        yield


def disturbs_others(lab: Lab, what: str) -> str:
    """Reason why a test must not do ``what`` in this cluster, which others use; empty if the cluster is the lab's."""
    if lab.spec.cluster.own or lab.spec.cluster.exclusive:
        return ""
    return f"disturbs others in the cluster, unless cluster.exclusive is true: {what}"


def _tidy(config: pytest.Config, lab: Lab) -> None:
    """Remove what killed processes left in the lab, once, before this process's first test that uses the lab."""
    if config.stash.get(REMOVED, None) is None:
        config.stash[REMOVED] = in_words(remove_abandoned(lab, wait=True))


def _webhooks_see_all_pods(lab: Lab) -> bool:
    """Whether KAI's webhooks match pods of all schedulers, so that no pod can be created while they do not answer."""
    return lab.has_kai and not line_of(str(lab.kai_version)).webhook_only_kai_pods

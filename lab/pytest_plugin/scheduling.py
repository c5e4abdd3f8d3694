"""Whose turn it is: tests that disturb KAI or the nodes come last, in one worker, and run alone.

A test says so with ``@pytest.mark.disturbs("reason")``. All others share their turn, in every worker and process that
uses the lab; a disturbing one waits until no other test runs, and none begins before it has put things back.
With ``only="kai"`` it waits for those alone that KAI has a part in: tests marked ``without_kai`` go on beside it.
A worker keeps its share of KAI from one test that shares it to the next: a disturbing test of another worker begins
when that one has none left, and not after each of them. ``lab.pytest_plugin.plugin`` brings this in.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from lab.kai import line_of
from lab.pytest_plugin.gpu_fixtures import GROUP, needs_a_nodes_gpus, needs_all_gpus
from lab.session.lab import Lab

MARKER = "disturbs"
WITHOUT_KAI = "without_kai"
LONG = "long"
PATIENCE = 60.0
"""Seconds that a disturbing test of one worker may wait for the tests another one still has, one after the other."""

HELD = "KAILAB_TURN_HELD"
"""In the environment of a pytest run whose caller holds the turn already, alone: the file it holds."""


def pytest_configure(config: pytest.Config) -> None:
    """Make the markers known."""
    alone = "stops or changes what other tests need; runs last and alone; only='kai': beside tests without_kai"
    config.addinivalue_line("markers", f"{MARKER}(reason, only=''): {alone}")
    config.addinivalue_line("markers", f"{WITHOUT_KAI}: KAI has no part in it, and may be down meanwhile")
    config.stash[SHARE] = SharedLock()
    config.add_cleanup(config.stash[SHARE].give_back)
    config.addinivalue_line("markers", f"{LONG}: takes minutes; runs with --lab-long")


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the disturbing tests last, and into one group with those that need all GPUs.

    The order is meant for two workers. Both begin with the tests that need the GPUs of one node. When these are at
    their end, one of them goes on with those that need all GPUs, and then disturbs KAI. The other one has meanwhile
    those that need no GPUs, and beside what disturbs KAI those that need no KAI.
    """
    for item in items:
        if item.get_closest_marker(LONG) is not None and not config.getoption("lab_long"):
            item.add_marker(pytest.mark.skip(reason="takes minutes: --lab-long runs it"))
        if (group := _group(item)) and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=lambda item: (disturbs(item), _late(item)))


def _group(item: pytest.Item) -> str:
    """In whose worker a test runs; empty when any will do."""
    if _without_kai(item):
        return WITHOUT_KAI
    return GROUP if disturbs(item) or needs_all_gpus(item) else ""


def _late(item: pytest.Item) -> int:
    """After which others a test comes that disturbs, or among those that do not.

    What disturbs KAI leaves more and more GPUs to the tests beside it, which need more and more of them.
    """
    gpus = 2 if needs_all_gpus(item) else int(needs_a_nodes_gpus(item))
    if disturbs(item):
        return -gpus
    if _without_kai(item):
        return 4 + gpus
    mark = item.get_closest_marker("xdist_group")
    if mark is not None and mark.args[:1] == (GROUP,):
        return 2 if gpus == 2 else 1
    return 0 if gpus else 3


def _without_kai(item: pytest.Item) -> bool:
    return item.get_closest_marker(WITHOUT_KAI) is not None


def disturbs(item: pytest.Item) -> bool:
    """Whether a test disturbs others."""
    return item.get_closest_marker(MARKER) is not None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """Give the share of KAI back when the next test does not share it, or somebody has waited long enough."""
    try:
        return (yield)
    finally:
        share = item.config.stash[SHARE]
        if nextitem is None or not _shares_kai(nextitem) or share.waited_for():
            share.give_back()


def _shares_kai(item: pytest.Item) -> bool:
    return "lab" in getattr(item, "fixturenames", ()) and not disturbs(item) and not _without_kai(item)


class SharedLock:
    """This worker's share of a lab's turn and of its KAI, kept over several tests."""

    def __init__(self) -> None:
        self._held = ExitStack()
        self._path: Path | None = None
        self._since = 0.0

    def take(self, path: Path) -> None:
        """Hold both, shared with others; what is held already stays."""
        if self._path == path:
            return
        self.give_back()
        with ExitStack() as taken:
            taken.enter_context(turn(path, alone=False))
            taken.enter_context(turn(kai_turn(path), alone=False))
            self._held = taken.pop_all()
        self._path, self._since = path, time.time()

    def give_back(self) -> None:
        """Let others have it; nothing where nothing is held."""
        self._held.close()
        self._path = None

    def waited_for(self) -> bool:
        """Whether a disturbing test has waited for PATIENCE seconds, and its own time runs out."""
        if self._path is None:
            return False
        try:
            asked = max(path.stat().st_mtime for path in (self._path, kai_turn(self._path)))
        except FileNotFoundError:  # the lab was taken down meanwhile: nobody can wait for these files
            return True
        return self._since < asked < time.time() - PATIENCE


SHARE: pytest.StashKey[SharedLock] = pytest.StashKey()


@pytest.fixture(autouse=True)
def _turn(request: pytest.FixtureRequest) -> Iterator[None]:
    """The test's turn; tests that do not use a lab need none."""
    mark = request.node.get_closest_marker(MARKER)
    if mark is None and "lab" not in request.fixturenames:
        yield
        return
    lab = request.getfixturevalue("lab")
    path = turn_of(lab)
    if os.environ.get(HELD) == str(path):
        yield
        return
    share = request.config.stash[SHARE]
    if mark is None and (not _without_kai(request.node) or _minds_kai(lab)):
        share.take(path)
        yield
        return
    share.give_back()
    only_kai = mark is not None and mark.kwargs.get("only") == "kai"
    alone = mark is not None and not only_kai
    with ExitStack() as held:
        held.enter_context(turn(path, alone=alone))
        if only_kai:
            held.enter_context(turn(kai_turn(path), alone=True))
        yield


def _minds_kai(lab: Lab) -> bool:
    """Whether KAI's webhooks look at pods of all schedulers, so that none are made while they do not answer."""
    return lab.has_kai and not line_of(str(lab.kai_version)).webhook_only_kai_pods


def turn_of(lab: Lab) -> Path:
    """The file by which all processes agree on the turn of a lab; who holds it alone, has KAI alone too."""
    return lab.paths.lock.with_suffix(".turn")


def kai_turn(path: Path) -> Path:
    """The file beside a lab's turn for KAI alone."""
    return path.with_suffix(".turn-kai")


@contextmanager
def turn(path: Path, *, alone: bool, wait: bool = True) -> Iterator[None]:
    """Hold the turn, alone or with others that share it; waits for it as long as the test may run.

    Args:
        path: a file all processes agree on; made where it is missing.
        alone: nobody else may hold it.
        wait: until it is free.

    Raises:
        BlockingIOError: others hold it, and ``wait`` is False.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with path.open("a") as file:
        if alone:
            path.touch()  # tells those who hold it that somebody waits, and since when
        fcntl.flock(file, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | (0 if wait else fcntl.LOCK_NB))
        yield  # closing the file gives the turn back

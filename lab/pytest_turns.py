"""Whose turn it is: tests that disturb KAI or the nodes come last, in one worker, and run alone.

A test says so with ``@pytest.mark.disturbs("reason")``. All others share their turn, in every worker and process that
uses the lab; a disturbing one waits until no other test runs, and none begins before it has put things back.
``lab.pytest_plugin`` brings this in.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lab.pytest_gpus import GROUP, needs_a_nodes_gpus, needs_all_gpus

if TYPE_CHECKING:
    from lab.api import Lab

MARKER = "disturbs"
LONG = "long"
HELD = "KAILAB_TURN_HELD"
"""In the environment of a pytest run whose caller holds the turn already, alone: the file it holds."""


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", f"{MARKER}(reason): stops or changes what other tests need; runs last and alone")
    config.addinivalue_line("markers", f"{LONG}: takes minutes; runs with --lab-long")


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the disturbing tests last, and into the group of those that need all GPUs.

    The order is meant for two workers: both begin with the tests that need the GPUs of one node. When these are at
    their end, one of them goes on with those that need all GPUs, and the other one with those that need none.
    """
    for item in items:
        if item.get_closest_marker(LONG) is not None and not config.getoption("lab_long"):
            item.add_marker(pytest.mark.skip(reason="takes minutes: --lab-long runs it"))
        if disturbs(item) and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(GROUP))
    items.sort(key=lambda item: (disturbs(item), _late(item)))


def _late(item: pytest.Item) -> int:
    """After which others a test comes that disturbs nobody."""
    mark = item.get_closest_marker("xdist_group")
    if mark is not None and mark.args[:1] == (GROUP,):
        return 2 if needs_all_gpus(item) else 1
    return 0 if needs_a_nodes_gpus(item) else 3


def disturbs(item: pytest.Item) -> bool:
    """Whether a test disturbs others."""
    return item.get_closest_marker(MARKER) is not None


@pytest.fixture(autouse=True)
def _turn(request: pytest.FixtureRequest) -> Iterator[None]:
    """The test's turn; tests that do not use a lab need none."""
    alone = disturbs(request.node)
    if not (alone or "lab" in request.fixturenames):
        yield
        return
    path = turn_of(request.getfixturevalue("lab"))
    if os.environ.get(HELD) == str(path):
        yield
        return
    with turn(path, alone=alone):
        yield


def turn_of(lab: Lab) -> Path:
    """The file by which all processes agree on the turn of a lab."""
    return lab.paths.lock.with_suffix(".turn")


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
        fcntl.flock(file, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | (0 if wait else fcntl.LOCK_NB))
        yield  # closing the file gives the turn back

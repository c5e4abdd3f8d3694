"""Whose turn it is: tests that disturb KAI or the nodes come last, in the GPU tests' worker, and run alone.

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

if TYPE_CHECKING:
    from lab.api import Lab

MARKER = "disturbs"
LONG = "long"
GROUP = "gpus"
"""The group of pytest-xdist that the GPU tests are in."""

HELD = "KAILAB_TURN_HELD"
"""In the environment of a pytest run whose caller holds the turn already, alone: the file it holds."""

LOCK_SECONDS = 240.0
"""How long a test waits for the GPUs: more than all GPU tests of a run take together."""

FREE_SECONDS = 60.0
"""How long KAI may take to let a GPU go whose last user is gone; it does so at once."""


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", f"{MARKER}(reason): stops or changes what other tests need; runs last and alone")
    config.addinivalue_line("markers", f"{LONG}: takes minutes; runs with --lab-long")


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the disturbing tests last, in their order, and into the group of the GPU tests."""
    for item in items:
        if item.get_closest_marker(LONG) is not None and not config.getoption("lab_long"):
            item.add_marker(pytest.mark.skip(reason="takes minutes: --lab-long runs it"))
        if disturbs(item) and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(GROUP))
    items.sort(key=disturbs)


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


@pytest.fixture
def gpu_lock(lab: Lab) -> Iterator[None]:
    """The lab's GPUs for this test alone, among all processes on this machine.

    Use it with ``@pytest.mark.xdist_group("gpus")``: the group keeps workers from waiting for each other, the
    lock holds without it too. Name it before ``place``: the GPUs are free again when it is released.
    """
    from filelock import FileLock, Timeout

    path = lab.paths.lock.with_suffix(".gpus")
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        with FileLock(path, timeout=LOCK_SECONDS):
            yield
    except Timeout:
        pytest.fail(
            f"the lab's GPUs were not free within {LOCK_SECONDS:.0f} s: {path} is locked", pytrace=False
        )


@pytest.fixture
def free_gpus(gpu_lock: None, lab: Lab) -> None:
    """No GPU is reserved any more: a reservation pod outlives the last user of its GPU by a moment.

    Without this a test would begin with a GPU less, and see a refusal that is none. In a cluster that is not the lab's
    own, others may share GPUs: there it asks for nothing.
    """
    if not lab.has_kai or lab.spec.cluster.provider != "kind":
        return
    from lab.parts.kai.steps import RESERVATIONS

    lab.cluster.wait(
        "Pod",
        lambda pods: not pods,
        namespace=RESERVATIONS,
        timeout=FREE_SECONDS,
        what="no GPU is reserved from an earlier test",
    )


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

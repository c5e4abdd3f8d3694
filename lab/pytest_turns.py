"""Whose turn it is: tests that disturb KAI or the nodes come last, in one worker, and run alone.

A test says so with ``@pytest.mark.disturbs("reason")``. All others share their turn, in every worker and process that
uses the lab; a disturbing one waits until no other test runs, and none begins before it has put things back.
With ``only="kai"`` it waits for those alone that KAI has a part in: tests marked ``without_kai`` go on beside it.
``lab.pytest_plugin`` brings this in.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lab.pytest_gpus import GROUP, needs_a_nodes_gpus, needs_all_gpus

if TYPE_CHECKING:
    from lab.api import Lab

MARKER = "disturbs"
WITHOUT_KAI = "without_kai"
LONG = "long"
HELD = "KAILAB_TURN_HELD"
"""In the environment of a pytest run whose caller holds the turn already, alone: the file it holds."""


def pytest_configure(config: pytest.Config) -> None:
    """Make the markers known."""
    alone = "stops or changes what other tests need; runs last and alone; only='kai': beside tests without_kai"
    config.addinivalue_line("markers", f"{MARKER}(reason, only=''): {alone}")
    config.addinivalue_line("markers", f"{WITHOUT_KAI}: KAI has no part in it, and may be down meanwhile")
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
    only_kai = mark is not None and mark.kwargs.get("only") == "kai"
    alone = mark is not None and not only_kai
    with ExitStack() as held:
        held.enter_context(turn(path, alone=alone))
        if not alone and (not _without_kai(request.node) or _minds_kai(lab)):
            held.enter_context(turn(path.with_suffix(".turn-kai"), alone=only_kai))
        yield


def _minds_kai(lab: Lab) -> bool:
    """Whether KAI's webhooks look at pods of all schedulers, so that none are made while they do not answer."""
    from lab.kai import line_of

    return lab.has_kai and not line_of(str(lab.kai_version)).webhook_only_kai_pods


def turn_of(lab: Lab) -> Path:
    """The file by which all processes agree on the turn of a lab; who holds it alone, has KAI alone too."""
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

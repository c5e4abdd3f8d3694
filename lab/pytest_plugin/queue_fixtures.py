"""The fixture ``new_queues``: KAI queues for one test, gone when it ends. ``lab.pytest_plugin.plugin`` brings it in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from lab.config import QueueSpec
from lab.pytest_plugin.state import PLACES
from lab.session.lab import Lab
from lab.steps.queues import temporary_queues
from lab.workloads.namespace import WorkloadNamespace

OWNERS = ("Deployment", "Job")
"""Kinds that make their pods again as long as they are there."""


@pytest.fixture
def new_queues(
    request: pytest.FixtureRequest, lab: Lab, new_place: Callable[..., WorkloadNamespace]
) -> Iterator[Callable[..., dict[str, str]]]:
    """Makes a tree of queues: ``new_queues(QueueSpec(…), …)`` gives each queue's name in the cluster by its own.

    At the end the test's pods go first, with what would make them again, then the queues. It asks for ``new_place`` so
    that this comes before the places are cleared, whatever order a test names its fixtures in.
    """
    with ExitStack() as trees:

        def make(*queues: QueueSpec) -> dict[str, str]:
            return trees.enter_context(temporary_queues(lab.cluster, lab.spec.name, queues))

        yield make
        for place in request.node.stash.get(PLACES, []):
            place.empty(*OWNERS)

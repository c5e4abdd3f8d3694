"""The fixture ``new_queues``: temporary KAI queues for one test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from lab.config import QueueSpec
from lab.config.budget import top_queue
from lab.kai import line_of
from lab.pytest_plugin.state import KEPT, NAMESPACES
from lab.session.lab import Lab
from lab.steps.queues import temporary_queues
from lab.workloads.namespace import WorkloadNamespace

OWNERS = ("Deployment", "Job")
"""Kinds whose controllers recreate deleted pods."""


@pytest.fixture
def new_queues(
    request: pytest.FixtureRequest, lab: Lab, new_workloads: Callable[..., WorkloadNamespace]
) -> Iterator[Callable[..., dict[str, str]]]:
    """Create a tree of queues: ``new_queues(QueueSpec(…), …)`` maps each queue's name to its name in the cluster.

    At the end the owners of the test's pods are deleted first, then the pods, then the queues. The fixture requests
    ``new_workloads`` so that this happens before the namespaces are cleared, whatever the order of a test's fixtures.
    Where the lab has a budget, the tree is below the queue with that budget.
    """
    top = top_queue(lab.spec)
    with ExitStack() as trees:

        def create(*queues: QueueSpec) -> dict[str, str]:
            if top and line_of(str(lab.kai_version)).queue_levels:
                pytest.skip(f"KAI {lab.kai_version} has no third level of queues, below the budget of {top}")
            return trees.enter_context(temporary_queues(lab.cluster, lab.spec.name, queues, top=top))

        yield create
        if request.node.stash.get(KEPT, False):
            trees.pop_all()  # pods of the test stay, and a queue with pods cannot be deleted
            return
        for workloads in request.node.stash.get(NAMESPACES, []):
            workloads.empty(*OWNERS)

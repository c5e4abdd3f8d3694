"""Exclusive GPUs for one test: all GPUs of the lab (``gpu_lock``), or those of one free node (``gpu_node_lease``).

Pods of a test that leases a node run on that node, so that several such tests run side by side in different workers.
Tests get their GPUs in the order in which they ask.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.config import tenant_nodes
from lab.errors import WaitTimeout
from lab.gpu.pools import pools_by_node, short_name
from lab.objects.views import NodeView, PodView
from lab.pytest_plugin.gpu_share import node_shares, shared_nodes
from lab.pytest_plugin.state import uses, warn_renamed
from lab.session.lab import Lab
from lab.steps.kai.step import RESERVATIONS
from lab.tools.lock import lock_now
from lab.workloads.modifiers import on_node
from lab.workloads.pods import cpu_pod

Json = dict[str, Any]

GROUP = "gpus"
"""pytest-xdist group of the tests that need all GPUs and KAI: they run in one worker. Tests that lease one node are in
no group: the next free worker runs them."""

LEASED_NODE = pytest.StashKey[str]()
"""On a test: the node that it leases."""

LOCK_SECONDS = 600.0
"""Longest wait of a test for its GPUs: more than the timeout of a test in ``kailab e2e`` and its fixtures take."""

POLL_SECONDS = 0.05
"""Interval between attempts to take a lock that another process holds."""

FREE_SECONDS = 60.0
"""Longest wait until KAI has deleted the reservation pod of a GPU without users; usually it does so at once."""

NUDGE_SECONDS = 5.0
"""Wait before KAI gets a pod to bind: if pods are deleted while one of their GPU group is being bound, their GPU stays
reserved until the binder syncs that node at its next bind (seen with 0.16.8; SyncForNode in pkg/binder)."""


def pytest_configure(config: pytest.Config) -> None:
    """Register pytest-xdist's marker, which tests get here; runs without that plugin ignore it."""
    config.addinivalue_line("markers", "xdist_group(name): tests of one group run in one worker")


def gpu_node_names(lab: Lab) -> tuple[str, ...]:
    """Names of the nodes whose GPUs suites may use: all but tenants' dedicated nodes."""
    if lab.spec.cluster.own:
        dedicated = {name for names in tenant_nodes(lab.spec).values() for name in names}
        return tuple(name for name in pools_by_node(lab.spec) if short_name(lab.spec.name, name) not in dedicated)
    return tuple(sorted(node.name for node in shared_nodes(lab.cluster) if node.gpus))


@pytest.fixture
def gpu_lock(lab: Lab) -> Iterator[None]:
    """Reserve all GPUs of the lab for this test, among all processes on this machine.

    Tests with it are in one group of pytest-xdist, so that workers do not wait for each other (see
    ``lab.pytest_plugin.scheduling``). Name it before ``workloads``: the GPUs are free again when it is released.
    """
    with _locked(lab, *([_lock_file(lab, number)] for number in range(max(1, len(gpu_node_names(lab)))))):
        yield


@pytest.fixture
def gpu_node_lease(request: pytest.FixtureRequest, lab: Lab) -> Iterator[str]:
    """Reserve the GPUs of a node that is free when the test begins; returns its name. The test's pods run there."""
    nodes, usable = gpu_node_names(lab), _leasable(lab, request.node.get_closest_marker("gpus"))
    if not usable:
        pytest.skip(f"no node of lab {lab.spec.name} has the GPUs that the test needs")
    with _locked(lab, [_lock_file(lab, nodes.index(name)) for name in usable]) as (free,):
        request.node.stash[LEASED_NODE] = usable[free]
        yield usable[free]


def _leasable(lab: Lab, mark: pytest.Mark | None) -> tuple[str, ...]:
    """Names of the nodes with the GPUs that a test needs on one node."""
    names, per_node = gpu_node_names(lab), int(mark.kwargs.get("per_node", 1)) if mark is not None else 1
    if lab.spec.cluster.own and per_node == 1:
        return names
    shares = node_shares(lab)
    return tuple(name for name in names if shares.get(name, 0) >= per_node)


@pytest.fixture
def leased_node(gpu_node_lease: str, lab: Lab) -> NodeView:
    """The node that the test leases; ``gpus`` are those that the test may use."""
    node = NodeView.of(lab.cluster.get("Node", gpu_node_lease) or {})
    return node if lab.spec.cluster.own else replace(node, gpus=node_shares(lab).get(node.name, 0))


@pytest.fixture
def gpu_home(gpu_node_lease: str) -> str:
    """Deprecated name of ``gpu_node_lease``."""
    warn_renamed("gpu_home", "gpu_node_lease")
    return gpu_node_lease


@pytest.fixture
def home(leased_node: NodeView) -> NodeView:
    """Deprecated name of ``leased_node``."""
    warn_renamed("home", "leased_node")
    return leased_node


@pytest.fixture
def free_gpus(request: pytest.FixtureRequest, lab: Lab) -> None:
    """Wait until no GPU of the test is reserved any more: a reservation pod briefly outlives the last user of its GPU.

    Otherwise a test could begin with one GPU less and see an unexpected refusal. In a cluster that others use, only
    GPUs without any user count, and the reservation pods there are left to KAI.
    """
    node = request.getfixturevalue("gpu_node_lease") if uses(request.node, "gpu_node_lease") else ""
    if not node:
        request.getfixturevalue("gpu_lock")
    if not lab.has_kai:
        return

    fields = f"spec.nodeName={node}" if node else None

    def wait(seconds: float) -> None:
        lab.cluster.wait(
            "Pod",
            lambda pods: not _unused(lab, pods),
            namespace=RESERVATIONS,
            fields=fields,
            timeout=seconds,
            what=f"no GPU{f' of {node}' if node else ''} is reserved from an earlier test",
        )

    try:
        wait(NUDGE_SECONDS)
    except WaitTimeout:
        reserved = set()
        for pod in _unused(lab, lab.cluster.list("Pod", RESERVATIONS, fields=fields)):
            if "deletionTimestamp" in pod["metadata"] and lab.spec.cluster.own:
                # A pod that is deleted while it starts can miss the signal, and has 30 s of grace.
                lab.cluster.delete("Pod", pod["metadata"]["name"], RESERVATIONS, grace=0)
            else:
                reserved.add(pod["spec"]["nodeName"])
        if reserved:
            _nudge(request, sorted(reserved))
        wait(FREE_SECONDS)


def _unused(lab: Lab, reservations: Sequence[Json]) -> list[Json]:
    """Reservation pods of GPUs that only earlier tests can have used: all of them in the lab's own cluster."""
    if lab.spec.cluster.own or not reservations:
        return list(reservations)
    pods = [PodView.of(pod) for pod in lab.cluster.list("Pod")]
    used = {group for pod in pods if pod.namespace != RESERVATIONS and not pod.ended for group in pod.gpu_groups}
    return [pod for pod in reservations if used.isdisjoint(PodView.of(pod).gpu_groups)]


def _nudge(request: pytest.FixtureRequest, nodes: Sequence[str]) -> None:
    """Let KAI bind a pod to each node, so that its binder syncs the GPUs there. Raises WaitTimeout."""
    workloads, queue = request.getfixturevalue("new_workloads")(), request.getfixturevalue("queue")
    names = [f"nudge-{number}" for number in range(len(nodes))]
    workloads.submit(*(on_node(cpu_pod(name, queue=queue), node) for name, node in zip(names, nodes, strict=True)))
    workloads.on_host(lambda pod: bool(pod.node), *names, what="bound")
    workloads.remove(*names)


def _lock_file(lab: Lab, number: int) -> Path:
    return lab.paths.lock.with_suffix(f".gpus-{number}")


@contextmanager
def _locked(lab: Lab, *wanted: Sequence[Path]) -> Iterator[list[int]]:
    """Lock one file of each list, the first free one; yields their indexes.

    Only one test at a time waits for locks, so that a test that needs all GPUs is not overtaken by those that need one
    node.
    """
    with ExitStack() as held:
        with ExitStack() as asking:
            _lock_one([lab.paths.lock.with_suffix(".gpus-asked")], asking)
            free = [_lock_one(paths, held) for paths in wanted]
        yield free


def _lock_one(paths: Sequence[Path], held: ExitStack) -> int:
    """Lock the first free file until ``held`` is closed; returns its index."""
    end = time.monotonic() + LOCK_SECONDS
    while True:
        for number, path in enumerate(paths):
            if (lock := lock_now(path)) is not None:
                held.enter_context(lock)
                return number
        if time.monotonic() > end:
            files = " and ".join(map(str, paths))
            pytest.fail(f"the lab's GPUs were not free within {LOCK_SECONDS:.0f} s: {files} is locked", pytrace=False)
        time.sleep(POLL_SECONDS)

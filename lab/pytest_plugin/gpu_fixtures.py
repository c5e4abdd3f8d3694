"""The lab's GPUs for one test alone: all of them, or those of one node, so that two such tests run side by side.

A test takes all of them with the fixture ``gpu_lock``. With ``gpu_home`` it takes one node that is free: its places put
their pods there, and another worker has another node. Whoever comes first is served first. ``lab.pytest_plugin.plugin``
brings this in.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from lab.config import tenant_nodes
from lab.config.labels import NODE_LABEL
from lab.errors import WaitTimeout
from lab.gpu.pools import pools_by_node, short_name
from lab.objects.views import NodeView
from lab.session.lab import Lab
from lab.steps.kai.step import RESERVATIONS
from lab.tools.lock import lock_now
from lab.workloads.modifiers import on_node
from lab.workloads.pods import cpu_pod

GROUP = "gpus"
"""The group of pytest-xdist of tests that need all GPUs and KAI: they run in one worker. Those of one node are in no
group: the worker that is free takes the next one."""

HOME = pytest.StashKey[str]()
"""The node that a test has for itself."""

LOCK_SECONDS = 240.0
"""How long a test waits for its GPUs: more than the tests of another group take."""

POLL_SECONDS = 0.05
"""How often a lock is tried that another process holds."""

FREE_SECONDS = 60.0
"""How long KAI may take to let a GPU go whose last user is gone; it does so at once."""

NUDGE_SECONDS = 5.0
"""After so long KAI is helped: pods that go while one of their GPU group is being bound leave it reserved until the
binder looks at that node again, at its next bind (seen with 0.16.8; SyncForNode in pkg/binder)."""


def pytest_configure(config: pytest.Config) -> None:
    """Make pytest-xdist's marker known, which tests get here; runs without that plugin ignore it."""
    config.addinivalue_line("markers", "xdist_group(name): tests of one group run in one worker")


def needs_all_gpus(item: pytest.Item) -> bool:
    """Whether a test has all GPUs of the lab to itself."""
    return "gpu_lock" in getattr(item, "fixturenames", ())


def needs_a_nodes_gpus(item: pytest.Item) -> bool:
    """Whether a test has the GPUs of one node to itself."""
    return "gpu_home" in getattr(item, "fixturenames", ())


def gpu_node_names(lab: Lab) -> tuple[str, ...]:
    """Names of the nodes whose GPUs suites may use: those that are no tenant's own."""
    if lab.spec.cluster.provider == "kind":
        own = {name for names in tenant_nodes(lab.spec).values() for name in names}
        return tuple(name for name in pools_by_node(lab.spec) if short_name(lab.spec.name, name) not in own)
    nodes = map(NodeView.of, lab.cluster.list("Node"))
    return tuple(sorted(node.name for node in nodes if node.gpus and NODE_LABEL not in node.labels))


@pytest.fixture
def gpu_lock(lab: Lab) -> Iterator[None]:
    """All GPUs of the lab for this test alone, among all processes on this machine.

    Tests with it are in one group of pytest-xdist, so that workers do not wait for each other (see
    ``lab.pytest_plugin.scheduling``).
    Name it before ``place``: the GPUs are free again when it is released.
    """
    with _locked(lab, *([_lock(lab, number)] for number in range(max(1, len(gpu_node_names(lab)))))):
        yield


@pytest.fixture
def gpu_home(request: pytest.FixtureRequest, lab: Lab) -> Iterator[str]:
    """The node whose GPUs this test has for itself; the pods of its places go there.

    Which one it is depends on what is free when the test begins.
    """
    nodes = gpu_node_names(lab)
    if not nodes:
        pytest.skip(f"no node of lab {lab.spec.name} has GPUs")
    with _locked(lab, [_lock(lab, number) for number in range(len(nodes))]) as (free,):
        request.node.stash[HOME] = nodes[free]
        yield nodes[free]


@pytest.fixture
def home(gpu_home: str, lab: Lab) -> NodeView:
    """That node."""
    return NodeView.of(lab.cluster.get("Node", gpu_home) or {})


@pytest.fixture
def free_gpus(request: pytest.FixtureRequest, lab: Lab) -> None:
    """No GPU of the test's is reserved any more: a reservation pod outlives the last user of its GPU by a moment.

    Without this a test would begin with a GPU less, and see a refusal that is none. In a cluster that is not the lab's
    own, others may share GPUs: there it asks for nothing.
    """
    home = request.getfixturevalue("gpu_home") if "gpu_home" in request.fixturenames else ""
    if not home:
        request.getfixturevalue("gpu_lock")
    if not lab.has_kai or lab.spec.cluster.provider != "kind":
        return

    fields = f"spec.nodeName={home}" if home else None

    def wait(seconds: float) -> None:
        lab.cluster.wait(
            "Pod",
            lambda pods: not pods,
            namespace=RESERVATIONS,
            fields=fields,
            timeout=seconds,
            what=f"no GPU{f' of {home}' if home else ''} is reserved from an earlier test",
        )

    try:
        wait(NUDGE_SECONDS)
    except WaitTimeout:
        kept = set()
        for pod in lab.cluster.list("Pod", RESERVATIONS, fields=fields):
            if "deletionTimestamp" in pod["metadata"]:
                # Told to end while it started, it may not hear of it, and has 30 s of grace.
                lab.cluster.delete("Pod", pod["metadata"]["name"], RESERVATIONS, grace=0)
            else:
                kept.add(pod["spec"]["nodeName"])
        if kept:
            _nudge(request, sorted(kept))
        wait(FREE_SECONDS)


def _nudge(request: pytest.FixtureRequest, nodes: Sequence[str]) -> None:
    """Let KAI bind a pod to each of the nodes, so that its binder looks at the GPUs there. Raises WaitTimeout."""
    place, queue = request.getfixturevalue("new_place")(), request.getfixturevalue("queue")
    names = [f"nudge-{number}" for number in range(len(nodes))]
    place.submit(*(on_node(cpu_pod(name, queue=queue), node) for name, node in zip(names, nodes, strict=True)))
    place.on_host(lambda pod: bool(pod.node), *names, what="bound")
    place.remove(*names)


def _lock(lab: Lab, number: int) -> Path:
    return lab.paths.lock.with_suffix(f".gpus-{number}")


@contextmanager
def _locked(lab: Lab, *wanted: Sequence[Path]) -> Iterator[list[int]]:
    """Hold one file of each list, the first that is free; yields which ones.

    Only one test at a time asks, so that who waits for all GPUs is not passed by others that need one node only.
    """
    with ExitStack() as held:
        with ExitStack() as asking:
            _one_of([lab.paths.lock.with_suffix(".gpus-asked")], asking)
            free = [_one_of(paths, held) for paths in wanted]
        yield free


def _one_of(paths: Sequence[Path], held: ExitStack) -> int:
    """Lock the first of these files that is free, until ``held`` is closed; returns which one it is."""
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

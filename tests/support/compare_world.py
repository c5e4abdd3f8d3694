"""Handwritten recordings of runs: pods of a tenant and of the host at given seconds."""

from __future__ import annotations

from typing import Any

from lab.compare.measure import Round, measure
from lab.compare.model import Comparison, Difference, Letter, Run, Side
from lab.compare.recording import HOST, TENANT, Created, EvictSeen, GroupSeen, PodSeen, Recording
from lab.compare.target import DEFAULT_SCHEDULER, Target
from lab.compare.workload import Planned
from lab.gpu.map.model import Gpu, GpuMap, Holder, NodeGpus
from lab.kai import line_of
from lab.lint import LintContext, QueueFact
from lab.objects.kai import PodGroupView
from lab.snapshot.pod_info import PodInfo
from tests.support.explain_world import GPU, GROUP, UUID, pod

Json = dict[str, Any]
SPACE = "t-compare-ml-abc123"
TENANT_NAME = "ml"


def seen(name: str, at: float, *, side: str = TENANT, gone: bool = False, **more: Any) -> PodSeen:
    """A pod at a time in seconds; ``more`` as in explain_world.pod, without a PodGroup unless one is named."""
    more.setdefault("group", more.get("annotations", {}).get("pod-group-name"))
    obj = pod(name, SPACE, **more)
    owner = obj["metadata"].pop("owner", None)
    if owner:
        kind, _, of = owner.partition("/")
        obj["metadata"]["ownerReferences"] = [{"kind": kind, "name": of, "controller": True}]
    if side == HOST:
        meta = obj["metadata"]
        meta |= {
            "name": f"{name}-x-{SPACE}-x-{TENANT_NAME}",
            "namespace": f"vcluster-{TENANT_NAME}",
            "uid": f"host-{name}",
        }
        meta["labels"] |= {"vcluster.loft.sh/managed-by": TENANT_NAME, "vcluster.loft.sh/namespace": SPACE}
        meta["annotations"] |= {"vcluster.loft.sh/object-name": name, "vcluster.loft.sh/object-namespace": SPACE}
    return PodSeen(at, side, f"uid-{SPACE}-{name}", PodInfo.of(obj), gone)


def life(
    name: str, *, created: float = 0.1, scheduled: float | None = 1.0, running: float | None = 2.0, **more: Any
) -> list[PodSeen]:
    """A pod that is created, bound and running."""
    found = [seen(name, created, **more)]
    if scheduled is not None:
        found.append(seen(name, scheduled, node="worker", **more))
    if running is not None:
        found.append(seen(name, running, node="worker", ready=True, **more))
    return found


def recording(*pods: PodSeen, seconds: float = 10.0, settled: bool = True, **more: Any) -> Recording:
    """A recording; ``created``, ``groups`` and ``evictions`` come from ``more``."""
    return Recording(seconds, settled, pods=tuple(sorted(pods, key=lambda one: one.at)), **more)


def created(at: float, workload: str) -> Created:
    """A creation request."""
    return Created(at, workload)


def evicted(at: float, group: str, action: str) -> EvictSeen:
    """KAI's event."""
    return EvictSeen(at, group, action)


def group(name: str, *, side: str = TENANT, queue: str = "test", minimum: int = 1, of: str = "Pod/x") -> GroupSeen:
    """A PodGroup."""
    kind, _, owner = of.partition("/")
    obj = {
        "metadata": {"name": name, "namespace": SPACE, "ownerReferences": [{"kind": kind, "name": owner}]},
        "spec": {"queue": queue, "minMember": minimum, "priorityClassName": "train"},
    }
    return GroupSeen(1.0, side, PodGroupView.of(obj))


def planned(name: str, *, kind: str = "Pod", queue: str = "test", doc: Json | None = None) -> Planned:
    """An object of the workload."""
    made = {"kind": kind, "metadata": {"name": name}, **(doc or {})}
    return Planned(made, f"{kind}/{name}", 0, 1, queue)


def holder(name: str, share: float, *, tenant: str = TENANT_NAME, namespace: str = SPACE) -> Holder:
    """A pod on a GPU."""
    return Holder(namespace, name, tenant, "test", f"{share:g}", share, "Running", f"host-{tenant}-{name}", "worker")


def gpu(index: int, *holders: Holder, uuid: str | None = None, shared: bool = True) -> Gpu:
    """A GPU of ``worker``."""
    name = f"GPU-{index}0000000-0000-0000-0000-000000000000" if uuid is None else uuid
    reserved = ("kai-resource-reservation/r",) if shared else ()
    return Gpu("worker", index, name, "T4", 15360, holders=holders, reservations=reserved)


def gpus(*row: Gpu, unplaced: tuple[Holder, ...] = ()) -> GpuMap:
    """A map of one node."""
    node = NodeGpus("worker", True, False, "T4", 15360, len(row), len(row), row, unplaced)
    return GpuMap("2026-11-21T12:00:00+00:00", (node,))


def target(version: str = "0.16.8", *, mode: str = "own-kai", letter: Any = "a", tenant: str = TENANT_NAME) -> Target:
    """A tenant whose queues are ``default`` and its leaf ``test``; no version: the default scheduler."""
    line = line_of(version) if version else None
    words = f"KAI {version} in the tenant" if version else "the default scheduler"
    side = Side(letter, tenant, mode, words, version, "1.34.4", ())
    free = {"gpu": -1.0, "cpu": -1.0, "memory": -1.0}
    queues = {"default": QueueFact("default", "", free, free), "test": QueueFact("test", "default", free, free)}
    setting = LintContext(
        line_of(version or "0.16.8"), queues if line else None, all_queues=bool(line), gpu_sharing=True
    )
    name = line.scheduler_name if line else DEFAULT_SCHEDULER
    return Target(side, line, name, setting, ("test",) if line else ())


__all__ = ["GPU", "GROUP", "HOST", "TENANT", "UUID"]
DELETING = {"deletionTimestamp": "2026-11-21T12:00:00Z"}


def run(letter: Letter, number: int = 1, order: int = 1, *, unlucky: bool = False) -> Run:
    """Pods ``a`` (half a GPU), ``b`` (evicted if unlucky), ``c`` (pending if unlucky)."""
    pods = [*life("a", fraction=0.5, scheduled=0.6, running=1.5), *life("b", gpus=1, group="pg-b")]
    if unlucky:
        pods += [seen("b", 4.0, gpus=1, node="worker", group="pg-b", meta=DELETING)]
        pods += life("c", gpus=1, scheduled=None, running=None)
    else:
        pods += life("c", gpus=1, scheduled=2.0, running=3.0)
    record = recording(*pods, evictions=(evicted(3.9, "pg-b", "preempt"),), settled=not unlucky)
    where = gpus(gpu(0, holder("a", 0.5), holder("z", 0.25, tenant="other")), gpu(1, holder("b", 1.0), shared=False))
    what = Round(letter, number, order, TENANT_NAME, SPACE)
    why = {"c": ("Pod t/c: no room", "why [gpu.none]: all GPUs are taken")}
    return measure(what, record, [planned(name) for name in "abc"], where, why, {}, ["<b>note</b>"] if unlucky else [])


def two_sides() -> Comparison:
    """Two tenants, two rounds: the first tenant is unlucky in round B."""
    a = Side("a", "team-ml", "own-kai", "KAI 0.9.3 in the tenant", "0.9.3", "1.33.13", ("worker2",))
    b = Side("b", "team-research", "own-kai", "KAI 0.16.8 in the tenant", "0.16.8", "1.34.4", ())
    runs = (run("a", 1, 1), run("b", 1, 2, unlucky=True), run("b", 2, 1), run("a", 2, 2))
    rows = (
        Difference("annotation", "node_pool", "kai.scheduler/nodepool: x", "", ("a", "b")),
        Difference("PodGroup", "Job/gang", "1 × (minMember 2)", "2 × (minMember 1)", ()),
    )
    notes = ("team-ml: Job gang: <i>batch-min-member</i> is left out",)
    return Comparison("demo", a, b, 2, at_once=False, runs=runs, differences=rows, notes=notes)

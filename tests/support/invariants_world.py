"""Clusters for the tests of the invariants: a node of two GPUs of 16 GiB, and pods on it."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from lab.findings import Finding
from lab.invariants import ClusterState, Invariant, Scope, Watcher, known
from lab.invariants.cluster_state import tenants_with_kai
from lab.kube import Cluster
from lab.kube.informers import InformerEvent
from lab.snapshot.cluster_snapshot import ClusterSnapshot
from lab.snapshot.pod_info import PodInfo
from tests.support import builders
from tests.support.builders import metadata
from tests.support.fakes import FakeClock

Json = dict[str, Any]
AT = datetime(2026, 1, 1, tzinfo=UTC)
NODE = "w1"
MEMORY = 16384
_versions = itertools.count(1)


def meta(name: str, namespace: str = "t", **more: Any) -> Json:
    return metadata(name, namespace, **{"resourceVersion": str(next(_versions)), **more})


def node(
    name: str = NODE, *, gpus: int = 2, memory: int | None = MEMORY, count: int | None = None, tenant: str = ""
) -> Json:
    labels = {} if memory is None else {"nvidia.com/gpu.memory": str(memory)}
    if count is not None:
        labels["nvidia.com/gpu.count"] = str(count)
    return builders.node(name, gpus=gpus, tenant=tenant, labels=labels, resourceVersion=str(next(_versions)))


def pod(
    name: str,
    *,
    namespace: str = "t",
    on: str = NODE,
    phase: str = "Running",
    gpus: int = 0,
    fraction: float | None = None,
    mib: int | None = None,
    devices: int = 1,
    groups: Iterable[str] = (),
    received: str | None = None,
    scheduler: str = "kai-scheduler",
    deleting: bool = False,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    requests: Mapping[str, str] | None = None,
) -> Json:
    """A pod of KAI; bound, unless ``on`` is empty, with KAI's labels and annotations."""
    notes: Json = dict(annotations or {})
    marks: Json = dict(labels or {})
    if fraction is not None:
        notes["gpu-fraction"] = str(fraction)
    if mib is not None:
        notes["gpu-memory"] = str(mib)
    if devices > 1:
        notes["gpu-fraction-num-devices"] = str(devices)
    several = tuple(groups)
    if len(several) == 1:
        marks["runai-gpu-group"] = several[0]
    else:
        marks.update({f"runai-gpu-group/{group}": group for group in several})
    if on and scheduler == "kai-scheduler":
        notes["received-resource-type"] = received or ("Fraction" if "gpu-" in "".join(notes) else "Regular")
    elif received:
        notes["received-resource-type"] = received
    asked = {**(requests or {}), **({"nvidia.com/gpu": str(gpus)} if gpus else {})}
    deleted = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleting else {}
    return builders.pod(
        name,
        namespace,
        node=on,
        scheduler=scheduler,
        phase=phase,
        container={"resources": {"requests": asked, "limits": asked if gpus else {}}},
        labels=marks,
        annotations=notes,
        resourceVersion=str(next(_versions)),
        **deleted,
    )


def share(name: str, fraction: float, group: str = "g1", **more: Any) -> Json:
    """A bound pod with a fraction."""
    return pod(name, fraction=fraction, groups=[group], **more)


def reservation(group: str = "g1", uuid: str = "GPU-1", *, name: str = "", **more: Any) -> Json:
    """The reservation pod of a group."""
    notes = {"run.ai/reserve_for_gpu_index": uuid} if uuid else {}
    labels = {"app": "kai-resource-reservation", "runai-gpu-group": group, **more.pop("labels", {})}
    return pod(
        name or f"gpu-reservation-{group}",
        gpus=1,
        scheduler="default-scheduler",
        labels=labels,
        annotations=notes,
        **{"namespace": "kai-resource-reservation", **more},
    )


def copy_of(obj: Json, tenant: str, **more: str) -> Json:
    """The synced pod of a tenant's pod."""
    about = obj["metadata"]
    labels = {
        **about.get("labels", {}),
        "vcluster.loft.sh/managed-by": tenant,
        "vcluster.loft.sh/namespace": about["namespace"],
    }
    notes = {
        **about.get("annotations", {}),
        "vcluster.loft.sh/object-name": about["name"],
        "vcluster.loft.sh/object-namespace": about["namespace"],
        "vcluster.loft.sh/object-uid": about["uid"],
        **more,
    }
    name = f"{about['name']}-x-{about['namespace']}-x-{tenant}"
    return {**obj, "metadata": meta(name, f"vc-{tenant}", labels=labels, annotations=notes)}


def quota(tenant: str, **hard: str) -> Json:
    """A tenant's ResourceQuota; ``gpu`` counts whole GPUs."""
    limits = {"requests.nvidia.com/gpu" if key == "gpu" else key: amount for key, amount in hard.items()}
    labels = {"app": "vcluster", "release": tenant}
    about = meta(f"vc-{tenant}", f"vc-{tenant}", labels=labels)
    return {"kind": "ResourceQuota", "metadata": about, "spec": {"hard": limits}}


def queue(name: str, parent: str = "", **limits: float) -> Json:
    resources = {key: {"limit": limits.get(key, -1)} for key in ("gpu", "cpu", "memory")}
    return builders.queue(name, parent, resources=resources, resourceVersion=str(next(_versions)))


def pod_group(name: str, queue: str = "leaf", least: int = 1, namespace: str = "t", **spec: Any) -> Json:
    return {"kind": "PodGroup", "metadata": meta(name, namespace), "spec": {"queue": queue, "minMember": least, **spec}}


def bind_request(name: str, phase: str = "Pending", groups: Iterable[str] = (), namespace: str = "t") -> Json:
    spec = {"podName": name, "selectedNode": NODE, "selectedGPUGroups": list(groups)}
    return {
        "kind": "BindRequest",
        "metadata": meta(name, namespace),
        "spec": spec,
        "status": {"phase": phase, "failedAttempts": 2},
    }


def given(name: str, uuids: str, namespace: str = "t", container: str = "0") -> Json:
    """The ConfigMap with a pod's GPUs; the pod's annotation is ``<name>-shared-gpu``."""
    return {
        "kind": "ConfigMap",
        "metadata": meta(f"{name}-shared-gpu-{container}", namespace),
        "data": {"NVIDIA_VISIBLE_DEVICES": uuids, "GPU_PORTION": "0.5"},
    }


def world(
    *objs: Json,
    kinds: Iterable[str] = ("Pod", "Node", "PodGroup", "Queue", "BindRequest", "ConfigMap", "ResourceQuota"),
) -> ClusterSnapshot:
    """A snapshot of these objects and, unless they contain a node, the default node."""
    every = objs if any(obj["kind"] == "Node" for obj in objs) else (node(), *objs)
    return ClusterSnapshot(AT, {kind: tuple(obj for obj in every if obj["kind"] == kind) for kind in kinds})


def state_of(
    snapshot: ClusterSnapshot,
    tenants: Mapping[str, ClusterSnapshot] | None = None,
    own_kai: Iterable[str] = (),
    *,
    inside: bool = False,
) -> ClusterState:
    """The state of a cluster and of its tenants."""
    pods = tuple(PodInfo.of(obj) for obj in snapshot.of("Pod"))
    return ClusterState(
        snapshot,
        pods,
        {node.name: node for node in snapshot.nodes},
        {name: state_of(one, inside=True) for name, one in (tenants or {}).items()},
        frozenset(own_kai) | tenants_with_kai(pods),
        inside=inside,
    )


def breaches(
    rule: str, *objs: Json, tenants: Mapping[str, ClusterSnapshot] | None = None, **more: Any
) -> list[Finding]:
    """Return the findings of one invariant for these objects."""
    (invariant,) = known((rule,))
    return list(invariant.apply(state_of(world(*objs), tenants, **more)))


class Script:
    """Scripted informers: events in order with pauses between them, then nothing."""

    def __init__(self, clock: FakeClock, *steps: InformerEvent | float) -> None:
        self.clock = clock
        self.steps = deque(steps)
        self.open = False

    def __call__(self, sources: object) -> Script:
        """Stands in for ``Informers``."""
        return self

    def __enter__(self) -> Script:
        self.open = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.open = False

    def take(self, seconds: float) -> InformerEvent | None:
        """Return the next event; a number is a pause without events, of which ``seconds`` pass at most."""
        assert self.open
        if not self.steps:
            self.clock.advance(max(seconds, 0.001))
            return None
        step = self.steps[0]
        if isinstance(step, InformerEvent):
            self.steps.popleft()
            return step
        bite = min(step, max(seconds, 0.001))
        self.clock.advance(bite)
        self.steps.popleft()
        if step - bite > 1e-9:
            self.steps.appendleft(step - bite)
        return None


def listed(kind: str, *objs: Json, source: str = "/") -> InformerEvent:
    """The first list of a kind."""
    return InformerEvent(source, kind, tuple(("ADDED", obj) for obj in objs), listed=True)


def lists(*objs: Json, source: str = "/", kinds: Iterable[str] = ()) -> list[InformerEvent]:
    """The first lists of all kinds that an invariant needs."""
    every = objs if any(obj["kind"] == "Node" for obj in objs) else (node(), *objs)
    wanted = kinds or ("Pod", "Node", "ConfigMap", "BindRequest", "PodGroup", "Queue", "ResourceQuota")
    return [listed(kind, *(obj for obj in every if obj["kind"] == kind), source=source) for kind in wanted]


def news(change: str, obj: Json, source: str = "/") -> InformerEvent:
    """One watch event."""
    return InformerEvent(source, obj["kind"], ((change, obj),))


def rule(name: str) -> Invariant:
    """Return an invariant by its id."""
    return known((name,))[0]


HOST = Scope("", Cluster(Path("/lab/kubeconfig")))


def watched(clock: FakeClock, *steps: InformerEvent | float, scopes: tuple[Scope, ...] = (HOST,)) -> Watcher:
    """Return a watcher after all these steps and one more second."""
    script = Script(clock, *steps, 1.0)
    one = Watcher(scopes, clock=clock, informers=script)
    with one:
        one.run(lambda: not script.steps)
        one.look()
    return one


def broken(one: Watcher) -> list[str]:
    return [violation.rule for violation in one.violations]

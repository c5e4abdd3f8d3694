"""KAI as it is found in a cluster: its version, its components and how they stand, and how it was set up."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass

from lab.errors import SpecError
from lab.kai import VersionLine, line_of, lines
from lab.kube.readiness import rollout
from lab.objects.fields import Obj, parts
from lab.objects.views import PodView
from lab.snapshot.cluster_snapshot import ClusterSnapshot

_ENOUGH = 3
"""Deployments by which KAI is known: one name alone, such as admission or scheduler, may be anybody's."""

SCHEDULER, BINDER, GROUPER, ADMISSION = "scheduler", "binder", "podgrouper", "admission"
QUEUES, GROUPS, OPERATOR = "queuecontroller", "podgroupcontroller", "operator"


@dataclass(frozen=True)
class Component:
    """One Deployment of KAI."""

    role: str
    """scheduler, binder, podgrouper, admission, …: the chart's values key."""
    deployment: str
    namespace: str
    want: int
    have: int
    args: tuple[str, ...]
    pods: tuple[PodView, ...]
    missing: bool = False
    """This version has it, and the cluster has no such Deployment."""

    @property
    def up(self) -> bool:
        """Whether at least one of its pods is available."""
        return self.have > 0

    def option(self, name: str) -> str | None:
        """The value of a flag, however it is written; None when it is not given."""
        for number, arg in enumerate(self.args):
            if arg == f"--{name}":
                following = self.args[number + 1] if number + 1 < len(self.args) else ""
                return following if following and not following.startswith("--") else "true"
            if arg.startswith(f"--{name}="):
                return arg.partition("=")[2]
        return None

    def state(self) -> tuple[str, ...]:
        """How it stands, in a line, and why its pods wait."""
        title = f"Deployment {self.namespace}/{self.deployment}"
        if self.missing:
            return (f"{title} does not exist",)
        waiting = [
            f"pod {pod.name}: {w.name} waits: {w.reason}{f' ({w.message})' if w.message else ''}"
            for pod in self.pods
            for w in pod.waiting
        ]
        return (f"{title}: {self.have} of {self.want} available", *waiting[:3])


@dataclass(frozen=True)
class KaiInstallation:
    """A KAI installation."""

    version: str
    """By the tag of its images; empty when that is no version."""
    line: VersionLine
    namespace: str
    components: Mapping[str, Component]

    def component(self, role: str) -> Component | None:
        """A component of this version, also one that is missing; None where the version has none."""
        return self.components.get(role)

    @property
    def scheduler_name(self) -> str:
        """spec.schedulerName of the pods that it schedules."""
        scheduler = self.component(SCHEDULER)
        return (scheduler.option("scheduler-name") if scheduler else None) or self.line.scheduler_name

    @property
    def gpu_sharing(self) -> bool | None:
        """Whether fractions are allowed; None when that cannot be told."""
        # The webhook is in the binder up to 0.7, later in admission (cmd/binder/app/options.go@v0.7.11).
        served = self.component(ADMISSION) or self.component(BINDER)
        if served is None or served.missing:
            return None
        return served.option("gpu-sharing-enabled") == "true"

    @property
    def queue_key(self) -> str:
        """Label that names the queue."""
        grouper = self.component(GROUPER)
        return (grouper.option("queue-label-key") if grouper else None) or self.line.keys.queue

    @property
    def pool_key(self) -> str:
        """Label of nodes and PodGroups that divides them among shards; empty: nothing does."""
        scheduler = self.component(SCHEDULER)
        return (scheduler.option("nodepool-label-key") if scheduler else None) or self.line.keys.node_pool

    @property
    def pools(self) -> frozenset[str]:
        """Label values that this installation's schedulers serve; empty text: nodes without the label."""
        values = {
            c.option("partition-label-value") or ""
            for role, c in self.components.items()
            if role == SCHEDULER or role.startswith(f"{SCHEDULER}:")
        }
        return frozenset(values)

    @property
    def namespace_selector(self) -> dict[str, str]:
        """Labels that a namespace needs for its pods to get a PodGroup; empty: none."""
        grouper = self.component(GROUPER)
        text = (grouper.option("namespace-label-selector") if grouper else None) or ""
        return dict(pair.split("=", 1) for pair in text.split(",") if "=" in pair)


@functools.lru_cache(maxsize=4)
def installation(world: ClusterSnapshot) -> KaiInstallation | None:
    """KAI in this cluster, or None: the namespace that has most of its Deployments, at least three."""
    known = {name for line in lines().values() for name in line.deployments}
    homes: dict[str, list[Obj]] = {}
    for obj in world.of("Deployment"):
        meta = parts(obj)[0]
        if meta.get("name") in known:
            homes.setdefault(meta.get("namespace", ""), []).append(obj)
    namespace = max(sorted(homes), key=lambda home: len(homes[home]), default="")
    if len(homes.get(namespace, ())) < _ENOUGH:
        return None
    version = _version(homes[namespace])
    line = _line(version)
    components = {}
    for name, role in line.deployments.items():
        found = world.get("Deployment", name, namespace)
        components[role] = (
            Component(role, name, namespace, 1, 0, (), (), missing=True)
            if found is None
            else _component(role, found, world)
        )
    for obj in world.of("Deployment"):  # one more scheduler for every further shard
        meta = parts(obj)[0]
        if meta.get("namespace") == namespace and meta.get("name") not in line.deployments and _schedules(obj):
            components[f"{SCHEDULER}:{meta['name']}"] = _component(SCHEDULER, obj, world)
    return KaiInstallation(version, line, namespace, components)


def _component(role: str, obj: Obj, world: ClusterSnapshot) -> Component:
    meta, spec, _ = parts(obj)
    have, want = rollout(obj)
    chosen = ((spec.get("selector") or {}).get("matchLabels") or {}).items()
    return Component(
        role=role,
        deployment=meta.get("name", ""),
        namespace=meta.get("namespace", ""),
        want=want,
        have=have,
        args=tuple(str(arg) for container in _containers(obj) for arg in container.get("args") or []),
        pods=tuple(
            pod
            for pod in world.pods
            if chosen and pod.namespace == meta.get("namespace") and chosen <= pod.labels.items()
        ),
    )


def _containers(obj: Obj) -> list[Obj]:
    return ((parts(obj)[1].get("template") or {}).get("spec") or {}).get("containers") or []


def _schedules(obj: Obj) -> bool:
    images = (str(container.get("image", "")) for container in _containers(obj))
    return any(image.rpartition("/")[2].partition(":")[0] == "scheduler" for image in images)


def _version(objs: list[Obj]) -> str:
    """The tag of the images; the one most of them have."""
    tags: list[str] = []
    for obj in objs:
        for container in _containers(obj):
            found = re.search(r":v?(\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?)$", str(container.get("image", "")))
            if found:
                tags.append(found[1].removesuffix("-fips"))
    return max(sorted(set(tags)), key=tags.count) if tags else ""


def _line(version: str) -> VersionLine:
    """What holds for the version; the newest line for one that is unknown or not told."""
    try:
        return line_of(version)
    except SpecError:
        return list(lines().values())[-1]

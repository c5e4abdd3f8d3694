"""KAI as installed in a cluster: its version, its components and their options."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

from lab.errors import SpecError
from lab.kai import VersionLine, line_of, lines, version_of
from lab.kai.names import ENOUGH_COMPONENTS
from lab.kube.readiness import rollout
from lab.objects.fields import Obj, parts
from lab.objects.views import PodView
from lab.snapshot.cluster_snapshot import ClusterSnapshot

SCHEDULER, BINDER, GROUPER, ADMISSION, OPERATOR = "scheduler", "binder", "podgrouper", "admission", "operator"


@dataclass(frozen=True)
class Component:
    """One Deployment of KAI."""

    deployment: str
    namespace: str
    want: int
    have: int
    args: tuple[str, ...]
    pods: tuple[PodView, ...]
    missing: bool = False
    """This version has the component, and the cluster has no such Deployment."""

    JSON = "available=have wanted=want"

    @property
    def up(self) -> bool:
        """Whether at least one of its pods is available."""
        return self.have > 0

    def option(self, name: str) -> str | None:
        """Return the value of a flag in any notation; None if it is not set."""
        for number, arg in enumerate(self.args):
            if arg == f"--{name}":
                following = self.args[number + 1] if number + 1 < len(self.args) else ""
                return following if following and not following.startswith("--") else "true"
            if arg.startswith(f"--{name}="):
                return arg.partition("=")[2]
        return None

    def state(self) -> tuple[str, ...]:
        """Return its availability in one line, then why its pods wait."""
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
    """From the tag of its images; empty if the tag is not a version."""
    line: VersionLine
    namespace: str
    components: Mapping[str, Component]
    """By role: scheduler, binder, podgrouper, admission, …, the chart's values keys."""

    JSON = "version components=by_deployment"

    @property
    def by_deployment(self) -> Mapping[str, Component]:
        return {component.deployment: component for component in self.components.values()}

    def component(self, role: str) -> Component | None:
        """Return a component of this version, even if it is missing; None if the version does not have it."""
        return self.components.get(role)

    def _option(self, role: str, name: str) -> str:
        component = self.component(role)
        return (component.option(name) if component else None) or ""

    @property
    def scheduler_name(self) -> str:
        """spec.schedulerName of the pods that it schedules."""
        return self._option(SCHEDULER, "scheduler-name") or self.line.scheduler_name

    @property
    def queue_key(self) -> str:
        """The label that names the queue."""
        return self._option(GROUPER, "queue-label-key") or self.line.keys.queue

    @property
    def pool_key(self) -> str:
        """The label that assigns nodes and PodGroups to shards; empty if nothing does."""
        return self._option(SCHEDULER, "nodepool-label-key") or self.line.keys.node_pool

    @property
    def pools(self) -> frozenset[str]:
        """Label values that its schedulers serve; the empty value: nodes without the label."""
        roles = (role for role in self.components if role.partition(":")[0] == SCHEDULER)
        return frozenset(self._option(role, "partition-label-value") for role in roles)

    @property
    def restricted(self) -> bool:
        """Whether its scheduler ignores nodes that are not labelled as workers."""
        return self._option(SCHEDULER, "restrict-node-scheduling") == "true"

    @property
    def namespace_selector(self) -> dict[str, str]:
        """Labels that a namespace needs for its pods to get a PodGroup; empty: none."""
        text = self._option(GROUPER, "namespace-label-selector")
        return dict(pair.split("=", 1) for pair in text.split(",") if "=" in pair)


@functools.lru_cache(maxsize=4)
def installation(snapshot: ClusterSnapshot) -> KaiInstallation | None:
    """Return KAI in the namespace with most of its Deployments; None if none has at least three."""
    known = {name for line in lines().values() for name in line.deployments}
    found: dict[str, list[Obj]] = {}
    for obj in snapshot.of("Deployment"):
        meta = parts(obj)[0]
        if meta.get("name") in known:
            found.setdefault(meta.get("namespace", ""), []).append(obj)
    namespace = max(sorted(found), key=lambda name: len(found[name]), default="")
    if len(found.get(namespace, ())) < ENOUGH_COMPONENTS:
        return None
    images = (str(container.get("image", "")) for obj in found[namespace] for container in _containers(obj))
    version = version_of(images)
    line = _line(version)
    components = {}
    for name, role in line.deployments.items():
        existing = snapshot.get("Deployment", name, namespace)
        components[role] = (
            Component(name, namespace, 1, 0, (), (), missing=True)
            if existing is None
            else _component(existing, snapshot)
        )
    for obj in snapshot.of("Deployment"):  # every further shard has one more scheduler
        meta = parts(obj)[0]
        if meta.get("namespace") == namespace and meta.get("name") not in line.deployments and _schedules(obj):
            components[f"{SCHEDULER}:{meta['name']}"] = _component(obj, snapshot)
    return KaiInstallation(version, line, namespace, components)


def _component(obj: Obj, snapshot: ClusterSnapshot) -> Component:
    meta, spec, _ = parts(obj)
    name, namespace = meta.get("name", ""), meta.get("namespace", "")
    have, want = rollout(obj)
    args = tuple(str(arg) for container in _containers(obj) for arg in container.get("args") or [])
    labels = ((spec.get("selector") or {}).get("matchLabels") or {}).items()
    pods = (pod for pod in snapshot.pods if labels and pod.namespace == namespace and labels <= pod.labels.items())
    return Component(name, namespace, want, have, args, tuple(pods))


def _containers(obj: Obj) -> list[Obj]:
    return ((parts(obj)[1].get("template") or {}).get("spec") or {}).get("containers") or []


def _schedules(obj: Obj) -> bool:
    images = (str(container.get("image", "")) for container in _containers(obj))
    return any(image.rpartition("/")[2].partition(":")[0] == "scheduler" for image in images)


def _line(version: str) -> VersionLine:
    """Return the version's line; the newest line for an unknown version."""
    try:
        return line_of(version)
    except SpecError:
        return list(lines().values())[-1]

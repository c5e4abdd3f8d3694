"""Where a suite puts its pods: a namespace on the host or in a tenant, seen from both sides."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lab.errors import WaitTimeout
from lab.explain.wait_evidence import wait_evidence
from lab.kube import OWNER_LABEL, Cluster
from lab.kube.readiness import why_never
from lab.objects.synced import SyncedObject, selector
from lab.objects.views import EventView, PodView

Json = dict[str, Any]
Until = Callable[[PodView], bool]

_MARK = "--- devices"
# The environment that the workload itself got; /dev/nvidia* are the GPUs the container runtime let in.
_LOOK = f"""tr '\\0' '\\n' </proc/1/environ
echo '{_MARK}'
for device in /dev/nvidia*; do if [ -e "$device" ]; then echo "$device"; fi; done"""


@dataclass(frozen=True)
class Inside:
    """What a running container sees: its environment, and NVIDIA's device nodes."""

    env: Mapping[str, str]
    devices: tuple[str, ...]
    """All /dev/nvidia*, control devices included."""

    @property
    def gpus(self) -> tuple[str, ...]:
        """The device nodes that are GPUs: /dev/nvidia0, /dev/nvidia1, …"""
        return tuple(device for device in self.devices if re.fullmatch(r"/dev/nvidia\d+", device))

    @property
    def visible(self) -> tuple[str, ...]:
        """NVIDIA_VISIBLE_DEVICES taken apart; of a CDI name (``kind=UUID``, KAI with cdiEnabled) the UUID."""
        value = self.env.get("NVIDIA_VISIBLE_DEVICES", "")
        return tuple(name.rpartition("=")[2] for name in value.split(",") if name)

    @classmethod
    def of(cls, text: str) -> Inside:
        env, _, devices = text.partition(f"{_MARK}\n")
        pairs = (line.partition("=") for line in env.splitlines() if "=" in line)
        return cls({key: value for key, _, value in pairs}, tuple(sorted(devices.split())))


@dataclass(frozen=True)
class _Side:
    """A selection of pods in one cluster."""

    cluster: Cluster
    namespace: str | None = None
    labels: str | None = None


def staying_on(node: str, doc: Json) -> Json:
    """The object with its pods on one node, unless it says itself where they go. Schedulers still place them there."""
    spec = doc.get("spec") or {}
    if "template" in spec:
        return {**doc, "spec": {**spec, "template": staying_on(node, spec["template"])}}
    if "containers" not in spec or spec.get("nodeName") or spec.get("nodeSelector") or spec.get("affinity"):
        return doc
    return {**doc, "spec": {**spec, "nodeSelector": {"kubernetes.io/hostname": node}}}


@dataclass(frozen=True)
class WorkloadNamespace:
    """A namespace for the pods of one test.

    Args:
        lab: name of the lab, for its label.
        host: the lab's own cluster.
        cluster: where pods are created: the host, or a tenant.
        namespace: the namespace in ``cluster``.
        tenant: name of the tenant; empty on the host.
        node: all pods go to this node, those apart that say themselves where they want to go; empty: anywhere.
        grace: seconds that pods get when they are removed.
        with_pods: kinds of the host whose objects go with the last pods, at once, instead of by the garbage collector.
    """

    lab: str
    host: Cluster
    cluster: Cluster
    namespace: str
    tenant: str = ""
    node: str = ""
    grace: int = 1
    with_pods: tuple[str, ...] = ()

    @classmethod
    def open(
        cls,
        lab: str,
        host: Cluster,
        slug: str,
        *,
        tenant: str = "",
        cluster: Cluster | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> WorkloadNamespace:
        """Make a new namespace; its name is unique among all processes that use the lab.

        Args:
            lab: name of the lab.
            host: the lab's own cluster.
            slug: a few words for the name; what a DNS label cannot hold is replaced.
            tenant: name of the tenant.
            cluster: the tenant's cluster.
            labels: further labels of the namespace.
        """
        words = re.sub(r"[^a-z0-9]+", "-", slug.lower()).strip("-")[:24].rstrip("-") or "test"
        name = f"t-{words}-{secrets.token_hex(3)}"
        where = cluster or host
        meta = {"name": name, "labels": {**(labels or {}), OWNER_LABEL: lab}}
        where.create({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
        return cls(lab, host, where, name, tenant)

    def submit(self, *pods: Json) -> None:
        """Create pods here, or what has a template of pods, in the order given. Raises ApiFailed."""
        for pod in pods:
            meta = pod["metadata"]
            labels = {**meta.get("labels", {}), OWNER_LABEL: self.lab}
            placed = staying_on(self.node, pod) if self.node else pod
            self.cluster.create({**placed, "metadata": {**meta, "namespace": self.namespace, "labels": labels}})

    def running(self, *names: str, timeout: float = 120.0) -> tuple[PodView, ...]:
        """Wait until pods are Ready; their views as the host has them, in the order of ``names``.

        Raises:
            WaitTimeout: one is not Ready in time, has failed, or was deleted by somebody.
        """
        return self.on_host(lambda pod: pod.ready, *names, timeout=timeout, what="Ready")

    def on_host(self, until: Until, *names: str, timeout: float = 120.0, what: str) -> tuple[PodView, ...]:
        """Wait on the host until ``until`` holds for each pod; ``names`` are those in this place.

        Raises:
            WaitTimeout: it does not in time, or a pod has failed or was deleted.
        """
        return self._wait(self._on_host, until, names, timeout, f"{what} on the host")

    def inside(self, until: Until, *names: str, timeout: float = 120.0, what: str) -> tuple[PodView, ...]:
        """Wait as ``on_host`` does, but on the pods as whoever made them sees them."""
        where = f"in tenant {self.tenant}" if self.tenant else "on the host"
        return self._wait(self._own, until, names, timeout, f"{what} {where}")

    def host_pods(self) -> tuple[PodView, ...]:
        """The pods of this place as the host has them now."""
        side = self._on_host
        return tuple(PodView.of(obj) for obj in self.host.list("Pod", side.namespace, side.labels))

    def event(self, pod: PodView, *reasons: str, timeout: float = 90.0) -> EventView:
        """Wait for the first event with one of ``reasons`` about a pod of the host.

        Raises:
            WaitTimeout: there is none in time.
        """

        def fitting(events: list[Json]) -> list[EventView]:
            return [event for event in map(EventView.of, events) if event.reason in reasons]

        found = self.host.wait(
            "Event",
            lambda events: bool(fitting(events)),
            namespace=pod.namespace,
            fields=f"involvedObject.uid={pod.uid}",
            timeout=timeout,
            what=f"event {' or '.join(reasons)} of pod {pod.namespace}/{pod.name}",
        )
        return fitting(found)[0]

    def look(self, pod: PodView) -> Inside:
        """What the first container of a running pod sees; ``pod`` as the host has it. Raises ApiFailed."""
        return Inside.of(self.host.exec(pod.name, pod.namespace, ["sh", "-c", _LOOK]))

    def remove(self, *names: str, timeout: float = 120.0) -> None:
        """Delete pods with the place's own grace, and wait until the host has none of them.

        Args:
            names: which pods; all when none is named.
            timeout: seconds.

        Raises:
            WaitTimeout: one is still there.
        """
        self._remove(names, timeout)

    def empty(self, *makers: str, timeout: float = 120.0) -> None:
        """Delete all pods as ``remove`` does, and what would make them again.

        Args:
            makers: kinds that would make pods again, such as ``Job``: those go first.
            timeout: seconds.

        Raises:
            WaitTimeout: one is still there.
        """
        for kind in makers:
            self.cluster.delete_all(kind, self.namespace)
        self._remove((), timeout)

    def _remove(self, names: tuple[str, ...], timeout: float) -> None:
        if names:
            for name in names:
                self.cluster.delete("Pod", name, self.namespace, grace=self.grace)
        else:
            for kind in ("Pod", *self.with_pods):
                self.cluster.delete_all(kind, self.namespace, grace=self.grace if kind == "Pod" else None)
        # The virtual pods go first: the syncer makes a host pod anew as long as it sees a virtual one.
        for side in (self._own, self._on_host) if self.tenant else (self._own,):
            side.cluster.wait(
                "Pod",
                lambda pods: not any(not names or SyncedObject.of(pod).name in names for pod in pods),
                namespace=side.namespace,
                labels=side.labels,
                timeout=timeout,
                what=f"pods of {self.namespace} are gone",
            )

    def clear(self, timeout: float = 120.0) -> None:
        """Empty the place, and delete the namespace without waiting for its end.

        Raises:
            WaitTimeout: a pod is still there.
        """
        try:
            self.empty(timeout=timeout)
        finally:
            self.cluster.delete("Namespace", self.namespace)

    @property
    def _own(self) -> _Side:
        return _Side(self.cluster, self.namespace)

    @property
    def _on_host(self) -> _Side:
        if not self.tenant:
            return self._own
        return _Side(self.host, labels=selector(self.tenant, self.namespace))

    def _wait(
        self, side: _Side, until: Until, names: tuple[str, ...], timeout: float, what: str
    ) -> tuple[PodView, ...]:
        seen: set[str] = set()

        def mine(objects: list[Json]) -> dict[str, Json]:
            found = {SyncedObject.of(obj).name: obj for obj in objects}
            return {name: found[name] for name in names if name in found}

        def holds(objects: list[Json]) -> bool:
            here = mine(objects)
            return len(here) == len(names) and all(until(PodView.of(obj)) for obj in here.values())

        def hopeless(objects: list[Json]) -> str | None:
            here = mine(objects)
            gone = seen - here.keys()
            seen.update(here)
            if gone:
                return f"deleted by somebody: {', '.join(sorted(gone))}"
            return next((reason for obj in here.values() if (reason := why_never(obj))), None)

        try:
            objects = side.cluster.wait(
                "Pod",
                holds,
                namespace=side.namespace,
                labels=side.labels,
                timeout=timeout,
                fail=hopeless,
                what=f"pods {', '.join(names)}: {what}",
            )
        except WaitTimeout as error:
            why = wait_evidence(self.host, self.cluster, self.namespace, self.tenant, names)
            raise WaitTimeout(error.what, evidence=[*why, *error.evidence], fix=error.fix) from error
        return tuple(PodView.of(obj) for obj in mine(objects).values())

"""A namespace for a suite's pods, on the host or in a tenant, seen from both sides."""

from __future__ import annotations

import functools
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from lab.config import LabSpec
from lab.errors import ApiFailed, WaitTimeout
from lab.explain.wait_evidence import wait_evidence
from lab.kube import OWNER_LABEL, Cluster
from lab.kube.readiness import why_never
from lab.kube.retry import retry
from lab.objects.synced import SyncedObject, selector
from lab.objects.views import EventView, PodView
from lab.supply.published import pulled_from
from lab.supply.pull_secrets import copy_pull_secrets
from lab.workloads.modifiers import as_cluster_has, staying_on
from lab.workloads.pods import IMAGE
from lab.workloads.temporary import owner_labels

Json = dict[str, Any]
Until = Callable[[PodView], bool]
Selection = tuple[str | None, str | None]
"""Namespace and label selector of pods."""

_ACCOUNT_SECONDS = 30.0

_MARK = "--- devices"
# the environment of the workload, and the GPU device nodes that the container runtime injected
_LOOK = f"""tr '\\0' '\\n' </proc/1/environ
echo '{_MARK}'
for device in /dev/nvidia*; do if [ -e "$device" ]; then echo "$device"; fi; done"""


@dataclass(frozen=True)
class Inside:
    """Environment and NVIDIA device nodes of a running container."""

    env: Mapping[str, str]
    devices: tuple[str, ...]  # all /dev/nvidia*, control devices included

    @property
    def gpus(self) -> tuple[str, ...]:
        """The device nodes of GPUs: /dev/nvidia0, /dev/nvidia1, …"""
        return tuple(device for device in self.devices if re.fullmatch(r"/dev/nvidia\d+", device))

    @property
    def visible(self) -> tuple[str, ...]:
        """Items of NVIDIA_VISIBLE_DEVICES; of a CDI name (``kind=UUID``, KAI with cdiEnabled) the UUID."""
        value = self.env.get("NVIDIA_VISIBLE_DEVICES", "")
        return tuple(name.rpartition("=")[2] for name in value.split(",") if name)

    @classmethod
    def of(cls, text: str) -> Inside:
        env, _, devices = text.partition(f"{_MARK}\n")
        pairs = (line.partition("=") for line in env.splitlines() if "=" in line)
        return cls({key: value for key, _, value in pairs}, tuple(sorted(devices.split())))


def _no_account_yet(error: ApiFailed) -> bool:
    """Whether a pod was refused for want of its ServiceAccount (plugin/pkg/admission/serviceaccount, Kubernetes)."""
    return "error looking up service account" in error.what


@dataclass(frozen=True)
class WorkloadNamespace:
    """A namespace for the pods of one test."""

    lab: str  # name of the lab, for its label
    host: Cluster
    cluster: Cluster  # the cluster with the pods: the host, or a tenant
    namespace: str  # the namespace in ``cluster``
    tenant: str = ""  # name of the tenant; empty on the host
    node: str = ""  # node for all pods that do not select nodes; empty: any
    image: str = IMAGE  # of the suites' pods, from a mirror or not
    runtime_class: str | None = "nvidia"  # of GPU pods; None: the nodes' default runtime injects GPUs
    pull_secrets: tuple[str, ...] = ()  # of all pods
    grace: int = 1  # grace period of removed pods, in seconds
    check: Callable[[Json], None] = lambda doc: None
    """Called with each object before it is created: a test is skipped there whose pods the lab cannot run."""
    with_pods: tuple[str, ...] = ()
    """Kinds of the host to delete with the last pods, without waiting for the garbage collector."""

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
        """Create a namespace on the host, or in ``tenant`` with its ``cluster``.

        Its name contains ``slug`` as a DNS label and is unique among all processes that use the lab. Its labels name
        this process (``lab.workloads.temporary``).
        """
        words = re.sub(r"[^a-z0-9]+", "-", slug.lower()).strip("-")[:24].rstrip("-") or "test"
        name = f"t-{words}-{secrets.token_hex(3)}"
        where = cluster or host
        meta = {"name": name, "labels": {**(labels or {}), **owner_labels(lab)}}
        where.create({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
        return cls(lab, host, where, name, tenant)

    def on(self, spec: LabSpec) -> WorkloadNamespace:
        """This namespace for the cluster of a lab: one that is not the lab's has other images and RuntimeClasses.

        Copies the pull secrets into it; those of tenants are in the service account of vCluster. Raises SpecError.
        """
        if spec.cluster.own:
            return self
        secrets = () if self.tenant else spec.supply.pull_secrets
        if secrets:
            copy_pull_secrets(self.host, spec, self.namespace)
        image = pulled_from(IMAGE, spec.supply.mirrors)
        return replace(self, image=image, runtime_class=spec.gpu.runtime_class, pull_secrets=secrets)

    def fitted(self, doc: Json) -> Json:
        """The object with the image, RuntimeClass and pull secrets of this cluster."""
        return as_cluster_has(doc, self.runtime_class, self.image, self.pull_secrets)

    def submit(self, *pods: Json) -> None:
        """Create pods, or objects with a pod template, in order. Raises ApiFailed.

        Retries while the new namespace has no ServiceAccount ``default``, which a busy cluster adds seconds later.
        """
        for pod in pods:
            self.check(pod)
            meta = pod["metadata"]
            labels = {**meta.get("labels", {}), OWNER_LABEL: self.lab}
            placed = self.fitted(pod)
            placed = staying_on(self.node, placed) if self.node else placed
            doc = {**placed, "metadata": {**meta, "namespace": self.namespace, "labels": labels}}
            create = functools.partial(self.cluster.create, doc)
            pause = self.cluster.calls.pause
            retry(create, when=_no_account_yet, timeout=_ACCOUNT_SECONDS, interval=0.2, sleep=pause)

    def running(self, *names: str, timeout: float = 120.0) -> tuple[PodView, ...]:
        """Wait until pods are Ready; returns the host's pods in the order of ``names``. Errors as for ``on_host``."""
        return self.on_host(lambda pod: pod.ready, *names, timeout=timeout, what="Ready")

    def on_host(self, until: Until, *names: str, timeout: float = 120.0, what: str) -> tuple[PodView, ...]:
        """Wait until ``until`` is true for each host pod; ``names`` are those in this namespace.

        Raises WaitTimeout, also as soon as a pod has failed or was deleted.
        """
        return self._wait(self.host, self._on_host, until, names, timeout, f"{what} on the host")

    def inside(self, until: Until, *names: str, timeout: float = 120.0, what: str) -> tuple[PodView, ...]:
        """Wait like ``on_host``, but for the pods in ``cluster``."""
        where = f"in tenant {self.tenant}" if self.tenant else "on the host"
        return self._wait(self.cluster, self._own, until, names, timeout, f"{what} {where}")

    def host_pods(self) -> tuple[PodView, ...]:
        """The host pods of this namespace."""
        return tuple(PodView.of(obj) for obj in self.host.list("Pod", *self._on_host))

    def event(self, pod: PodView, *reasons: str, timeout: float = 90.0) -> EventView:
        """Wait for the first event with one of ``reasons`` about a host pod. Raises WaitTimeout."""

        def matching(events: list[Json]) -> list[EventView]:
            return [event for event in map(EventView.of, events) if event.reason in reasons]

        found = self.host.wait(
            "Event",
            lambda events: bool(matching(events)),
            namespace=pod.namespace,
            fields=f"involvedObject.uid={pod.uid}",
            timeout=timeout,
            what=f"event {' or '.join(reasons)} of pod {pod.namespace}/{pod.name}",
        )
        return matching(found)[0]

    def look(self, pod: PodView) -> Inside:
        """Environment and devices of the first container of a running host pod. Raises ApiFailed."""
        return Inside.of(self.host.exec(pod.name, pod.namespace, ["sh", "-c", _LOOK]))

    def remove(self, *names: str, timeout: float = 120.0) -> None:
        """Delete pods (default: all) and wait until the host has none of them. Raises WaitTimeout."""
        if names:
            for name in names:
                self.cluster.delete("Pod", name, self.namespace, grace=self.grace)
        else:
            for kind in ("Pod", *self.with_pods):
                self.cluster.delete_all(kind, self.namespace, grace=self.grace if kind == "Pod" else None)
        # virtual pods first: the syncer recreates a host pod while its virtual pod exists
        sides = [(self.cluster, self._own), (self.host, self._on_host)]
        for cluster, (namespace, labels) in sides if self.tenant else sides[:1]:
            cluster.wait(
                "Pod",
                lambda pods: not any(not names or SyncedObject.of(pod).name in names for pod in pods),
                namespace=namespace,
                labels=labels,
                timeout=timeout,
                what=f"pods of {self.namespace} are gone",
            )

    def empty(self, *controllers: str, timeout: float = 120.0) -> None:
        """Delete all objects of the kinds ``controllers``, such as ``Job``, then all pods as ``remove`` does."""
        for kind in controllers:
            self.cluster.delete_all(kind, self.namespace)
        self.remove(timeout=timeout)

    def clear(self, timeout: float = 120.0) -> None:
        """Delete all pods, then the namespace without waiting for its deletion. Raises WaitTimeout."""
        try:
            self.empty(timeout=timeout)
        finally:
            self.cluster.delete("Namespace", self.namespace)

    @property
    def _own(self) -> Selection:
        return self.namespace, None

    @property
    def _on_host(self) -> Selection:
        return (None, selector(self.tenant, self.namespace)) if self.tenant else self._own

    def _wait(
        self, cluster: Cluster, pods: Selection, until: Until, names: tuple[str, ...], timeout: float, what: str
    ) -> tuple[PodView, ...]:
        namespace, labels = pods
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
                return f"deleted by another client: {', '.join(sorted(gone))}"
            return next((reason for obj in here.values() if (reason := why_never(obj))), None)

        try:
            objects = cluster.wait(
                "Pod",
                holds,
                namespace=namespace,
                labels=labels,
                timeout=timeout,
                fail=hopeless,
                what=f"pods {', '.join(names)}: {what}",
            )
        except WaitTimeout as error:
            why = wait_evidence(self.host, self.cluster, self.namespace, self.tenant, names)
            raise WaitTimeout(error.what, evidence=[*why, *error.evidence], fix=error.fix) from error
        return tuple(PodView.of(obj) for obj in mine(objects).values())

"""What killed test runs and commands left in a lab: temporary objects, and changes that were to be undone.

``lab.workloads.temporary`` says how killed and running processes are distinguished. Nothing of a running process is
touched, nor of one whose record is not in this state directory: it may run elsewhere.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from lab.engine.journal import Journal
from lab.errors import ApiFailed
from lab.kube import OWNER_LABEL, Cluster
from lab.objects.fields import labels_of
from lab.session.lab import Lab
from lab.steps.queues import KIND as QUEUE
from lab.steps.queues import TEST_LABEL
from lab.text import count
from lab.workloads.temporary import CHANGE, PROCESS, PROCESS_LABEL, ended, known

KINDS = ("Namespace", "Pod", QUEUE, "Topology")
"""Kinds of temporary objects, in the order of their removal: a queue with pods cannot be deleted."""

_TEST_NAMESPACE = re.compile(r"t-[a-z0-9-]+-[0-9a-f]{6}")

Json = dict[str, Any]


@dataclass(frozen=True)
class Abandoned:
    """An object or change that its process cannot remove or undo any more."""

    what: str
    """Such as ``Namespace t-x-1a2b3c in tenant a, with 2 pods``."""
    process: str
    """Name of the process's record; empty: unknown."""
    command: str = ""
    fix: str = ""
    """How to remove it by hand, where kailab does not: nobody knows whether its process still runs."""
    problem: str = ""
    """Why it could not be removed; the next run tries again."""


@dataclass(frozen=True)
class TemporaryObject:
    """A temporary object."""

    cluster: Cluster
    tenant: str
    """Empty for the host."""
    kind: str
    doc: Json

    @property
    def name(self) -> str:
        return str(self.doc["metadata"]["name"])

    @property
    def process(self) -> str:
        return labels_of(self.doc["metadata"]).get(PROCESS_LABEL, "")

    @property
    def title(self) -> str:
        """The object for people; a namespace with the number of its pods, which is asked of its cluster."""
        meta = self.doc["metadata"]
        space = meta.get("namespace")
        title = f"{self.kind.partition('.')[0]} {f'{space}/' if space else ''}{self.name}"
        if self.tenant:
            title += f" in tenant {self.tenant}"
        pods = 0
        if self.kind == "Namespace":
            with contextlib.suppress(ApiFailed):  # the number is only information
                pods = len(self.cluster.list("Pod", self.name))
        return f"{title}, with {count(pods, 'pod')}" if pods else title


def abandoned(lab: Lab) -> tuple[Abandoned, ...]:
    """What killed processes left, and objects of unknown ones; reads only. What does not answer is left out."""
    found, commands, here = list[Abandoned](), dict[str, str](), known(lab.paths)
    for record in ended(lab.paths):
        name, command = record.path.stem, command_of(record)
        commands[name] = command
        found += [Abandoned(change.step, name, command) for change in record.owned(CHANGE)]
    for obj in _objects(lab):
        if obj.process in commands:
            found.append(Abandoned(obj.title, obj.process, commands[obj.process]))
        elif obj.process not in here:
            space = ("-n", obj.doc["metadata"]["namespace"]) if obj.kind == "Pod" else ()
            delete = obj.cluster.kubectl("delete", obj.kind.lower(), obj.name, *space)
            found.append(Abandoned(obj.title, obj.process, fix=delete))
    return tuple(found)


def in_words(found: Iterable[Abandoned]) -> list[str]:
    """One line for each, for people."""
    return [
        f"{one.what}: left by {one.command or 'a process'} ({one.process or 'of an earlier kailab'})"
        + (f"; if that no longer runs: {one.fix}" if one.fix else "")
        + (f"; not removed: {one.problem}" if one.problem else "")
        for one in found
    ]


def _objects(lab: Lab) -> list[TemporaryObject]:
    """All temporary objects of the lab that are not being deleted, in the clusters that answer, listed all at once."""
    labels = f"{OWNER_LABEL}={lab.spec.name}"

    def find(place: tuple[str, Cluster]) -> list[TemporaryObject]:
        tenant, cluster = place
        with contextlib.suppress(ApiFailed):
            return in_cluster(cluster, tenant, labels)
        return []

    with ThreadPoolExecutor(8) as pool:
        return [obj for found in pool.map(find, clusters(lab)) for obj in found]


def in_cluster(cluster: Cluster, tenant: str, labels: str) -> list[TemporaryObject]:
    """The temporary objects with these labels in one cluster. Raises ApiFailed."""
    with ThreadPoolExecutor(len(KINDS)) as pool:
        listed = pool.map(lambda kind: cluster.list(kind, labels=labels), KINDS)
    return [
        TemporaryObject(cluster, tenant, kind, doc)
        for kind, docs in zip(KINDS, listed, strict=True)
        for doc in docs
        if "deletionTimestamp" not in doc["metadata"] and _is_temporary(kind, doc["metadata"])
    ]


def _is_temporary(kind: str, meta: Json) -> bool:
    """Whether an object is a process's temporary one, or one of an earlier kailab, which did not label the process."""
    found = labels_of(meta)
    if PROCESS_LABEL in found or TEST_LABEL in found:
        return True
    return kind == "Namespace" and _TEST_NAMESPACE.fullmatch(meta["name"]) is not None


def clusters(lab: Lab) -> Iterator[tuple[str, Cluster]]:
    """Tenant, empty for the host, and cluster."""
    yield "", lab.cluster
    for tenant in lab.tenants:
        if lab.paths.tenant_kubeconfig(tenant.name).exists():
            yield tenant.name, lab.tenant(tenant.name)


def command_of(record: Journal) -> str:
    """The command line of a process's record; empty if it has none."""
    return next((owned.step for owned in record.owned(PROCESS)), "")

"""What killed test runs and commands left in a lab: temporary objects, and changes that were to be undone.

``lab.workloads.temporary`` says how killed and running processes are distinguished. Nothing of a running process is
touched, nor of one whose record is not in this state directory: it may run elsewhere.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.engine.journal import Journal, Owned
from lab.errors import ApiFailed, Interrupted, LabError
from lab.kube import OWNER_LABEL, Cluster
from lab.objects.fields import labels_of
from lab.session.lab import Lab
from lab.steps.queues import KIND as QUEUE
from lab.steps.queues import TEST_LABEL, delete_queues
from lab.text import count
from lab.tools.lock import file_lock
from lab.workloads.namespace import WorkloadNamespace
from lab.workloads.temporary import (
    CHANGE,
    LOCK_HELD,
    PROCESS,
    PROCESS_LABEL,
    ended,
    kai_lock_file,
    known,
    lab_lock_file,
)

KINDS = ("Namespace", "Pod", QUEUE, "Topology")
"""Kinds of temporary objects, in the order of their removal: a queue with pods cannot be deleted."""

_TEST_NAMESPACE = re.compile(r"t-[a-z0-9-]+-[0-9a-f]{6}")
_SECONDS = 120.0

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
class _Object:
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


def abandoned(lab: Lab) -> tuple[Abandoned, ...]:
    """What killed processes left, and objects of unknown ones; reads only. What does not answer is left out."""
    found, commands, here = list[Abandoned](), dict[str, str](), known(lab.paths)
    for record in ended(lab.paths):
        name, command = record.path.stem, _command(record)
        commands[name] = command
        found += [Abandoned(change.step, name, command) for change in record.owned(CHANGE)]
    for obj in _objects(lab):
        if obj.process in commands:
            found.append(Abandoned(_title(obj), obj.process, commands[obj.process]))
        elif obj.process not in here:
            space = ("-n", obj.doc["metadata"]["namespace"]) if obj.kind == "Pod" else ()
            delete = obj.cluster.kubectl("delete", obj.kind.lower(), obj.name, *space)
            found.append(Abandoned(_title(obj), obj.process, fix=delete))
    return tuple(found)


def remove_abandoned(lab: Lab, *, wait: bool = False) -> tuple[Abandoned, ...]:
    """Undo and remove what killed processes left; returns it. Does nothing while a test disturbs the lab.

    Args:
        lab: a running lab.
        wait: wait for such a test, and for another process that does the same.

    Raises:
        Interrupted: the lab's run was cancelled.
    """
    path = lab_lock_file(lab.paths)
    with contextlib.ExitStack() as held:
        try:
            if os.environ.get(LOCK_HELD) != str(path):
                for lock in (path, kai_lock_file(path)):
                    held.enter_context(file_lock(lock, exclusive=False, wait=wait))
            held.enter_context(file_lock(path.with_suffix(".abandoned"), exclusive=True, wait=wait))
        except BlockingIOError:
            return ()
        return tuple(one for record in ended(lab.paths) for one in _removed(lab, record))


def in_words(found: Iterable[Abandoned]) -> list[str]:
    """One line for each, for people."""
    return [
        f"{one.what}: left by {one.command or 'a process'} ({one.process or 'of an earlier kailab'})"
        + (f"; if that no longer runs: {one.fix}" if one.fix else "")
        + (f"; not removed: {one.problem}" if one.problem else "")
        for one in found
    ]


def _removed(lab: Lab, record: Journal) -> Iterator[Abandoned]:
    """Undo and remove what one process left, then its record; what fails stays for the next time."""
    name, command, complete, objects = record.path.stem, _command(record), True, list[_Object]()
    for change in reversed(record.owned(CHANGE)):
        problem = _problem(_undo, change)
        if problem:
            complete = False
        else:
            record.released(CHANGE, change.name)
        yield Abandoned(change.step, name, command, problem=problem)
    for tenant, cluster in _clusters(lab):
        try:
            objects += _in_cluster(cluster, tenant, f"{PROCESS_LABEL}={name}")
        except ApiFailed:
            complete = False  # it does not answer
    titles = [_title(obj) for obj in objects]
    problem = _problem(_delete, lab, objects)
    yield from (Abandoned(title, name, command, problem=problem) for title in titles)
    if complete and not problem:
        record.path.unlink(missing_ok=True)


def _problem(act: Callable[..., None], *args: Any) -> str:
    """Do something; returns why it failed, empty if it did not. Raises Interrupted."""
    try:
        act(*args)
    except Interrupted:
        raise
    except LabError as error:
        return error.what
    return ""


def _undo(change: Owned) -> None:
    """Undo a change; nothing if its cluster or its object is gone."""
    facts = change.facts
    if not Path(facts["kubeconfig"]).exists():
        return
    cluster = Cluster(Path(facts["kubeconfig"]))
    if "documents" in facts:
        cluster.apply(json.loads(facts["documents"]), retry=_SECONDS)
        return
    kind, name, namespace = json.loads(facts["target"])
    if cluster.get(kind, name, namespace) is not None:
        cluster.patch(kind, name, json.loads(facts["patch"]), namespace)
        if kind == "Deployment":
            cluster.wait_ready(kind, name, namespace, _SECONDS)


def _delete(lab: Lab, objects: Iterable[_Object]) -> None:
    """Delete the objects, kind by kind, and wait until their pods are gone, in tenants and on the host."""
    for kind in KINDS:
        mine = [obj for obj in objects if obj.kind == kind]
        if kind == QUEUE:
            for cluster in {id(obj.cluster): obj.cluster for obj in mine}.values():
                delete_queues(cluster, {obj.name: obj.doc for obj in mine if obj.cluster is cluster})
            continue
        for obj in mine:
            grace = 1 if kind == "Pod" else None
            # the namespace first: then no controller can recreate its pods
            obj.cluster.delete(kind, obj.name, obj.doc["metadata"].get("namespace"), grace)
        for obj in mine:
            if kind == "Namespace":
                space = WorkloadNamespace(lab.spec.name, lab.cluster, obj.cluster, obj.name, obj.tenant)
                space.remove(timeout=_SECONDS)


def _objects(lab: Lab) -> Iterator[_Object]:
    """All temporary objects of the lab that are not being deleted, in the clusters that answer."""
    for tenant, cluster in _clusters(lab):
        with contextlib.suppress(ApiFailed):
            yield from _in_cluster(cluster, tenant, f"{OWNER_LABEL}={lab.spec.name}")


def _in_cluster(cluster: Cluster, tenant: str, labels: str) -> list[_Object]:
    return [
        _Object(cluster, tenant, kind, doc)
        for kind in KINDS
        for doc in cluster.list(kind, labels=labels)
        if "deletionTimestamp" not in doc["metadata"] and _is_temporary(kind, doc["metadata"])
    ]


def _is_temporary(kind: str, meta: Json) -> bool:
    """Whether an object is a process's temporary one, or one of an earlier kailab, which did not label the process."""
    found = labels_of(meta)
    if PROCESS_LABEL in found or TEST_LABEL in found:
        return True
    return kind == "Namespace" and _TEST_NAMESPACE.fullmatch(meta["name"]) is not None


def _clusters(lab: Lab) -> Iterator[tuple[str, Cluster]]:
    yield "", lab.cluster
    for tenant in lab.tenants:
        if lab.paths.tenant_kubeconfig(tenant.name).exists():
            yield tenant.name, lab.tenant(tenant.name)


def _command(record: Journal) -> str:
    return next((owned.step for owned in record.owned(PROCESS)), "")


def _title(obj: _Object) -> str:
    meta = obj.doc["metadata"]
    space = meta.get("namespace")
    title = f"{obj.kind.partition('.')[0]} {f'{space}/' if space else ''}{obj.name}"
    if obj.tenant:
        title += f" in tenant {obj.tenant}"
    pods = 0
    if obj.kind == "Namespace":
        with contextlib.suppress(ApiFailed):  # the number is only information
            pods = len(obj.cluster.list("Pod", obj.name))
    return f"{title}, with {count(pods, 'pod')}" if pods else title

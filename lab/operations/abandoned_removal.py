"""Removes what killed test runs and commands left in a lab; see ``abandoned``."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from lab.engine.journal import Journal, Owned
from lab.errors import ApiFailed, Interrupted, LabError
from lab.kube import Cluster
from lab.operations.abandoned import KINDS, Abandoned, TemporaryObject, clusters, command_of, in_cluster
from lab.session.lab import Lab
from lab.steps.queues import KIND as QUEUE
from lab.steps.queues import delete_queues
from lab.tools.lock import file_lock
from lab.workloads.namespace import WorkloadNamespace
from lab.workloads.temporary import CHANGE, LOCK_HELD, PROCESS_LABEL, ended, kai_lock_file, lab_lock_file

_SECONDS = 120.0


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


def _removed(lab: Lab, record: Journal) -> Iterator[Abandoned]:
    """Undo and remove what one process left, then its record; what fails stays for the next time."""
    name, command, complete, objects = record.path.stem, command_of(record), True, list[TemporaryObject]()
    for change in reversed(record.owned(CHANGE)):
        problem = _problem(_undo, lab, change)
        if problem:
            complete = False
        else:
            record.released(CHANGE, change.name)
        yield Abandoned(change.step, name, command, problem=problem)
    for tenant, cluster in clusters(lab):
        try:
            objects += in_cluster(cluster, tenant, f"{PROCESS_LABEL}={name}")
        except ApiFailed:
            complete = False  # it does not answer
    titles = [obj.title for obj in objects]
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


def _undo(lab: Lab, change: Owned) -> None:
    """Undo a change; nothing if its cluster or its object is gone."""
    facts = change.facts
    if not Path(facts["kubeconfig"]).exists():
        return
    with contextlib.closing(Cluster(Path(facts["kubeconfig"]))) as cluster:
        cluster.cancel = lab.session.cancel
        if "documents" in facts:
            cluster.apply(json.loads(facts["documents"]), retry=_SECONDS)
            return
        kind, name, namespace = json.loads(facts["target"])
        if cluster.get(kind, name, namespace) is not None:
            cluster.patch(kind, name, json.loads(facts["patch"]), namespace)
            if kind == "Deployment":
                cluster.wait_ready(kind, name, namespace, _SECONDS)


def _delete(lab: Lab, objects: Iterable[TemporaryObject]) -> None:
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

"""Temporary objects and changes of this process in a lab, and how to undo them if it is killed.

Each process that makes some has a record, a file in the lab's state directory. Its temporary objects carry the record's
name as a label, and its temporary changes of other objects are in the record, with their undo, before they are made.
The process holds the file's lock, which the kernel releases however the process ends: so others can tell a killed
process from a running one, even where its id has been reused. ``lab.operations.abandoned_removal`` removes
what a killed one left.
"""

from __future__ import annotations

import itertools
import json
import os
import platform
import re
import secrets
import shlex
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from lab.engine.journal import Journal
from lab.kube import OWNER_LABEL, Cluster
from lab.paths import LabPaths
from lab.tools.lock import file_lock

PROCESS_LABEL = "kailab.dev/process"
"""Label of a temporary object: the name of its process's record."""

CHANGE, PROCESS = "change", "process"
"""Kinds of the entries in a record."""

LOCK_HELD = "KAILAB_TURN_HELD"
"""Environment variable of a pytest run whose caller already holds the lab's lock exclusively: the lock's path."""

Json = dict[str, Any]

_records: dict[Path, Journal] = {}
_held = ExitStack()
_one_thread = threading.Lock()
_numbers = itertools.count(1)


def lab_lock_file(paths: LabPaths) -> Path:
    """Lock file of a lab among all test processes; its exclusive holder also has KAI exclusively."""
    return paths.lock.with_suffix(".turn")


def kai_lock_file(path: Path) -> Path:
    """Lock file of the lab's KAI, beside the lab's own."""
    return path.with_suffix(".turn-kai")


def process_label(lab: str) -> dict[str, str]:
    """Label of this process's temporary objects in a lab. Raises LabError: the record cannot be written."""
    return {PROCESS_LABEL: _record(lab).path.stem}


def owner_labels(lab: str) -> dict[str, str]:
    """Labels of this process's temporary objects: the lab's and the process's."""
    return {OWNER_LABEL: lab, **process_label(lab)}


@contextmanager
def changed(
    cluster: Cluster, lab: str, kind: str, name: str, change: Json, namespace: str | None = None
) -> Iterator[Json]:
    """Merge ``change`` into an object until the end of the block; yields the object as it was before."""
    before = cluster.get(kind, name, namespace) or {}
    undo = inverse(change, before)
    facts = {"target": json.dumps([kind, name, namespace]), "patch": json.dumps(undo)}
    undone = _recorded(lab, cluster, f"{kind} {name} is changed", facts)
    try:
        cluster.patch(kind, name, change, namespace)
        yield before
    finally:
        cluster.patch(kind, name, undo, namespace)
        undone()


@contextmanager
def absent(cluster: Cluster, lab: str, objects: Iterable[Json], retry: float = 0.0) -> Iterator[None]:
    """Delete nothing itself, but apply these objects again, in order, at the end of a block that may delete them."""
    documents = [_manifest(obj) for obj in objects]
    names = ", ".join(f"{doc['kind']} {doc['metadata']['name']}" for doc in documents)
    undone = _recorded(lab, cluster, f"{names} may be deleted", {"documents": json.dumps(documents)})
    try:
        yield
    finally:
        cluster.apply(documents, retry=retry)
        undone()


def inverse(change: Mapping[str, Any], before: Mapping[str, Any]) -> Json:
    """Return the JSON merge patch that undoes ``change``."""
    undo: Json = {}
    for key, value in change.items():
        old = before.get(key)
        undo[key] = inverse(value, old) if isinstance(value, Mapping) and isinstance(old, Mapping) else old
    return undo


def ended(paths: LabPaths) -> Iterator[Journal]:
    """Records of processes that have ended, each locked while it is yielded."""
    for path in sorted(_folder(paths).glob("*.jsonl")):
        try:
            with file_lock(path, exclusive=True, wait=False):
                yield Journal(path)
        except (BlockingIOError, PermissionError):
            continue  # it runs, is being tidied up after, or belongs to another user


def known(paths: LabPaths) -> frozenset[str]:
    """Names of the records in this state directory: processes elsewhere have theirs elsewhere."""
    return frozenset(path.stem for path in _folder(paths).glob("*.jsonl"))


def _manifest(doc: Json) -> Json:
    """The object without status and server-side metadata, to create it again."""
    kept = {key: doc["metadata"].get(key) for key in ("name", "namespace", "labels", "annotations")}
    body = {key: value for key, value in doc.items() if key != "status"}
    return {**body, "metadata": {key: value for key, value in kept.items() if value}}


def _recorded(lab: str, cluster: Cluster, what: str, undo: Mapping[str, str]) -> Callable[[], None]:
    """Record how to undo a change; returns the function to call when that is done."""
    record, number = _record(lab), f"{next(_numbers)}"
    record.owns(CHANGE, number, what, kubeconfig=str(cluster.kubeconfig), **undo)
    return lambda: record.released(CHANGE, number)


def _folder(paths: LabPaths) -> Path:
    return paths.root / "processes"


def _command() -> str:
    """The command line of this process, as the user knows it."""
    if worker := os.environ.get("PYTEST_XDIST_WORKER"):  # its own command line is only "-c"
        return f"pytest, worker {worker}"
    program = Path(sys.argv[0])
    return shlex.join([program.parent.name if program.name == "__main__.py" else program.name, *sys.argv[1:]])


def _record(lab: str) -> Journal:
    """This process's record for a lab, created and locked at the first call."""
    folder = _folder(LabPaths(lab))
    with _one_thread:
        found = _records.get(folder)
        if found is not None and found.path.exists():  # 'kailab down' removes it
            return found
        host = re.sub(r"[^A-Za-z0-9.-]+", "-", platform.node())[:36].strip("-.") or "host"
        while True:
            record = Journal(folder / f"{host}-{os.getpid()}-{secrets.token_hex(3)}.jsonl")
            if os.fstat(_held.enter_context(file_lock(record.path, exclusive=True))).st_nlink:
                break  # otherwise another process took the new file, not yet locked, for that of an ended process
        record.owns(PROCESS, record.path.stem, _command()[:200], pid=str(os.getpid()), host=platform.node())
        _records[folder] = record
        return record

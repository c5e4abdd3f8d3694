"""Artifacts of a failed test or a lab: objects, events and logs, redacted, collected within a time limit."""

from __future__ import annotations

import math
import queue
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from lab.errors import LabError
from lab.kube import Cluster
from lab.objects.isolation_labels import control_plane
from lab.objects.redact import redact_text
from lab.objects.synced import selector
from lab.report.object_text import dump, events_of, gpus_of, summary
from lab.session.lab import Lab
from lab.steps.kai.step import NAMESPACE as KAI_NAMESPACE
from lab.steps.kai.step import RESERVATIONS
from lab.workloads.namespace import WorkloadNamespace

LOG_LINES = 400
"""Of each container; of a failed test there are at least those since it began."""
_THREADS = 4
_INDEX = "kailab-index.txt"
"""Marks a folder that may be replaced."""

Json = dict[str, Any]
Make = Callable[[], str]


@dataclass(frozen=True)
class Collected:
    """The files in ``folder``; ``missed`` maps each missing file to the reason."""

    folder: Path
    files: tuple[str, ...]
    missed: Mapping[str, str]


def collect(
    folder: Path,
    host: Cluster,
    namespaces: Sequence[WorkloadNamespace],
    *,
    title: str,
    facts: Mapping[str, str] | None = None,
    seconds: float = 20.0,
    since: float = 0.0,
) -> Collected:
    """Write what explains a failure into ``folder``: objects, events and logs of a test's namespaces, KAI and vCluster.

    Logs reach back at least to the start of the test, ``since`` (Unix time). A folder of an earlier run is replaced.
    Never raises LabError: ``kailab-index.txt`` names what could not be read, or not within ``seconds`` in total.
    """
    work = _Work(folder, since)
    for namespace in namespaces:
        _add_namespace(work, namespace)
    _add_host(work, host)
    commands = [one.cluster.kubectl("get", "pods", "-n", one.namespace) for one in namespaces]
    return work.run(seconds, title, facts or {}, commands)


def collect_lab(lab: Lab, folder: Path, *, budget: float = 60.0) -> list[Path]:
    """Write events, objects and logs of a lab and its tenants into ``folder``; returns the files.

    A folder of an earlier run is replaced. ``kailab-index.txt`` names what could not be read, or not within ``budget``
    seconds in total.
    """
    host = lab.cluster
    work = _Work(folder)
    for name, cluster in [("host", host), *((tenant.name, lab.tenant(tenant.name)) for tenant in lab.tenants)]:
        work.add(f"{name}/summary.txt", partial(_summary, cluster, None))
        work.add(f"{name}/pods.yaml", partial(_objects, cluster, "Pod", [None]))
    _add_host(work, host)
    _add_kai_objects(work, "host", host, [None])
    work.add("host/kube-system/pods.yaml", partial(_pods_and_logs, work, host, "kube-system"))
    for tenant in lab.tenants:
        work.add(f"{tenant.name}/on-host/summary.txt", partial(_tenant_on_host, work, host, tenant.name))
    done = work.run(budget, f"lab {lab.spec.name}", lab.facts(), [host.kubectl("get", "pods", "-A")])
    return [folder / name for name in done.files]


class _Work:
    """Writes files in a few threads; a job may add more jobs."""

    def __init__(self, folder: Path, since: float = 0.0) -> None:
        if (folder / _INDEX).exists():
            shutil.rmtree(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self.since = since
        self._jobs: queue.SimpleQueue[tuple[str, Make]] = queue.SimpleQueue()
        self._open: set[str] = set()
        self._missed: dict[str, str] = {}
        self._written: set[str] = set()
        self._change = threading.Condition()
        self._over = False

    def add(self, name: str, make: Make) -> None:
        """Add a file by its path in the folder; an empty text is not written."""
        with self._change:
            self._open.add(name)
        self._jobs.put((name, make))

    def run(self, seconds: float, title: str, facts: Mapping[str, str], commands: Iterable[str]) -> Collected:
        """Run all jobs for at most ``seconds``, and write the index."""
        for number in range(_THREADS):
            # Daemons: a request to a dead API server must not keep the process alive.
            threading.Thread(target=self._run_jobs, name=f"artifacts-{number}", daemon=True).start()
        with self._change:
            self._change.wait_for(lambda: not self._open, seconds)
            self._over = True
            missed = {**self._missed, **dict.fromkeys(self._open, f"not within {seconds:g} s")}
        folder = self._folder
        files = sorted(self._written)
        lines = [
            title,
            time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            *(f"{key}: {value}" for key, value in facts.items()),
            "",
            *(f"look closer: {command}" for command in commands),
            "",
            *files,
            *(f"{name}: not collected: {why}" for name, why in sorted(missed.items())),
        ]
        (folder / _INDEX).write_text(redact_text("\n".join(lines)) + "\n")
        return Collected(folder, (_INDEX, *files), missed)

    def _run_jobs(self) -> None:
        while not self._over:
            try:
                name, make = self._jobs.get(timeout=0.2)
            except queue.Empty:
                continue
            why, text = "", ""
            try:
                text = redact_text(make())
            except LabError as error:
                why = error.what
            except Exception as error:  # noqa: BLE001 - a failing collector must not hide the others
                why = f"{type(error).__name__}: {error}"
            with self._change:
                if self._over:
                    return
                if why:
                    self._missed[name] = why
                elif text:
                    path = self._folder / name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(text)
                    self._written.add(name)
                self._open.discard(name)
                self._change.notify_all()


def _add_namespace(work: _Work, test: WorkloadNamespace) -> None:
    """A test's own namespace, and the synced objects of its tenant."""
    side, cluster = test.tenant or "host", test.cluster
    folder = f"{side}/{test.namespace}"
    work.add(f"{folder}/summary.txt", partial(_summary, cluster, test.namespace))
    work.add(f"{folder}/pods.yaml", partial(_objects, cluster, "Pod", [test.namespace]))
    if test.tenant:
        work.add(f"{side}/on-host/summary.txt", partial(_tenant_on_host, work, test.host, test.tenant))
    else:
        _add_kai_objects(work, folder, cluster, [test.namespace])


def _tenant_on_host(work: _Work, host: Cluster, tenant: str) -> str:
    """Summary of the tenant's host namespaces; adds jobs for the objects in them."""
    pods = host.list("Pod", labels=selector(tenant))
    control = host.list("Pod", labels=control_plane(tenant))
    spaces = sorted({pod["metadata"]["namespace"] for pod in [*pods, *control]})
    work.add(f"{tenant}/on-host/pods.yaml", lambda: dump(pods))
    _add_kai_objects(work, f"{tenant}/on-host", host, spaces)
    _add_logs(work, f"{tenant}/syncer", host, control)
    return summary([*pods, *control], events_of(host, spaces))


def _add_kai_objects(work: _Work, folder: str, cluster: Cluster, spaces: Sequence[str | None]) -> None:
    for kind in ("PodGroup", "BindRequest"):
        work.add(f"{folder}/{kind.lower()}s.yaml", partial(_objects, cluster, kind, spaces))


def _add_host(work: _Work, host: Cluster) -> None:
    """Objects that all tests share: nodes, queues, KAI's components and reservation pods."""
    work.add("host/nodes.yaml", partial(_objects, host, "Node", [None]))
    work.add("host/queues.yaml", partial(_objects, host, "Queue", [None]))
    work.add("host/gpus.txt", partial(gpus_of, host))
    for space in (RESERVATIONS, KAI_NAMESPACE):
        work.add(f"host/{space}/summary.txt", partial(_summary, host, space))
        work.add(f"host/{space}/pods.yaml", partial(_pods_and_logs, work, host, space))


def _pods_and_logs(work: _Work, cluster: Cluster, space: str) -> str:
    pods = cluster.list("Pod", space)
    _add_logs(work, f"host/{space}", cluster, pods)
    return dump(pods)


def _add_logs(work: _Work, folder: str, cluster: Cluster, pods: Iterable[Json]) -> None:
    for pod in pods:
        name, space = pod["metadata"]["name"], pod["metadata"]["namespace"]
        for container in (c["name"] for c in pod["spec"]["containers"]):
            work.add(f"{folder}/{name}.{container}.log", partial(_log, cluster, name, space, container, work.since))


def _log(cluster: Cluster, name: str, space: str, container: str, since: float) -> str:
    age = math.ceil(time.time() - since)
    log = cluster.logs(name, space, container, seconds=age) if since else ""
    return log if log.count("\n") > LOG_LINES else cluster.logs(name, space, container, tail=LOG_LINES)


def _objects(cluster: Cluster, kind: str, spaces: Iterable[str | None]) -> str:
    return dump([obj for space in spaces for obj in cluster.list(kind, space)])


def _summary(cluster: Cluster, space: str | None) -> str:
    return summary(cluster.list("Pod", space), events_of(cluster, [space]))

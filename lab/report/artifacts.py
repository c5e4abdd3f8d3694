"""What is kept of a failed test: objects, events and logs, redacted, collected within a total time."""

from __future__ import annotations

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
from lab.objects.synced import selector
from lab.report.object_text import dump, events_of, gpus_of, summary
from lab.report.scrub import scrub
from lab.session.lab import Lab
from lab.steps.kai.step import NAMESPACE as KAI_NAMESPACE
from lab.steps.kai.step import RESERVATIONS
from lab.workloads.namespace import WorkloadNamespace

LOG_LINES = 400
_THREADS = 4
_INDEX = "kailab-index.txt"
"""By this file a folder is known as one that may be replaced."""

Json = dict[str, Any]
Make = Callable[[], str]


@dataclass(frozen=True)
class Collected:
    """What came of it: ``missed`` is file → why it is not there."""

    folder: Path
    files: tuple[str, ...]
    missed: Mapping[str, str]


def collect(
    folder: Path,
    host: Cluster,
    places: Sequence[WorkloadNamespace],
    *,
    title: str,
    facts: Mapping[str, str] | None = None,
    seconds: float = 20.0,
) -> Collected:
    """Write what explains a failure into ``folder``: objects, events and logs of places, of KAI, of vCluster.

    Never raises LabError: what cannot be read is named in ``kailab-index.txt``.

    Args:
        folder: made anew; one of an earlier run is replaced.
        host: the lab's own cluster.
        places: where the test put its pods.
        title: the test.
        facts: the lab's facts.
        seconds: for everything together; what has not come by then is left out.
    """
    work = _Work(folder)
    for place in places:
        _add_place(work, place)
    _add_host(work, host)
    closer = [place.cluster.kubectl("get", "pods", "-n", place.namespace) for place in places]
    return work.run(seconds, title, facts or {}, closer)


def collect_lab(lab: Lab, folder: Path, *, budget: float = 60.0) -> list[Path]:
    """Write events, objects and logs of a whole lab and its tenants into ``folder``; returns the files.

    Args:
        lab: the lab.
        folder: made anew; one of an earlier run is replaced.
        budget: seconds for everything together; what has not come by then is named in ``kailab-index.txt``.
    """
    host = lab.cluster
    work = _Work(folder)
    for name, cluster in [("host", host), *((tenant.name, lab.tenant(tenant.name)) for tenant in lab.tenants)]:
        work.add(f"{name}/summary.txt", partial(_overview, cluster, None))
        work.add(f"{name}/pods.yaml", partial(_objects, cluster, "Pod", [None]))
    _add_host(work, host)
    _add_kai_objects(work, "host", host, [None])
    work.add("host/kube-system/pods.yaml", partial(_pods_and_logs, work, host, "kube-system"))
    for tenant in lab.tenants:
        work.add(f"{tenant.name}/on-host/summary.txt", partial(_tenant_on_host, work, host, tenant.name))
    done = work.run(budget, f"lab {lab.spec.name}", lab.facts(), [host.kubectl("get", "pods", "-A")])
    return [folder / name for name in done.files]


class _Work:
    """Files to be made by a few threads; a job may add further ones."""

    def __init__(self, folder: Path) -> None:
        if (folder / _INDEX).exists():
            shutil.rmtree(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._jobs: queue.SimpleQueue[tuple[str, Make]] = queue.SimpleQueue()
        self._open: set[str] = set()
        self._missed: dict[str, str] = {}
        self._change = threading.Condition()
        self._over = False

    def add(self, name: str, make: Make) -> None:
        """A file by its name in the folder; one whose text comes out empty is not written."""
        with self._change:
            self._open.add(name)
        self._jobs.put((name, make))

    def run(self, seconds: float, title: str, facts: Mapping[str, str], closer: Iterable[str]) -> Collected:
        """Do all jobs, but stop after ``seconds``, and write the index."""
        for number in range(_THREADS):
            # Daemons: a request to a dead API server must not keep the process alive.
            threading.Thread(target=self._work, name=f"artifacts-{number}", daemon=True).start()
        with self._change:
            self._change.wait_for(lambda: not self._open, seconds)
            self._over = True
            missed = {**self._missed, **dict.fromkeys(self._open, f"not within {seconds:g} s")}
        folder = self._folder
        files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
        lines = [
            title,
            time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            *(f"{key}: {value}" for key, value in facts.items()),
            "",
            *(f"look closer: {command}" for command in closer),
            "",
            *files,
            *(f"{name}: not collected: {why}" for name, why in sorted(missed.items())),
        ]
        (folder / _INDEX).write_text("\n".join(lines) + "\n")
        return Collected(folder, (_INDEX, *files), missed)

    def _work(self) -> None:
        while not self._over:
            try:
                name, make = self._jobs.get(timeout=0.2)
            except queue.Empty:
                continue
            why, text = "", ""
            try:
                text = scrub(make())
            except LabError as error:
                why = error.what
            except Exception as error:  # noqa: BLE001 - a collector that breaks must not hide the others
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
                self._open.discard(name)
                self._change.notify_all()


def _add_place(work: _Work, place: WorkloadNamespace) -> None:
    """The test's own namespace, and for a tenant what the host made of it."""
    side, cluster, namespace = place.tenant or "host", place.cluster, place.namespace
    folder = f"{side}/{namespace}"
    work.add(f"{folder}/summary.txt", partial(_overview, cluster, namespace))
    work.add(f"{folder}/pods.yaml", partial(_objects, cluster, "Pod", [namespace]))
    if place.tenant:
        work.add(f"{side}/on-host/summary.txt", partial(_tenant_on_host, work, place.host, place.tenant))
    else:
        _add_kai_objects(work, folder, cluster, [namespace])


def _tenant_on_host(work: _Work, host: Cluster, tenant: str) -> str:
    """Summary of the tenant's host namespace, wherever that is; adds the files that need to know it."""
    pods = host.list("Pod", labels=selector(tenant))
    control = host.list("Pod", labels=f"app=vcluster,release={tenant}")
    spaces = sorted({pod["metadata"]["namespace"] for pod in [*pods, *control]})
    work.add(f"{tenant}/on-host/pods.yaml", lambda: dump(pods))
    _add_kai_objects(work, f"{tenant}/on-host", host, spaces)
    _add_logs(work, f"{tenant}/syncer", host, control)
    return summary([*pods, *control], events_of(host, spaces))


def _add_kai_objects(work: _Work, folder: str, cluster: Cluster, spaces: Sequence[str | None]) -> None:
    for kind in ("PodGroup", "BindRequest"):
        work.add(f"{folder}/{kind.lower()}s.yaml", partial(_objects, cluster, kind, spaces))


def _add_host(work: _Work, host: Cluster) -> None:
    """What all tests share: nodes, queues, KAI's components and reservation pods."""
    work.add("host/nodes.yaml", lambda: dump(host.list("Node")))
    work.add("host/queues.yaml", lambda: dump(host.list("Queue")))
    work.add("host/gpus.txt", partial(gpus_of, host))
    for space in (RESERVATIONS, KAI_NAMESPACE):
        work.add(f"host/{space}/summary.txt", partial(_overview, host, space))
        work.add(f"host/{space}/pods.yaml", partial(_pods_and_logs, work, host, space))


def _pods_and_logs(work: _Work, cluster: Cluster, space: str) -> str:
    pods = cluster.list("Pod", space)
    _add_logs(work, f"host/{space}", cluster, pods)
    return dump(pods)


def _add_logs(work: _Work, folder: str, cluster: Cluster, pods: Iterable[Json]) -> None:
    for pod in pods:
        name, space = pod["metadata"]["name"], pod["metadata"]["namespace"]
        for container in (c["name"] for c in pod["spec"]["containers"]):
            read = partial(cluster.logs, name, space, container, tail=LOG_LINES)
            work.add(f"{folder}/{name}.{container}.log", read)


def _objects(cluster: Cluster, kind: str, spaces: Iterable[str | None]) -> str:
    return dump([obj for space in spaces for obj in cluster.list(kind, space)])


def _overview(cluster: Cluster, space: str | None) -> str:
    return summary(cluster.list("Pod", space), events_of(cluster, [space]))

"""A cluster as a dict of objects, and a LabContext around it: for steps that install things and wait."""

from __future__ import annotations

import base64
import gzip
import io
import json
import tarfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from lab.config import LabSpec
from lab.engine.events import Bus, Event
from lab.engine.journal import Journal
from lab.errors import ApiFailed, WaitTimeout
from lab.kube.retry import poll
from lab.paths import LabPaths
from lab.session.context import LabContext
from lab.tools.container import ContainerEngine
from tests.support.fakes import FakeRunner

Json = dict[str, Any]
T = TypeVar("T")


class FakeCluster:
    """Just enough of lab.kube.Cluster. ``log`` is what was done to it, in order.

    Args:
        log: shared with others whose order matters.
    """

    server = "https://127.0.0.1:1"

    def __init__(self, log: list[str] | None = None) -> None:
        self.log = [] if log is None else log
        self.objects: dict[tuple[str, str, str], Json] = {}
        self.before_wait: Callable[[str], None] = lambda kind: None
        self.refuse_create: list[ApiFailed | None] = []
        self.alive = True
        self.waits: list[str] = []
        self.calls = self
        self.slept = 0.0

    def pause(self, seconds: float) -> None:
        """Stands in for a sleep."""
        self.slept += seconds

    def poll(self, check: Callable[[], T], **options: Any) -> T:
        return poll(check, sleep=self.pause, **options)

    def put(self, kind: str, name: str, namespace: str = "", **more: Any) -> Json:
        """Have an object."""
        meta = {"name": name, **({"namespace": namespace} if namespace else {}), **more.pop("metadata", {})}
        doc = {"kind": kind, "metadata": meta, **more}
        self.objects[kind, namespace, name] = doc
        return doc

    def get(self, kind: str, name: str, namespace: str | None = None) -> Json | None:
        return self.objects.get((kind.partition(".")[0], namespace or "", name))

    def list(
        self, kind: str, namespace: str | None = None, labels: str | None = None, fields: str | None = None
    ) -> list[Json]:
        wanted = [pair.split("=") for pair in (labels or "").split(",") if pair]
        return [
            doc
            for (its_kind, space, name), doc in self.objects.items()
            if its_kind == kind.partition(".")[0]
            and namespace in (None, space)
            and all((doc["metadata"].get("labels") or {}).get(key) == value for key, value in wanted)
            and fields in (None, f"metadata.name={name}")
        ]

    def apply(self, docs: Iterable[Json], retry: float = 0) -> None:
        for doc in docs:
            meta = doc["metadata"]
            self.log.append(f"apply {doc['kind']} {meta['name']}")
            self.objects[doc["kind"], meta.get("namespace", ""), meta["name"]] = doc

    def create(self, doc: Json) -> None:
        self.log.append(f"create {doc['kind']} {doc['metadata']['name']}")
        if self.refuse_create and (error := self.refuse_create.pop(0)) is not None:
            raise error

    def delete(
        self, kind: str, name: str, namespace: str | None = None, grace: int | None = None, wait: float | None = None
    ) -> None:
        self.log.append(f"delete {kind} {name}")
        self.objects.pop((kind.partition(".")[0], namespace or "", name), None)

    def delete_all(self, kind: str, namespace: str, labels: str | None = None, grace: int | None = None) -> None:
        self.log.append(f"delete all {kind} in {namespace} grace {grace}")

    def patch(self, kind: str, name: str, patch: Json, namespace: str | None = None) -> None:
        self.log.append(f"patch {kind} {name} {json.dumps(patch)}")

    def wait(
        self,
        kind: str,
        predicate: Callable[[list[Json]], bool],
        *,
        namespace: str | None = None,
        labels: str | None = None,
        fields: str | None = None,
        timeout: float,
        fail: Callable[[list[Json]], str | None] | None = None,
        what: str,
    ) -> list[Json]:
        self.waits.append(what)
        self.before_wait(kind)
        seen = self.list(kind, namespace, labels, fields)
        if predicate(seen):
            return seen
        raise WaitTimeout(f"{what}: {(fail(seen) if fail else None) or f'not within {timeout:g} s'}")

    def wait_ready(
        self, kind: str, names: Any = None, namespace: str | None = None, timeout: float = 0, *, what: str = ""
    ) -> None:
        self.waits.append(what or f"{kind} {names}")

    def healthy(self) -> bool:
        return self.alive

    def close(self) -> None:
        self.log.append("close")

    def kubectl(self, *args: str) -> str:
        return " ".join(["kubectl", *args])


class FakeSupply:
    """Has what a test put into it."""

    def __init__(self, charts: Mapping[str, Path]) -> None:
        self.charts = charts
        self.asked: list[str] = []

    def binary(self, name: str) -> Path:
        return Path("/cache") / name

    def chart(self, name: str, version: str = "") -> Path:
        self.asked.append(f"{name} {version}".strip())
        return self.charts[name]


class World:
    """A lab's context over fakes; helm commands must be declared with ``helm``."""

    def __init__(self, spec: LabSpec, runner: FakeRunner, tmp: Path, **charts: Path) -> None:
        self.spec = spec
        self.log: list[str] = []
        self.cluster = FakeCluster(self.log)
        self.tenants: dict[str, FakeCluster] = {}
        self.runner = runner
        self.events: list[Event] = []
        self.paths = LabPaths(spec.name)
        self.paths.root.mkdir(parents=True)
        self.paths.kubeconfig.write_text("current-context: kind-kailab\n")
        bus = Bus()
        bus.subscribe(self.events.append)
        self.ctx = LabContext(
            step="step",
            spec=spec,
            paths=self.paths,
            run=runner,
            journal=Journal(tmp / "journal.jsonl"),
            bus=bus,
            supply=FakeSupply({name.replace("_", "-"): path for name, path in charts.items()}),  # type: ignore[arg-type]
            engine=ContainerEngine(runner),
            open_cluster=lambda name: self.tenants[name] if name else self.cluster,  # type: ignore[arg-type,return-value]
        )

    def helm(self, *words: object, out: str = "") -> Any:
        """Declare a helm command; its verb goes to the log."""

        def answer(call: Any) -> str:
            self.log.append("helm " + " ".join(str(word) for word in call.argv[1:3]))
            return out

        return self.runner.handle(["/cache/helm", *words], out=answer)

    def owned(self, kind: str) -> list[str]:
        """Names of what the journal says the lab owns."""
        return [owned.name for owned in self.ctx.journal.owned(kind)]


def release_secret(
    name: str,
    namespace: str,
    values: Json,
    *,
    version: str,
    chart: str = "",
    revision: int = 1,
    status: str = "deployed",
) -> Json:
    """A Secret as Helm stores a release."""
    record = {
        "name": name,
        "namespace": namespace,
        "version": revision,
        "info": {"status": status},
        "chart": {"metadata": {"name": chart or name, "version": version}},
        "config": values,
    }
    inner = base64.b64encode(gzip.compress(json.dumps(record).encode()))
    return {
        "kind": "Secret",
        "metadata": {
            "name": f"sh.helm.release.v1.{name}.v{revision}",
            "namespace": namespace,
            "labels": {"owner": "helm", "name": name, "version": str(revision), "status": status},
        },
        "data": {"release": base64.b64encode(inner).decode()},
    }


def add_release(cluster: FakeCluster, secret: Json) -> None:
    """Have a Helm release in the cluster."""
    meta = secret["metadata"]
    cluster.objects["Secret", meta["namespace"], meta["name"]] = secret


def chart_file(path: Path, name: str, files: Mapping[str, str]) -> Path:
    """A chart's .tgz with these files."""
    with tarfile.open(path, "w:gz") as archive:
        for inside, text in files.items():
            info = tarfile.TarInfo(f"{name}/{inside}")
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))
    return path


def running_pod(name: str, namespace: str, *, labels: Mapping[str, str], waiting: str = "", restarts: int = 0) -> Json:
    """A pod that is Ready, or whose container waits."""
    state: Json = {"waiting": {"reason": waiting, "message": "why"}} if waiting else {"running": {}}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels)},
        "spec": {"containers": [{"name": "main"}]},
        "status": {
            "phase": "Pending" if waiting else "Running",
            "conditions": [{"type": "Ready", "status": "False" if waiting else "True"}],
            "containerStatuses": [{"name": "main", "state": state, "restartCount": restarts}],
        },
    }


def ready_deployment(name: str, namespace: str, *, available: int = 1) -> Json:
    """A Deployment of one replica, rolled out when ``available`` is 1."""
    return {
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "generation": 1},
        "spec": {"replicas": 1},
        "status": {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "availableReplicas": available},
    }

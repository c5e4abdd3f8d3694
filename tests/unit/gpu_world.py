"""A pretended lab for the GPU steps: node containers behind ``docker``, and a cluster of plain objects."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from fakes import Call, FakeRunner

from lab.engine.events import Bus, Event
from lab.engine.journal import Journal
from lab.errors import WaitTimeout
from lab.parts.context import LabContext
from lab.parts.gpu import GpuPlugin, nvml_library
from lab.parts.gpu.devices import gpus_of
from lab.parts.gpu.node_files import NodeFiles, files_of
from lab.parts.gpu.nvml_library import library_in_cache, source_digest
from lab.parts.gpu.plugin import CONFIG_ANNOTATION
from lab.paths import LabPaths
from lab.spec import LabSpec
from lab.tools.container import ContainerEngine

Json = dict[str, Any]

SPEC = LabSpec.model_validate({"name": "demo", "gpu": {"mode": "simulated", "perNode": 2}})
WORKERS = ("kailab-demo-worker", "kailab-demo-worker2")
STARTED = "2026-11-21T10:00:00.5Z"


def pretend_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """An x86-64 machine that has the library in its cache; compiling it again fails the test."""
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    library = library_in_cache("x86_64")
    library.parent.mkdir(parents=True)
    library.write_bytes(b"library")
    monkeypatch.setattr(
        nvml_library, "_compile", lambda *_: pytest.fail("compiled although it is in the cache")
    )


def wanted(name: str, spec: LabSpec = SPEC) -> NodeFiles:
    """The files the node should have."""
    return files_of(name, gpus_of(spec.name, name, spec.gpu), source_digest("x86_64"), "x86_64")


class Node:
    """A node container as ``docker`` shows it: what was unpacked into it, and what state.sh would print."""

    def __init__(self, name: str, role: str) -> None:
        self.name = name
        self.role = role
        self.state = "running"
        self.bare = False
        self.lines: list[str] = []
        self.installs = 0

    def become(self, files: NodeFiles) -> None:
        """Be as planned."""
        devices = {**files.devices, "/dev/nvidiactl": "195:255", "/dev/nvidia-uvm": "195:253"}
        self.lines = [
            *(f"sum {digest}  {path}" for path, digest in files.sums().items()),
            f"library {files.library}",
            *(f"device {path} {numbers}" for path, numbers in devices.items()),
            "unit enabled active",
        ]

    def look(self, call: Call) -> str:
        """state.sh."""
        assert call.stdin is not None
        assert str(call.stdin).startswith("#!/bin/sh")
        brought = (
            [] if self.bare else ["program /usr/bin/nvidia-container-runtime", "program /usr/bin/nvidia-ctk"]
        )
        return "\n".join([*self.lines, *brought, *([] if self.bare else ["handler nvidia"])])

    def install(self, call: Call) -> str:
        """What install.sh does with a tar that holds what it should."""
        assert isinstance(call.stdin, bytes)
        with tarfile.open(fileobj=io.BytesIO(call.stdin)) as tar:
            file = tar.extractfile("nvml.conf")
            assert file is not None
            digest = hashlib.sha256(file.read()).hexdigest()
        files = next(f for f in self.offers if digest in f.sums().values())
        self.installs += 1
        self.become(files)
        return ""

    offers: Sequence[NodeFiles] = ()


class FakeCluster:
    """Just enough of lab.kube.Cluster, over a list of objects; ``change`` runs when a wait looks."""

    def __init__(self) -> None:
        self.objects: list[Json] = []
        self.change: Callable[[], None] = lambda: None
        self.discovery = ""
        self.deleted: list[str] = []
        self.execs: list[tuple[str, tuple[str, ...]]] = []

    def get(self, kind: str, name: str, namespace: str | None = None) -> Json | None:
        return next((o for o in self.list(kind, namespace) if o["metadata"]["name"] == name), None)

    def list(self, kind: str, namespace: str | None = None, labels: str | None = None) -> list[Json]:
        key, _, value = (labels or "").partition("=")
        return [
            o
            for o in self.objects
            if o["kind"] == kind
            and namespace in (None, o["metadata"].get("namespace"))
            and (not key or (o["metadata"].get("labels") or {}).get(key) == value)
        ]

    def apply(self, docs: Sequence[Json]) -> None:
        for doc in docs:
            assert (doc["metadata"]["labels"])["kailab"] == "demo"
            self.objects = [
                o
                for o in self.objects
                if (o["kind"], o["metadata"]["name"]) != (doc["kind"], doc["metadata"]["name"])
            ]
            self.objects.append(doc)

    def patch(self, kind: str, name: str, patch: Json) -> None:
        labels = next(o for o in self.list(kind) if o["metadata"]["name"] == name)["metadata"]["labels"]
        for key, value in patch["metadata"]["labels"].items():
            labels.pop(key, None)
            if value is not None:
                labels[key] = value

    def wait(
        self,
        kind: str,
        predicate: Callable[[list[Json]], bool],
        *,
        what: str,
        timeout: float,
        namespace: str | None = None,
        labels: str | None = None,
        fail: Callable[[list[Json]], str | None] | None = None,
    ) -> list[Json]:
        self.change()
        seen = self.list(kind, namespace, labels)
        if predicate(seen):
            return seen
        raise WaitTimeout(f"{what}: {(fail(seen) if fail else None) or f'not within {timeout:g} s'}")

    def exec(self, pod: str, namespace: str, argv: Sequence[str], timeout: float = 30) -> str:
        self.execs.append((pod, tuple(argv)))
        return self.discovery

    def logs(self, pod: str, namespace: str, tail: int | None = None) -> str:
        return f"log of {pod}"

    def delete(
        self,
        kind: str,
        name: str,
        namespace: str | None = None,
        grace: int | None = None,
        wait: float | None = None,
    ) -> None:
        self.deleted.append(f"{namespace}/{name}")
        self.objects = [
            o
            for o in self.objects
            if (o["kind"], o["metadata"]["name"], o["metadata"].get("namespace")) != (kind, name, namespace)
        ]


class World:
    """A lab of one control plane and two workers."""

    def __init__(self, tmp_path: Path, spec: LabSpec = SPEC) -> None:
        self.spec = spec
        self.runner = FakeRunner()
        self.cluster = FakeCluster()
        self.events: list[Event] = []
        self.started = STARTED
        workers = WORKERS[: spec.cluster.workers]
        roles = {"kailab-demo-control-plane": "control-plane", **dict.fromkeys(workers, "worker")}
        self.nodes = {name: Node(name, role) for name, role in roles.items()}
        bus = Bus()
        bus.subscribe(self.events.append)
        self.ctx = LabContext(
            step="gpu",
            spec=spec,
            paths=LabPaths("demo"),
            run=self.runner,
            journal=Journal(tmp_path / "journal.jsonl"),
            bus=bus,
            supply=None,  # type: ignore[arg-type]  # no step of this part asks for it
            engine=ContainerEngine(self.runner),
            open_cluster=lambda _: self.cluster,  # type: ignore[arg-type,return-value]
        )
        self._docker()

    def _docker(self) -> None:
        listed = "docker ps -aq --no-trunc --filter label=io.x-k8s.kind.cluster=kailab-demo"
        self.runner.handle(listed, out=lambda _: "\n".join(reversed(list(self.nodes))))
        self.runner.handle(
            ["docker", "inspect", "--format", "{{json .State.StartedAt}}"],
            out=lambda call: "\n".join(json.dumps(self.started) for _ in call.argv[4:]),
        )
        for node in self.nodes.values():
            self.runner.handle(
                ["docker", "inspect", "--type", "container", node.name],
                out=lambda _, node=node: _inspected(node),
            )
            self.runner.handle(["docker", "exec", "-i", node.name, "sh", "-s", "--"], out=node.look)
            self.runner.handle(["docker", "exec", "-i", node.name, "sh", "-c"], out=node.install)
            self.runner.handle(
                ["docker", "exec", node.name, "nvidia-ctk", "cdi", "list"],
                out=lambda _, node=node: "\n".join(
                    f"nvidia.com/gpu={gpu.uuid}" for gpu in gpus_of("demo", node.name, self.spec.gpu)
                ),
            )
            self.cluster.objects.append(make_node(node.name))

    def plan(self, *names: str) -> None:
        """Let these nodes accept the files they should get, and be as planned already."""
        for name in names:
            self.nodes[name].offers = [wanted(name, self.spec)]
            self.nodes[name].become(wanted(name, self.spec))
            labels = self.cluster.get("Node", name)["metadata"]["labels"]  # type: ignore[index]
            labels["nvidia.com/gpu.present"] = "true"

    def serve(self, gpus: int = 2, began: str = "2026-11-21T10:00:07Z") -> None:
        """Let the device plugin run on the GPU nodes, and the kubelets offer GPUs."""
        for name in WORKERS[: self.spec.cluster.workers]:
            self.cluster.get("Node", name)["status"]["allocatable"]["nvidia.com/gpu"] = str(gpus)  # type: ignore[index]
            self.cluster.objects.append(plugin_pod(name, GpuPlugin(self.spec).config_hash(), began))


def _inspected(node: Node) -> str:
    labels = {"io.x-k8s.kind.cluster": "kailab-demo", "io.x-k8s.kind.role": node.role}
    shown = {
        "Name": f"/{node.name}",
        "Id": node.name,
        "State": {"Status": node.state},
        "Config": {"Labels": labels},
    }
    return json.dumps([shown])


def make_node(name: str) -> Json:
    return {"kind": "Node", "metadata": {"name": name, "labels": {}}, "status": {"allocatable": {}}}


def make_pod(name: str, phase: str = "Running", namespace: str = "default", **more: Any) -> Json:
    meta = {"name": name, "namespace": namespace, **more.pop("meta", {})}
    conditions = [{"type": "Ready", "status": "True" if phase == "Running" else "False"}]
    return {
        "kind": "Pod",
        "metadata": meta,
        "spec": more.pop("spec", {}),
        "status": {"phase": phase, "conditions": conditions, **more},
    }


def plugin_pod(node: str, config: str, began: str) -> Json:
    return make_pod(
        f"plugin-{node}",
        namespace="kube-system",
        meta={"labels": {"name": "nvidia-device-plugin-ds"}, "annotations": {CONFIG_ANNOTATION: config}},
        spec={"nodeName": node},
        containerStatuses=[{"name": "c", "restartCount": 0, "state": {"running": {"startedAt": began}}}],
    )

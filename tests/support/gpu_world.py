"""A fake lab for the GPU steps: node containers behind ``docker``, and a cluster of plain objects."""

from __future__ import annotations

import hashlib
import io
import platform
import tarfile
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.config import LabSpec
from lab.engine.events import Bus, Event
from lab.engine.journal import Journal
from lab.gpu import GpuPlugin
from lab.gpu.device_plugin import CONFIG_ANNOTATION
from lab.gpu.pools import node_labels, pools_by_node
from lab.gpu.simulated import nvml_build
from lab.gpu.simulated.devices import gpus_of
from lab.gpu.simulated.health import Failures, with_failures
from lab.gpu.simulated.node_files import NVML_CONFIG, PROGRAMS, NodeFiles, files_of
from lab.gpu.simulated.nvml_build import library_in_cache, source_digest
from lab.paths import LabPaths
from lab.session.context import LabContext
from lab.tools.container import ContainerEngine
from tests.support.api_requests import Call as Request
from tests.support.fake_api_server import FakeApiServer
from tests.support.fakes import Call, FakeRunner

Json = dict[str, Any]

SPEC = LabSpec.model_validate({"name": "demo", "gpu": {"mode": "simulated", "perNode": 2}})
WORKERS = ("kailab-demo-worker", "kailab-demo-worker2")
STARTED = "2026-11-21T10:00:00.5Z"


def pretend_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """An x86-64 machine with the library in its cache; compiling it again fails the test."""
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    library = library_in_cache("x86_64")
    library.parent.mkdir(parents=True)
    for name in (library.name, *PROGRAMS):
        library.with_name(name).write_bytes(name.encode())
    monkeypatch.setattr(nvml_build, "_compile", lambda *_: pytest.fail("compiled although it is in the cache"))


def wanted(name: str, spec: LabSpec = SPEC, failures: Failures | None = None) -> NodeFiles:
    """Return the files that the node should have while these of its GPUs are unhealthy."""
    gpus = with_failures(gpus_of(spec.name, name, spec.gpu), failures or {})
    return files_of(name, gpus, source_digest("x86_64"), "x86_64")


class Node:
    """A node container behind ``docker``: its unpacked files and the output of state.sh."""

    def __init__(self, name: str, role: str) -> None:
        self.name = name
        self.role = role
        self.state = "running"
        self.bare = False
        self.lines: list[str] = []
        self.conf = ""
        self.writes: list[str] = []
        self.installs = 0

    def become(self, files: NodeFiles) -> None:
        """Put the planned files into the node."""
        devices = {**files.devices, "/dev/nvidiactl": "195:255", "/dev/nvidia-uvm": "195:253"}
        self.lines = [
            *(f"sum {digest}  {path}" for path, digest in files.sums().items()),
            f"library {files.library}",
            *(f"device {path} {numbers}" for path, numbers in devices.items()),
            *(f"link {path} {target}" for path, target in files.links.items()),
            "unit enabled active",
            "usage enabled active",
        ]
        self.conf = files.texts[NVML_CONFIG]

    def write(self, text: str) -> str:
        """Return the node's nvml.conf."""
        self.conf = text
        self.writes.append(text)
        digest = hashlib.sha256(text.encode()).hexdigest()
        self.lines = [f"sum {digest}  {NVML_CONFIG}" if line.endswith(NVML_CONFIG) else line for line in self.lines]
        return ""

    def look(self, call: Call) -> str:
        """state.sh."""
        assert call.stdin is not None
        assert str(call.stdin).startswith("#!/bin/sh")
        brought = [] if self.bare else ["program /usr/bin/nvidia-container-runtime", "program /usr/bin/nvidia-ctk"]
        return "\n".join([*self.lines, *brought, *([] if self.bare else ["handler nvidia"])])

    def shell(self, call: Call) -> str:
        """Run a command with stdin: the new text of nvml.conf, or the tar."""
        if isinstance(call.stdin, str):
            assert call.argv[-1].startswith(f"cat >{NVML_CONFIG} ")
            return self.write(call.stdin)
        return self.install(call)

    def install(self, call: Call) -> str:
        """Act as install.sh with a tar of the expected content."""
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


class GpuWorld:
    """A lab of one control plane and two workers."""

    def __init__(self, tmp_path: Path, spec: LabSpec = SPEC) -> None:
        self.spec = spec
        self.runner = FakeRunner()
        self.api = FakeApiServer()
        self.api.react("apply", "*", labelled)
        self.api.react("exec", "Pod", lambda _: self.discovery)
        self.discovery = ""
        self.events: list[Event] = []
        self.started = STARTED
        workers = [f"kailab-demo-worker{at or ''}" for at in (0, *range(2, spec.cluster.workers + 1))]
        workers = workers[: spec.cluster.workers]
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
            supply=SimpleNamespace(bundled_folder=lambda item: None),  # type: ignore[arg-type]  # all that is asked for
            engine=ContainerEngine(self.runner),
            open_cluster=lambda _: self.api.cluster,
        )
        self._docker()

    def _docker(self) -> None:
        listed = "docker ps -aq --no-trunc --filter label=io.x-k8s.kind.cluster=kailab-demo"
        self.runner.handle(listed, out=lambda _: "\n".join(reversed(list(self.nodes))))
        self.runner.containers(lambda name: _inspected(self.nodes[name], self.started))
        for node in self.nodes.values():
            self.runner.handle(["docker", "exec", "-i", node.name, "sh", "-s", "--"], out=node.look)
            self.runner.handle(["docker", "exec", "-i", node.name, "sh", "-c"], out=node.shell)
            self.runner.handle(["docker", "exec", node.name, "cat", NVML_CONFIG], out=lambda _, node=node: node.conf)
            self.runner.handle(
                ["docker", "exec", node.name, "nvidia-ctk", "cdi", "list"],
                out=lambda _, node=node: "\n".join(
                    f"nvidia.com/gpu={gpu.uuid}" for gpu in gpus_of("demo", node.name, self.spec.gpu)
                ),
            )
            self.api.add(make_node(node.name))

    @property
    def deleted(self) -> list[str]:
        """Return the deleted objects as namespace/name."""
        return [f"{call.namespace}/{call.name}" for call in self.api.calls_of("delete")]

    def plan(self, *names: str) -> None:
        """Make these nodes accept the planned files, and have them already."""
        for name in names:
            self.nodes[name].offers = [wanted(name, self.spec)]
            self.nodes[name].become(wanted(name, self.spec))
            labels = self.api.get("Node", name)["metadata"]["labels"]  # type: ignore[index]
            labels.update(node_labels(pools_by_node(self.spec)[name]))

    def serve(self, gpus: int = 2, began: str = "2026-11-21T10:00:07Z") -> None:
        """Make the device plugin run on the GPU nodes, and the kubelets offer GPUs."""
        for name in pools_by_node(self.spec):
            self.offer(name, gpus)
            self.api.add(plugin_pod(name, GpuPlugin(self.spec).config_hash(), began))

    def offer(self, name: str, gpus: int) -> None:
        """Make the kubelet of a node offer this number of GPUs."""
        self.api.get("Node", name)["status"]["allocatable"]["nvidia.com/gpu"] = str(gpus)  # type: ignore[index]


def labelled(call: Request) -> None:
    """Assert that the lab's objects have its labels."""
    assert call.body["metadata"]["labels"]["kailab"] == "demo"


def _inspected(node: Node, started: str) -> Json:
    labels = {"io.x-k8s.kind.cluster": "kailab-demo", "io.x-k8s.kind.role": node.role}
    state = {"Status": node.state, "StartedAt": started}
    return {"Name": f"/{node.name}", "Id": node.name, "State": state, "Config": {"Labels": labels}}


def plugin_pod(node: str, config: str, began: str) -> Json:
    return make_pod(
        f"plugin-{node}",
        namespace="kube-system",
        meta={"labels": {"name": "nvidia-device-plugin-ds"}, "annotations": {CONFIG_ANNOTATION: config}},
        spec={"nodeName": node},
        containerStatuses=[{"name": "c", "restartCount": 0, "state": {"running": {"startedAt": began}}}],
    )


def make_node(name: str) -> Json:
    return {"kind": "Node", "metadata": {"name": name, "labels": {}}, "status": {"allocatable": {}}}


def make_pod(name: str, phase: str = "Running", namespace: str = "default", **more: Any) -> Json:
    meta = {"name": name, "namespace": namespace, **more.pop("meta", {})}
    conditions = [{"type": "Ready", "status": "True" if phase == "Running" else "False"}]
    return {
        "kind": "Pod",
        "metadata": meta,
        "spec": {"containers": [{"name": "main"}], **more.pop("spec", {})},
        "status": {"phase": phase, "conditions": conditions, **more},
    }

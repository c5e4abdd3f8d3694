"""A lab that is not there, and pytest runs against it: for the tests of the pytest plugin."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.config import GpuSpec, LabSpec, QueueSpec, TenantSpec
from lab.errors import NoLab
from lab.paths import LabPaths
from lab.session.lab import Lab

Json = dict[str, Any]
Run = Callable[..., pytest.RunResult]


class FakeCluster:
    """Has GPU nodes, and remembers what was made and removed."""

    def __init__(self, kubeconfig: str) -> None:
        self.kubeconfig = Path(kubeconfig)
        self.log: list[str] = []
        self.made: list[Json] = []

    def list(self, kind: str, *_: object, **__: object) -> list[Json]:
        gpus = {"nvidia.com/gpu": "2"}
        return [{"metadata": {"name": "worker"}, "status": {"allocatable": gpus}}] if kind == "Node" else []

    def create(self, doc: Json) -> Json:
        self.log.append(f"create {doc['kind']}")
        self.made.append(doc)
        return doc

    def delete_all(self, kind: str, namespace: str, grace: int | None = None) -> None:
        self.log.append(f"delete all {kind} grace {grace}")

    def delete(self, kind: str, name: str, namespace: str | None = None) -> None:
        self.log.append(f"delete {kind}")

    def wait(self, kind: str, predicate: Callable[[list[Json]], bool], **_: object) -> list[Json]:
        assert predicate([])
        self.log.append(f"wait {kind}")
        return []

    def kubectl(self, *args: str) -> str:
        return " ".join(["kubectl", *args])


class FakeLab:
    """What the plugin asks a lab for."""

    def __init__(self) -> None:
        self.spec = LabSpec(
            name="demo",
            gpu=GpuSpec(mode="simulated"),
            queues=(QueueSpec(name="root"), QueueSpec(name="leaf", parent="root")),
            tenants=(TenantSpec(name="ml"), TenantSpec(name="ops"), TenantSpec(name="research", mode="default")),
        )
        self.paths = LabPaths("demo")
        self.cluster = FakeCluster("/lab/kubeconfig")
        self.inside = {tenant.name: FakeCluster(f"/lab/{tenant.name}") for tenant in self.tenants}
        self.gpu_mode = "simulated"
        self.kai_version: str | None = "0.16.8"
        self.kai_reason = ""
        self.kind_name = "kailab-demo"
        self.node_image = "kailab/node:1"

    @property
    def tenants(self) -> tuple[TenantSpec, ...]:
        return self.spec.tenants

    @property
    def has_kai(self) -> bool:
        return self.kai_version is not None

    def tenant(self, name: str) -> FakeCluster:
        return self.inside[name]

    def tool(self, name: str) -> Path:
        return Path("/lab/bin") / name

    def facts(self) -> dict[str, str]:
        version = self.kai_version or ""
        return {"lab": "demo", "gpu_mode": self.gpu_mode, "kai_version": version, "no_kai": self.kai_reason}


def runner(pytester: pytest.Pytester, lab: FakeLab, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs pytest on the text of a test module, with the lab ``demo``, and with no other plugin."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.delenv("KAILAB_LAB", raising=False)

    def attach(name: str | None = None) -> FakeLab:
        if name not in (None, "demo"):
            raise NoLab(f"there is no lab named {name!r}", fix="lab up")
        return lab

    monkeypatch.setattr(Lab, "attach", attach)

    def runs(text: str, *args: str, name: str | None = "demo") -> pytest.RunResult:
        pytester.makepyfile(text)
        pytester.makeini("[pytest]")  # or the nearest one above the temporary directory would count
        chosen = ["--lab", name] if name else []
        always = ["-p", "lab.pytest_plugin.plugin", "--strict-markers", "-rs"]
        return pytester.runpytest_inprocess(*always, *chosen, *args)

    return runs

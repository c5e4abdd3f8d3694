"""A fake lab, and pytest runs against it, for tests of the pytest plugin."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.config import GpuSpec, LabSpec, QueueSpec, TenantSpec
from lab.errors import NoLab
from lab.paths import LabPaths
from lab.session.lab import Lab
from tests.support.api_requests import Call
from tests.support.fake_api_server import FakeApiServer
from tests.support.fake_cluster import FakeCluster

Json = dict[str, Any]
Run = Callable[..., pytest.RunResult]


class LabApi(FakeApiServer):
    """A cluster with GPUs; ``brief`` records its clients' requests without names, and when they listed pods."""

    def __init__(self) -> None:
        super().__init__()
        self.brief: list[str] = []
        self.put("Node", "worker", status={"allocatable": {"nvidia.com/gpu": "2"}})
        self.after("*", "*", self._note)

    def _note(self, call: Call) -> None:
        if call.verb == "deletecollection":
            self.brief.append(f"delete all {call.kind} grace {call.body.get('gracePeriodSeconds')}")
        elif call.verb in ("create", "delete") or (call.verb, call.kind) == ("list", "Pod"):
            self.brief.append(f"{call.verb} {call.kind}")


class FakeLab:
    """The parts of a lab that the plugin uses."""

    def __init__(self) -> None:
        self.spec = LabSpec(
            name="demo",
            gpu=GpuSpec(mode="simulated"),
            queues=(QueueSpec(name="root"), QueueSpec(name="leaf", parent="root")),
            tenants=(TenantSpec(name="ml"), TenantSpec(name="ops"), TenantSpec(name="research", mode="default")),
        )
        self.paths = LabPaths("demo")
        self.api = LabApi()
        self.inside = {tenant.name: LabApi() for tenant in self.tenants}
        self.gpu_mode = "simulated"
        self.kai_version: str | None = "0.16.8"
        self.kai_reason = ""
        self.kai_serves: dict[str, str] = {}
        self.kind_name = "kailab-demo"
        self.node_image = "kailab/node:1"
        self.session = SimpleNamespace(cancel=threading.Event())

    @property
    def tenants(self) -> tuple[TenantSpec, ...]:
        return self.spec.tenants

    @property
    def has_kai(self) -> bool:
        return self.kai_version is not None

    @property
    def cluster(self) -> FakeCluster:
        return self.api.cluster

    def tenant(self, name: str) -> FakeCluster:
        return self.inside[name].cluster

    def tool(self, name: str) -> Path:
        return Path("/lab/bin") / name

    def facts(self) -> dict[str, str]:
        version = self.kai_version or ""
        return {"lab": "demo", "gpu_mode": self.gpu_mode, "kai_version": version, "no_kai": self.kai_reason}


def runner(pytester: pytest.Pytester, lab: FakeLab, monkeypatch: pytest.MonkeyPatch, *, watch: bool = False) -> Run:
    """Runs pytest on the text of a test module, with the lab ``demo``, and without other plugins.

    ``watch``: with the watcher of invariants.
    """
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.delenv("KAILAB_LAB", raising=False)

    def attach(name: str | None = None) -> FakeLab:
        if name not in (None, "demo"):
            raise NoLab(f"no lab named {name!r} exists", fix="kailab up")
        return lab

    monkeypatch.setattr(Lab, "attach", attach)

    def runs(text: str, *args: str, name: str | None = "demo") -> pytest.RunResult:
        pytester.makepyfile(text)
        pytester.makeini("[pytest]")  # otherwise pytest uses the nearest one above the temporary directory
        chosen = ["--lab", name] if name else []
        always = ["-p", "lab.pytest_plugin.plugin", "--strict-markers", "-rs", *([] if watch else ["--lab-no-watch"])]
        return pytester.runpytest_inprocess(*always, *chosen, *args)

    return runs

"""hosts.toml of the nodes; no value of the lab file reaches a shell."""

from __future__ import annotations

import tomllib
from types import SimpleNamespace
from typing import Any

import pytest

from lab.config import LabSpec
from lab.config.sections import SupplySpec
from lab.engine.step import Observed
from lab.steps.registry_mirrors import RegistryMirrors, mirror_files
from lab.tools.container import ContainerEngine
from tests.support.fakes import FakeRunner

EVIL = "x; touch /pwned; echo #"


@pytest.mark.parametrize(
    ("registry", "mirror", "server", "url"),
    [
        ("ghcr.io", "localhost:5001", "https://ghcr.io", "http://172.18.0.1:5001"),
        ("docker.io", "mirror.example", "https://registry-1.docker.io", "https://mirror.example"),
        ("quay.io", "http://mirror.example/proxy/quay", "https://quay.io", "http://mirror.example/v2/proxy/quay"),
    ],
)
def test_hosts_toml(registry: str, mirror: str, server: str, url: str) -> None:
    ((path, text),) = mirror_files({registry: mirror}, "172.18.0.1").items()
    found = tomllib.loads(text)
    assert path == f"/etc/containerd/certs.d/{registry}/hosts.toml"
    assert found["server"] == server
    assert list(found["host"]) == [url]
    assert found["host"][url].get("override_path", False) == ("proxy" in mirror)


def test_values_cannot_leave_their_toml_string() -> None:
    """Not even without validation."""
    ((_, text),) = mirror_files({'a"\nb': 'localhost:5001"]\n[plugins."x'}, "172.18.0.1").items()
    found = tomllib.loads(text)
    assert found["server"] == 'https://a"\nb'
    assert set(found) == {"server", "host"}


def test_observe_passes_file_names_to_no_shell(runner: FakeRunner) -> None:
    spec = LabSpec().model_copy(update={"supply": SupplySpec.model_construct(mirrors={EVIL: "localhost:5001"})})
    nodes = (SimpleNamespace(name="node", gateway="172.18.0.1"),)
    ctx: Any = SimpleNamespace(engine=ContainerEngine(runner), kubernetes_nodes=lambda: nodes)
    path = f"/etc/containerd/certs.d/{EVIL}/hosts.toml"
    runner.handle(["docker", "exec", "node", "cat", path], out=mirror_files(spec.supply.mirrors, "172.18.0.1")[path])
    assert RegistryMirrors(spec).observe(ctx) == Observed.ready("1 registries")

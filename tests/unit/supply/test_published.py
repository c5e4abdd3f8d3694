"""kailab's own images in the registry of its release: the probe, and the node image that kind does not publish."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.config import LabSpec
from lab.supply import Item, Supply, published, registry
from lab.supply import supply as module
from lab.supply.catalogue import OWN_REGISTRY, kind_node, ready_node
from lab.tools.container import ContainerEngine
from lab.workloads.pods import IMAGE
from tests.support.fakes import FakeRunner

PROBE = Item("image", IMAGE)
KIND, READY = kind_node("1.34.4"), ready_node("1.34.4")
REGISTRY = "ghcr.io/somebody/kailab"
DIGEST = f"sha256:{'5' * 64}"


@pytest.fixture
def release(monkeypatch: pytest.MonkeyPatch) -> published.Published:
    made = published.Published(REGISTRY, {PROBE.name: DIGEST})
    monkeypatch.setattr(module, "published", lambda: made)
    monkeypatch.setattr(registry, "reachable", lambda host: True)
    return made


def supply_of(runner: FakeRunner, **section: object) -> Supply:
    spec = LabSpec.model_validate({"supply": {"sources": ["registry"], **section}})
    return Supply(spec, runner, ContainerEngine(runner))


def serve(runner: FakeRunner, *references: str, layers: int = 0) -> None:
    for reference in references:
        answer = json.dumps({"layers": [{"size": layers}]}) if layers else ""
        runner.handle(f"docker manifest inspect {reference}", out=answer)


def test_release_names_its_registry_and_digests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published, "FILE", tmp_path / "published.json")
    assert published.published.__wrapped__() == published.Published()
    (tmp_path / "published.json").write_text(json.dumps({"registry": REGISTRY, "pins": {PROBE.name: DIGEST}}))
    found = published.published.__wrapped__()
    assert (found.mirrors, found.pins) == ({OWN_REGISTRY: REGISTRY}, {PROBE.name: DIGEST})


def test_checkout_asks_no_server_for_the_probe(runner: FakeRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "published", published.Published)
    monkeypatch.setattr(registry, "reachable", lambda host: pytest.fail(f"asked {host}"))
    choice = supply_of(runner).choose([PROBE])[PROBE]
    assert choice.source == "none"
    assert "registry: only releases of kailab publish it, and this is a checkout" in choice.why


def test_probe_comes_from_the_registry_of_the_release(runner: FakeRunner, release: published.Published) -> None:
    serve(runner, f"{REGISTRY}/probe@{DIGEST}", layers=7)
    choice = supply_of(runner).choose([PROBE])[PROBE]
    assert (choice.source, choice.where, choice.verified, choice.size) == (
        "registry",
        f"{REGISTRY}/probe:2",
        "pinned",
        7,
    )


def test_lab_file_may_name_another_registry(runner: FakeRunner, release: published.Published) -> None:
    serve(runner, f"mirror.example/probe@{DIGEST}")
    choice = supply_of(runner, mirrors={OWN_REGISTRY: "mirror.example"}).choose([PROBE])[PROBE]
    assert choice.where == "mirror.example/probe:2"


def test_nodes_start_from_kinds_image_where_it_exists(runner: FakeRunner, release: published.Published) -> None:
    serve(runner, KIND.name, f"{REGISTRY}/node:v1.34.4")
    supply = supply_of(runner)
    assert (supply.base_node, supply.ready_node, supply.own_node) == (KIND, False, False)


def test_nodes_start_from_kailabs_image_where_kind_has_none(runner: FakeRunner, release: published.Published) -> None:
    runner.handle(f"docker manifest inspect {KIND.name}", code=1)
    serve(runner, f"{REGISTRY}/node:v1.34.4")
    supply = supply_of(runner)
    assert (supply.base_node, supply.ready_node, supply.own_node) == (READY, True, True)


def test_nodes_start_from_a_build_where_nobody_has_an_image(runner: FakeRunner, release: published.Published) -> None:
    runner.handle("docker manifest inspect", code=1)
    assert supply_of(runner).base_node == KIND


def test_size_is_that_of_this_architecture(runner: FakeRunner) -> None:
    engine, digests = ContainerEngine(runner), {"amd64": "sha256:1", "arm64": "sha256:2"}
    index = [{"digest": digest, "platform": {"architecture": name}} for name, digest in digests.items()]
    runner.handle("docker manifest inspect x.example/a:1", out=json.dumps({"manifests": index}))
    runner.handle(
        "docker manifest inspect x.example/a@sha256:2", out=json.dumps({"layers": [{"size": 3}, {"size": 4}]})
    )
    assert registry.size("x.example/a:1", engine, "arm64") == 7
    assert registry.size("x.example/a:1", engine, "riscv64") is None

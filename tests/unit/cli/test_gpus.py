"""``kailab gpus`` and ``kailab report``: options, output, and choice of the cluster."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from lab.cli.gpus import gpus
from lab.cli.report import report
from lab.errors import ApiFailed, SpecError
from lab.gpu.map import watch as gpu_map_follow
from lab.gpu.map.build import map_of
from lab.gpu.map.watch import GpuSource
from lab.paths import LabPaths
from lab.serialization import document
from lab.session.lab import Lab
from lab.snapshot.cluster_snapshot import ClusterSnapshot
from tests.support.gpu_map_world import demo

LAB = demo()


@pytest.fixture
def cluster() -> Any:
    return SimpleNamespace(close=lambda: None)


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch, cluster: Any) -> Any:
    spec = SimpleNamespace(
        name="demo", cluster=SimpleNamespace(own=False), gpu=SimpleNamespace(mode="simulated"), tenants=()
    )
    ctx = SimpleNamespace(spec=spec, cluster=lambda: cluster)
    fake = SimpleNamespace(
        spec=spec,
        paths=LabPaths("demo"),
        context=lambda step: ctx,
        facts=lambda: {"lab": "demo", "kai_version": "0.16.8"},
    )
    asked: list[str | None] = []

    def attach(name: str | None = None) -> Any:
        asked.append(name)
        return fake

    fake.asked = asked
    monkeypatch.setattr(Lab, "attach", attach)

    def snapshot(cluster: Any, *, kinds: Any) -> ClusterSnapshot:
        return LAB.world

    monkeypatch.setattr(gpu_map_follow, "take", snapshot)
    return fake


@pytest.fixture(autouse=True)
def _sigterm() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def run(command: Any, *args: str) -> Result:
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, args)


def test_pipe_gets_plain_lines(lab: Any) -> None:
    result = run(gpus, "--name", "demo")
    assert result.exit_code == 0
    assert lab.asked == ["demo"]
    assert result.stdout.splitlines()[-1].startswith("4 GPUs on 2 nodes: ")


def test_json_is_the_map(lab: Any) -> None:
    data = json.loads(run(gpus, "--json").stdout)
    assert data == json.loads(json.dumps(document(map_of(LAB.world))))


def test_width_draws_the_table(lab: Any) -> None:
    assert run(gpus, "--width", "80").stdout.startswith(" GPUs of lab demo: 4 GPUs on 2 nodes")


def test_kubeconfig_selects_any_cluster(lab: Any, tmp_path: Path) -> None:
    (tmp_path / "config").write_text("{}")
    result = run(gpus, "--kubeconfig", str(tmp_path / "config"), "--context", "prod", "--width", "80")
    assert result.stdout.startswith(" GPUs of prod: ")
    assert lab.asked == []


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--context", "prod"], "--context needs --kubeconfig"),
        (["--kubeconfig", "/missing/config"], "no such file"),
        (["--kubeconfig", "/missing/config", "--name", "demo"], "--name and --kubeconfig are mutually exclusive"),
    ],
)
def test_conflicting_options_are_refused(lab: Any, args: list[str], message: str) -> None:
    error = run(gpus, *args).exception
    assert isinstance(error, SpecError)
    assert message in error.what
    assert error.fix


def test_ctrl_c_ends_watch_with_exit_code_0(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, bool]] = []

    class Follow:
        def __init__(self, source: GpuSource) -> None:
            assert source.cluster is lab.context("").cluster()

        def __enter__(self) -> Follow:
            return self

        def __exit__(self, *_: object) -> None:
            seen.append(("closed", True))

    def watch(maps: Any, title: str, *, as_json: bool) -> None:
        seen.append((title, as_json))
        raise KeyboardInterrupt

    monkeypatch.setattr("lab.cli.gpus.GpuFollow", Follow)
    monkeypatch.setattr("lab.cli.gpus.watch_gpus", watch)
    result = run(gpus, "--watch", "--json")
    assert (result.exit_code, result.exception) == (0, None)
    assert seen == [("lab demo", True), ("closed", True)]


def test_report_writes_a_page(lab: Any, tmp_path: Path) -> None:
    result = run(report, "--out", str(tmp_path / "deep" / "page.html"))
    assert result.stdout.strip() == str(tmp_path / "deep" / "page.html")
    text = (tmp_path / "deep" / "page.html").read_text()
    assert "<h1>Lab demo</h1>" in text
    assert "The suites have not run yet" in text
    assert "0.16.8" in text


def test_report_is_written_without_an_answer_of_the_cluster(
    lab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(cluster: Any, *, kinds: Any) -> ClusterSnapshot:
        raise ApiFailed("the API server does not answer")

    monkeypatch.setattr(gpu_map_follow, "take", silent)
    result = run(report, "--out", str(tmp_path / "page.html"), "--json")
    data = json.loads(result.stdout)
    assert data["notes"] == ["the GPUs could not be read: the API server does not answer"]
    assert "the GPUs could not be read" in (tmp_path / "page.html").read_text()

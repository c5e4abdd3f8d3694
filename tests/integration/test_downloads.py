"""Charts, images and programs from a real registry and a real web server; TMPDIR is another file system."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import json
import os
import signal
import socket
import subprocess  # noqa: TID251 - servers and mounts under test, from outside
import tarfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from lab.config import LabSpec, load_profile
from lab.errors import Unavailable
from lab.paths import cache_root
from lab.supply import Item, Supply, registry
from lab.supply.archive import digest
from lab.tools.container import ContainerEngine
from lab.tools.process import HostRunner
from tests.integration.conftest import Cli

KAI = "oci://ghcr.io/kai-scheduler/kai-scheduler/kai-scheduler"
IMAGE = "registry.k8s.io/kailab-it/pinned:1"


@dataclass(frozen=True)
class Mirrors:
    """Addresses of the registry and the web server, the web server's folder, and sha256 of the charts by name."""

    registry: str
    web: str
    folder: Path
    sums: dict[str, str]

    @property
    def settings(self) -> list[str]:
        """Arguments that replace the public servers."""
        hosts = {"ghcr.io": self.registry, "registry.k8s.io": self.registry}
        hosts |= {"charts.loft.sh": self.web, "github.com": self.web}
        text = ", ".join(f"{host}: {mirror}" for host, mirror in hosts.items())
        return ["--set", f"supply.mirrors={{{text}}}", "--set", "supply.sources=[registry, present]"]


@pytest.fixture(scope="module")
def programs() -> Supply:
    """The supply of programs on this machine."""
    runner = HostRunner()
    supply = Supply(load_profile("minimal"), runner, ContainerEngine(runner), engine_runs=False)
    for name in ("registry", "helm"):
        if not supply.has("binary", name):
            pytest.skip(f"no {name} program: {supply.choices[Item('binary', name)].why}")
    return supply


@pytest.fixture(scope="module")
def mirrors(programs: Supply, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mirrors]:
    """A registry and a web server with charts, which are the same for every test."""
    top = tmp_path_factory.mktemp("mirrors")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        address = f"localhost:{listener.getsockname()[1]}"
    storage = {"filesystem": {"rootdirectory": str(top / "registry")}}
    config = {"version": 0.1, "http": {"addr": address.replace("localhost", "127.0.0.1")}, "storage": storage}
    (top / "registry.json").write_text(json.dumps(config))
    process = subprocess.Popen(
        [programs.binary("registry"), "serve", top / "registry.json"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    web = top / "web"
    (web / "charts").mkdir(parents=True)

    class Files(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
            """Stay silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Files, directory=str(web)))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and not listens(address):
            assert process.poll() is None
        helm, sums = programs.binary("helm"), {}
        for name, version in (("kai-scheduler", "v0.16.8"), ("vcluster", "0.36.1")):
            (top / name).mkdir()
            (top / name / "Chart.yaml").write_text(f"apiVersion: v2\nname: {name}\nversion: {version}\n")
            programs.run.run([helm, "package", top / name, "--destination", web / "charts"])
            sums[name] = digest(web / "charts" / f"{name}-{version}.tgz")
        chart = web / "charts" / "kai-scheduler-v0.16.8.tgz"
        programs.run.run([helm, "push", "--plain-http", chart, f"oci://{address}/kai-scheduler/kai-scheduler"])
        yield Mirrors(address, f"localhost:{server.server_port}", web, sums)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        process.send_signal(signal.SIGTERM)
        process.wait(20)


def listens(address: str) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", int(address.rpartition(":")[2]))) == 0


@pytest.fixture
def small_tmp(tmp_path: Path) -> Iterator[Path]:
    """A tmpfs of 1 MiB, as /tmp often is."""
    folder = tmp_path / "tmpfs"
    folder.mkdir()
    if os.geteuid() != 0:
        pytest.skip("mounting a tmpfs needs root")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], check=True)
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def own_cache(cli: Cli, name: str) -> Path:
    """Give the command an own cache; only programs built from Go modules come from the real one."""
    folder = cli.root / name
    folder.mkdir()
    (folder / "go").symlink_to(cache_root() / "go")
    cli.env["KAILAB_CACHE"] = str(folder)
    return folder


def test_charts_are_pulled_with_tmp_on_another_file_system(cli: Cli, mirrors: Mirrors, small_tmp: Path) -> None:
    cache = own_cache(cli, "cache")
    cli.env["TMPDIR"] = str(small_tmp)
    assert small_tmp.stat().st_dev != cache.stat().st_dev
    wanted = ("--chart", "kai-scheduler", "--chart", "vcluster", *mirrors.settings)
    made = cli("bundle", "create", "--out", str(cli.root / "charts"), *wanted)
    shown = cli("bundle", "show", str(cli.root / "charts"), "--json").json()
    assert {entry["name"]: entry["sha256"] for entry in shown["entries"]} == mirrors.sums, made.out
    assert [path.name for path in (cache / "fetched-chart").iterdir() if path.name.startswith(".")] == []


def test_pins_of_charts_are_verified(cli: Cli, mirrors: Mirrors) -> None:
    url = "https://charts.loft.sh/charts/vcluster-0.36.1.tgz"
    for number, (key, name) in enumerate(((f"{KAI}:v0.16.8", "kai-scheduler"), (url, "vcluster"))):
        own_cache(cli, f"cache-{number}")
        create = ("bundle", "create", "--chart", name, *mirrors.settings)
        wrong = ("--set", f"supply.pins={{'{key}': '{'0' * 64}'}}", "--out", str(cli.root / f"wrong-{number}"))
        refused = cli(*create, *wrong, code=3)
        assert f"has sha256 {mirrors.sums[name]}, expected {'0' * 64}" in refused.err + refused.out
        assert not (cli.root / f"wrong-{number}").exists()
        right = ("--set", f"supply.pins={{'{key}': '{mirrors.sums[name]}'}}", "--out", str(cli.root / f"ok-{number}"))
        cli(*create, *right)


def test_program_that_is_not_the_pinned_one_is_refused(
    mirrors: Mirrors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server has both another program and the checksum for it: the pin of the catalogue decides."""
    monkeypatch.setenv("KAILAB_CACHE", str(tmp_path / "cache"))
    program, runner = b"#!/bin/sh\necho not kind\n", HostRunner()
    section = {"sources": ["registry"], "mirrors": {"github.com": mirrors.web}}
    supply = Supply(LabSpec.model_validate({"supply": section}), runner, ContainerEngine(runner), engine_runs=False)
    row = supply.catalogue.binaries["kind"]
    path = mirrors.folder / row.release.partition("github.com/")[2]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(program)
    path.with_name(f"{path.name}.sha256sum").write_text(f"{hashlib.sha256(program).hexdigest()}  {path.name}\n")
    with pytest.raises(Unavailable, match=f"expected {supply.catalogue.pin(Item('binary', 'kind'), row.version)}"):
        supply.binary("kind")
    unpinned = LabSpec.model_validate({"supply": {**section, "pins": {row.release: ""}}})
    supply = Supply(unpinned, runner, ContainerEngine(runner), engine_runs=False)
    assert supply.choose([Item("binary", "kind")])[Item("binary", "kind")].verified.startswith("not pinned: checked")
    assert supply.binary("kind").read_bytes() == program


def imported(docker: ContainerEngine, name: str, content: bytes) -> None:
    """Make an image with one file."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        info = tarfile.TarInfo("file")
        info.size = len(content)
        tar.addfile(info, io.BytesIO(content))
    docker.call("import", "-", name, stdin=layer.getvalue())


def test_pinned_image_is_verified_and_the_engine_stays_as_it_was(
    engine: HostRunner, mirrors: Mirrors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAILAB_CACHE", str(tmp_path / "cache"))
    docker = ContainerEngine(engine)
    there = f"{mirrors.registry}/kailab-it/pinned:1"
    with contextlib.ExitStack() as stack:
        for name in (there, IMAGE):
            stack.callback(docker.call, "rmi", name, check=False)
        imported(docker, there, b"pushed")
        docker.call("push", "-q", there)
        pushed = docker.call("inspect", "--format", "{{index .RepoDigests 0}}", there).out.strip().partition("@")[2]
        docker.call("rmi", there)
        imported(docker, IMAGE, b"the user's own")
        own = docker.image_id(IMAGE)

        def supply(pin: str) -> Supply:
            section = {"sources": ["registry"], "mirrors": {"registry.k8s.io": mirrors.registry}, "pins": {IMAGE: pin}}
            return Supply(LabSpec.model_validate({"supply": section}), engine, docker)

        wrong = supply(f"sha256:{'0' * 64}")
        with pytest.raises(Unavailable) as refused:
            wrong.image(IMAGE)
        assert refused.value.evidence == (f"registry: {there} is not the pinned sha256:{'0' * 64}",)
        with tarfile.open(supply(pushed).image(IMAGE)) as saved:
            (row,) = json.load(saved.extractfile("manifest.json") or io.BytesIO())
        assert row["RepoTags"] == [IMAGE]
        assert docker.image_id(IMAGE) == own
        assert docker.image_id(there) is None
        assert docker.image_id(registry.pinned(there, pushed)) is None

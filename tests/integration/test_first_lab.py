"""The whole demo lab from registries and release pages alone, on a machine with a container engine and Python.

A real registry on this machine has the images; kailab's own come from the recipes of the release. A web server has
what release pages publish. Compilers, Go, debootstrap, apt and Kubernetes' tools are hidden from PATH, and the cache is
empty.
"""

from __future__ import annotations

import json
import os
import subprocess  # noqa: TID251 - pytest and the release's recipe, as a person runs them
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.config import load_profile
from lab.operations.planning import items_needed, resolve_gpus, resolve_scheduler
from lab.supply import Item, Supply
from lab.supply.cache import key_of, place
from lab.supply.catalogue import OWN_REGISTRY, ready_node
from lab.tools.container import ContainerEngine
from lab.tools.process import HostRunner
from lab.workloads.pods import IMAGE
from scripts.pins import chart_digest, image_digest
from scripts.release.images import published_name
from tests.integration import local_registry, release_pages
from tests.integration.conftest import Cli, lacking

NAME = "it-first"
ROOT = Path(__file__).parents[2]
SUITES = ("tests/e2e/test_kai_pods.py", "tests/e2e/test_queues.py", "tests/e2e/test_tenants.py")
HIDDEN = {
    *("go", "gofmt", "cc", "gcc", "clang", "c99", "g++", "zig", "ziglang"),
    *("debootstrap", "apt-get", "apt", "dpkg-deb", "dpkg", "kind", "helm", "kubectl", "vcluster"),
}


@dataclass(frozen=True)
class Publishers:
    """What public servers publish: their mirrors on this machine by host, and the sums of everything."""

    mirrors: dict[str, str]
    pins: dict[str, str]
    with_kai: bool

    def settings(self) -> tuple[str, ...]:
        """The settings of a lab that knows no other source."""
        found = {"sources": ["registry"], "mirrors": self.mirrors, "pins": self.pins}
        return tuple(word for key, value in found.items() for word in ("--set", f"supply.{key}={json.dumps(value)}"))


@pytest.fixture
def publishers(engine: HostRunner, tmp_path: Path) -> Iterator[Publishers]:
    docker = ContainerEngine(engine)
    spec = resolve_gpus(load_profile("demo", [f"name={NAME}"]))[0]
    supply = Supply(spec, engine, docker)
    if not supply.has("binary", "registry"):
        pytest.skip(f"no registry program: {supply.choices[Item('binary', 'registry')].why}")
    resolved, no_kai = resolve_scheduler(spec, supply)
    images = [item.name for item in items_needed(resolved, supply) if item.kind == "image"]
    public = [name for name in images if name != IMAGE and "kindest/node" not in name]
    own = [IMAGE, ready_node(spec.cluster.kubernetes).name]
    content = place("test-first-lab", "of", key_of([supply.identity(Item("image", name)) for name in images], no_kai))
    with (
        local_registry.serving(supply.binary("registry"), content, tmp_path) as registry,
        release_pages.serving(tmp_path / "pages") as pages,
    ):
        if not (content / "full").exists():
            for name in public:
                where = f"{registry}/{name.partition('/')[2]}"
                local_registry.push(supply.image(name), where, docker, tmp_path)
            if not no_kai:
                target = f"oci://{registry}/kai-scheduler/kai-scheduler"
                engine.run([supply.binary("helm"), "push", "--plain-http", supply.chart("kai-scheduler"), target])
            release(registry, spec.cluster.kubernetes)
            (content / "full").touch()
        names = {name: f"{registry}/{name.partition('/')[2]}" for name in public}
        names |= {name: published_name(name, registry) for name in own}
        pins = {name: image_digest(where) for name, where in names.items()}
        sums = release_pages.publish(supply, engine, tmp_path)
        mirrors = dict.fromkeys([*(name.partition("/")[0] for name in public), "docker.io", OWN_REGISTRY], registry)
        mirrors |= dict.fromkeys([url.split("/")[2] for url in sums], pages)
        if not no_kai:
            chart = supply.catalogue.address(Item("chart", "kai-scheduler"), f"v{spec.kai.version}")
            there = f"{registry}/{chart.removeprefix('oci://').partition('/')[2]}:v{spec.kai.version}"
            pins[f"{chart}:v{spec.kai.version}"] = chart_digest(there)
        yield Publishers(mirrors, pins | sums, not no_kai)


def release(registry: str, kubernetes: str) -> None:
    """Push kailab's own images as the release workflow does."""
    script = [sys.executable, "-m", "scripts.release.images"]
    pushed = subprocess.run(
        [*script, "push", registry, kubernetes], cwd=ROOT, check=True, capture_output=True, text=True
    )
    (architecture,) = {name.rpartition("-")[2] for name in pushed.stdout.split()}
    joined = subprocess.run(
        [sys.executable, "-c", JOIN, registry, architecture, kubernetes],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    assert set(json.loads(joined.stdout)) == {IMAGE, ready_node(kubernetes).name}


# without published.json, which would change this checkout
JOIN = (
    "import json, sys; from scripts.release.images import join;"
    "print(json.dumps(join(sys.argv[1], [sys.argv[2]], sys.argv[3:])))"
)


@pytest.fixture
def plain_path(tmp_path: Path) -> str:
    """A PATH with every program of this machine but the hidden ones."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for place_ in os.environ["PATH"].split(":"):
        for program in Path(place_).glob("*") if Path(place_).is_dir() else ():
            name = program.name
            if name not in HIDDEN and not (folder / name).exists() and os.access(program, os.X_OK):
                (folder / name).symlink_to(program)
    return str(folder)


@pytest.mark.long
@pytest.mark.timeout(2400)
def test_demo_lab_from_registries_and_release_pages(cli: Cli, publishers: Publishers, plain_path: str) -> None:
    cli.env |= {"PATH": plain_path, "KAILAB_CACHE": str(cli.root / "cache")}
    cli.labs.append(NAME)
    lab = ("--profile", "demo", "--set", f"name={NAME}", *publishers.settings())
    doctor = cli("doctor", *lab, "--json", code=None).json()
    ways = [one["what"] for one in doctor["findings"] if one["rule"] == "supply"]
    assert len(ways) == 1, ways
    assert "downloads: " in ways[0]
    assert not [one for one in doctor["findings"] if one["rule"] == "build-tools"]

    plan = cli("plan", *lab, "--json").json()
    assert {entry["source"] for entry in plan["supply"]} == {"registry"}
    assert {entry["verified"] for entry in plan["supply"]} == {"pinned"}
    assert (plan["missing"], plan["builds"]) == ([], {})
    assert ready_node(plan["facts"]["kubernetes"]).name in {entry["name"] for entry in plan["supply"]}
    changes = [effect for step in plan["steps"] for effect in step["effects"] if effect["where"] == "host"]
    assert changes == [], "nothing is installed on the machine"

    up = cli("up", *lab, "--yes", "--json", timeout=1800).json()
    assert up["facts"]["scheduler"] == ("kai" if publishers.with_kai else "default")
    assert not (cli.root / "cache" / "go").exists(), "nothing was built"
    run_suites(cli, "gpus,tenants,kai" if publishers.with_kai else "gpus,tenants")
    assert cli("verify", "--name", NAME, "--json").json()["ok"]

    again = cli("up", *lab, "--set", "supply.sources=[present,registry]", "--yes", "--json").json()
    assert again["changed"] == 0, "what was downloaded counts as the same"
    cli("down", "--name", NAME, "--images")
    if not publishers.with_kai:
        lacking("kai", "everything but KAI came from registries")


def run_suites(cli: Cli, require: str) -> None:
    argv = [sys.executable, "-m", "pytest", *SUITES, "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--lab", NAME]
    argv += ["--lab-require", require, f"--lab-artifacts={cli.root / 'artifacts'}"]
    done = subprocess.run(argv, cwd=ROOT, env=cli.env, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout[-6000:]

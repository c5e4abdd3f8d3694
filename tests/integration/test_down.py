"""``kailab down``: one of each kind of object remains, and is named; a killed removal is finished by the next one."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess  # noqa: TID251 - what somebody else runs on this machine
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab.config import LabSpec
from lab.engine.journal import Journal
from lab.supply import Supply
from lab.tools.container import ContainerEngine
from lab.tools.process import HostRunner
from lab.workloads import pods
from tests.integration.conftest import Cli
from tests.integration.killed_at_each_effect import run_until_it_survives

NAME = "it-left"
NODE = f"kailab-{NAME}-control-plane"
NETWORK = "kailab-it-left"
IMAGE = "kailab-it-left"
"""A name of this file's own: other tests remove the image of the suites from the engine."""

ATTACH = """#!/bin/sh
# somebody attaches a container just before the network is removed
if [ "$1 $2" = "network rm" ] && [ -e "$FIRST" ]; then
    rm "$FIRST"; {docker} run -d --name it-left-late --network "$3" {image} sleep 600
fi
exec {docker} "$@"
"""
ORPHAN = """
import sys
from lab.tools.process import HostRunner
script = "trap '' TERM; echo $$; sleep 600; :"
HostRunner().run(["sh", "-c", script, sys.argv[1]], on_line=lambda line: print(line, flush=True))
"""


class Removal:
    """A lab's containers, volume, network and files, without Kubernetes."""

    def __init__(self, cli: Cli, run: HostRunner) -> None:
        self.cli = cli
        self.run = run
        self.state = cli.root / "state" / "labs" / NAME
        self.state.mkdir(parents=True)
        self.volume = ""

    def docker(self, *words: str) -> list[str]:
        """Run docker and return the words of its output."""
        return self.run.run(["docker", *words]).out.split()

    def create(self) -> None:
        """Create them as ``kailab up`` does: the network is in the journal, the volume anonymous."""
        Journal(self.state / "journal.jsonl").owns("network", NETWORK, "cluster", made="yes")
        self.docker("network", "create", NETWORK)
        labels = ("--label", f"io.x-k8s.kind.cluster=kailab-{NAME}")
        self.docker("run", "-d", "--name", NODE, *labels, "--network", NETWORK, "-v", "/var", IMAGE, "sleep", "600")
        self.volume = self.docker("inspect", "-f", "{{range .Mounts}}{{.Name}}{{end}}", NODE)[0]

    def left(self) -> list[str]:
        """What is left of them."""
        containers = self.docker("ps", "-a", "--filter", f"name={NODE}", "--format", "container {{.Names}}")
        volumes = self.docker("volume", "ls", "-q", "--filter", f"name={self.volume}")
        networks = self.docker("network", "ls", "-q", "--filter", f"name={NETWORK}")
        return [*containers, *volumes, *networks, *map(str, self.state.parent.iterdir())]


@pytest.fixture
def removal(cli: Cli, engine: HostRunner) -> Iterator[Removal]:
    """The lab's objects, on an image that is in every lab's cache."""
    archive = Supply(LabSpec(), engine, ContainerEngine(engine)).image(pods.IMAGE)
    engine.run(["docker", "load", "-q", "-i", archive])
    engine.run(["docker", "tag", pods.IMAGE, IMAGE])
    cli.labs.append(NAME)
    made = Removal(cli, engine)
    made.create()
    yield made
    engine.run(["docker", "rm", "-f", "-v", "it-left-user", "it-left-late", NODE], check=False)
    engine.run(["docker", "network", "rm", NETWORK], check=False)
    engine.run(["docker", "rmi", IMAGE], check=False)


@contextlib.contextmanager
def immutable(path: Path) -> Iterator[None]:
    """A file that even root cannot remove."""
    if os.geteuid() != 0 or shutil.which("chattr") is None:
        pytest.skip("needs root and chattr")
    subprocess.run(["chattr", "+i", path], check=True)
    try:
        yield
    finally:
        subprocess.run(["chattr", "-i", path], check=True)


@contextlib.contextmanager
def held_container(removal: Removal) -> Iterator[str]:
    number = removal.docker("inspect", "-f", "{{.Id}}", NODE)[0]
    root = removal.docker("info", "-f", "{{.DockerRootDir}}")[0]
    with immutable(Path(root) / "containers" / number / "hostname"):
        yield f"container {NODE}"


@contextlib.contextmanager
def held_volume(removal: Removal) -> Iterator[str]:
    removal.docker("create", "--name", "it-left-user", "--volumes-from", NODE, IMAGE, "true")
    yield f"volume {removal.volume}"
    removal.docker("rm", "it-left-user")


@contextlib.contextmanager
def held_network(removal: Removal) -> Iterator[str]:
    folder = removal.cli.root / "bin"
    folder.mkdir()
    (folder / "docker").write_text(ATTACH.format(docker=shutil.which("docker"), image=IMAGE))
    (folder / "docker").chmod(0o755)
    first = folder / "first"
    first.touch()
    removal.cli.env |= {"PATH": f"{folder}:{os.environ['PATH']}", "FIRST": str(first)}
    yield f"network {NETWORK}"
    removal.docker("rm", "-f", "it-left-late")


@contextlib.contextmanager
def held_file(removal: Removal) -> Iterator[str]:
    file = removal.state / "tenant-x.kubeconfig"
    file.touch()
    with immutable(file):
        yield f"file {file}"


@contextlib.contextmanager
def orphan_process(removal: Removal) -> Iterator[str]:
    """A command of a killed ``kailab`` that ignores SIGTERM."""
    lab = subprocess.Popen(
        [sys.executable, "-c", ORPHAN, removal.state / "kubeconfig"], stdout=subprocess.PIPE, text=True
    )
    assert lab.stdout is not None
    number = int(lab.stdout.readline())
    lab.kill()
    lab.wait()
    yield f"process {number}: "
    os.killpg(number, 9)


HOLDS: tuple[Callable[[Removal], contextlib.AbstractContextManager[str]], ...] = (
    held_container,
    held_volume,
    held_network,
    held_file,
    orphan_process,
)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("hold", HOLDS, ids=lambda hold: hold.__name__)
def test_what_remains_is_named(
    removal: Removal, hold: Callable[[Removal], contextlib.AbstractContextManager[str]]
) -> None:
    with hold(removal) as left:
        assert left in removal.cli("down", "--name", NAME, code=7).err
    assert removal.cli("down", "--name", NAME, "--json").json()["left"] == []
    assert removal.left() == []


def test_processes_of_other_labs_and_of_other_people_do_not_count(removal: Removal) -> None:
    log = removal.state / "lab.log"
    log.touch()
    beside = removal.state.with_name(f"{NAME}2") / "kubeconfig"
    words = [["tail", "-f", log], [sys.executable, "-c", "import time; time.sleep(600)", beside]]
    running = [subprocess.Popen(argv, stdout=subprocess.DEVNULL) for argv in words]
    try:
        down = removal.cli("down", "--name", NAME)
        assert f"process {running[0].pid}, which kailab did not start, names removed files: tail -f" in down.err
        assert "it-left2" not in down.err
    finally:
        for process in running:
            process.kill()
            process.wait()
    assert removal.left() == []


@pytest.mark.timeout(2400)
def test_killed_at_each_effect_then_finishes(removal: Removal) -> None:
    (removal.state / "lab.json").write_text("{}")
    effects = run_until_it_survives(removal.cli, "down", "--name", NAME)
    steps = ("docker rm", "docker network rm", "docker volume", "journal released network", "os.remove journal.jsonl")
    assert [step for step in steps if not any(step in effect for effect in effects)] == []
    assert removal.left() == []
    assert removal.cli("down", "--name", NAME, "--json").json()["left"] == []

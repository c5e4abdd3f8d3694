"""Undoing the cluster: containers, their volumes, and kind's network, as far as labs created it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import pytest

from lab.engine.events import Notice
from lab.engine.journal import Journal
from lab.paths import LabPaths
from lab.steps.cluster.config import VOLUMES
from lab.steps.cluster.step import KindCluster, claim_network
from lab.tools.container import ContainerEngine
from lab.tools.process import Result
from tests.support.fakes import FakeRunner
from tests.support.lab_world import LabWorld
from tests.support.specs import lab_spec

NODE = "kailab-demo-control-plane"


@dataclass
class Docker(ContainerEngine):
    """Containers with the volumes they mount, and networks with the containers attached to them."""

    containers_: dict[str, set[str]] = field(default_factory=dict)
    volumes: set[str] = field(default_factory=set)
    networks: dict[str, set[str]] = field(default_factory=dict)
    erased: list[tuple[str, str]] = field(default_factory=list)
    """Image and directory of the containers that deleted the data of volumes."""
    name: str = "docker"

    def call(
        self, *args: str, stdin: str | bytes | None = None, check: bool = True, timeout: float | None = None
    ) -> Result:
        text = self._answer(args)
        return Result(args, 1 if text is None else 0, text or "", "", 0.0)

    def _answer(self, args: tuple[str, ...]) -> str | None:
        match args:
            case ("ps", "-a", "--filter", network, *_):
                return " ".join(sorted(self.networks.get(network.removeprefix("network="), ())))
            case ("ps", "-aq", *_):
                return " ".join(name for name in self.containers_ if name.startswith("kailab-demo-"))
            case ("inspect", "--type", "container", name):
                return self._facts(name)
            case ("rm", "-f", "-v", *names):
                mounted = set[str]().union(*(self.containers_.pop(name) for name in names))
                self.volumes -= mounted - set[str]().union(*self.containers_.values())
                for users in self.networks.values():
                    users -= set(names)
                return ""
            case ("network", "inspect", name):
                return "" if name in self.networks else None
            case ("network", "rm", name):
                return None if self.networks.get(name, {"?"}) else str(self.networks.pop(name))
            case ("volume", "inspect", name):
                return "" if name in self.volumes else None
            case ("volume", "rm", name):
                if any(name in mounted for mounted in self.containers_.values()):
                    return None
                self.volumes.discard(name)
                return ""
            case ("run", "--rm", *words):
                folder = next(word for word in words if word.endswith(f":{VOLUMES}")).removesuffix(f":{VOLUMES}")
                self.erased.append((words[words.index("--entrypoint") + 2], folder))
                return ""
        raise AssertionError(args)

    def _facts(self, name: str) -> str | None:
        if name not in self.containers_:
            return None
        mounts = [{"Type": "volume", "Name": one, "Destination": "/var"} for one in self.containers_[name]]
        mounts.append({"Type": "bind", "Name": "", "Destination": "/etc"})
        return json.dumps(
            [
                {
                    "Name": f"/{name}",
                    "Id": name,
                    "State": {"Status": "running"},
                    "Config": {"Image": "kailab/node:1"},
                    "Mounts": mounts,
                }
            ]
        )


@pytest.fixture
def docker(runner: FakeRunner) -> Docker:
    return Docker({NODE: {"v1"}}, {"v1", "someone-else"}, {"kind": {NODE}})


@pytest.fixture
def world(runner: FakeRunner, docker: Docker, tmp_path_factory: pytest.TempPathFactory) -> LabWorld:
    world = LabWorld(lab_spec(), runner, tmp_path_factory.mktemp("lab"))
    object.__setattr__(world.ctx, "engine", docker)
    return world


def undo(world: LabWorld) -> tuple[str, ...]:
    step = KindCluster(world.spec, "image", own_node=True)
    step.undo(world.ctx)
    return step.remains(world.ctx)


def test_everything_the_lab_created_is_removed(world: LabWorld, docker: Docker) -> None:
    world.ctx.journal.owns("network", "kind", "cluster")
    assert undo(world) == ()
    assert (docker.containers_, docker.volumes, docker.networks) == ({}, {"someone-else"}, {})
    assert world.owned("network") + world.owned("volume") == []


def test_data_of_volumes_is_removed_with_the_nodes(world: LabWorld, docker: Docker) -> None:
    (world.paths.volumes / "one").mkdir(parents=True)
    (world.paths.volumes / "one" / "state.db").touch()
    assert undo(world) == ()
    assert not world.paths.volumes.exists()
    assert docker.erased == []


def test_data_that_the_user_may_not_remove_is_removed_by_a_container(
    world: LabWorld, docker: Docker, monkeypatch: pytest.MonkeyPatch
) -> None:
    (world.paths.volumes / "one").mkdir(parents=True)
    monkeypatch.setattr("shutil.rmtree", lambda *_, **__: None)
    assert undo(world) == (f"directory {world.paths.volumes}",)
    assert docker.erased == [("kailab/node:1", str(world.paths.volumes))]


def test_a_network_that_existed_before_stays(world: LabWorld, docker: Docker) -> None:
    claim_network(world.ctx, "cluster")
    assert undo(world) == ()
    assert docker.networks == {"kind": set()}


@pytest.mark.parametrize("other", ["kailab-two-worker", "somebodys-control-plane"])
def test_a_network_that_others_use_stays_and_is_named(world: LabWorld, docker: Docker, other: str) -> None:
    world.ctx.journal.owns("network", "kind", "cluster")
    docker.networks["kind"].add(other)
    assert undo(world) == ()
    assert docker.networks == {"kind": {other}}
    notices = [event.text for event in world.events if isinstance(event, Notice)]
    assert notices == [f"network kind is kept: {other} uses it"]


def test_a_volume_in_use_remains(world: LabWorld, docker: Docker) -> None:
    docker.containers_["backup"] = {"v1"}
    assert undo(world) == ("volume v1",)
    docker.containers_.pop("backup")
    assert undo(world) == ()
    assert docker.volumes == {"someone-else"}


def test_a_network_the_engine_does_not_remove_remains(
    world: LabWorld, docker: Docker, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.ctx.journal.owns("network", "kind", "cluster")
    monkeypatch.setattr(docker, "users_of_network", lambda _: ())
    docker.networks["kind"].add("an endpoint that the engine lost")
    assert undo(world) == ("network kind",)


def test_the_last_lab_removes_the_network(world: LabWorld, docker: Docker) -> None:
    other = Journal(LabPaths("two").journal)
    other.owns("network", "kind", "cluster")
    claim_network(world.ctx, "cluster")
    assert world.owned("network") == ["kind"]


def test_a_new_network_is_claimed_before_kind_creates_it(
    world: LabWorld, docker: Docker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KIND_EXPERIMENTAL_DOCKER_NETWORK", "lab-net")
    claim_network(world.ctx, "cluster")
    assert world.owned("network") == ["lab-net"]

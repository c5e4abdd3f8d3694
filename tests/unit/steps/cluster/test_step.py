"""Undoing the cluster: containers, their volumes, and kind's network, as far as labs created it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace

import pytest

from lab.engine.events import Notice
from lab.engine.journal import Journal
from lab.errors import CommandFailed
from lab.paths import LabPaths, network_lock
from lab.steps.cluster.config import VOLUMES
from lab.steps.cluster.network import claim_network, creating
from lab.steps.cluster.ownership import owner_mounts
from lab.steps.cluster.step import KindCluster
from lab.tools.container import ContainerEngine
from lab.tools.lock import lock_now
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
    marks: dict[str, tuple[str, ...]] = field(default_factory=dict)
    name: str = "docker"
    dies_at: tuple[str, ...] = ()
    """The first words of the command at which the daemon ends."""
    alive: bool = True

    def call(
        self, *args: str, stdin: str | bytes | None = None, check: bool = True, timeout: float | None = None
    ) -> Result:
        silent = self.dies_at and args[: len(self.dies_at)] == self.dies_at
        self.alive = self.alive and not silent
        if not self.alive:
            return Result(args, 1, "", "Cannot connect to the Docker daemon at unix:///var/run/docker.sock.", 0.0)
        text = self._answer(args)
        return Result(args, 1 if text is None else 0, text or "", f"Error: No such {args[0]}: {args[-1]}", 0.0)

    def _answer(self, args: tuple[str, ...]) -> str | None:
        match args:
            case ("ps", "-a", "--filter", network, *_):
                return " ".join(sorted(self.networks.get(network.removeprefix("network="), ())))
            case ("ps", "-aq", *_):
                return " ".join(name for name in self.containers_ if name.startswith("kailab-demo-"))
            case ("inspect", "--type", "container", name):
                return self._facts(name)
            case ("images", *_):
                return "kailab/node:2"
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
        paths = ("/etc", *self.marks.get(name, ()))
        mounts += [{"Type": "bind", "Name": "", "Destination": path} for path in paths]
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


def test_nodes_that_were_frozen_leave_no_paused_lab(world: LabWorld) -> None:
    """'kailab reset' creates others, which run."""
    world.paths.paused.touch()
    assert undo(world) == ()
    assert not world.paths.paused.exists()


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
    assert undo(world) == (f"directory {world.paths.volumes}",)
    assert docker.erased[1:] == [("kailab/node:2", str(world.paths.volumes))], "after a kill there are no containers"


def notices(world: LabWorld) -> list[str]:
    return [event.text for event in world.events if isinstance(event, Notice)]


def test_a_network_that_existed_before_stays_and_is_named(world: LabWorld, docker: Docker) -> None:
    assert not claim_network(world.ctx, "cluster")
    assert undo(world) == ()
    assert docker.networks == {"kind": set()}
    assert notices(world) == ["network kind is kept: it existed before lab demo"]
    assert world.owned("network") == []


@pytest.mark.parametrize("other", ["kailab-two-worker", "somebodys-control-plane"])
def test_a_network_that_others_use_stays_and_is_named(world: LabWorld, docker: Docker, other: str) -> None:
    world.ctx.journal.owns("network", "kind", "cluster")
    docker.networks["kind"].add(other)
    assert undo(world) == ()
    assert docker.networks == {"kind": {other}}
    assert notices(world) == [f"network kind is kept: {other} uses it"]


def test_a_volume_in_use_remains(world: LabWorld, docker: Docker) -> None:
    docker.containers_["backup"] = {"v1"}
    assert undo(world) == ("volume v1",)
    docker.containers_.pop("backup")
    assert undo(world) == ()
    assert docker.volumes == {"someone-else"}


def test_an_engine_that_ends_meanwhile_does_not_prove_that_the_network_is_gone(world: LabWorld, docker: Docker) -> None:
    """The next removal must find the network in the journal."""
    world.ctx.journal.owns("network", "kind", "cluster", made="yes")
    docker.dies_at = ("network", "rm")
    with pytest.raises(CommandFailed, match="Cannot connect"):
        undo(world)
    assert [owned.name for owned in world.ctx.journal.owned("network")] == ["kind"]
    docker.dies_at, docker.alive = (), True
    assert undo(world) == ()
    assert docker.networks == {}


def test_a_network_the_engine_does_not_remove_remains(
    world: LabWorld, docker: Docker, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.ctx.journal.owns("network", "kind", "cluster")
    monkeypatch.setattr(docker, "users_of_network", lambda _: ())
    docker.networks["kind"].add("an endpoint that the engine lost")
    assert undo(world) == ("network kind",)


@pytest.mark.parametrize(("made", "claimed"), [("yes", True), ("no", False)])
def test_a_network_of_another_lab_of_this_state_directory(
    world: LabWorld, docker: Docker, made: str, claimed: bool
) -> None:
    Journal(LabPaths("two").journal).owns("network", "kind", "cluster", made=made)
    assert claim_network(world.ctx, "cluster") is claimed
    assert undo(world) == ()
    assert ("kind" in docker.networks) is not claimed


def test_a_network_that_a_lab_of_another_state_directory_created(
    world: LabWorld, docker: Docker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its nodes say so with a mount, and this lab's nodes say it to the next."""
    monkeypatch.setenv("KAILAB_STATE", str(world.paths.root / "another"))
    LabPaths("theirs").root.mkdir(parents=True)
    theirs = replace(world.ctx, paths=LabPaths("theirs"))
    docker.marks[NODE] = tuple(mount["containerPath"] for mount in owner_mounts(theirs, made_network=True))
    monkeypatch.undo()
    assert claim_network(world.ctx, "cluster")
    docker.containers_["kailab-theirs-worker"] = set()
    docker.networks["kind"].add("kailab-theirs-worker")
    assert undo(world) == ()
    assert notices(world) == ["network kind is kept: kailab-theirs-worker uses it"]


def test_a_new_network_is_claimed_before_kind_creates_it(
    world: LabWorld, docker: Docker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KIND_EXPERIMENTAL_DOCKER_NETWORK", "lab-net")
    assert claim_network(world.ctx, "cluster")
    assert world.owned("network") == ["lab-net"]


def test_one_lab_at_a_time_creates_the_network(world: LabWorld, docker: Docker) -> None:
    del docker.networks["kind"]
    with creating(world.ctx) as unlock:
        unlock()
        assert lock_now(network_lock()) is None
        docker.networks["kind"] = set()
        unlock()
        held = lock_now(network_lock())
        assert held is not None
        with held:
            unlock()


def test_labs_start_at_once_in_a_network_that_exists(world: LabWorld) -> None:
    held = lock_now(network_lock())
    assert held is not None
    with held, creating(world.ctx):
        pass

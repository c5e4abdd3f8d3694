"""Checkpoints: what is kept of a new lab, when it is restored, and what happens if that fails."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.config import LabSpec
from lab.engine.events import Notice
from lab.errors import CommandFailed, Interrupted, LabError, NameTaken
from lab.gpu.nvidia.node_state import UNIT as NVIDIA_UNIT
from lab.gpu.simulated.node_files import NVML_CONFIG, UNIT, USAGE_UNIT
from lab.paths import assets
from lab.steps import pod_network
from lab.steps.cluster.checkpoint import Checkpoint, checkpoint_key, discard, save, usable
from lab.steps.cluster.config import VOLUMES
from lab.steps.cluster.ports import ClusterPorts
from lab.steps.cluster.step import KindCluster
from lab.tools.container import Container
from lab.tools.process import Result
from tests.support.fakes import Call, FakeRunner
from tests.support.lab_world import LabWorld
from tests.support.specs import lab_spec

CONTROL, WORKER = "kailab-demo-control-plane", "kailab-demo-worker"
IMAGE = "kailab/node:1"
SPEC = lab_spec(cluster={"checkpoint": True, "workers": 1})


def node(name: str) -> Container:
    role = "control-plane" if name == CONTROL else "worker"
    return Container(name, name, "running", {"io.x-k8s.kind.role": role}, "", image=IMAGE)


@pytest.fixture
def world(runner: FakeRunner, tmp_path_factory: pytest.TempPathFactory) -> LabWorld:
    world = LabWorld(SPEC, runner, tmp_path_factory.mktemp("lab"))
    world.engine.nodes = (node(CONTROL), node(WORKER))
    return world


def saving(world: LabWorld, code: int = 0) -> None:
    world.runner.handle(["docker", "exec"])
    world.runner.handle(["docker", "cp"], out=lambda call: Path(call.argv[-1]).write_text("archive") and "")
    states = {"Status": "running"}
    world.runner.containers(lambda name: {"Name": f"/{name}", "Id": name, "State": states, "Config": {}})
    world.runner.handle(["docker", "pause", CONTROL, WORKER], out=lambda _: states.update(Status="paused") or "")
    world.runner.handle(["docker", "run", "--rm"], code=code, err="no space left on device" if code else "")
    world.runner.handle(["docker", "unpause", CONTROL, WORKER])


def verbs(world: LabWorld) -> list[str]:
    return [call.argv[1] for call in world.runner.calls if call.argv[1] in ("pause", "run", "unpause")]


def kept(world: LabWorld, **facts: Any) -> Path:
    """A checkpoint of this lab as it is on disk."""
    folder = world.paths.checkpoint
    folder.mkdir(parents=True, exist_ok=True)
    good = {"key": checkpoint_key(SPEC, IMAGE), "made": time.time() - 60, "ports": {"spare-0": 32001}}
    (folder / "checkpoint.json").write_text(json.dumps(good | facts))
    return folder


def test_data_is_saved_while_no_process_runs(world: LabWorld) -> None:
    saving(world)
    world.ctx.journal.owns("port", "my-vcluster", "cluster", host="32001", node="30440")
    save(world.ctx, "key")
    folder = world.paths.checkpoint
    assert sorted(path.name for path in folder.iterdir()) == ["checkpoint.json", f"{CONTROL}.tgz", f"{WORKER}.tgz"]
    assert folder.stat().st_mode & 0o777 == 0o700
    assert verbs(world) == ["pause", "run", "unpause"]
    assert usable(world.ctx, "key") == Checkpoint(folder, {"my-vcluster": 32001})


def test_nodes_continue_if_saving_fails_and_the_last_checkpoint_stays(world: LabWorld) -> None:
    folder = kept(world)
    saving(world, code=1)
    with pytest.raises(CommandFailed, match="no space left"):
        save(world.ctx, "another")
    assert verbs(world) == ["pause", "run", "unpause"]
    assert not world.paths.paused.exists()
    assert [path.name for path in folder.parent.iterdir()] == ["demo"]
    assert usable(world.ctx, checkpoint_key(SPEC, IMAGE)) == Checkpoint(folder, {"spare-0": 32001})


def test_what_a_killed_save_left_is_removed(world: LabWorld) -> None:
    """It has the keys of the cluster."""
    left = world.paths.checkpoint.with_name(".demo.kailab-abcd1234")
    theirs = world.paths.checkpoint.with_name(".two.kailab-abcd1234")
    for folder in (left, theirs):
        folder.mkdir(parents=True)
    saving(world)
    save(world.ctx, "key")
    assert (left.exists(), theirs.exists()) == (False, True)
    left.mkdir()
    discard(world.ctx)
    assert [path.name for path in world.paths.checkpoint.parent.iterdir()] == [theirs.name]


def test_after_an_interrupt_the_lab_counts_as_paused(world: LabWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """No command starts any more, so the nodes stay frozen: 'kailab resume' or 'kailab up' continues them."""
    saving(world)
    call = world.engine.call

    def interrupted(*args: str, **options: Any) -> Result:
        if args[0] in ("run", "unpause"):
            raise Interrupted("stopped")
        return call(*args, **options)

    monkeypatch.setattr(world.engine, "call", interrupted)
    with pytest.raises(Interrupted):
        save(world.ctx, "key")
    assert world.paths.paused.exists()
    assert not world.paths.checkpoint.exists()
    monkeypatch.undo()
    world.engine.call("run", "--rm")  # declared for the others
    world.engine.call("unpause", CONTROL, WORKER)


@pytest.mark.parametrize(
    "facts",
    [
        {"key": "of another lab file"},
        {"made": time.time() - 31 * 86400},
        {"made": time.time() + 600},
        {"made": None},
        {"ports": 1},
    ],
    ids=["another lab file", "old", "of the future", "damaged", "other types"],
)
def test_a_checkpoint_that_does_not_fit_is_not_used(world: LabWorld, facts: dict[str, Any]) -> None:
    kept(world, **facts)
    assert usable(world.ctx, checkpoint_key(SPEC, IMAGE)) is None


def test_a_checkpoint_is_of_one_lab_file_and_node_image() -> None:
    key = checkpoint_key(SPEC, IMAGE)
    assert key == checkpoint_key(SPEC, IMAGE)
    assert key != checkpoint_key(SPEC, "kailab/node:2")
    assert key != checkpoint_key(lab_spec(cluster={"checkpoint": True, "workers": 1}, images=["busybox:1"]), IMAGE)


class Created:
    """Clusters that kind creates, by their configuration; those with a checkpoint fail with ``error``."""

    def __init__(self, world: LabWorld, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world = world
        self.error: Exception | None = None
        self.mounts: list[list[str]] = []
        world.engine.nodes = ()
        world.runner.handle(["/cache/kind", "create", "cluster"], out=self._create)
        monkeypatch.setattr("lab.steps.cluster.step.inspect", lambda *_: type("Facts", (), {"cgroup_version": "2"}))
        monkeypatch.setattr("lab.steps.cluster.step.mark_used", lambda _: None)
        self.wanted: list[Mapping[str, int]] = []
        monkeypatch.setattr("lab.steps.cluster.step.free_ports", self._ports)

    def _ports(self, _: LabSpec, wanted: Mapping[str, int]) -> nullcontext[ClusterPorts]:
        self.wanted.append(wanted)
        return nullcontext(ClusterPorts(1))

    def _create(self, call: Call) -> str:
        nodes = yaml.safe_load(str(call.stdin))["nodes"]
        self.mounts.append([mount["containerPath"] for mount in nodes[0]["extraMounts"]])
        if self.error is not None and "/kailab/checkpoint" in self.mounts[-1]:
            raise self.error
        return ""

    def up(self) -> KindCluster:
        step = KindCluster(SPEC, IMAGE, own_node=True)
        step.apply(self.world.ctx)
        return step


@pytest.fixture
def created(world: LabWorld, monkeypatch: pytest.MonkeyPatch) -> Created:
    world.runner.handle(["docker", "network", "inspect"], code=1, err="no such network")
    return Created(world, monkeypatch)


def test_nodes_of_a_checkpoint_are_good_once_the_lab_is_up(world: LabWorld, created: Created) -> None:
    kept(world)
    step = created.up()
    assert {"/kailab/checkpoint", "/usr/local/sbin/kubeadm"} <= set(created.mounts[0])
    assert created.wanted == [{"spare-0": 32001}]
    assert usable(world.ctx, checkpoint_key(SPEC, IMAGE)) is None, "the lab is not up yet"
    step.keep_checkpoint(world.ctx)
    assert usable(world.ctx, checkpoint_key(SPEC, IMAGE)) is not None


def test_a_checkpoint_after_which_a_step_failed_is_not_used_again(world: LabWorld, created: Created) -> None:
    kept(world)
    created.up()
    step = created.up()
    assert "/kailab/checkpoint" not in created.mounts[1]
    world.engine.nodes = (node(CONTROL), node(WORKER))
    saving(world)
    step.keep_checkpoint(world.ctx)
    assert usable(world.ctx, checkpoint_key(SPEC, IMAGE)) is not None, "a new one replaces it"


def test_a_lab_is_created_without_a_checkpoint_that_cannot_be_restored(world: LabWorld, created: Created) -> None:
    kept(world)
    created.error = CommandFailed(("kind",), 1, "", "failed to init node with kubeadm")
    world.runner.handle(["/cache/kind", "delete", "cluster"])
    created.up()
    assert ["/kailab/checkpoint" in mounts for mounts in created.mounts] == [True, False]
    assert not world.paths.checkpoint.exists()
    assert [event.text for event in world.events if isinstance(event, Notice)] == [
        "the checkpoint could not be restored, so the lab is created without it: kind ended with status 1"
    ]


@pytest.mark.parametrize("error", [Interrupted("stopped"), NameTaken("3 node containers belong to another user")])
def test_neither_an_interrupt_nor_nodes_of_others_count_against_the_checkpoint(
    world: LabWorld, created: Created, error: LabError
) -> None:
    folder = kept(world)
    created.error = error
    with pytest.raises(type(error)):
        created.up()
    assert len(created.mounts) == 1
    assert not [line for line in world.runner.lines if "delete cluster" in line]
    assert usable(world.ctx, checkpoint_key(SPEC, IMAGE)) == Checkpoint(folder, {"spare-0": 32001})


def test_without_the_key_of_the_lab_file_nothing_is_kept(world: LabWorld, created: Created) -> None:
    kept(world)
    spec = lab_spec(cluster={"workers": 1})
    step = KindCluster(spec, IMAGE, own_node=True)
    step.apply(world.ctx)
    step.keep_checkpoint(world.ctx)
    assert "/kailab/checkpoint" not in created.mounts[0]


def test_network_that_another_lab_is_just_creating_is_recognised_afterwards(
    world: LabWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No node is on it yet when this lab starts: still, the last of the two removes it."""
    world.runner.handle(["docker", "network", "inspect"])
    created = Created(world, monkeypatch)
    monkeypatch.setattr("lab.steps.cluster.network.is_of_labs", lambda *_: bool(created.mounts))
    created.up()
    assert [one.facts["made"] for one in world.ctx.journal.owned("network")] == ["yes"]


def test_programs_of_nodes_read_what_is_saved() -> None:
    program = (assets("kind") / "checkpoint" / "kubeadm").read_text()
    for name in ("etcd.tgz", "volumes.tgz", "$name.tgz"):
        assert f"$saved/{name}" in program
    assert VOLUMES in program


def test_programs_of_nodes_use_what_steps_have_placed() -> None:
    program = (assets("kind") / "checkpoint" / "kubeadm").read_text()
    for name in (pod_network.SCRIPT, NVML_CONFIG, UNIT, USAGE_UNIT):
        assert name in program


def test_nodes_with_real_gpus_are_saved_without_what_steps_have_placed(world: LabWorld) -> None:
    """In others, pods start with their kubelet; in these, not before the NVIDIA runtime is set up."""
    saving(world)
    save(world.ctx, "key")
    scripts = [call.argv[5] for call in world.runner.calls if "tar -czf" in call.line]
    assert len(scripts) == 2
    for script in scripts:
        assert f"[ -e /etc/systemd/system/{NVIDIA_UNIT} ] || set -- " in script
        assert pod_network.CONFLIST in script

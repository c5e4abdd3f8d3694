"""Evidence of a removal: the GPU release check, the milestones and their table."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from lab.engine.milestones import Milestone, Stopwatch
from lab.serialization import to_json
from lab.tenants.removal.gpu_release_check import GpuReleaseCheck
from lab.tenants.removal.timeline import MEANING, Removal
from lab.ui.tenant_removal import render_removal
from tests.support import builders
from tests.support.api_requests import Call
from tests.support.fake_api_server import FakeApiServer
from tests.support.fakes import FakeRunner
from tests.support.removal_world import RemovalWorld, inhabited, node, pod, remove, reservation
from tests.support.specs import EXISTING, lab_spec, tenant_spec


@pytest.fixture
def world(runner: FakeRunner, tmp_path: Path) -> RemovalWorld:
    return inhabited(runner, tmp_path)


def run_check_pods(world: RemovalWorld) -> list[dict[str, Any]]:
    created: list[dict[str, Any]] = []

    def run(call: Call) -> None:
        created.append(call.body)
        world.api.add({**call.body, "status": {"phase": "Running"}})

    world.api.after("create", "Pod", run)
    return created


def test_gpu_check_requests_as_many_gpus_as_the_tenant_held(world: RemovalWorld) -> None:
    world.api.add(node("worker", gpus=4))
    world.api.add(node("worker2", gpus=4))
    world.api.add(pod("train", virtual="default/train", gpus=2))
    world.api.add(pod("other", "team-b", gpus=1))
    created = run_check_pods(world)
    removal = remove(world, check_gpus=True)
    (check,) = created
    container = check["spec"]["containers"][0]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == 2
    assert check["spec"]["nodeSelector"] == {"kubernetes.io/hostname": "worker"}
    assert check["metadata"]["namespace"] == "default"
    free = next(m for m in removal.milestones if m.name == "GPUs free")
    assert free.detail == "a pod with 2 GPUs runs on worker"
    assert removal.ok
    assert world.api.of_kind("Pod", "default") == []


def test_gpu_check_in_a_cluster_of_others_pulls_as_its_nodes_do() -> None:
    supply = {"mirrors": {"registry.kailab.dev": "mirror.example/x"}, "pullSecrets": ["login"]}
    api = FakeApiServer(node("worker", gpus=2))
    api.after("create", "Pod", lambda call: api.add({**call.body, "status": {"phase": "Running"}}))
    held = {"worker": {"nvidia.com/gpu": 2}}
    spec = lab_spec(cluster=EXISTING, supply=supply)
    assert GpuReleaseCheck(api.cluster, spec, tenant_spec("default"), held).run(1)
    (call,) = api.calls_of("create", "Pod")
    made = call.body["spec"]
    assert made["containers"][0]["image"] == "mirror.example/x/probe:2"
    assert made["imagePullSecrets"] == [{"name": "login"}]


def gpus_free(removal: Removal) -> Milestone:
    return next(milestone for milestone in removal.milestones if milestone.name == "GPUs free")


def test_gpus_that_others_took_meanwhile_are_not_asked_for(world: RemovalWorld) -> None:
    world.api.add(node("worker", gpus=2))
    world.api.add(pod("train", virtual="default/train", gpus=2))
    created = run_check_pods(world)

    def take(call: Call) -> None:
        world.api.add(pod("greedy", "team-b", gpus=1))

    world.api.after("delete", "Namespace", take)
    removal = remove(world, check_gpus=True)
    assert created == [], "KAI could evict others for a pod that has no room"
    free = gpus_free(removal)
    assert free.seconds is None
    assert free.detail == "no room for a pod with 2 GPUs on worker: 1 GPU of 2 free; team-b/greedy holds 1 GPU"


def test_gpu_that_somebody_still_holds_for_the_tenant_is_noticed(world: RemovalWorld) -> None:
    """Before, the check asked for the GPUs that were left."""
    world.api.add(node("worker", gpus=4))
    world.api.add(pod("train", virtual="default/train", gpus=3))
    created = run_check_pods(world)
    world.api.after("delete", "Namespace", lambda call: world.api.add(pod("stuck", "kube-system", gpus=2)))
    removal = remove(world, check_gpus=True)
    assert (created, gpus_free(removal).seconds, removal.ok) == ([], None, False)


def test_mig_devices_are_asked_for_in_their_size(world: RemovalWorld) -> None:
    small = "nvidia.com/mig-1g.5gb"
    world.api.add(builders.node("worker", status={"allocatable": {small: "4"}}))
    held = pod("train", virtual="default/train")
    held["spec"]["containers"][0]["resources"] = {"limits": {small: "2"}}
    world.api.add(held)
    created = run_check_pods(world)
    removal = remove(world, check_gpus=True)
    (check,) = created
    assert check["spec"]["containers"][0]["resources"]["limits"][small] == 2
    assert gpus_free(removal).detail == f"a pod with 2 {small} runs on worker"


def test_share_of_a_gpu_that_others_use_is_asked_for(runner: FakeRunner, tmp_path: Path) -> None:
    """Before, the tenant 'held no GPU'."""
    world = RemovalWorld(runner, tmp_path, tenant_spec("host-kai"), scheduler="kai", queues=[{"name": "test"}])
    group = {"runai-gpu-group": "g1"}
    mine, theirs = pod("mine", virtual="default/mine", labels=group), pod("theirs", "team-b", labels=group)
    for sharing, fraction in ((mine, "0.5"), (theirs, "0.25")):
        sharing["metadata"]["annotations"] |= {"gpu-fraction": fraction}
        sharing["spec"]["schedulerName"] = "kai-scheduler"
    world.inhabit(mine)
    world.api.add(theirs, reservation("r1", "g1"), node("worker", gpus=1))
    created = run_check_pods(world)
    removal = remove(world, check_gpus=True)
    (check,) = created
    assert check["metadata"]["annotations"]["gpu-fraction"] == "0.5"
    assert check["spec"]["schedulerName"] == "kai-scheduler"
    assert gpus_free(removal).detail == "a pod with 0.5 of a GPU runs on worker"


@pytest.mark.parametrize(
    ("queues", "queue"),
    [
        ([{"name": "small", "gpu": {"limit": 1}}, {"name": "big"}], "big"),
        ([{"name": "top", "gpu": {"limit": 1}}, {"name": "leaf", "parent": "top"}], None),
    ],
)
def test_queue_of_the_check_may_have_that_many_gpus(
    runner: FakeRunner, tmp_path: Path, queues: list[dict[str, Any]], queue: str | None
) -> None:
    world = RemovalWorld(runner, tmp_path, tenant_spec("host-kai"), scheduler="kai", queues=queues)
    world.inhabit(pod("train", virtual="default/train", gpus=2))
    world.api.add(node("worker", gpus=2))
    created = run_check_pods(world)
    assert remove(world, check_gpus=True).ok
    assert created[0]["metadata"]["labels"].get("kai.scheduler/queue") == queue
    assert created[0]["spec"].get("schedulerName") == (queue and "kai-scheduler")


@pytest.mark.parametrize(
    ("mode", "scheduler", "queues", "wanted"),
    [("host-kai", "kai", ["test"], ("kai-scheduler", "test")), ("default", "default", [], (None, None))],
)
def test_check_pods_use_the_scheduler_of_the_tenant(
    runner: FakeRunner, tmp_path: Path, mode: str, scheduler: str, queues: list[str], wanted: tuple[Any, Any]
) -> None:
    queued = [{"name": name} for name in queues]
    world = RemovalWorld(runner, tmp_path, tenant_spec(mode), scheduler=scheduler, queues=queued)
    world.inhabit(pod("train", virtual="default/train", gpus=1))
    world.api.add(node("worker"))
    created = run_check_pods(world)
    assert remove(world, check_gpus=True).ok
    queue = created[0]["metadata"]["labels"].get("kai.scheduler/queue")
    assert (created[0]["spec"].get("schedulerName"), queue) == wanted


def test_check_pod_that_does_not_run_is_reported(world: RemovalWorld) -> None:
    world.api.add(node("worker", gpus=1))
    world.api.add(pod("train", virtual="default/train", gpus=1))
    world.api.cluster.patience = 0.3
    removal = remove(world, check_gpus=True)
    free = next(m for m in removal.milestones if m.name == "GPUs free")
    assert (free.seconds, removal.ok, removal.left) == (None, False, ())
    assert "runs on the GPUs of tenant team-a" in free.detail
    assert world.api.of_kind("Pod", "default") == []


def test_tenant_without_gpus_needs_no_check(world: RemovalWorld) -> None:
    removal = remove(world, check_gpus=True)
    assert removal.ok
    assert next(m for m in removal.milestones if m.name == "GPUs free").detail == "the tenant held no GPU"


def test_first_time_of_a_milestone_counts() -> None:
    ticks = iter([10.0, 11.0, 12.0, 13.0])
    watch = Stopwatch(lambda: next(ticks), MEANING)
    watch.note("namespace gone")
    watch.note("pods gone", "3 pods")
    watch.note("namespace gone", "again")
    assert watch.milestones == (Milestone("pods gone", 2.0, "3 pods"), Milestone("namespace gone", 1.0))
    assert set(MEANING) >= {milestone.name for milestone in watch.milestones}


def rendered(removal: Removal) -> str:
    console = Console(file=io.StringIO(), width=120, color_system=None, highlight=False)
    render_removal(removal, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_table_of_a_complete_removal() -> None:
    milestones = (
        Milestone("pods gone", 2.04, "12 pods"),
        Milestone("namespace gone", 6.5),
        Milestone("ready again", 30.0),
    )
    removal = Removal("team-a", milestones, 1, cut_grace=tuple(f"default/p{n} (30 s)" for n in range(14)))
    assert rendered(removal).splitlines() == [
        "Tenant team-a is removed  6.5 s, no leftovers found",
        "  ✓     2.0 s  pods gone       12 pods",
        "  ✓     6.5 s  namespace gone",
        "  ✓    30.0 s  ready again",
        "  ! 14 pods got 1 s to stop, less than their own grace period",
        *(f"    - default/p{n} (30 s)" for n in range(12)),
        "    … and 2 more",
    ]
    assert to_json(removal)["seconds"] == 6.5


def test_table_of_an_incomplete_removal() -> None:
    removal = Removal(
        "team-a",
        (Milestone("GPUs free", None, "no pod ran"),),
        None,
        left=("ClusterRole x",),
        disturbed=("Pod a/b is gone",),
    )
    text = rendered(removal)
    assert "Tenant team-a was only partly removed" in text
    assert "✗  ClusterRole x" in text
    assert "✗         -  GPUs free  no pod ran" in text
    assert "✗  Pod a/b is gone" in text
    assert to_json(removal) == {
        "tenant": "team-a",
        "ok": False,
        "seconds": 0.0,
        "grace": None,
        "moments": [{"name": "GPUs free", "seconds": None, "detail": "no pod ran"}],
        "cut_grace": [],
        "left": ["ClusterRole x"],
        "disturbed": ["Pod a/b is gone"],
    }

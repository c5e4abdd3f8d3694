from __future__ import annotations

import io
import itertools
from pathlib import Path
from typing import Any

import pytest
from fakes import FakeRunner
from removal_world import RESERVATIONS, SPACE, RemovalWorld, node, pod, reservation
from rich.console import Console
from test_tenants_values import one

from lab.errors import Interrupted, LabError, Leftovers, SpecError
from lab.parts.tenants.hanging import NamespaceHangs
from lab.parts.tenants.moments import MEANING, Moment, Removal, Stopwatch
from lab.parts.tenants.removal import remove_tenant
from lab.parts.tenants.steps import Tenant
from lab.ui.removal_table import render_removal

WEB = "default/web"


@pytest.fixture
def world(runner: FakeRunner, tmp_path: Path) -> RemovalWorld:
    world = RemovalWorld(runner, tmp_path, one())
    world.inhabit(pod("web-x-default-x-team-a", virtual=WEB))
    return world


def helm(world: RemovalWorld) -> None:
    world.helm("uninstall", "team-a", "--namespace", SPACE)


def remove(world: RemovalWorld, **options: Any) -> Removal:
    ticks = itertools.count(100.0, 0.5)
    return remove_tenant(world.ctx, world.tenant, clock=lambda: next(ticks), **options)


def before(log: list[str], first: str, then: str) -> bool:
    return log.index(first) < log.index(then)


def test_the_quick_order(world: RemovalWorld) -> None:
    helm(world)
    removal = remove(world)
    stopped = 'patch Deployment team-a {"spec": {"replicas": 0}}'
    pods, space = f"delete all Pod in {SPACE} grace 1", f"delete Namespace {SPACE}"
    assert before(world.log, stopped, pods)
    assert before(world.log, pods, space)
    assert world.log.count(pods) == 2, "once more in the namespace in which nothing new can be born"
    assert before(world.log, space, "helm uninstall team-a")
    assert f"delete ClusterRole vc-team-a-v-{SPACE}" in world.log
    assert f"delete ClusterRoleBinding vc-team-a-v-{SPACE}" in world.log
    assert (removal.ok, removal.left, removal.disturbed) == (True, (), ())


def test_moments_are_told_in_the_order_of_the_protocol(world: RemovalWorld) -> None:
    helm(world)
    removal = remove(world)
    assert [one.name for one in removal.moments] == [
        "scheduler stopped", "pods gone", "namespace gone", "cluster scope clean", "host undisturbed",
    ]  # fmt: skip
    assert all(one.seconds is not None and one.seconds > 0 for one in removal.moments)
    assert removal.seconds == removal.at("cluster scope clean")


def test_pods_that_wanted_longer_are_named(world: RemovalWorld) -> None:
    world.host.have(pod("quick-x", virtual="default/quick", grace=1))
    world.host.have(pod("job-x", virtual="batch/job", grace=120))
    helm(world)
    assert remove(world).cut_grace == ("batch/job (120 s)", "default/web (30 s)", f"{SPACE}/team-a-0 (15 s)")


def test_every_pod_can_keep_its_own_grace(world: RemovalWorld) -> None:
    world.host.have(pod("job-x", virtual="batch/job", grace=120))
    helm(world)
    removal = remove(world, grace=None)
    assert removal.cut_grace == ()
    assert removal.ok
    assert f"delete all Pod in {SPACE} grace None" in world.log
    # Services and the syncer's objects stay as long as the pods may need them
    assert before(world.log, f"delete all Pod in {SPACE} grace None", f"delete Namespace {SPACE}")
    assert before(world.log, f"delete all Pod in {SPACE} grace None", "helm uninstall team-a")
    assert world.host.timeouts["the pods of tenant team-a are gone"] == 180


def test_a_longer_grace_than_the_namespace_controller_waits_goes_first(world: RemovalWorld) -> None:
    helm(world)
    removal = remove(world, grace=10)
    assert before(world.log, f"delete all Pod in {SPACE} grace 10", f"delete Namespace {SPACE}")
    assert removal.cut_grace == ("default/web (30 s)", f"{SPACE}/team-a-0 (15 s)")


@pytest.mark.parametrize("grace", [0, 0.5, -1])
def test_no_forced_deletion(world: RemovalWorld, grace: float) -> None:
    with pytest.raises(SpecError, match="would be a forced deletion"):
        remove(world, grace=grace)
    assert world.log == []


def test_a_pod_that_is_born_late_is_deleted_too(world: RemovalWorld) -> None:
    world.host.on_delete_all = lambda: world.host.have(pod("late", virtual="default/late"))
    helm(world)
    assert remove(world).ok
    assert world.log.count("delete Pod late grace 1") == 1


def test_a_pod_that_is_going_slowly_is_hurried(world: RemovalWorld) -> None:
    def collected() -> None:
        slow = pod("slow", virtual="default/slow")
        slow["metadata"] |= {"deletionTimestamp": "now", "deletionGracePeriodSeconds": 600}
        world.host.stubborn.add("slow")
        world.host.have(slow)

    world.host.on_delete_all = collected
    helm(world)
    assert remove(world).ok
    assert world.log.count("delete Pod slow grace 1") == 1


def test_reservation_pods_of_the_hosts_kai_are_waited_for(world: RemovalWorld) -> None:
    labels = {"runai-gpu-group": "g1"}
    world.host.have(pod("half", virtual="default/half", labels=labels))
    world.host.have(reservation("gpu-reservation-1", "g1"))
    world.host.have(reservation("gpu-reservation-2", "g2"))
    world.host.have(pod("other", "team-b", labels={"runai-gpu-group": "g2"}))

    def sync(name: str) -> None:
        if name == "half":
            world.host.delete("Pod", "gpu-reservation-1", RESERVATIONS, grace=0)

    world.host.on_gone = sync
    helm(world)
    removal = remove(world)
    assert removal.ok
    assert "KAI's reservation pods for tenant team-a are gone" in world.host.waits
    assert world.host.get("Pod", "gpu-reservation-2", RESERVATIONS) is not None


def test_a_gpu_group_that_others_use_is_not_waited_for(world: RemovalWorld) -> None:
    labels = {"runai-gpu-group": "g1"}
    world.host.have(pod("half", virtual="default/half", labels=labels))
    world.host.have(pod("other", "team-b", labels=labels))
    world.host.have(reservation("gpu-reservation-1", "g1"))
    helm(world)
    removal = remove(world)
    assert (removal.ok, removal.left) == (True, ())
    assert not any("reservation pods" in what for what in world.host.waits)


def test_others_that_suffered_are_told(world: RemovalWorld) -> None:
    for name in ("gone", "restarted", "blinked", "anew", "calm", "done"):
        world.host.have(pod(name, "team-b"))
    never_ready = pod("broken", "team-b")
    never_ready["status"]["conditions"][0]["status"] = "False"
    world.host.have(never_ready)

    def harm() -> None:
        find = lambda name: world.host.objects["Pod", "team-b", name]  # noqa: E731
        world.host.objects.pop(("Pod", "team-b", "gone"), None)
        world.host.objects.pop(("Pod", "team-b", "broken"), None)
        find("restarted")["status"]["containerStatuses"][0]["restartCount"] = 1
        find("blinked")["status"]["conditions"][0]["lastTransitionTime"] = "2026-01-01T00:01:00Z"
        find("anew")["metadata"]["uid"] = "another"
        find("done")["status"] |= {"phase": "Succeeded", "conditions": [{"type": "Ready", "status": "False"}]}

    world.host.on_delete_all = harm
    helm(world)
    removal = remove(world)
    assert removal.disturbed == (
        "Pod team-b/anew is another one: it was deleted and made anew",
        "Pod team-b/blinked was not Ready for a while",
        "Pod team-b/gone is gone",
        "Pod team-b/restarted restarted: 0 → 1 restarts",
    )
    assert not removal.ok
    assert removal.at("host undisturbed") is None


def test_a_namespace_that_hangs_is_diagnosed_and_nothing_is_forgotten(world: RemovalWorld) -> None:
    space = world.host.objects["Namespace", "", SPACE]
    space["metadata"]["finalizers"] = ["example.com/guard"]
    helm(world)
    world.host.patience = 0.1
    world.paths.tenant_kubeconfig("team-a").write_text("x")
    with pytest.raises(NamespaceHangs, match=f"namespace {SPACE} is still there after 60 s") as failure:
        remove(world)
    assert failure.value.evidence == (f"Namespace {SPACE} itself has the finalizer example.com/guard",)
    assert failure.value.fix
    assert space["metadata"]["finalizers"] == ["example.com/guard"]
    assert world.paths.tenant_kubeconfig("team-a").exists()
    assert world.owned("port") == ["team-a"]


def test_what_this_machine_had_is_forgotten(world: RemovalWorld) -> None:
    path = world.paths.tenant_kubeconfig("team-a")
    path.write_text("x")
    world.ctx.journal.owns("file", str(path), "tenant:team-a")
    world.ctx.journal.owns("namespace", SPACE, "tenant:team-a")
    world.ctx.journal.owns("release", "kai-scheduler", "kai:team-a")
    helm(world)
    assert remove(world).ok
    assert not path.exists()
    assert [(owned.kind, owned.name) for owned in world.ctx.journal.owned()] == [("port", "spare-0")]


def test_a_tenant_that_is_gone_already_is_success(runner: FakeRunner, tmp_path: Path) -> None:
    world = RemovalWorld(runner, tmp_path, one())
    world.host.put("ClusterRole", f"vc-team-a-v-{SPACE}")
    removal = remove(world)
    assert (removal.ok, removal.left) == (True, ())
    assert world.host.get("ClusterRole", f"vc-team-a-v-{SPACE}") is None


def test_a_namespace_of_somebody_else_is_refused(world: RemovalWorld) -> None:
    world.host.objects["Namespace", "", SPACE]["metadata"]["labels"] = {"kailab": "other"}
    with pytest.raises(LabError, match="was not made by lab demo"):
        remove(world)
    assert world.log == []


def test_what_helm_leaves_is_taken_and_its_words_are_told(world: RemovalWorld) -> None:
    world.runner.handle(["/cache/helm", "uninstall"], err="Error: release: not found", code=1)
    assert remove(world).ok
    assert any("release: not found" in str(event) for event in world.events)


def test_what_nobody_takes_is_left_and_told(world: RemovalWorld) -> None:
    world.host.put("APIService", "v1.example.com", spec={"service": {"namespace": SPACE, "name": "x"}})
    helm(world)
    removal = remove(world)
    assert removal.left == (f"APIService v1.example.com is served from {SPACE}",)
    assert not removal.ok
    assert removal.at("cluster scope clean") is None
    with pytest.raises(Leftovers, match="of tenant team-a remain"):
        removal.raise_left()


def test_synced_objects_cluster_wide_and_the_nodes_marks_go(runner: FakeRunner, tmp_path: Path) -> None:
    world = RemovalWorld(runner, tmp_path, one())
    world.inhabit()
    label = {"vcluster.loft.sh/managed-by": f"{SPACE}-x-team-a"}
    world.host.put("PriorityClass", "vcluster-high-x", metadata={"labels": label})
    world.host.put("PriorityClass", "high")
    world.host.have(node("worker3", tenant="team-a"))
    world.host.have(node("worker2", tenant="team-b"))
    helm(world)
    assert remove(world).ok
    assert [doc["metadata"]["name"] for doc in world.host.list("PriorityClass")] == ["high"]
    mine, theirs = (world.host.get("Node", name) for name in ("worker3", "worker2"))
    assert mine is not None
    assert theirs is not None
    assert ("kailab.dev/tenant" in mine["metadata"]["labels"], mine["spec"]["taints"]) == (False, [])
    assert theirs["metadata"]["labels"]["kailab.dev/tenant"] == "team-b"
    assert before(world.log, f"delete all Pod in {SPACE} grace 1", next(x for x in world.log if "patch Node" in x))


def test_an_interrupt_is_what_is_told(world: RemovalWorld) -> None:
    world.runner.handle(["/cache/helm", "uninstall"], raises=Interrupted("stopped"))
    world.host.objects["Namespace", "", SPACE]["metadata"]["finalizers"] = ["example.com/guard"]
    world.host.patience = 0.1
    with pytest.raises(Interrupted):
        remove(world)


def run_canaries(world: RemovalWorld) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []

    def run(doc: dict[str, Any]) -> None:
        made.append(doc)
        world.host.have({**doc, "status": {"phase": "Running"}})

    world.host.on_create = run
    return made


def test_the_canary_takes_all_that_nobody_else_has(world: RemovalWorld) -> None:
    world.host.have(node("worker", gpus=4))
    world.host.have(node("worker2", gpus=4))
    world.host.have(pod("train", virtual="default/train", gpus=2))
    world.host.have(pod("other", "team-b", gpus=1))
    made = run_canaries(world)
    helm(world)
    removal = remove(world, canary=True)
    (canary,) = made
    container = canary["spec"]["containers"][0]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == 3
    assert canary["spec"]["nodeSelector"] == {"kubernetes.io/hostname": "worker"}
    assert canary["metadata"]["namespace"] == "default"
    free = next(one for one in removal.moments if one.name == "GPUs free")
    assert free.detail == "a pod with 3 GPUs runs on worker"
    assert removal.ok
    assert world.host.list("Pod", "default") == []


@pytest.mark.parametrize(
    ("mode", "scheduler", "queues", "wanted"),
    [
        ("host-kai", "kai", ["test"], ("kai-scheduler", "test")),
        ("default", "default", [], (None, None)),
    ],
)
def test_the_canary_is_scheduled_as_the_tenants_pods_were(
    runner: FakeRunner, tmp_path: Path, mode: str, scheduler: str, queues: list[str], wanted: tuple[Any, Any]
) -> None:
    queued = [{"name": name} for name in queues]
    world = RemovalWorld(runner, tmp_path, one(mode), scheduler=scheduler, queues=queued)
    world.inhabit(pod("train", virtual="default/train", gpus=1))
    world.host.have(node("worker"))
    made = run_canaries(world)
    helm(world)
    assert remove(world, canary=True).ok
    queue = made[0]["metadata"]["labels"].get("kai.scheduler/queue")
    assert (made[0]["spec"].get("schedulerName"), queue) == wanted


def test_a_canary_that_does_not_run_is_told(world: RemovalWorld) -> None:
    world.host.have(node("worker", gpus=1))
    world.host.have(pod("train", virtual="default/train", gpus=1))
    helm(world)
    world.host.patience = 0.3
    removal = remove(world, canary=True)
    free = next(one for one in removal.moments if one.name == "GPUs free")
    assert (free.seconds, removal.ok, removal.left) == (None, False, ())
    assert "runs on the GPUs of tenant team-a" in free.detail
    assert world.host.list("Pod", "default") == []


def test_a_tenant_without_gpus_needs_no_canary(world: RemovalWorld) -> None:
    helm(world)
    removal = remove(world, canary=True)
    assert removal.ok
    assert next(one for one in removal.moments if one.name == "GPUs free").detail == "the tenant held none"


def test_the_step_removes_and_insists(world: RemovalWorld) -> None:
    helm(world)
    Tenant(world.spec, world.tenant).remove(world.ctx)
    assert world.host.get("Namespace", SPACE) is None
    assert world.owned("port") == ["spare-0"]
    world.inhabit()
    world.host.put("APIService", "v1.example.com", spec={"service": {"namespace": SPACE, "name": "x"}})
    with pytest.raises(Leftovers):
        Tenant(world.spec, world.tenant).remove(world.ctx)


def test_the_step_leaves_a_namespace_of_somebody_else(world: RemovalWorld) -> None:
    world.host.objects["Namespace", "", SPACE]["metadata"]["labels"] = {}
    path = world.paths.tenant_kubeconfig("team-a")
    path.write_text("x")
    Tenant(world.spec, world.tenant).remove(world.ctx)
    assert world.log == ["close"]
    assert not path.exists()


def test_the_first_of_a_moment_counts() -> None:
    ticks = iter([10.0, 11.0, 12.0, 13.0])
    watch = Stopwatch(lambda: next(ticks))
    watch.note("namespace gone")
    watch.note("pods gone", "3 pods")
    watch.note("namespace gone", "again")
    assert watch.moments == (Moment("pods gone", 2.0, "3 pods"), Moment("namespace gone", 1.0))
    assert set(MEANING) >= {one.name for one in watch.moments}


def rendered(removal: Removal) -> str:
    console = Console(file=io.StringIO(), width=120, color_system=None, highlight=False)
    render_removal(removal, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_table_of_a_removal_that_went_well() -> None:
    moments = (Moment("pods gone", 2.04, "12 pods"), Moment("namespace gone", 6.5), Moment("ready again", 30.0))
    removal = Removal("team-a", moments, 1, cut_grace=tuple(f"default/p{n} (30 s)" for n in range(14)))
    assert rendered(removal).splitlines() == [
        "Tenant team-a is gone  6.5 s, checked: nothing of it is left",
        "  ✓     2.0 s  pods gone       12 pods",
        "  ✓     6.5 s  namespace gone",
        "  ✓    30.0 s  ready again",
        "  ! 14 pods got 1 s to stop, less than their own grace",
        *(f"    - default/p{n} (30 s)" for n in range(12)),
        "    - … and 2 more",
    ]
    assert removal.as_json()["seconds"] == 6.5


def test_table_of_a_removal_that_did_not() -> None:
    removal = Removal(
        "team-a",
        (Moment("GPUs free", None, "no pod ran"),),
        None,
        left=("ClusterRole x",),
        disturbed=("Pod a/b is gone",),
    )
    text = rendered(removal)
    assert "Tenant team-a is not wholly gone" in text
    assert "✗  ClusterRole x" in text
    assert "✗         -  GPUs free  no pod ran" in text
    assert "✗  Pod a/b is gone" in text
    assert removal.as_json() == {
        "tenant": "team-a", "ok": False, "seconds": 0.0, "grace": None,
        "moments": [{"name": "GPUs free", "seconds": None, "detail": "no pod ran"}],
        "cut_grace": [], "left": ["ClusterRole x"], "disturbed": ["Pod a/b is gone"],
    }  # fmt: skip

from __future__ import annotations

from pathlib import Path

import pytest

from lab.errors import Interrupted, LabError, Leftovers, SpecError
from lab.steps.cluster.config import VOLUMES
from lab.tenants.removal.stuck_namespace import StuckNamespace
from lab.tenants.virtual_cluster import VirtualCluster
from tests.support.api_requests import GONE, Call
from tests.support.fakes import FakeRunner
from tests.support.removal_world import (
    BY_HELM,
    RESERVATIONS,
    SPACE,
    RemovalWorld,
    inhabited,
    node,
    pod,
    remove,
    reservation,
)
from tests.support.specs import tenant_spec


@pytest.fixture
def world(runner: FakeRunner, tmp_path: Path) -> RemovalWorld:
    return inhabited(runner, tmp_path)


def precedes(log: list[str], first: str, then: str) -> bool:
    return log.index(first) < log.index(then)


def test_removal_deletes_pods_before_the_namespace(world: RemovalWorld) -> None:
    removal = remove(world)
    stopped = 'patch Deployment team-a {"spec": {"replicas": 0}}'
    pods, namespace = f"delete all Pod in {SPACE} grace 1", f"delete Namespace {SPACE}"
    assert precedes(world.log, stopped, pods)
    assert precedes(world.log, pods, namespace)
    assert world.log.count(pods) == 2, "again once the namespace refuses new pods"
    assert precedes(world.log, namespace, "delete PriorityClass team-a-extra")
    assert f"delete ClusterRole vc-team-a-v-{SPACE}" in world.log
    assert f"delete ClusterRoleBinding vc-team-a-v-{SPACE}" in world.log
    assert (removal.ok, removal.left, removal.disturbed) == (True, (), ())


def test_milestones_are_in_order(world: RemovalWorld) -> None:
    removal = remove(world)
    assert [milestone.name for milestone in removal.milestones] == [
        "scheduler stopped",
        "pods gone",
        "namespace gone",
        "cluster scope clean",
        "host undisturbed",
    ]
    assert all(milestone.seconds is not None and milestone.seconds > 0 for milestone in removal.milestones)
    assert removal.seconds == removal.at("cluster scope clean")


def test_pods_with_a_shortened_grace_period_are_named(world: RemovalWorld) -> None:
    world.api.add(pod("quick-x", virtual="default/quick", grace=1))
    world.api.add(pod("job-x", virtual="batch/job", grace=120))
    assert remove(world).cut_grace == ("batch/job (120 s)", "default/web (30 s)", f"{SPACE}/team-a-0 (15 s)")


def test_grace_none_keeps_the_grace_period_of_each_pod(world: RemovalWorld) -> None:
    world.api.add(pod("job-x", virtual="batch/job", grace=120))
    removal = remove(world, grace=None)
    assert removal.cut_grace == ()
    assert removal.ok
    assert f"delete all Pod in {SPACE} grace None" in world.log
    # Services and the syncer's objects are deleted after the pods that may need them
    assert precedes(world.log, f"delete all Pod in {SPACE} grace None", f"delete Namespace {SPACE}")
    assert precedes(world.log, f"delete all Pod in {SPACE} grace None", "delete PriorityClass team-a-extra")
    (wait,) = [w for w in world.api.cluster.waits if w.what == "the pods of tenant team-a are gone"]
    assert wait.timeout == 180


def test_longer_grace_than_the_namespace_controller_allows_is_granted_first(world: RemovalWorld) -> None:
    removal = remove(world, grace=10)
    assert precedes(world.log, f"delete all Pod in {SPACE} grace 10", f"delete Namespace {SPACE}")
    assert removal.cut_grace == ("default/web (30 s)", f"{SPACE}/team-a-0 (15 s)")


@pytest.mark.parametrize("grace", [0, 0.5, -1])
def test_forced_deletion_is_refused(world: RemovalWorld, grace: float) -> None:
    with pytest.raises(SpecError, match="is a forced deletion"):
        remove(world, grace=grace)
    assert world.log == []


def test_pod_created_during_the_removal_is_deleted(world: RemovalWorld) -> None:
    world.api.after("deletecollection", "Pod", lambda _: world.api.add(pod("late", virtual="default/late")))
    assert remove(world).ok
    assert world.log.count("delete Pod late grace 1") == 1


def test_pod_with_a_long_deletion_is_deleted_again(world: RemovalWorld) -> None:
    def collected(_: Call) -> None:
        slow = pod("slow", virtual="default/slow")
        slow["metadata"] |= {"deletionTimestamp": "now", "deletionGracePeriodSeconds": 600}
        world.api.add(slow)

    world.api.after("deletecollection", "Pod", collected)
    assert remove(world).ok
    assert world.log.count("delete Pod slow grace 1") == 1


@pytest.mark.parametrize(("number", "waits"), [(3, False), (20, True)])
def test_many_pods_get_a_lead_over_the_namespace(world: RemovalWorld, number: int, waits: bool) -> None:
    """Otherwise the namespace controller's first check finds some of them."""
    ending = [pod(f"end-{n}", virtual=f"default/end-{n}") for n in range(number)]
    world.api.add(*ending)
    looks: list[str] = []
    slept: list[float] = []

    def collected(_: Call) -> None:
        if not looks:
            looks.append("first")
            world.api.add(*({**one, "metadata": {**one["metadata"], "deletionTimestamp": "now"}} for one in ending))

    def listed(_: Call) -> None:
        looks.extend(["again"] if looks else [])
        for one in ending if len(looks) == 3 else ():
            world.api.objects.pop(("Pod", SPACE, one["metadata"]["name"]), None)

    world.api.after("deletecollection", "Pod", collected)
    world.api.after("list", "Pod", listed)
    world.api.after("delete", "Namespace", lambda _: slept.append(world.api.cluster.pauses.slept))
    assert remove(world).ok
    assert (slept[0] > 0) is waits
    assert precedes(world.log, f"delete all Pod in {SPACE} grace 1", f"delete Namespace {SPACE}")


def test_removal_waits_for_reservation_pods_of_the_host_kai(world: RemovalWorld) -> None:
    labels = {"runai-gpu-group": "g1"}
    world.api.add(pod("half", virtual="default/half", labels=labels))
    world.api.add(reservation("gpu-reservation-1", "g1"))
    world.api.add(reservation("gpu-reservation-2", "g2"))
    world.api.add(pod("other", "team-b", labels={"runai-gpu-group": "g2"}))

    def sync(call: Call) -> None:
        if call.name == "half":
            world.api.remove("Pod", "gpu-reservation-1", RESERVATIONS)

    world.api.after(GONE, "Pod", sync)
    removal = remove(world)
    assert removal.ok
    assert "KAI's reservation pods for tenant team-a are gone" in world.api.waits
    assert world.api.get("Pod", "gpu-reservation-2", RESERVATIONS) is not None


def test_removal_does_not_wait_for_gpu_groups_in_use_by_others(world: RemovalWorld) -> None:
    labels = {"runai-gpu-group": "g1"}
    world.api.add(pod("half", virtual="default/half", labels=labels))
    world.api.add(pod("other", "team-b", labels=labels))
    world.api.add(reservation("gpu-reservation-1", "g1"))
    removal = remove(world)
    assert (removal.ok, removal.left) == (True, ())
    assert not any("reservation pods" in what for what in world.api.waits)


def test_disturbed_pods_are_reported(world: RemovalWorld) -> None:
    for name in ("gone", "restarted", "unready", "recreated", "unchanged", "done"):
        world.api.add(pod(name, "team-b"))
    never_ready = pod("broken", "team-b")
    never_ready["status"]["conditions"][0]["status"] = "False"
    world.api.add(never_ready)

    def disturb(_: Call) -> None:
        find = lambda name: world.api.objects["Pod", "team-b", name]  # noqa: E731
        world.api.remove("Pod", "gone", "team-b")
        world.api.remove("Pod", "broken", "team-b")
        find("restarted")["status"]["containerStatuses"][0]["restartCount"] = 1
        find("unready")["status"]["conditions"][0]["lastTransitionTime"] = "2026-01-01T00:01:00Z"
        find("recreated")["metadata"]["uid"] = "another"
        find("done")["status"] |= {"phase": "Succeeded", "conditions": [{"type": "Ready", "status": "False"}]}

    world.api.after("deletecollection", "Pod", disturb)
    removal = remove(world)
    assert removal.disturbed == (
        "Pod team-b/gone is gone",
        "Pod team-b/recreated was deleted and recreated",
        "Pod team-b/restarted restarted: 0 → 1 restarts",
        "Pod team-b/unready was not Ready for a while",
    )
    assert not removal.ok
    assert removal.at("host undisturbed") is None


def test_stuck_namespace_is_diagnosed_and_files_and_journal_stay(world: RemovalWorld) -> None:
    namespace = world.api.objects["Namespace", "", SPACE]
    namespace["metadata"]["finalizers"] = ["example.com/guard"]
    world.api.cluster.patience = 0.1
    world.paths.tenant_kubeconfig("team-a").write_text("x")
    with pytest.raises(StuckNamespace, match=f"namespace {SPACE} still exists 60 s after its deletion") as failure:
        remove(world)
    assert failure.value.evidence == (f"Namespace {SPACE} itself has the finalizer example.com/guard",)
    assert failure.value.fix
    assert world.api.objects["Namespace", "", SPACE]["metadata"]["finalizers"] == ["example.com/guard"]
    assert world.paths.tenant_kubeconfig("team-a").exists()
    assert world.owned("port") == ["team-a"]


def test_kubeconfig_and_journal_entries_are_removed(world: RemovalWorld) -> None:
    path = world.paths.tenant_kubeconfig("team-a")
    path.write_text("x")
    world.ctx.journal.owns("file", str(path), "tenant:team-a")
    world.ctx.journal.owns("namespace", SPACE, "tenant:team-a")
    world.ctx.journal.owns("release", "kai-scheduler", "kai:team-a")
    assert remove(world).ok
    assert not path.exists()
    assert [(owned.kind, owned.name) for owned in world.ctx.journal.owned()] == [("port", "spare-0")]


def test_removal_of_an_absent_tenant_succeeds(runner: FakeRunner, tmp_path: Path) -> None:
    world = RemovalWorld(runner, tmp_path, tenant_spec())
    world.api.put("ClusterRole", f"vc-team-a-v-{SPACE}", metadata={"annotations": BY_HELM})
    removal = remove(world)
    assert (removal.ok, removal.left) == (True, ())
    assert world.api.get("ClusterRole", f"vc-team-a-v-{SPACE}") is None


def test_namespace_of_another_owner_is_refused(world: RemovalWorld) -> None:
    world.api.objects["Namespace", "", SPACE]["metadata"]["labels"] = {"kailab": "other"}
    with pytest.raises(LabError, match="is not of lab demo: it belongs to lab other"):
        remove(world)
    assert world.log == []


def test_release_that_cannot_be_read_is_a_notice(world: RemovalWorld) -> None:
    (record,) = world.api.of_kind("Secret")
    record["data"] = {"release": "?"}
    assert remove(world).ok
    assert any("release team-a is not read" in str(event) for event in world.events)


def test_leftovers_are_reported(world: RemovalWorld) -> None:
    world.api.put("APIService", "v1.example.com", spec={"service": {"namespace": SPACE, "name": "x"}})
    removal = remove(world)
    assert removal.left == (f"APIService v1.example.com is served from {SPACE}",)
    assert not removal.ok
    assert removal.at("cluster scope clean") is None
    with pytest.raises(Leftovers, match="tenant team-a was only partly removed"):
        removal.raise_left()


def test_cluster_wide_synced_objects_and_node_marks_are_removed(runner: FakeRunner, tmp_path: Path) -> None:
    world = RemovalWorld(runner, tmp_path, tenant_spec())
    world.inhabit()
    label = {"vcluster.loft.sh/managed-by": f"{SPACE}-x-team-a"}
    world.api.put("PriorityClass", "vcluster-high-x", metadata={"labels": label})
    world.api.put("PriorityClass", "high")
    world.api.add(node("worker3", tenant="team-a"))
    world.api.add(node("worker2", tenant="team-b"))
    assert remove(world).ok
    assert [doc["metadata"]["name"] for doc in world.api.of_kind("PriorityClass")] == ["high"]
    own, other = (world.api.get("Node", name) for name in ("worker3", "worker2"))
    assert own is not None
    assert other is not None
    assert ("kailab.dev/tenant" in own["metadata"]["labels"], own["spec"]["taints"]) == (False, [])
    assert other["metadata"]["labels"]["kailab.dev/tenant"] == "team-b"
    assert precedes(world.log, f"delete all Pod in {SPACE} grace 1", next(x for x in world.log if "patch Node" in x))


def test_interrupt_is_raised(world: RemovalWorld) -> None:
    def interrupt(_: Call) -> None:
        raise Interrupted("stopped")

    world.api.react("delete", "PriorityClass", interrupt)
    world.api.objects["Namespace", "", SPACE]["metadata"]["finalizers"] = ["example.com/guard"]
    world.api.cluster.patience = 0.1
    with pytest.raises(Interrupted):
        remove(world)


def test_step_removes_the_tenant_and_raises_on_leftovers(world: RemovalWorld) -> None:
    step = VirtualCluster(world.spec, world.tenant)
    step.undo(world.ctx)
    assert step.remains(world.ctx) == ()
    assert world.api.get("Namespace", SPACE) is None
    assert world.owned("port") == ["spare-0"]
    world.inhabit()
    world.api.put("APIService", "v1.example.com", spec={"service": {"namespace": SPACE, "name": "x"}})
    with pytest.raises(Leftovers):
        step.undo(world.ctx)
    assert step.remains(world.ctx)


def test_step_keeps_a_namespace_of_another_owner(world: RemovalWorld) -> None:
    world.api.objects["Namespace", "", SPACE]["metadata"]["labels"] = {}
    path = world.paths.tenant_kubeconfig("team-a")
    path.write_text("x")
    VirtualCluster(world.spec, world.tenant).undo(world.ctx)
    assert world.log == ["close"]
    assert not path.exists()


def volume(world: RemovalWorld, policy: str = "Delete") -> None:
    """Add the tenant's volume, with its data."""
    (world.paths.volumes / "one").mkdir(parents=True)
    claim = {"namespace": SPACE, "name": "data-team-a-0"}
    host_path = {"path": f"{VOLUMES}/one"}
    spec = {"claimRef": claim, "persistentVolumeReclaimPolicy": policy, "hostPath": host_path}
    world.api.put("PersistentVolume", "pvc-1", spec=spec, status={"phase": "Bound"})


def test_removal_waits_for_the_volume_and_its_data(world: RemovalWorld) -> None:
    volume(world)

    def provisioner(_: Call) -> None:
        (world.paths.volumes / "one").rmdir()
        world.api.remove("PersistentVolume", "pvc-1")

    world.api.after("watch", "PersistentVolume", provisioner)
    assert remove(world).left == ()


def test_volume_that_stays_is_a_leftover_with_its_data(world: RemovalWorld) -> None:
    volume(world, policy="Retain")
    assert remove(world).left == (
        f"PersistentVolume pvc-1 was claimed from {SPACE}",
        f"directory {world.paths.volumes / 'one'}",
    )


def test_roles_of_others_stay(world: RemovalWorld) -> None:
    """A user's own ClusterRole may have the name of the tenant's."""
    world.api.put("ClusterRole", f"vc-team-a-v-{SPACE}")
    assert remove(world).left == ()
    assert world.api.get("ClusterRole", f"vc-team-a-v-{SPACE}")
    assert not world.api.get("ClusterRoleBinding", f"vc-team-a-v-{SPACE}")

"""The GPUs that tests may use in a cluster that others use: free of their pods, and within the budget."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.config import LabSpec, QueueSpec, TenantQuota, TenantSpec
from lab.config.budget import with_budget
from lab.config.sections import BudgetSpec, ClusterSpec
from lab.kai.names import GPU_GROUP_LABEL, RESERVATION_APP
from lab.objects.views import NodeView
from lab.pytest_plugin.fixtures import gpus_lack
from lab.pytest_plugin.gpu_share import gpu_total, node_shares, takes_any_pod, usable_nodes
from lab.pytest_plugin.plugin import _limits
from lab.pytest_plugin.scheduling import disturbs_others
from tests.support.fake_lab import FakeLab, Run, runner

pytest_plugins = ["pytester"]


def existing(gpus: float = 4, *, exclusive: bool = False) -> LabSpec:
    """The lab ``demo`` in a cluster of others, as ``kailab up`` saves it."""
    cluster = ClusterSpec(provider="existing", kubeconfig=Path("k"), context="theirs", exclusive=exclusive)
    leaf = QueueSpec(name="leaf")
    return with_budget(LabSpec(name="demo", cluster=cluster, budget=BudgetSpec(gpus=gpus), queues=(leaf,)))


def node(lab: FakeLab, name: str, gpus: int, **spec: Any) -> None:
    ready = [{"type": "Ready", "status": "True"}]
    lab.api.put("Node", name, spec=spec, status={"allocatable": {"nvidia.com/gpu": str(gpus)}, "conditions": ready})


def pod(lab: FakeLab, name: str, space: str, on: str, gpus: int = 0, group: str = "", **meta: Any) -> None:
    amount = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    labels = {**({GPU_GROUP_LABEL: group} if group else {}), **meta.pop("labels", {})}
    lab.api.put(
        "Pod",
        name,
        space,
        metadata={"labels": labels, **meta},
        spec={"nodeName": on, "containers": [{"name": "c", "resources": {"requests": amount}}], "schedulerName": "kai"},
        status={"phase": "Running"},
    )


@pytest.fixture
def lab() -> FakeLab:
    lab = FakeLab()
    lab.spec, lab.gpu_mode = existing(), "present"
    lab.api.put("Node", "worker", status={"allocatable": {}})
    lab.api.put("Namespace", "t-mine", metadata={"labels": {"kailab": "demo"}})
    return lab


def shares(lab: Any) -> dict[str, int]:
    return node_shares(lab)


def test_gpus_of_others_are_theirs_and_of_the_lab_are_not(lab: Any) -> None:
    node(lab, "one", 8)
    node(lab, "two", 4)
    pod(lab, "train", "shop", "one", 6)
    pod(lab, "test", "t-mine", "one", 1)
    assert {one.name: one.gpus for one in usable_nodes(lab)} == {"one": 2, "two": 4}
    assert gpu_total(lab) == 4
    assert shares(lab) == {"two": 4}


def test_shared_gpu_counts_for_the_pods_that_share_it(lab: Any) -> None:
    node(lab, "one", 4)
    share = {"annotations": {"gpu-fraction": "0.5"}}
    for group, user in (("a", "shop"), ("b", "t-mine"), ("c", "")):
        app = {"app": RESERVATION_APP}
        pod(lab, f"reservation-{group}", RESERVATION_APP, "one", 1, group, labels=app)
        if user:
            pod(lab, f"user-{group}", user, "one", 0, group, **share)
    assert {one.name: one.gpus for one in usable_nodes(lab)} == {"one": 3}


def test_budget_is_shared_among_nodes_that_tests_lease_side_by_side(lab: Any) -> None:
    for name, gpus in (("a", 2), ("b", 8), ("c", 2)):
        node(lab, name, gpus)
    lab.spec = existing(9.5)
    assert shares(lab) == {"b": 8, "a": 1}
    lab.spec = existing(20)
    assert shares(lab) == {"a": 2, "b": 8, "c": 2}


def test_gpus_of_tenants_outside_the_queues_are_not_the_suites(lab: Any) -> None:
    node(lab, "one", 8)
    quota = TenantQuota(gpus=3)
    inside, outside = (TenantSpec(name=mode, mode=mode, quota=quota) for mode in ("host-kai", "default"))
    lab.spec = existing(6).model_copy(update={"tenants": (inside,)})
    assert (gpu_total(lab), shares(lab)) == (6, {"one": 6})
    lab.spec = existing(6).model_copy(update={"tenants": (inside, outside)})
    assert (gpu_total(lab), shares(lab)) == (3, {"one": 3})
    assert _limits(lab) == "budget 6 GPUs, 3 of them for tenants outside its queues, others use it"


def test_nodes_that_do_not_take_any_pod_are_left_out() -> None:
    good = NodeView.of({"metadata": {"name": "n"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    assert takes_any_pod(good)
    assert takes_any_pod(replace(good, taints=("a:PreferNoSchedule",)))
    for other in (
        replace(good, ready=False),
        replace(good, unschedulable=True),
        replace(good, taints=("nvidia.com/gpu=present:NoSchedule",)),
        replace(good, labels={"nvidia.com/gpu.replicas": "4"}),
    ):
        assert not takes_any_pod(other)


def test_reason_names_what_is_missing(lab: Any) -> None:
    node(lab, "one", 8)
    node(lab, "two", 1)
    assert gpus_lack(lab, 4) == ""
    assert gpus_lack(lab, 4, nodes=1, per_node=4) == ""
    rest = "that are free of others' pods and within its budget"
    assert gpus_lack(lab, 5) == f"needs 5 GPUs, lab demo has 4 (present) {rest}"
    assert gpus_lack(lab, 4, nodes=2, per_node=2) == f"needs 2 nodes with 2 GPUs each, lab demo has 1 {rest}"


def test_disturbing_tests_need_a_cluster_of_their_own(lab: Any) -> None:
    assert "restarts" in disturbs_others(lab, "KAI restarts")
    lab.spec = existing(exclusive=True)
    assert disturbs_others(lab, "KAI restarts") == ""
    assert disturbs_others(FakeLab(), "KAI restarts") == ""  # type: ignore[arg-type]


TESTS = """
    import pytest

    @pytest.mark.disturbs("KAI restarts", only="kai")
    def test_disturbs(lab): pass

    @pytest.mark.quota
    def test_quota(lab): pass

    @pytest.mark.gpus(min=2, per_node=2)
    def test_lease(gpu_node_lease, leased_node, gpu_nodes):
        assert (gpu_node_lease, leased_node.gpus) == ("two", 3)
        assert [node.gpus for node in gpu_nodes] == [1, 3]

    @pytest.mark.gpus(min=2, nodes=2, per_node=2)
    def test_two(gpu_lock): pass
"""


@pytest.mark.parametrize("exclusive", [False, True])
def test_suites_leave_others_alone(
    lab: FakeLab, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, exclusive: bool
) -> None:
    run: Run = runner(pytester, lab, monkeypatch)
    lab.spec = existing(6, exclusive=exclusive)
    node(lab, "one", 1)
    node(lab, "two", 4)
    pod(lab, "train", "shop", "two", 1)
    lab.facts = lambda: {"lab": "demo", "context": "theirs", "server": "https://api:6443"}  # type: ignore[method-assign]
    result = run(TESTS)
    result.assert_outcomes(passed=3 if exclusive else 1, skipped=1 if exclusive else 3)
    use = "exclusive" if exclusive else "others use it"
    result.stdout.fnmatch_lines(
        [
            f"existing cluster theirs at https://api:6443, budget 6 GPUs, {use}",
            "skipped 1: needs 2 nodes with 2 GPUs each, lab demo has 1 that are free*",
        ]
    )
    if not exclusive:
        result.stdout.fnmatch_lines_random(
            ["skipped 1: disturbs others*: KAI restarts", "skipped 1: needs quota: pods that are not preemptible;*"]
        )


def test_queues_of_tests_are_below_the_budget(
    lab: FakeLab, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    lab.api.after("create", "Pod", lambda call: lab.api.put("Pod", "image", call.namespace, status=ready))
    run: Run = runner(pytester, lab, monkeypatch)
    text = """
        from lab.config import QueueSpec
        from lab.pytest_plugin import fixtures

        def test_tree(new_queues, lab, monkeypatch):
            names = new_queues(QueueSpec(name="department"), QueueSpec(name="team", parent="department"))
            parents = {q["metadata"]["name"]: q["spec"].get("parentQueue") for q in lab.cluster.list("Queue")}
            assert parents == {names["department"]: "demo", names["team"]: names["department"]}
    """
    run(text).assert_outcomes(passed=1)
    lab.kai_version = "0.9.8"
    result = run(text)
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*KAI 0.9.8 has no third level of queues*"])


def test_suites_need_an_image_that_the_cluster_can_run(
    lab: FakeLab, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    run: Run = runner(pytester, lab, monkeypatch)
    waiting = {"waiting": {"reason": "InvalidImageName", "message": "no such image"}}
    status = {"phase": "Pending", "containerStatuses": [{"name": "c", "state": waiting}]}
    lab.api.after("create", "Pod", lambda call: lab.api.put("Pod", "image", call.namespace, status=status))
    result = run("def test_one(workloads): pass\ndef test_two(workloads): pass")
    result.assert_outcomes(skipped=2)
    result.stdout.fnmatch_lines(["*the cluster cannot run a pod of registry.kailab.dev/probe:2*"])

"""Figures of a run, from constructed recordings."""

from __future__ import annotations

import pytest

from lab.compare.measure import Round, fairness, lanes_of, measure, packing, reservations_of, workload_of
from lab.compare.measure import histories as lives
from lab.compare.model import Packing, PodRun, Spread
from lab.compare.recording import Recording
from lab.objects.views import PodView
from tests.support.compare_world import (
    HOST,
    SPACE,
    TENANT_NAME,
    created,
    evicted,
    gpu,
    gpus,
    holder,
    life,
    planned,
    recording,
    seen,
)

RUN = Round("a", 1, 1, TENANT_NAME, SPACE)


def pods_of(record: Recording, *plan: str, memory: dict[str, int] | None = None) -> dict[str, PodRun]:
    run = measure(RUN, record, [planned(name) for name in plan], gpus(), {}, memory or {})
    return {pod.lane: pod for pod in run.pods}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((), (0, None, None, None)),
        ((3.0,), (1, 3.0, 3.0, 3.0)),
        ((4.0, 1.0, 3.0, 2.0), (4, 1.0, 2.0, 4.0)),
        (tuple(float(n) for n in range(1, 101)), (100, 1.0, 50.0, 95.0)),
    ],
)
def test_spread_is_by_nearest_rank(values: tuple[float, ...], expected: tuple[object, ...]) -> None:
    found = Spread.of(values)
    assert (found.count, found.least, found.p50, found.p95) == expected


def test_bare_pod_waits_from_its_create_request() -> None:
    record = recording(*life("a", created=0.3, scheduled=1.2, running=2.5), created=(created(0.2, "Pod/a"),))
    pod = pods_of(record, "a")["a"]
    assert (pod.created, pod.to_scheduled, pod.to_running) == (0.2, 1.0, 2.3)
    assert (pod.state, pod.node, pod.queue) == ("running", "worker", "test")


def test_pod_of_a_workload_waits_from_its_first_event() -> None:
    record = recording(
        *life("training-x", created=0.9, scheduled=1.4, meta={"owner": "Job/training"}),
        created=(created(0.1, "Job/training"),),
    )
    run = measure(RUN, record, [planned("training", kind="Job", queue="team")], gpus(), {}, {})
    (pod,) = run.pods
    assert (pod.lane, pod.workload, pod.queue) == ("training 1", "Job/training", "team")
    assert (pod.created, pod.to_scheduled) == (0.9, 0.5)


def test_missing_state_has_no_time() -> None:
    pod = pods_of(recording(*life("a", scheduled=None, running=None)), "a")["a"]
    assert (pod.to_scheduled, pod.to_running, pod.state) == (None, None, "pending")
    pod = pods_of(recording(*life("a", running=None)), "a")["a"]
    assert (pod.to_running, pod.state) == (None, "starting")


def test_only_the_tenants_view_counts_for_times() -> None:
    record = recording(*life("a", scheduled=3.0, running=4.0), *life("a", side=HOST, scheduled=1.0, running=2.0))
    assert pods_of(record, "a")["a"].scheduled == 3.0


def test_pods_of_workloads_are_paired_by_number() -> None:
    row = [
        *life("train-b", created=0.2, meta={"owner": "Job/train"}),
        *life("train-a", created=0.1, meta={"owner": "Job/train"}),
        *life("alone", created=0.3),
    ]
    lanes = lanes_of(lives(recording(*row)))
    assert lanes == {
        f"uid-{SPACE}-train-a": "train 1",
        f"uid-{SPACE}-train-b": "train 2",
        f"uid-{SPACE}-alone": "alone",
    }


def test_pods_of_a_deployment_belong_to_the_deployment() -> None:
    label = {"pod-template-hash": "5d9c"}
    own = seen("s-1", 0.1, labels=label, meta={"owner": "ReplicaSet/serving-5d9c"}).pod.view
    other = seen("s-2", 0.1, meta={"owner": "ReplicaSet/mine"}).pod.view
    assert [workload_of(view) for view in (own, other)] == ["Deployment/serving", "ReplicaSet/mine"]


@pytest.mark.parametrize(
    ("evictions", "expected"),
    [
        ([evicted(5.0, "pg-a", "preempt"), evicted(9.0, "pg-a", "reclaim")], "preempt"),
        ([evicted(5.0, "pg-other", "preempt")], "deleted"),
        ([], "deleted"),
    ],
)
def test_evicted_pod_has_the_action_of_its_group(evictions: list[object], expected: str) -> None:
    deleting = {"deletionTimestamp": "2026-11-21T12:00:00Z"}
    record = recording(
        *life("a", group="pg-a"),
        seen("a", 5.1, group="pg-a", node="worker", ready=True, meta=deleting),
        seen("a", 6.0, group="pg-a", node="worker", meta=deleting, gone=True),
        evictions=tuple(evictions),
    )
    pod = pods_of(record, "a")["a"]
    assert (pod.state, pod.evicted, pod.gone) == ("evicted", expected, 5.1)


def test_group_of_an_evicted_pod_may_come_from_the_host() -> None:
    deleting = {"deletionTimestamp": "2026-11-21T12:00:00Z"}
    record = recording(
        *life("a"),
        seen("a", 1.5, side=HOST, group="pg-host"),
        seen("a", 5.0, node="worker", meta=deleting),
        evictions=(evicted(4.9, "pg-host", "reclaim"),),
    )
    assert pods_of(record, "a")["a"].evicted == "reclaim"


def test_completed_pod_was_not_evicted() -> None:
    record = recording(*life("a"), seen("a", 7.0, node="worker", phase="Succeeded"))
    pod = pods_of(record, "a")["a"]
    assert (pod.state, pod.evicted, pod.gone) == ("succeeded", "", 7.0)


def held(queue: str, gpu_count: float, scheduled: float | None, gone: float | None = None) -> PodRun:
    return PodRun(
        lane=f"{queue}{gpu_count}{scheduled}",
        workload="Pod/x",
        name="x",
        queue=queue,
        asked="",
        gpus=gpu_count,
        created=0.0,
        scheduled=scheduled,
        running=scheduled,
        gone=gone,
        node="",
        devices=(),
        state="running",
    )


@pytest.mark.parametrize(
    ("pods", "jain"),
    [
        ([held("a", 1, 0.0), held("b", 1, 0.0)], 1.0),
        ([held("a", 1, 0.0), held("b", 1, None)], 0.5),
        ([held("a", 3, 0.0), held("b", 1, 0.0)], 0.8),
        ([held("a", 0.5, 0.0), held("a", 0.5, 0.0), held("b", 1, 0.0)], 1.0),
        ([held("a", 1, 0.0, gone=5.0), held("b", 0.5, 0.0)], 1.0),
        ([held("a", 1, None)], None),
        ([held("", 1, 0.0)], None),
        ([held("a", 1, 0.0), held("b", 0, 0.0)], 1.0),
        ([], None),
    ],
)
def test_jain_index_of_gpu_seconds(pods: list[PodRun], jain: float | None) -> None:
    assert fairness(pods, 10.0).jain == jain


def test_gpu_seconds_end_with_the_pod_or_run() -> None:
    pods = [held("a", 0.5, 2.0), held("a", 1, 1.0, gone=4.0), held("b", 2, None)]
    assert fairness(pods, 10.0).gpu_seconds == {"a": 7.0, "b": 0.0}


def test_packing_counts_each_gpu_once_and_separates_other_pods() -> None:
    mine = [holder("a", 0.5), holder("b", 0.25)]
    shared = gpu(0, *mine, holder("z", 0.125, tenant="other"))
    whole = gpu(1, holder("c", 1.0), shared=False)
    found = packing([(mine[0], shared), (mine[1], shared), (whole.holders[0], whole)], {"a": "a", "b": "b", "c": "c 1"})
    assert [(one.fill, one.others, one.pods) for one in found.devices] == [
        (0.75, 0.125, ("a", "b")),
        (1.0, 0.0, ("c 1",)),
    ]
    assert (found.touched, found.least, found.placed, found.stranded) == (2, 2, 1.75, 0.125)
    assert found.fragmentation == pytest.approx(0.0625)


def test_gpus_without_uuid_are_counted_separately() -> None:
    first, second = (gpu(n, holder(name, 1.0), uuid="", shared=False) for n, name in ((0, "a"), (0, "b")))
    found = packing([(first.holders[0], first), (second.holders[0], second)], {})
    assert found.touched == 2


def test_empty_packing_is_zero() -> None:
    assert (Packing((), 0.0).touched, Packing((), 0.0).fragmentation, Packing((), 0.0).least) == (0, 0.0, 0)


def test_devices_count_pods_of_the_run_only() -> None:
    own, foreign = holder("a", 0.5), holder("a", 0.5, namespace="elsewhere")
    shared, other = gpu(0, own), gpu(1, foreign)
    unplaced = holder("b", 1.0)
    record, where = recording(*life("a"), *life("b")), gpus(shared, other, unplaced=(unplaced,))
    run = measure(RUN, record, [planned("a"), planned("b")], where, {}, {})
    assert {pod.lane: pod.devices for pod in run.pods} == {"a": (shared.title,), "b": ()}
    assert (run.packing.touched, run.packing.unplaced) == (1, 1)


def test_only_pending_pods_have_a_reason() -> None:
    record = recording(*life("a"), *life("b", scheduled=None, running=None))
    run = measure(RUN, record, [], gpus(), {"a": ("no",), "b": ("the queue is closed",)}, {}, ["a note"])
    assert {pod.lane: pod.why for pod in run.pods} == {"a": (), "b": ("the queue is closed",)}
    assert [pod.lane for pod in run.pending] == ["b"]
    assert run.notes == ("a note",)


def test_order_of_starts_skips_pods_that_never_ran() -> None:
    record = recording(*life("late", running=5.0), *life("early", running=2.0), *life("never", running=None))
    assert measure(RUN, record, [], gpus(), {}, {}).starts == ("early", "late")


def test_gpu_memory_is_a_share_of_the_nodes_gpu() -> None:
    record = recording(*life("m", memory=3840))
    assert pods_of(record, "m", memory={"worker": 15360})["m"].gpus == 0.25
    assert pods_of(record, "m")["m"].gpus == 0.0


def test_requests_are_gpu_shares() -> None:
    record = recording(*life("f", fraction=0.5), *life("w", gpus=2), *life("n"))
    assert {lane: (pod.gpus, pod.asked) for lane, pod in pods_of(record).items()} == {
        "f": (0.5, "0.5"),
        "w": (2, "2 GPUs"),
        "n": (0.0, "no GPU"),
    }


def test_gpu_groups_are_read_from_both_sides() -> None:
    record = recording(seen("a", 1.0), seen("a", 1.1, side=HOST, labels={"runai-gpu-group": "g1"}))
    assert reservations_of(record) == {"g1"}
    assert isinstance(record.pods[0].pod.view, PodView)

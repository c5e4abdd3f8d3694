from __future__ import annotations

from typing import Any

import pytest

from lab.serialization import to_json
from lab.steps.kai.upgrade.workload_snapshot import compare
from tests.support.workload_snapshots import BEFORE, HALF, pod, queue, reservation, seen

Json = dict[str, Any]


def test_snapshot_has_running_pods_and_reservations() -> None:
    waiting, ended = pod("waiting", node=""), pod("done", phase="Succeeded")
    own, plugin = pod("binder", space="kai-scheduler"), pod("device-plugin", space="kube-system")
    plugin["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": "device-plugin", "controller": True}]
    found = seen(HALF, waiting, ended, own, plugin, reservation("g1"))
    (half,) = found.pods
    assert (half.title, half.gpu_groups, half.gpu_uuids, half.pod_group) == (
        "team/half",
        ("g1",),
        ("GPU-1",),
        "team/pg-half",
    )
    assert found.succeeded == {"u-done"}
    assert [pod.uid for pod in found.reservations] == ["u-res"]


def test_equal_snapshots_have_no_differences() -> None:
    found = compare(BEFORE, BEFORE)
    assert (found.ok, found.kept, found.notes) == (True, 2, ())


@pytest.mark.parametrize(
    ("now", "field", "line"),
    [
        ((pod("whole"), reservation("g1")), "lost", "pod team/half: gone (UID u-half)"),
        (
            (pod("half", uid="u-new", group="g1"), pod("whole"), reservation("g1")),
            "lost",
            "pod team/half: recreated (UID u-half → u-new)",
        ),
        ((HALF, pod("whole", uid="x", node="worker3"), reservation("g1")), "moved", "node worker2 → worker3"),
        ((HALF, pod("whole", restarts=2), reservation("g1")), "restarted", "pod team/whole: 2 restarts"),
        (
            (pod("half", group="g2", pod_group="pg-half"), pod("whole"), reservation("g1"), reservation("g2")),
            "regrouped",
            "pod team/half: GPU group g1 → g2",
        ),
        ((HALF, pod("whole"), reservation("g1", "GPU-2")), "regrouped", "pod team/half: GPU GPU-1 → GPU-2"),
        ((HALF, pod("whole")), "reservations", "gone while the group has pods"),
        ((HALF, pod("whole"), reservation("g1", uid="u-2")), "reservations", "recreated (UID u-res → u-2)"),
    ],
)
def test_disturbed_pods_are_reported(now: tuple[Json, ...], field: str, line: str) -> None:
    after = seen(*now, groups=("pg-half",), queues=(queue("default"), queue("test", "default")))
    found = compare(BEFORE, after)
    assert not found.ok
    assert any(line in found_line for found_line in getattr(found, field)), found


def test_succeeded_pod_and_its_reservation_are_no_loss() -> None:
    after = seen(pod("half", phase="Succeeded"), pod("whole"), groups=("pg-half",), queues=())
    found = compare(BEFORE, after)
    assert (found.lost, found.reservations) == ((), ())


def test_pod_groups_may_be_replaced_but_not_lost() -> None:
    lost = compare(BEFORE, seen(HALF, pod("whole"), reservation("g1")))
    assert lost.pod_groups == ("PodGroup team/pg-half: gone, and pod team/half has no other",)
    other = pod("half", group="g1", pod_group="pg-other")
    moved = compare(BEFORE, seen(other, pod("whole"), reservation("g1"), groups=("pg-other",)))
    assert moved.pod_groups == ()
    assert moved.notes == ("pod team/half: PodGroup team/pg-half → team/pg-other",)


def test_changed_and_missing_queues_are_reported() -> None:
    now = (queue("default", quota=2.0), queue("default-queue"))
    found = compare(BEFORE, seen(HALF, pod("whole"), reservation("g1"), groups=("pg-half",), queues=now))
    changed, gone = found.queues
    assert changed.startswith("queue default: gpu ")
    assert gone == "queue test: gone"
    assert found.notes == ("queue default-queue: new",)
    assert not found.ok


def test_serialization_to_json() -> None:
    import json

    assert json.loads(json.dumps(to_json(compare(BEFORE, BEFORE))))["ok"] is True
    assert json.loads(json.dumps(to_json(BEFORE)))["queues"]["test"]["parent"] == "default"


def test_temporary_queues_come_and_go() -> None:
    temporary = queue("t-rehearsal-1a2b3c")
    temporary["metadata"]["labels"] = {"kailab.dev/test": "1a2b3c"}
    found = compare(seen(queues=(queue("default"), temporary)), seen(queues=(queue("default"),)))
    assert (found.harm, found.notes) == ((), ())

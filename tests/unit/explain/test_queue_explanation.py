"""Explanations of queues: the division, loans among siblings, KAI's own figures, and a status that is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from lab.explain import NoSuchPod
from lab.explain.queue_explanation import QueueExplanation, QueueTree, explain_queues
from lab.report.queue_page import queue_page
from tests.support.explain_world import GPU, Scene, group, pod, queue


def tree(scene: Scene, *metrics: str, name: str = "") -> QueueTree:
    world = scene.world
    object.__setattr__(world, "metrics", metrics)
    return explain_queues(world, name)


def one(found: QueueTree, name: str) -> QueueExplanation:
    return next(queue for queue in found.queues if queue.name == name)


def share(quota: float, limit: float = -1, weight: float = 1) -> dict[str, float]:
    return {"quota": quota, "limit": limit, "overQuotaWeight": weight}


@pytest.fixture
def scene() -> Scene:
    """Four GPUs: busy has a quota of 1 and uses 3, idle has a quota of 2 and uses 1."""
    made = Scene().remove("Queue", "test")
    made.add(queue("busy", "default", gpu=share(1)), queue("idle", "default", gpu=share(2)))
    for number in range(3):
        made.add(pod(f"busy-{number}", group="pg-busy", gpus=1, node=f"worker-{1 + number // 2}", ready=True))
    made.add(pod("more", group="pg-busy", gpus=2), pod("idle-0", group="pg-idle", gpus=1, node="worker-2", ready=True))
    return made.add(group("pg-busy", queue="busy"), group("pg-idle", queue="idle"))


def status(scene: Scene, **gpus: float) -> None:
    """Set Queue.status to these GPUs, and that of the other resources to what the pods have."""
    pods = {"default": (4, 5), "busy": (3, 4), "idle": (1, 1)}
    for made in scene.objects["Queue"]:
        name = made["metadata"]["name"]
        held, asked = pods[name]
        row = {"cpu": f"{100 * held}m", "memory": f"{128 * held}Mi", GPU: str(gpus.get(name, held))}
        wanted = {"cpu": f"{100 * asked}m", "memory": f"{128 * asked}Mi", GPU: str(asked + (name != "idle"))}
        made["status"] = {"allocated": row, "requested": wanted}


def test_the_tree_with_loans(scene: Scene) -> None:
    status(scene)
    found = tree(scene)
    assert [(queue.depth, queue.name) for queue in found.queues] == [(0, "default"), (1, "busy"), (1, "idle")]
    busy, idle = one(found, "busy"), one(found, "idle")
    assert (busy.resources["gpu"].fair, busy.resources["gpu"].deserved, busy.resources["gpu"].allocated) == (3, 1, 3)
    assert busy.resources["gpu"].requested == 5
    assert busy.borrows_from == {"idle": 1, "unreserved": 1}
    assert idle.borrowed_by == {"busy": 2}
    assert busy.why == (
        "deserves 1 GPU: quota 1, requests 5",
        "gets 2 over quota: weight 1 of 1 among queues of priority 100 that want more than their quota",
        "wants 2 more than its fair share of 3",
    )
    assert idle.why[-1] == "requests no more than its quota, so its fair share is its request"
    assert not any(queue.findings for queue in found.queues)


@pytest.mark.parametrize(("kai", "rules"), [(3, []), (2, ["queue.fair-share-differs"])])
def test_kai_s_own_figures(scene: Scene, kai: float, rules: list[str]) -> None:
    status(scene)
    labels = 'queue_display_name="Busy",queue_metadata_name="busy",queue_name="Busy"'
    busy = one(tree(scene, f"kai_queue_fair_share_gpu{{{labels}}} {kai}"), "busy")
    assert busy.resources["gpu"].kai_fair == kai
    assert [finding.rule for finding in busy.findings] == rules


def test_older_schedulers_name_the_queue_in_one_label(scene: Scene) -> None:
    found = tree(
        scene, 'kai_queue_fair_share_cpu_cores{queue_name="busy"} 0.5', 'kai_queue_gpu_usage{queue_name="busy"} 0.25'
    )
    busy = one(found, "busy").resources
    assert (busy["cpu"].kai_fair, busy["gpu"].past_use, busy["memory"].past_use) == (500, 0.25, None)
    assert "past use of 25.0% of the cluster lowers its weight" in one(found, "busy").why


def test_a_status_that_differs_from_the_pods(scene: Scene) -> None:
    status(scene, busy=4)
    scene.objects["PodGroup"][0]["status"]["resourcesStatus"] = {"allocated": {GPU: "4"}}
    (finding,) = one(tree(scene), "busy").findings
    assert finding.what == "status.allocated of queue busy has 4 GPUs, and its pods have 3"
    assert "podgroup-controller" in finding.next
    scene.objects["PodGroup"][0]["status"]["resourcesStatus"] = {"allocated": {GPU: "3"}}
    (finding,) = one(tree(scene), "busy").findings
    assert "queue-controller" in finding.next


def test_one_queue_and_an_unknown_one(scene: Scene) -> None:
    found = tree(scene, name="idle")
    assert [queue.name for queue in found.explained] == ["idle"]
    with pytest.raises(NoSuchPod, match="queue idel does not exist"):
        tree(scene, name="idel")


def test_a_queue_that_kai_ignores(scene: Scene) -> None:
    assert tree(scene.add(queue("lost", "nowhere"))).dropped == ("lost",)


def test_the_page_has_a_bar_for_each_queue(scene: Scene) -> None:
    text = queue_page(tree(scene), "<lab>")
    assert "Queues of &lt;lab&gt;" in text
    assert text.count('<i class="bar allocated"') == 3
    assert "borrows from: idle (1), unreserved (1)" in text
    assert "https://" not in text


def test_a_limit_caps_the_share() -> None:
    made: Any = Scene().add(queue("test", "default", gpu=share(0, limit=1)))
    made.add(pod("p", gpus=2), group("pg-p"))
    found = one(tree(made), "test")
    assert "its limit of 1 caps its fair share" in found.why
    assert found.resources["gpu"].fair == 1


def test_a_status_may_count_pods_that_are_being_deleted(scene: Scene) -> None:
    status(scene)
    leaving = pod(
        "busy-1", group="pg-busy", gpus=1, node="worker-1", meta={"deletionTimestamp": "2026-11-21T12:00:00Z"}
    )
    busy = one(tree(scene.add(leaving)), "busy")
    assert (busy.resources["gpu"].allocated, busy.resources["gpu"].releasing, busy.findings) == (2, 1, ())

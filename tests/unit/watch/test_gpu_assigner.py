"""Simulated GPUs for reservation pods: each GPU of a node once, and only on the nodes that are named."""

from __future__ import annotations

from typing import Any

from lab.kai.names import RESERVATION_APP, RESERVED_GPU_ANNOTATION
from lab.watch.gpu_assigner import assign, assignments, node_argument
from tests.support.builders import pod
from tests.support.fake_api_server import FakeApiServer

GPUS = {"a": ("GPU-1", "GPU-2"), "b": ("GPU-3",)}


def reservation(name: str, node: str, gpu: str = "", phase: str = "Pending") -> dict[str, Any]:
    notes = {RESERVED_GPU_ANNOTATION: gpu} if gpu else {}
    return pod(name, RESERVATION_APP, node=node, phase=phase, annotations=notes)


def test_each_gpu_is_assigned_once() -> None:
    pods = [reservation("one", "a"), reservation("two", "a"), reservation("three", "b"), reservation("four", "a")]
    assert assignments(pods, GPUS) == {"one": "GPU-1", "two": "GPU-2", "three": "GPU-3"}


def test_gpus_of_other_pods_are_taken_until_they_end() -> None:
    pods = [reservation("one", "a", "GPU-1"), reservation("two", "a")]
    assert assignments(pods, GPUS) == {"two": "GPU-2"}
    pods[0] = reservation("one", "a", "GPU-1", phase="Failed")
    assert assignments(pods, GPUS) == {"two": "GPU-1"}


def test_pods_elsewhere_are_not_ours() -> None:
    assert assignments([reservation("one", "theirs"), reservation("two", "")], GPUS) == {}


def test_pods_are_annotated_and_vanished_ones_do_no_harm() -> None:
    server, lines = FakeApiServer(), []
    server.add(*(reservation(name, "a") for name in ("gone", "one")))
    server.fail("patch", "Pod", (404, "not found"), name="gone")
    assign(server.cluster, GPUS, lambda event, **more: lines.append((event, more)), seconds=1)
    assert (server.get("Pod", "one", RESERVATION_APP) or {})["metadata"]["annotations"] == {
        RESERVED_GPU_ANNOTATION: "GPU-2"
    }
    assert lines == [("assigned", {"pod": "one", "gpu": "GPU-2"})]


def test_without_pods_nothing_is_written() -> None:
    server = FakeApiServer()
    assign(server.cluster, GPUS, lambda *_, **__: None, seconds=0.2)
    assert server.log == []


def test_argument_of_a_node() -> None:
    assert node_argument("a", GPUS["a"]) == "--node=a=GPU-1,GPU-2"

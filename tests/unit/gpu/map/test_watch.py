"""Reading the GPU map from a scripted API server, once and by watches."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

import pytest

from lab.errors import ApiFailed
from lab.gpu.map.node_query import NodeEvidence
from lab.gpu.map.watch import GpuFollow, GpuSource
from lab.kube import Cluster
from tests.support.gpu_map_world import Machine, next_of, pod
from tests.support.kube_fake import CUT, REFUSED, FakeApi, Json, Stream, listing, status

PODS, NODES = "/api/v1/pods", "/api/v1/nodes"


class Nodes:
    """A node query that records its calls."""

    def __init__(self) -> None:
        self.machine = Machine("worker", 1)
        self.queried: list[Sequence[str]] = []

    def __call__(self, names: Sequence[str]) -> Mapping[str, NodeEvidence]:
        self.queried.append(names)
        return {"worker": self.machine.evidence()}


def versioned(obj: Json, version: str) -> Json:
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": version}}


def test_read_queries_only_gpu_nodes(api: FakeApi, cluster: Cluster) -> None:
    nodes = Nodes()
    api.on("GET", NODES, listing(nodes.machine.node(), {"metadata": {"name": "plain"}}))
    api.on("GET", PODS, listing(pod("one", gpus=1, node="worker")))
    nodes.machine.held = {"/default/one": [0]}
    found = GpuSource(cluster, nodes).read()
    assert nodes.queried == [["worker"]]
    assert [holder.title for holder in found.gpus[0].holders] == ["default/one"]
    assert found.others == 1


def test_unauthorized_read_is_an_error(api: FakeApi, cluster: Cluster) -> None:
    api.on("GET", NODES, status(401, "Unauthorized"))
    api.on("GET", PODS, status(401, "Unauthorized"))
    with pytest.raises(ApiFailed):
        GpuSource(cluster).read()


def test_forbidden_node_list_is_an_error(api: FakeApi, cluster: Cluster) -> None:
    api.on("GET", NODES, status(403, "nodes is forbidden"))
    api.on("GET", PODS, listing())
    with pytest.raises(ApiFailed, match="needs Node objects") as error:
        GpuSource(cluster).read()
    assert "may list the nodes" in error.value.fix


def test_follow_gives_each_change_and_queries_nodes_only_if_needed(api: FakeApi, cluster: Cluster) -> None:
    nodes, go, on = Nodes(), threading.Event(), threading.Event()
    api.on("GET", NODES, listing(nodes.machine.node()))
    api.on("GET", NODES, Stream())
    api.on("GET", PODS, listing())
    waits = versioned(pod("one", gpus=1, phase="Pending"), "11")
    plain = versioned(pod("plain", node="worker"), "12")
    runs = versioned(pod("one", gpus=1, node="worker"), "13")
    api.on("GET", PODS, Stream(go, ("ADDED", waits), on, ("ADDED", plain), ("MODIFIED", runs)))
    with GpuFollow(GpuSource(cluster, nodes)) as maps:
        first = next_of(maps)
        assert (len(first.gpus), first.waiting) == (1, ())
        assert maps.next(0.1) is None
        go.set()
        assert [found.title for found in next_of(maps).waiting] == ["default/one"]
        nodes.machine.held = {"/default/one": [0]}
        on.set()
        last = next_of(maps)
        assert [holder.title for holder in last.gpus[0].holders] == ["default/one"]
        assert last.waiting == ()
    assert len(nodes.queried) == 3


def test_follow_survives_a_cut_connection(api: FakeApi, cluster: Cluster) -> None:
    nodes = Nodes()
    api.on("GET", NODES, listing(nodes.machine.node()))
    api.on("GET", NODES, Stream())
    go = threading.Event()
    api.on("GET", PODS, listing(), listing(versioned(pod("late", gpus=1, phase="Pending"), "20"), version="20"))
    api.on("GET", PODS, Stream(go, CUT), Stream())
    with GpuFollow(GpuSource(cluster, nodes)) as maps:
        assert next_of(maps).waiting == ()
        go.set()
        assert [found.title for found in next_of(maps).waiting] == ["default/late"]
        assert maps.trouble == ""


def test_follow_reports_an_unreachable_server(api: FakeApi, cluster: Cluster) -> None:
    api.on("GET", NODES, listing())
    api.on("GET", NODES, Stream())
    api.on("GET", PODS, listing())
    api.on("GET", PODS, Stream(CUT))
    api.on("GET", PODS, REFUSED, always=True)
    with GpuFollow(GpuSource(cluster)) as maps:
        assert next_of(maps).gpus == ()
        for _ in range(100):
            if "does not answer" in maps.trouble:
                break
            assert maps.next(0.1) is None
        assert "does not answer" in maps.trouble

"""Compare one workload in two tenants: both settle, the figures are consistent, nothing is left.

Each test checks for leftovers of a comparison, so the tests must not overlap: they all use all GPUs.
"""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from lab.compare import Comparison, compare
from lab.errors import ManifestsRefused
from lab.lint import parse, read
from lab.objects.isolation_labels import NODE_LABEL
from lab.objects.views import NodeView
from lab.paths import assets
from lab.pytest_plugin.fixtures import matching
from lab.session.lab import Lab
from lab.workloads.modifiers import on_node
from lab.workloads.pods import cpu_pod, fraction_pod, gpu_pod

from .checks import on_gpus, on_one_node

WAIT = 180.0
SHARING = ("host-kai", "default")
"""Modes of tenants without dedicated nodes."""


def together(lab: Lab, *docs: dict[str, Any]) -> Comparison:
    """A workload in the first two tenants that share the host's nodes."""
    a, b = matching(lab.tenants, SHARING)[:2]
    return compare(lab, a.name, b.name, parse(yaml.safe_dump_all(docs), "workload"), timeout=WAIT)


def nothing_left(lab: Lab) -> None:
    """Assert that no tenant has a namespace of a comparison, except one in Terminating, and the host no pod of one."""
    for tenant in lab.tenants[:2]:
        spaces = [
            space["metadata"]["name"]
            for space in lab.tenant(tenant.name).list("Namespace")
            if space["metadata"]["name"].startswith("t-compare-") and "deletionTimestamp" not in space["metadata"]
        ]
        assert spaces == []
    labels = (pod["metadata"].get("labels") or {} for pod in lab.cluster.list("Pod"))
    assert not [one for one in labels if one.get("vcluster.loft.sh/namespace", "").startswith("t-compare-")]


@pytest.mark.tenants(*SHARING, min=2)
@on_one_node()
def test_whole_gpus_in_two_tenants(lab: Lab, leased_node: NodeView) -> None:
    found = together(lab, on_node(gpu_pod("whole", queue=None), leased_node.name), cpu_pod("plain", queue=None))
    assert len(found.runs) == 2
    for run in found.runs:
        assert run.settled, run.notes
        assert {pod.lane: pod.state for pod in run.pods} == {"whole": "running", "plain": "running"}
        assert run.evictions == run.pending == ()
        (device,) = run.packing.devices
        assert (device.fill, device.pods) == (1.0, ("whole",))
        assert (run.packing.touched, run.packing.least, run.packing.fragmentation) == (1, 1, 0.0)
        for pod in run.pods:
            assert pod.scheduled is not None
            assert pod.running is not None
            assert pod.created <= pod.scheduled <= pod.running
    nothing_left(lab)


@pytest.mark.without_kai
@pytest.mark.tenants("default")
@on_gpus()
def test_fractions_are_refused_where_the_default_scheduler_places_pods(lab: Lab) -> None:
    default = next(one for one in lab.tenants if one.mode == "default")
    other = next((one for one in lab.tenants if one.name != default.name), default)
    workload = parse(yaml.safe_dump(fraction_pod("half", fraction=0.5, queue=None)), "workload")
    with pytest.raises(ManifestsRefused, match="cannot run this workload"):
        compare(lab, other.name, default.name, workload, timeout=WAIT)
    nothing_left(lab)


@pytest.mark.tenants("own-kai", min=2)
@on_gpus(4)
def test_two_versions_of_kai_pack_the_same_workload(lab: Lab) -> None:
    a, b = [tenant.name for tenant in lab.tenants if tenant.mode == "own-kai"][:2]
    nodes = [NodeView.of(obj) for obj in lab.cluster.list("Node")]
    for name in (a, b):
        if sum(node.gpus for node in nodes if node.labels.get(NODE_LABEL) == name) != 2:
            pytest.skip(f"the arithmetic of the workload needs 2 dedicated GPUs for {name}")
    workload = read(assets("manifests") / "compare" / "mixed.yaml")
    found = compare(lab, a, b, workload, timeout=WAIT)
    for run in found.runs:
        assert run.settled, run.notes
        lanes = {pod.lane: pod for pod in run.pods}
        halves = ("half", "quarter", "eighth-a", "eighth-b")
        assert len({lanes[lane].devices for lane in halves}) == 1, "four fractions that fit one GPU are on one"
        assert lanes["urgent"].state == "running"
        assert [(pod.lane, pod.evicted) for pod in run.evictions] == [("low", "preempt")]
        assert (run.packing.touched, run.packing.stranded) == (2, 0.0)
        assert lanes["gang 1"].running is not None
    nothing_left(lab)

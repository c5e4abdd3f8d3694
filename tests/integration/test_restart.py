"""A lab that was stopped is found, started and healed: device nodes, routes, and pods that lost their GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.kube import Cluster
from lab.kube.views import PodView
from lab.parts.workloads import fraction_pod
from lab.tools.shell import HostRunner
from tests.integration.conftest import Cli, containers_of

NAME = "it-restart"
RESERVATIONS = "kai-resource-reservation"


@pytest.mark.timeout(1200)
def test_stopped_lab_comes_back_with_its_gpus(cli: Cli, engine: HostRunner) -> None:
    cli.labs.append(NAME)
    up = cli("up", "--profile", "minimal", "--name", NAME, "--yes", "--json").json()
    if up["facts"]["scheduler"] != "kai":
        pytest.skip(f"needs KAI: {up['facts']['no_kai']}")
    cluster = Cluster(Path(up["kubeconfig"]))
    cluster.apply([fraction_pod("sharing", namespace="default", fraction=0.5, queue="test")])
    cluster.wait_ready("Pod", {"sharing"}, "default", timeout=120)
    assert len(cluster.list("Pod", RESERVATIONS)) == 1

    nodes = containers_of(engine, NAME)
    engine.run(["docker", "stop", "-t", "5", *nodes])
    status = cli("status", "--json", code=5).json()
    assert any("stopped" in step["detail"] for step in status["steps"])
    again = cli("up", "--profile", "minimal", "--name", NAME, "--yes", "--ui", "json")
    assert any("stopped" in event.get("text", "") for event in again.events()), again.err[-2000:]

    # the pod that held a GPU is gone with its reservation, and the GPU can be had again
    cluster.delete("Pod", "sharing", "default", grace=1, wait=60)
    failed = [pod for pod in map(PodView.of, cluster.list("Pod")) if pod.phase == "Failed"]
    assert failed == []
    cluster.apply([fraction_pod("after", namespace="default", fraction=0.5, queue="test")])
    cluster.wait_ready("Pod", {"after"}, "default", timeout=120)
    assert cli("status", "--json").json()["ok"]
    cluster.close()

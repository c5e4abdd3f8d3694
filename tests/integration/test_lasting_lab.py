"""A lab with KAI over its lifetime: its nodes restart, and KAI is uninstalled and installed again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab.config import LabSpec
from lab.kai import line_of
from lab.kube import Cluster
from lab.objects.views import PodView
from lab.session.lab import Lab
from lab.steps import helm_release
from lab.steps.kai.step import NAMESPACE, RELEASE, RESERVATIONS
from lab.tools.process import HostRunner
from lab.workloads.pods import cpu_pod, fraction_pod
from tests.integration.conftest import Cli, containers_of, lacking

NAME = "it-lasting"
SPACE = "default"
LINE = line_of(LabSpec().kai.version)
HOOK_IMAGE = f"{LINE.registry}/{LINE.hook_images[0]}:{LINE.tag}"
"""Of the chart's Job post-delete; the lab's own installs and removals need no Job."""

PAUSE = 60
"""Seconds: more than the lease of a node lasts."""

UP = ("up", "--profile", "minimal", "--name", NAME, "--set", f"images.0={HOOK_IMAGE}", "--yes")


@pytest.fixture(scope="module")
def lasting(engine: HostRunner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    """The command, and one lab with KAI for all tests of this file, each of which leaves it intact."""
    command = Cli(tmp_path_factory.mktemp("lasting"))
    try:
        up = command(*UP, "--json").json()
        if up["facts"]["scheduler"] != "kai":
            lacking("kai", f"needs KAI: {up['facts']['no_kai']}")
        yield command
    finally:
        command("down", "--name", NAME, code=None)
    assert command.kubeconfig.read_bytes() == command.before


@pytest.mark.timeout(1200)
def test_stopped_lab_comes_back_with_its_gpus(lasting: Cli, engine: HostRunner) -> None:
    cluster = Cluster(Path(lasting("kubeconfig").out.strip()))
    cluster.apply([fraction_pod("sharing", namespace=SPACE, fraction=0.5, queue="test")])
    cluster.wait_ready("Pod", {"sharing"}, SPACE, timeout=120)
    assert len(cluster.list("Pod", RESERVATIONS)) == 1

    nodes = containers_of(engine, NAME)
    engine.run(["docker", "stop", "-t", "5", *nodes])
    status = lasting("status", "--json", code=5).json()
    assert any("stopped" in step["detail"] for step in status["steps"])
    again = lasting(*UP, "--ui", "json")
    assert any("stopped" in event.get("text", "") for event in again.events()), again.err[-2000:]

    # the pod that held a GPU is gone with its reservation, and the GPU is available again
    cluster.delete("Pod", "sharing", SPACE, grace=1, wait=60)
    cluster.wait(
        "Pod",
        lambda pods: not any(PodView.of(one).phase == "Failed" for one in pods),
        timeout=120,
        what="no pod has failed",
    )
    cluster.apply([fraction_pod("after", namespace=SPACE, fraction=0.5, queue="test")])
    cluster.wait_ready("Pod", {"after"}, SPACE, timeout=120)
    # KAI's components that the pod did not need may still be restarting
    assert cluster.poll(lambda: lasting("status", "--json", code=None).json()["ok"], timeout=180, interval=2)
    cluster.delete("Pod", "after", SPACE, grace=1, wait=60)
    cluster.close()


@pytest.mark.timeout(900)
def test_paused_lab_goes_on_as_if_no_time_had_passed(lasting: Cli, engine: HostRunner) -> None:
    """Paused for longer than the leases of nodes last (40 s): no node is taken for dead, no container restarts."""
    cluster = Cluster(Path(lasting("kubeconfig").out.strip()))
    cluster.apply([fraction_pod("over-a-pause", namespace=SPACE, fraction=0.5, queue="test")], retry=60)
    cluster.wait_ready("Pod", {"over-a-pause"}, SPACE, timeout=120)
    before = restarts(cluster)

    assert lasting("pause", "--json").json()["nodes"] == len(containers_of(engine, NAME))
    assert "is paused" in lasting("gpus", code=5).err
    used = processor_seconds(engine)
    engine.run(["sleep", str(PAUSE)])
    assert processor_seconds(engine) == used, "no process of a node runs"
    assert lasting("resume", "--json").json()["nodes"]

    # KAI's webhook answers at once, and KAI places a pod on the other half of the GPU
    cluster.apply([fraction_pod("after-the-pause", namespace=SPACE, fraction=0.5, queue="test")])
    cluster.wait_ready("Pod", {"over-a-pause", "after-the-pause"}, SPACE, timeout=60)
    assert lasting("status", "--json").json()["ok"]
    assert restarts(cluster) == before
    assert lasting("resume", "--json").json()["nodes"] == 0

    lasting("pause")
    again = lasting(*UP, "--ui", "json")
    assert any("paused" in event.get("text", "") for event in again.events()), again.err[-2000:]
    for name in ("over-a-pause", "after-the-pause"):
        cluster.delete("Pod", name, SPACE, grace=1, wait=60)
    cluster.close()


def restarts(cluster: Cluster) -> dict[str, int]:
    """Restarts of the containers of each pod, except kube-controller-manager, which does not run during a pause."""
    return {
        pod["metadata"]["name"]: sum(one["restartCount"] for one in pod["status"].get("containerStatuses", ()))
        for pod in cluster.list("Pod")
        if pod["metadata"]["labels"].get("component") != "kube-controller-manager"
        and pod["metadata"]["name"] != "after-the-pause"
    }


def processor_seconds(engine: HostRunner) -> list[str]:
    """Processor time of each node so far, from its cgroup (version 1 or 2)."""
    nodes = engine.run(["docker", "inspect", "--format", "{{.Id}}", *containers_of(engine, NAME)]).out.split()
    root = Path("/sys/fs/cgroup")
    found = [
        (*root.glob(f"cpuacct/**/{node}/cpuacct.usage"), *root.glob(f"**/docker-{node}.scope/cpu.stat"))
        for node in nodes
    ]
    return [file.read_text() for (file,) in found]


@pytest.mark.timeout(1800)
def test_uninstall_leaves_nothing_in_the_way(lasting: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """``helm uninstall`` as a user runs it, with the chart's Job post-delete, which deletes what the operator created.

    The CRDs in the chart's crds/ stay, as Helm promises, and so do queues.
    """
    monkeypatch.setenv("KAILAB_STATE", lasting.env["KAILAB_STATE"])
    lab = Lab.attach(NAME)
    cluster, line = lab.cluster, line_of(str(lab.kai_version))
    helm_release.helm_for(lab.context("kai")).uninstall(RELEASE, NAMESPACE)

    def gone(kind: str, names: set[str]) -> Callable[[list[dict[str, object]]], bool]:
        return lambda objects: not names & {obj["metadata"]["name"] for obj in objects}  # type: ignore[index]

    deployments = set(line.deployments)
    cluster.wait(
        "Deployment",
        gone("Deployment", deployments),
        namespace=NAMESPACE,
        timeout=180,
        what="KAI's Deployments are gone",
    )
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        cluster.wait(kind, gone(kind, set(line.webhooks)), timeout=180, what=f"no {kind} of KAI is left")
    assert cluster.get("Config.kai.scheduler", "kai-config") is None
    assert cluster.get("Job", "post-delete-cleanup", NAMESPACE) is None, "Helm deletes a Job that has succeeded"
    crds = {obj["metadata"]["name"] for obj in cluster.list("CustomResourceDefinition")}
    assert not line.crds_in_chart or set(line.crds) <= crds
    assert {obj["metadata"]["name"] for obj in cluster.list("Queue")} >= {"default", "test"}
    cluster.apply([cpu_pod("plain", namespace=SPACE, scheduler=None)], retry=60)
    cluster.wait_ready("Pod", "plain", SPACE, timeout=120)

    assert lasting(*UP, "--json").json()["ok"]
    cluster.apply([fraction_pod("again", namespace=SPACE, fraction=0.5, queue="test")], retry=60)
    cluster.wait_ready("Pod", "again", SPACE, timeout=180)
    cluster.close()

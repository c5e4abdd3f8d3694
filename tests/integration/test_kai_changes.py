"""KAI is upgraded to another version line while pods are created and run."""

from __future__ import annotations

import threading

import pytest

from lab.errors import LabError
from lab.kube import Cluster
from lab.objects.views import PodView
from lab.steps.kai.step import NAMESPACE, RESERVATIONS
from lab.workloads.pods import cpu_pod, fraction_pod
from tests.integration.conftest import Cli
from tests.integration.kai_lines import bring_up, two_lines

PAUSE = 1.0
"""Seconds between two pods of the load."""

SPACE = "default"


class Load:
    """Submits pods at intervals until it is stopped; repeats refused requests."""

    def __init__(self, cluster: Cluster) -> None:
        self.pods: list[str] = []
        self.trouble: LabError | None = None
        self._cluster = cluster
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._stop.wait(PAUSE):
                name = f"load-{len(self.pods)}"
                # KAI's webhooks do not answer for a moment when their pod is replaced.
                self._cluster.apply([cpu_pod(name, namespace=SPACE, queue="test")], retry=120)
                self.pods.append(name)
                if len(self.pods) > 5:
                    self._cluster.delete("Pod", self.pods[-5], SPACE, grace=1)
        except LabError as error:
            self.trouble = error


@pytest.mark.long  # and only where two lines of KAI are in bundles
@pytest.mark.timeout(1800)
def test_upgrade_under_load(cli: Cli) -> None:
    """The running pod keeps running, new ones are placed, and GPUs can still be shared."""
    older, newer = two_lines()
    name = "it-upgrade"
    cli.labs.append(name)
    cluster = bring_up(cli, name, older, newer)
    cluster.apply([fraction_pod("steady", namespace=SPACE, fraction=0.5, queue="test")])
    before = PodView.of(cluster.wait_ready("Pod", "steady", SPACE, timeout=180)[0])
    with Load(cluster) as load:
        bring_up(cli, name, newer, older).close()
        came = len(load.pods)
        cluster.wait(
            "Pod", lambda _: len(load.pods) > came + 2, namespace=SPACE, timeout=180, what="pods come after it"
        )
    assert load.trouble is None
    after = PodView.of(cluster.get("Pod", "steady", SPACE) or {})
    assert (after.uid, after.ready) == (before.uid, True)
    last = load.pods[-4:]
    cluster.wait_ready("Pod", last, SPACE, timeout=180, what="the pods of the load that are left are ready")

    images = {
        container["image"].rpartition(":")[2]
        for deployment in cluster.list("Deployment", NAMESPACE)
        for container in deployment["spec"]["template"]["spec"]["containers"]
    }
    assert images == {f"v{newer}"}
    cluster.apply([fraction_pod("joins", namespace=SPACE, fraction=0.5, queue="test")], retry=60)
    joins = PodView.of(cluster.wait_ready("Pod", "joins", SPACE, timeout=180)[0])
    assert joins.gpu_groups == after.gpu_groups
    assert len(cluster.list("Pod", RESERVATIONS)) == 1
    assert cli("status", "--json").json()["ok"]
    cluster.close()

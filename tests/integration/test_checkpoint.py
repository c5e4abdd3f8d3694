"""A lab restored from its checkpoint is the lab that was saved, and is new to whoever uses it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.kube import Cluster
from lab.paths import LabPaths
from lab.tools.process import HostRunner
from tests.integration.conftest import Cli, containers_of
from tests.support.lab_traces import traces_in, traces_on_machine

NAME = "it-checkpoint"
UP = ("up", "--profile", "demo", "--name", NAME, "--yes", "--json")


def look(paths: LabPaths) -> tuple[frozenset[str], frozenset[str], str]:
    """What is in the cluster and on this machine, and the cluster's identity."""
    cluster = Cluster(paths.kubeconfig)
    uid = cluster.get("Namespace", "kube-system")
    cluster.close()
    assert uid is not None
    return traces_in(Cluster(paths.kubeconfig)), traces_on_machine(paths), uid["metadata"]["uid"]


def restarts(paths: LabPaths) -> dict[str, int]:
    """Restarts of the containers of KAI and of the tenants, but for one of their CoreDNS, which is the lab's."""
    pods = Cluster(paths.kubeconfig).list("Pod")
    ours = [pod for pod in pods if pod["metadata"]["namespace"].startswith(("kai-", "vcluster-"))]
    return {
        pod["metadata"]["name"]: count
        for pod in ours
        if (count := sum(one["restartCount"] for one in pod["status"].get("containerStatuses", ())))
        > (pod["metadata"].get("labels", {}).get("k8s-app") == "vcluster-kube-dns")
    }


@pytest.mark.timeout(1500)
def test_lab_is_restored_reset_and_created_again_if_its_checkpoint_is_damaged(
    cli: Cli, engine: HostRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAILAB_STATE", cli.env["KAILAB_STATE"])
    cli.labs.append(NAME)
    paths = LabPaths(NAME)
    cli(*UP)
    first = look(paths)
    assert (paths.checkpoint / "checkpoint.json").exists()
    down = cli("down", "--name", NAME, "--json").json()
    assert (down["left"], [one for one in down["kept"] if "checkpoint" in one]) == (
        [],
        [f"checkpoint {paths.checkpoint}"],
    )

    assert cli(*UP).json()["ok"]
    assert look(paths) == first
    assert restarts(paths) == {}
    assert cli("status", "--name", NAME, "--json").json()["ok"]
    assert cli(*UP).json()["changed"] == 0
    assert cli("verify", "--name", NAME, "--json").json()["ok"]

    # a lab that somebody has wrecked
    cli("tenant", "add", "guest", "--name", NAME, "--mode", "default", "--yes")
    assert paths.tenant_kubeconfig("guest").exists()
    cluster = Cluster(paths.kubeconfig)
    cluster.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "mine"}}])
    cluster.delete("Queue.scheduling.run.ai", "test")
    cluster.delete("Namespace", "vcluster-my-vcluster")
    cluster.close()
    assert cli("reset", "--name", NAME, "--json").json()["ok"]
    assert look(paths) == first
    assert not paths.tenant_kubeconfig("guest").exists()
    assert Cluster(paths.kubeconfig).get("Namespace", "mine") is None
    assert cli("status", "--name", NAME, "--json").json()["ok"]

    cli("down", "--name", NAME)
    (paths.checkpoint / "etcd.tgz").write_bytes(b"damaged")
    events = cli(*UP[:-1], "--ui", "json").events()
    notices = [event["text"] for event in events if "checkpoint could not be restored" in event.get("text", "")]
    assert len(notices) == 1
    assert look(paths)[2] != first[2], "another cluster"
    assert cli("status", "--name", NAME, "--json").json()["ok"]
    facts = json.loads((paths.checkpoint / "checkpoint.json").read_text())
    assert facts["key"], "the new lab was saved"

    kept = cli("down", "--name", NAME, "--images", "--json").json()["kept"]
    assert not [one for one in kept if "checkpoint" in one]
    assert not Path(paths.checkpoint).exists()
    assert containers_of(engine, NAME) == []


@pytest.mark.timeout(600)
def test_lab_of_one_node_is_restored(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """kind treats it differently: pods may run on its control plane."""
    name = "it-checkpoint-one"
    changes = ("--set", "cluster.workers=0", "--set", "cluster.checkpoint=true")
    up = ("up", "--profile", "minimal", "--name", name, *changes, "--yes")
    cli.labs.append(name)
    monkeypatch.setenv("KAILAB_STATE", cli.env["KAILAB_STATE"])
    paths = LabPaths(name)
    cli(*up)
    first = look(paths)
    cli("down", "--name", name)
    cli(*up)
    assert look(paths) == first
    assert cli("status", "--name", name, "--json").json()["ok"]

"""Labs in a cluster of somebody else, who has KAI and workloads in it: nothing of theirs is harmed.

The cluster is plain kind here, so its cgroup version is this machine's: the other version is not tested.
"""

from __future__ import annotations

import shutil
import subprocess  # noqa: TID251 - a test run that is killed
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.errors import ApiFailed, NoLab, NotPermitted, SpecError, StepFailed
from lab.kube import Cluster
from lab.kube.access_review import Permission
from lab.kube.readiness import is_ready
from tests.integration.conftest import ROOT, SIGCONT, SIGKILL, Cli
from tests.integration.guest_lab import GUEST as NAME
from tests.integration.guest_lab import Guest
from tests.integration.strangers_cluster import QUEUES, READER, Stranger, needs_kai, strangers_cluster
from tests.support.cluster_objects import changes, objects_in

KAI = "0.16.8"
QUEUE = "Queue.scheduling.run.ai"
QUEUE_IS_WRITTEN = f"PATCH Queue {NAME}"

CORDONS = """
import os, signal, sys
from pathlib import Path
from lab.kube import Cluster
from lab.workloads.temporary import changed
with changed(Cluster(Path(sys.argv[1])), sys.argv[2], "Node", sys.argv[3], {"spec": {"unschedulable": True}}):
    os.kill(os.getpid(), signal.SIGKILL)
"""
"""A suite that has cordoned a node and is killed: kubeconfig, lab, node."""

Json = dict[str, Any]


@pytest.fixture(scope="module")
def stranger(engine: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stranger]:
    """A cluster with KAI, four made-up GPUs on each of two workers, and workloads."""
    needs_kai(KAI)
    with strangers_cluster("it-theirs", tmp_path_factory.mktemp("theirs")) as found:
        found.install_kai(KAI)
        found.offer_gpus(4)
        found.work(gpus=1)
        yield found


@pytest.fixture
def guest(cli: Cli, stranger: Stranger) -> Iterator[Guest]:
    """A guest; at the end the cluster must be as it was."""
    before = objects_in(stranger.cluster)
    yield Guest(cli, stranger)
    for name in (NAME, "it-other"):
        cli("down", "--name", name, code=None)
    assert changes(before, objects_in(stranger.cluster)) == []


def test_two_labs_come_and_go(guest: Guest) -> None:
    plan = guest.lab("plan", "--json")
    assert plan["existing"]["inventory"]["kai"]["version"] == KAI
    assert plan["existing"]["missing"] == []
    assert f"Queue {NAME}" in plan["existing"]["objects"]
    assert guest.up()["changed"] == 2
    assert guest.up()["changed"] == 0
    assert guest.lab("status", "--json")["ok"]
    top = guest.stranger.cluster.get(QUEUE, NAME)
    assert top is not None
    assert top["spec"]["resources"]["gpu"] == {"quota": 0, "limit": 2, "overQuotaWeight": 1}

    guest.write("it-other")
    guest.up()
    guest.down("it-other")
    guest.write()
    assert guest.lab("status", "--json")["ok"]
    guest.down()


def test_killed_lab_and_lost_state(guest: Guest) -> None:
    guest.killable.kill(QUEUE_IS_WRITTEN, "up", "--yes", "-f", str(guest.file))
    guest.up()
    shutil.rmtree(Path(guest.cli.env["KAILAB_STATE"]) / "labs" / NAME)
    guest.cli("down", *guest.at, "--lab", "it-nobody", code=NoLab.exit_code)
    assert guest.cli("down", *guest.at, "--lab", NAME, "--json").json()["left"] == []


def test_node_that_a_killed_test_cordoned(guest: Guest) -> None:
    guest.up()
    config = Path(guest.cli.env["KAILAB_STATE"]) / "labs" / NAME / "kubeconfig"
    cluster, name = guest.stranger.cluster, f"{guest.stranger.context.removeprefix('kind-')}-worker"
    argv = [sys.executable, "-c", CORDONS, str(config), NAME, name]
    done = subprocess.run(argv, cwd=ROOT, env=guest.cli.env, check=False)
    assert done.returncode == -SIGKILL
    assert (cluster.get("Node", name) or {})["spec"]["unschedulable"] is True
    guest.down()


def test_names_of_others_are_refused(guest: Guest) -> None:
    guest.write(queues=[{"name": QUEUES[0]}])
    assert "Queue shop was created" in guest.refused(StepFailed.exit_code)
    guest.write(cluster={"provider": "existing", "kubeconfig": str(guest.stranger.kubeconfig), "context": "nope"})
    assert "has no context 'nope'" in guest.refused(SpecError.exit_code)
    guest.write(kai={"manage": "install"})
    assert "kai.manage: adopt" in guest.refused(SpecError.exit_code)


def test_namespace_of_others_is_refused(guest: Guest) -> None:
    cluster, space = guest.stranger.cluster, "vcluster-theirs"
    cluster.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}}])
    try:
        guest.write(tenants=[{"name": "theirs", "mode": "default", "quota": {"gpus": 1}}])
        assert f"Namespace {space} was created" in guest.refused(StepFailed.exit_code)
        guest.down()
        assert cluster.get("Namespace", space) is not None
    finally:
        cluster.delete("Namespace", space, wait=60)


def test_init_writes_a_file_that_comes_up(guest: Guest) -> None:
    guest.file.unlink()
    inventory = guest.cli("init", "--existing", *guest.at, "--name", NAME, "--out", str(guest.file)).out
    assert f"KAI {KAI}" in " ".join(inventory.split())
    found = yaml.safe_load(guest.file.read_text())
    assert (found["kai"]["manage"], found["kai"]["gpuSharing"], found["budget"]) == ("adopt", True, {"gpus": 4})
    guest.up()
    assert guest.lab("status", "--json")["ok"]
    guest.down()


def test_production_needs_to_be_named(guest: Guest) -> None:
    system, mark = guest.stranger.cluster, "kailab.dev/production"
    system.patch("Namespace", "kube-system", {"metadata": {"annotations": {mark: "true"}}})
    try:
        assert "--yes-i-mean" in guest.refused(NotPermitted.exit_code)
        guest.up("--yes-i-mean", guest.stranger.context)
        guest.down()
    finally:
        system.patch("Namespace", "kube-system", {"metadata": {"annotations": {mark: None}}})


def test_expired_credentials(guest: Guest) -> None:
    file = guest.stranger.user(guest.cli.root, token="expired")
    guest.write(cluster={"provider": "existing", "kubeconfig": str(file), "context": guest.stranger.context})
    assert "401" in guest.refused(ApiFailed.exit_code)


def test_each_missing_permission_is_named(guest: Guest) -> None:
    """A user who may only read gets a Role; with it the lab comes up, and without each part of it nothing is made."""
    cluster = guest.stranger.cluster
    file = guest.stranger.user(guest.cli.root)
    guest.write(cluster={"provider": "existing", "kubeconfig": str(file), "context": guest.stranger.context})
    docs = list(READER)
    try:
        cluster.apply(docs)
        assert "lacks" in guest.refused(NotPermitted.exit_code)
        role = guest.cli.root / "role.yaml"
        role.write_text(guest.cli("plan", "--role", "-f", str(guest.file)).out)
        printed = list(yaml.safe_load_all(role.read_text()))
        needed = [doc for doc in printed if not doc["metadata"]["name"].endswith("-suites")]
        assert len(needed) < len(printed)
        docs += needed
        rules = next(doc for doc in needed if doc["kind"] == "ClusterRole")["rules"]
        tried = 0
        for rule in rules:
            for verb in rule["verbs"]:
                without = {**rule, "verbs": [other for other in rule["verbs"] if other != verb]}
                less = [one for one in (without if one is rule else one for one in rules) if one["verbs"]]
                cluster.apply([{**doc, "rules": less} if doc["kind"] == "ClusterRole" else doc for doc in needed])
                before = objects_in(cluster)
                text = guest.refused(NotPermitted.exit_code)
                assert str(Permission(verb, rule["apiGroups"][0], rule["resources"][0])) in text
                assert changes(before, objects_in(cluster)) == []
                tried += 1
        assert tried >= 3
        cluster.apply(needed)
        guest.up()
        guest.down()
    finally:
        for doc in docs:
            cluster.delete(doc["kind"], doc["metadata"]["name"], doc["metadata"].get("namespace"))


def test_api_that_goes_away_and_comes_back(guest: Guest) -> None:
    guest.up()
    with guest.stranger.without_api():
        assert "does not answer" in guest.lab("status", "--json", code=ApiFailed.exit_code)["what"]
        guest.cli("down", "--name", NAME, code=None)
    guest.down()


@pytest.mark.timeout(900)
def test_api_that_goes_away_in_the_middle_of_up(guest: Guest) -> None:
    """The command ends with an error; the same command continues when the API is back."""
    up = guest.killable.stopped(QUEUE_IS_WRITTEN, "up", "--yes", "-f", str(guest.file))
    try:
        with guest.stranger.without_api():
            up.send_signal(SIGCONT)
            _, err = up.communicate(timeout=600)
            assert up.returncode > 0
            assert "does not answer" in err, err[-3000:]
    finally:
        up.kill()  # still stopped if the API could not be paused
    guest.up()
    assert guest.up()["changed"] == 0
    guest.down()


def test_kai_that_its_owner_stops(guest: Guest) -> None:
    cluster: Cluster = guest.stranger.cluster
    guest.up()
    operator, binder = (("Deployment", name, "kai-scheduler") for name in ("kai-operator", "binder"))
    was = objects_in(cluster)
    try:
        for kind, name, space in (operator, binder):  # one after the other: the operator restores the binder
            cluster.patch(kind, name, {"spec": {"replicas": 0}}, space)
            cluster.wait(
                "Pod",
                lambda found: not found,
                namespace=space,
                labels=f"app={name}",
                timeout=60,
                what=f"{name} is stopped",
            )
        status = guest.lab("status", "--json", code=5)
        assert any(step["id"] == "kai" and "binder" in step["detail"] for step in status["steps"])
    finally:
        for kind, name, space in (operator, binder):
            cluster.patch(kind, name, {"spec": {"replicas": 1}}, space)
            cluster.wait_ready(kind, name, space, timeout=120)
    assert guest.lab("status", "--json")["ok"]
    assert changes(was, objects_in(cluster)) == []
    guest.down()


def test_node_that_leaves(guest: Guest) -> None:
    cluster, node = guest.stranger.cluster, f"{guest.stranger.name}-worker2"
    guest.up()
    cluster.patch("Node", node, {"spec": {"unschedulable": True}})
    try:
        nodes = next(step for step in guest.lab("status", "--json")["steps"] if step["id"] == "network")
        assert node in nodes["detail"]
    finally:
        cluster.patch("Node", node, {"spec": {"unschedulable": None}})

    run = guest.stranger.run.run
    run(["docker", "pause", node])
    try:
        cluster.wait("Node", lambda nodes: not all(map(is_ready, nodes)), timeout=120, what=f"{node} is not Ready")
        # 5 if components of KAI were on it
        nodes = next(step for step in guest.lab("status", "--json", code=None)["steps"] if step["id"] == "network")
        assert f"not Ready: {node}" in nodes["detail"]
        guest.down()
    finally:
        run(["docker", "unpause", node])
        cluster.wait_ready("Node", node, timeout=120)


def test_kai_that_its_owner_removes(cli: Cli, stranger: Stranger) -> None:
    """The last test, as the cluster has no KAI after it. The lab says so, and goes without touching what is left."""
    guest = Guest(cli, stranger)
    guest.up()
    stranger.helm("uninstall", "kai-scheduler", "--namespace", "kai-scheduler", "--wait")
    was = objects_in(stranger.cluster)
    status = guest.lab("status", "--json", code=5)
    assert any(step["id"] == "kai" and "it is gone" in step["detail"] for step in status["steps"])
    assert "has no KAI" in guest.refused(SpecError.exit_code)
    guest.down()
    assert all(NAME in line and line.startswith("removed: ") for line in changes(was, objects_in(stranger.cluster)))

"""Labs with real GPUs, by each strategy, on a scratch host: from the lab file to pods, also with KAI, and back.

The scratch host has a driver, NVIDIA's toolkit and Docker, none of them set up or running: ``kailab up --yes`` sets
them up, ``kailab down --host`` reverts that. Nodes are real kind nodes; runtime and device plugin are NVIDIA's.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.config import LabSpec
from lab.errors import LabError
from lab.gpu.pools import node_name
from lab.objects.views import PodView
from lab.operations.planning import items_needed
from lab.paths import assets
from lab.steps.kai.step import RESERVATIONS
from lab.supply import Supply
from lab.tools.container import ContainerEngine
from lab.tools.process import HostRunner
from lab.workloads.pods import cpu_pod, fraction_pod, gpu_pod
from tests.integration.conftest import lacking
from tests.integration.scratch import ScratchHost, scratch_host
from tests.integration.scratch.cli import ScratchCli
from tests.integration.scratch.driver import GKE, GPUS, VERSION
from tests.integration.scratch.host import uuids_of

NAME = "it-gpu"
LAB: dict[str, Any] = {"name": NAME, "cluster": {"workers": 2}, "gpu": {"mode": "nvidia"}, "scheduler": "default"}
CONTROL = node_name(NAME, "control-plane", 0)
WORKERS = [node_name(NAME, "worker", index) for index in range(2)]
STRATEGIES = (
    "volume-mount",
    # their host side is in test_real_gpu_host.py
    pytest.param("cdi", marks=pytest.mark.long),
    pytest.param("explicit-mounts", marks=pytest.mark.long),
)


KAI_LAB = {**LAB, "scheduler": "kai", "queues": [{"name": "default"}, {"name": "test", "parent": "default"}]}


def supplied(engine: HostRunner, lab: dict[str, Any]) -> Supply:
    """Put everything that a lab needs into the cache; this machine fetches or builds missing items."""
    spec = LabSpec.model_validate(lab)
    found = Supply(spec, engine, ContainerEngine(engine))
    for item in items_needed(spec, found):
        found.path(item)
    return found


@pytest.fixture(scope="module")
def supply(engine: HostRunner) -> Supply:
    return supplied(engine, LAB)


@pytest.fixture(scope="module")
def host(supply: Supply) -> Iterator[ScratchHost]:
    # the harder place: nothing finds the driver there by itself
    with scratch_host(supply.binary("container-toolkit"), GKE) as made:
        yield made


@pytest.fixture
def cli(host: ScratchHost, tmp_path: Path) -> Iterator[ScratchCli]:
    # only the items that the fixture put into the cache: the scratch host has no network
    command = ScratchCli(host, host.home / tmp_path.name, {**LAB, "supply": {"sources": ["present"]}})
    yield command
    command("down", "--name", NAME, "--host", "--yes", code=None)
    assert command.kubeconfig.read_bytes() == command.before


def seen_in(host: ScratchHost, node: str) -> set[str]:
    return uuids_of(host.run("docker", "exec", node, "nvidia-smi", "-L").out)


def facts_of(host: ScratchHost, node: str) -> list[str]:
    """Return the node's facts, after its units have run."""
    script = (assets("kind") / "gpu" / "nvidia" / "state.sh").read_text()
    return host.run("docker", "exec", "-i", node, "sh", "-s", stdin=script).out.splitlines()


def test_nothing_changes_without_consent(cli: ScratchCli, host: ScratchHost) -> None:
    before = host.etc()
    refused = cli("up", "-f", str(cli.file), code=4)
    assert "accept-nvidia-visible-devices-as-volume-mounts" in refused.err
    assert "kailab down --host" in refused.err
    plan = cli("plan", "-f", str(cli.file), "--set", "gpu.mode=auto", "--json").json()
    assert plan["facts"]["gpu_mode"] == "nvidia"
    assert any("passed to nodes by volume-mount" in notice for notice in plan["notices"])
    effects = [effect for step in plan["steps"] for effect in step["effects"] if effect["where"] == "host"]
    assert any("default-runtime=nvidia" in effect["what"] and effect["undo"] for effect in effects)
    assert host.etc() == before


def test_the_doctor_names_what_is_wrong(cli: ScratchCli, host: ScratchHost) -> None:
    kernel = "/proc/driver/nvidia/version"
    host.run("sed", "-i", f"s/{VERSION}/998.1/", kernel)
    doctor = cli("doctor", "-f", str(cli.file), "--json", code=None)
    refused = cli("up", "-f", str(cli.file), "--yes", code=4)
    host.run("sed", "-i", f"s/998.1/{VERSION}/", kernel)
    assert "the loaded driver is 998.1" in doctor.out
    assert "reboot" in refused.err
    host.run("mv", "/usr/bin/nvidia-ctk", "/usr/bin/away")
    plan = cli("plan", "-f", str(cli.file), "--set", "gpu.mode=auto", "--json").json()
    host.run("mv", "/usr/bin/away", "/usr/bin/nvidia-ctk")
    notices = [notice for notice in plan["notices"] if "passed to nodes by explicit-mounts" in notice]
    assert "not installed" in notices[0]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_host_nodes_and_pods_have_the_same_gpus(
    cli: ScratchCli, host: ScratchHost, supply: Supply, strategy: str
) -> None:
    before = host.etc()
    args = ("-f", str(cli.file), "--set", f"gpu.strategy={strategy}", "--json")
    first = cli("up", *args, "--yes").json()
    assert first["ok"]
    assert cli("up", *args).json()["changed"] == 0
    assert cli("status", "--json").json()["ok"]

    here = host.uuids()
    assert here == {gpu.uuid for gpu in GPUS}
    nodes = {node: seen_in(host, node) for node in WORKERS}
    assert [len(uuids) for uuids in nodes.values()] == [2, 2]
    assert set.union(*nodes.values()) == here
    # kind's nodes are privileged: the control plane has none only because the lab removed them
    assert not [line for line in facts_of(host, CONTROL) if line.startswith("minor")]
    for node, uuids in nodes.items():
        assert_node(facts_of(host, node), uuids)

    kubectl = [supply.binary("kubectl"), "--kubeconfig", cli("kubeconfig").out.strip()]
    assert seen_by_pods(host, kubectl) == here

    # a restarting node has all device nodes of the machine for a moment, then only its own
    host.run("docker", "restart", "--time", "1", WORKERS[0])
    assert_node(facts_of(host, WORKERS[0]), nodes[WORKERS[0]])
    assert seen_in(host, WORKERS[0]) == nodes[WORKERS[0]]

    down = cli("down", "--host", "--yes", "--json").json()
    assert down["left"] == []
    assert host.run("docker", "version", code=None).code != 0, "the engine that the lab started is stopped"
    assert host.etc() == before


@pytest.mark.long
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("strategy", ["volume-mount", "cdi", "explicit-mounts"])
def test_kai_shares_real_gpus(
    engine: HostRunner, host: ScratchHost, tmp_path: Path, supply: Supply, strategy: str
) -> None:
    """KAI's reservation pods find their GPU by NVML, and the pods that share it get that GPU and no other."""
    try:
        supplied(engine, KAI_LAB)
    except LabError as error:
        lacking("kai", f"needs KAI: {error}")
    cli = ScratchCli(host, host.home / tmp_path.name, {**KAI_LAB, "supply": {"sources": ["present", "bundle"]}})
    try:
        up = cli("up", "-f", str(cli.file), "--set", f"gpu.strategy={strategy}", "--json", "--yes", timeout=1200)
        assert up.json()["facts"]["scheduler"] == "kai"
        kubectl = [supply.binary("kubectl"), "--kubeconfig", cli("kubeconfig").out.strip()]
        assert_shared(host, kubectl)
        assert cli("verify", "--json").json()["ok"]
    finally:
        cli("down", "--name", NAME, "--host", "--yes", code=None)


def assert_shared(host: ScratchHost, kubectl: list[str | Path]) -> None:
    """Run three halves and a pod with a whole GPU: two halves share a GPU, and all see what KAI gave them."""
    halves = [fraction_pod(f"half-{number}", namespace="default", fraction=0.5) for number in range(3)]
    pods = {"apiVersion": "v1", "kind": "List", "items": [*halves, gpu_pod("whole", namespace="default")]}
    host.run(*kubectl, "apply", "-f", "-", stdin=json.dumps(pods))
    host.run(*kubectl, "wait", "--for=condition=Ready", "pod", "--all", "--timeout=240s", timeout=300)

    def views(namespace: str) -> list[PodView]:
        listed = host.run(*kubectl, "get", "pods", "-n", namespace, "-o", "json").out
        return [PodView.of(obj) for obj in json.loads(listed)["items"]]

    reserved = {one.gpu_groups: one for one in views(RESERVATIONS)}
    placed = {pod.name: pod for pod in views("default")}
    groups = Counter(placed[pod["metadata"]["name"]].gpu_groups for pod in halves)
    assert sorted(groups.values()) == [1, 2]
    assert groups.keys() == reserved.keys()
    gpus = {group: one.reserved_gpu for group, one in reserved.items()}
    assert len(set(gpus.values())) == 2
    assert set(gpus.values()) < host.uuids()
    for name, pod in placed.items():
        seen = uuids_of(host.run(*kubectl, "exec", name, "--", "nvidia-smi", "-L").out)
        assert seen <= seen_in(host, pod.node), f"{name} sees a GPU of another node"
        if name == "whole":
            assert len(seen) == 1
            assert not seen & set(gpus.values()), "a GPU that halves share was given whole"
        else:
            assert (pod.node, seen) == (reserved[pod.gpu_groups].node, {gpus[pod.gpu_groups]}), name


def assert_node(printed: list[str], uuids: set[str]) -> None:
    """NVML and the runtime of a node show its own GPUs only, and it cannot create device nodes of others."""
    facts = [line.partition(" ") for line in printed]
    wanted = {(str(gpu.minor), gpu.uuid) for gpu in GPUS if gpu.uuid in uuids}
    assert {rest for head, _, rest in facts if head == "minor"} == {minor for minor, _ in wanted}
    for word in ("gpu", "spec"):
        assert {rest for head, _, rest in facts if head == word} == uuids
    assert ("modify", " ", "0") in facts
    assert ("unit", " ", "enabled active") in facts


def seen_by_pods(host: ScratchHost, kubectl: list[str | Path]) -> set[str]:
    """Run a pod for each GPU and two without; return the UUIDs that they see."""
    asking = [gpu_pod(f"one-{number}", namespace="default", scheduler=None) for number in range(len(GPUS))]
    plain = cpu_pod("none", namespace="default", scheduler=None)
    handled = cpu_pod("none-handled", namespace="default", scheduler=None)
    handled["spec"]["runtimeClassName"] = "nvidia"
    pods = {"apiVersion": "v1", "kind": "List", "items": [*asking, plain, handled]}
    host.run(*kubectl, "apply", "-f", "-", stdin=json.dumps(pods))
    host.run(*kubectl, "wait", "--for=condition=Ready", "pod", "--all", "--timeout=180s", timeout=240)
    seen: set[str] = set()
    for pod in asking:
        name = pod["metadata"]["name"]
        uuids = uuids_of(host.run(*kubectl, "exec", name, "--", "nvidia-smi", "-L").out)
        assert len(uuids) == 1, f"{name} requested one GPU and sees {sorted(uuids)}"
        assert uuids == {visible(host, kubectl, name)}
        assert not seen & uuids, f"{name} sees a GPU that another pod has"
        seen |= uuids
    for pod in (plain, handled):
        name = pod["metadata"]["name"]
        look = host.run(*kubectl, "exec", name, "--", "sh", "-c", "ls /dev; command -v nvidia-smi || true").out
        assert "nvidia" not in look, f"{name} requested no GPU and sees {look}"
    return seen


def visible(host: ScratchHost, kubectl: list[str | Path], pod: str) -> str:
    """The container's variable with the UUID of its GPU."""
    return host.run(*kubectl, "exec", pod, "--", "sh", "-c", 'echo "$NVIDIA_VISIBLE_DEVICES"').out.strip()

"""One lab that is up: mirrors, secrets, what is killed in it, a KAI that somebody else installs, and released GPUs."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess  # noqa: TID251 - what somebody else runs on this machine
import sys
import threading
import time
import tomllib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.errors import LabError, NotProven
from lab.kube import Cluster
from lab.objects.isolation_labels import tenant_namespace
from lab.objects.views import NodeView, PodView
from lab.session.lab import Lab
from lab.supply.bundle import installed
from lab.tools.process import HostRunner
from lab.workloads.pods import gpu_pod
from tests.integration.conftest import Cli, Done, containers_of, lacking
from tests.integration.kai_lines import two_lines
from tests.support.documented_keys import different_keys
from tests.support.killed import Killable
from tests.support.secret_scan import ProcessWatch, files_below, forms, kubeconfigs, leaks, needles

NAME = "it-running"
OWN, ONE, TWO = "own", "one", "two"
KAI = "0.16.8"
SECONDS = 300.0
SERVICES_SECONDS = 75.0
REGISTRY = "ghcr.io/kai-scheduler/kai-scheduler"
MIRRORS = {"Registry-1.example": "localhost:5001", "10.0.0.7:5000": "http://mirror-2.example:8080/a_b/c.d-e/"}
CERTS = "/etc/containerd/certs.d"
PAUSE = "registry.k8s.io/pause:3.10.1"
EVIL = "x; touch /pwned; echo #"
ROOT = Path(__file__).parents[2]

KILLED_TEST = """
import os, signal
import pytest
from lab.workloads.pods import cpu_pod
from lab.workloads.temporary import changed

@pytest.mark.disturbs("a node is cordoned")
def test_disturbing(lab, workloads):
    with changed(lab.cluster, lab.spec.name, "Node", "kailab-{name}-worker", {{"spec": {{"unschedulable": True}}}}):
        workloads.submit(cpu_pod("left", scheduler=None))
        os.kill(os.getpid(), signal.SIGKILL)
"""
WORKERS_TEST = """
import os, signal
import pytest
from lab.workloads.pods import cpu_pod

@pytest.mark.parametrize("number", range(4))
def test_in_a_worker(lab, workloads, number, tmp_path_factory):
    workloads.submit(cpu_pod(f"pod-{number}", scheduler=None))
    workloads.running(f"pod-{number}")
    if number == 1 and "PYTEST_XDIST_WORKER" in os.environ:
        os.kill(os.getpid(), signal.SIGKILL)
"""

Json = dict[str, Any]


@pytest.fixture(scope="module")
def command(engine: HostRunner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    """The command, and one lab for all tests of this file, each of which leaves it intact."""
    charts = {entry.version for bundle in installed() for entry in bundle.entries if entry.kind == "chart"}
    if f"v{KAI}" not in charts:
        lacking("kai", f"needs a bundle of KAI {KAI} in the cache")
    command = Cli(tmp_path_factory.mktemp("running"))
    tenants = [{"name": OWN, "mode": "own-kai", "kaiVersion": KAI, "nodes": 1}]
    spec = {
        "name": NAME,
        # the long tests need one for a second tenant with dedicated nodes
        "cluster": {"workers": 3 if os.environ.get("KAILAB_LONG") else 2},
        "gpu": {"mode": "simulated", "perNode": 4},
        "scheduler": "default",
        "supply": {"mirrors": MIRRORS},
        "images": [f"{REGISTRY}/crd-upgrader:v{KAI}"],
        "tenants": [*tenants, *({"name": name, "mode": "default"} for name in (ONE, TWO))],
    }
    (command.root / "lab.yaml").write_text(yaml.safe_dump(spec))
    try:
        up(command)
        yield command
    finally:
        command("down", "--name", NAME, code=None)
    assert not (command.root / "state" / "labs" / NAME).exists()


def up(command: Cli, code: int | None = 0) -> Done:
    return command("up", "-f", str(command.root / "lab.yaml"), "--yes", "--json", code=code)


@pytest.fixture
def lab(command: Cli, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    """The handle on the lab."""
    monkeypatch.setenv("KAILAB_STATE", command.env["KAILAB_STATE"])
    lab = Lab.attach(NAME)
    yield lab
    lab.session.close()


def run_pytest(command: Cli, text: str, *options: str) -> Done:
    """Run a test module on the lab, as a user of the plugin does."""
    folder = command.root / "suite"
    folder.mkdir(exist_ok=True)
    (folder / "test_it.py").write_text(text)
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, f"--rootdir={folder}"]
    # this test may run in a worker, and the inner run is not one
    env = {key: value for key, value in command.env.items() if not key.startswith("PYTEST_XDIST")}
    done = subprocess.run(
        [*argv, "--lab", NAME, "--lab-artifacts-seconds", "0", *options, folder / "test_it.py"],
        cwd=folder,
        env={**env, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def left_in(cluster: Cluster) -> list[str]:
    """Namespaces of tests and comparisons that are not being deleted."""
    spaces = [space["metadata"] for space in cluster.list("Namespace")]
    return sorted(meta["name"] for meta in spaces if meta["name"].startswith("t-") and "deletionTimestamp" not in meta)


def abandoned(command: Cli) -> list[str]:
    """What the status says that killed processes have left."""
    return [one["what"] for one in command("status", "--name", NAME, "--json", code=None).json()["abandoned"]]


@pytest.mark.timeout(1800)
def test_odd_mirrors_reach_the_nodes_and_shell_text_is_refused(command: Cli, engine: HostRunner) -> None:
    for node in containers_of(engine, NAME):
        found = {
            registry: tomllib.loads(engine.run(["docker", "exec", node, "cat", f"{CERTS}/{registry}/hosts.toml"]).out)
            for registry in MIRRORS
        }
        gateway = engine.run(
            ["docker", "exec", node, "sh", "-c", "ip route | sed -n 's/^default via //p'"]
        ).out.split()[0]
        assert list(found["Registry-1.example"]["host"]) == [f"http://{gateway}:5001"]
        assert found["10.0.0.7:5000"]["server"] == "https://10.0.0.7:5000"
        assert list(found["10.0.0.7:5000"]["host"]) == ["http://mirror-2.example:8080/v2/a_b/c.d-e"]
    spec = yaml.safe_load((command.root / "lab.yaml").read_text())
    for number, mirrors in enumerate(({EVIL: "localhost:5001"}, {"quay.io": f"localhost:5001/{EVIL}"})):
        file = command.root / f"evil-{number}.yaml"
        file.write_text(yaml.safe_dump({**spec, "supply": {"mirrors": mirrors}}))
        for verb in (("up", "--yes"), ("plan",)):
            refused = command(verb[0], "-f", str(file), *verb[1:], code=2)
            assert "supply.mirrors" in refused.err
    for node in containers_of(engine, NAME):
        assert engine.run(["docker", "exec", node, "test", "-e", "/pwned"], check=False).code == 1
        assert engine.run(["docker", "exec", node, "ls", CERTS]).out.split() == sorted(MIRRORS)


def test_documents_have_the_documented_keys(command: Cli, lab: Lab) -> None:
    assert lab.spec.name == NAME
    assert different_keys(lambda words: command(*words, "--json", code=None).json(), NAME) == {}


@pytest.mark.timeout(1800)
def test_killed_disturbing_test_is_undone(command: Cli, lab: Lab) -> None:
    done = run_pytest(command, KILLED_TEST.format(name=NAME))
    assert done.code in (-signal.SIGKILL, 128 + signal.SIGKILL), done.out
    node = f"kailab-{NAME}-worker"
    assert NodeView.of(lab.cluster.get("Node", node) or {}).unschedulable
    named = abandoned(command)
    assert f"Node {node} is changed" in named
    assert any(line.startswith("Namespace t-test-disturbing-") for line in named)
    removed = command("verify", "--name", NAME, "--json").json()["removed"]
    assert sorted(one["what"] for one in removed) == sorted(named)
    assert not NodeView.of(lab.cluster.get("Node", node) or {}).unschedulable
    assert (abandoned(command), left_in(lab.cluster)) == ([], [])


@pytest.mark.timeout(1800)
def test_killed_worker_of_a_test_run_is_cleaned_up_after(command: Cli, lab: Lab) -> None:
    pytest.importorskip("xdist")
    done = run_pytest(command, WORKERS_TEST, "-n", "2")
    assert done.code == 1, done.out
    assert "crashed while running" in done.out
    assert "3 passed" in done.out
    again = run_pytest(command, WORKERS_TEST)
    assert again.code == 0, again.out
    assert (abandoned(command), left_in(lab.cluster)) == ([], [])


@pytest.mark.timeout(1800)
def test_killed_comparison_is_named_and_the_next_one_finishes(command: Cli, lab: Lab) -> None:
    workload = command.root / "workload.yaml"
    pod = gpu_pod("work", gpus=2, queue=None, scheduler=None)
    workload.write_text(yaml.safe_dump(pod))
    compare = ("tenant", "compare", ONE, TWO, "-f", str(workload), "--name", NAME, "--json")
    killable = Killable(command.env, command.root)
    points = killable.kill_everywhere(*compare)
    assert {"POST Namespace", "POST Pod"} <= set(points)
    assert [left_in(lab.tenant(name)) for name in (ONE, TWO)] == [[], []]
    assert abandoned(command) == []


@pytest.mark.timeout(1800)
def test_gpus_of_a_removed_tenant_are_proven_free_beside_others(command: Cli, lab: Lab) -> None:
    """Another tenant holds a GPU of the same node: the check requests no more than the removed one held."""
    node = f"kailab-{NAME}-worker"
    command("tenant", "add", "extra", "--mode", "default", "--yes", "--json", "--name", NAME)
    lab.session.refresh()
    for tenant, name, gpus in ((ONE, "stays", 1), ("extra", "held", 3)):
        pod = gpu_pod(name, gpus=gpus, queue=None, scheduler=None, namespace="default")
        pod["spec"]["nodeSelector"] = {"kubernetes.io/hostname": node}
        lab.tenant(tenant).apply([pod], retry=60)
        lab.tenant(tenant).wait_ready("Pod", name, "default", timeout=SECONDS)
    removed = command("tenant", "remove", "extra", "--check-gpus", "--yes", "--json", "--name", NAME).json()
    (free,) = (one for one in removed["moments"] if one["name"] == "GPUs free")
    assert (removed["left"], free["detail"]) == ([], f"a pod with 3 GPUs runs on {node}")
    assert free["seconds"] is not None
    stays = lab.tenant(ONE).get("Pod", "stays", "default")
    assert stays is not None
    assert PodView.of(stays).ready
    lab.tenant(ONE).delete("Pod", "stays", "default", grace=1, wait=SECONDS)
    assert lab.cluster.list("Pod", "default") == []


@contextlib.contextmanager
def late_services(engine: HostRunner, nodes: list[str], seconds: float) -> Iterator[Collection[int]]:
    """Stop each kube-proxy that starts in the nodes meanwhile for some seconds, before it has written its rules.

    Yields their process ids.
    """
    held: dict[int, float] = {}
    over = threading.Event()

    def hold() -> None:
        while not over.wait(0.05):
            for node in nodes:
                top = engine.run(["docker", "top", node, "-eo", "pid,comm"], check=False).out
                for pid in (int(line.split()[0]) for line in top.splitlines() if line.endswith("kube-proxy")):
                    if pid not in held:
                        with contextlib.suppress(ProcessLookupError):  # it ended meanwhile
                            os.kill(pid, signal.SIGSTOP)
                            held[pid] = time.monotonic()
            release(seconds)

    def release(after: float) -> None:
        for pid, since in held.items():
            if time.monotonic() - since > after:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        yield held.keys()
    finally:
        over.set()
        thread.join()
        release(0)


@pytest.mark.timeout(1800)
def test_stopped_lab_comes_back_although_services_are_late(command: Cli, lab: Lab, engine: HostRunner) -> None:
    """Tenants' control planes crash until kube-proxy has written its rules, which takes long on a busy machine."""
    nodes = containers_of(engine, NAME)
    engine.run(["docker", "stop", "-t", "5", *nodes])
    assert command("status", "--name", NAME, "--json", code=5).json()["steps"]
    with late_services(engine, nodes, SERVICES_SECONDS) as held:
        assert up(command).json()["ok"]
    assert len(held) >= len(nodes), "the kube-proxy of each node; one that ends meanwhile is held again"
    assert is_whole(command)
    for tenant in (OWN, ONE, TWO):
        assert lab.tenant(tenant).poll(lab.tenant(tenant).healthy, timeout=SECONDS)


@pytest.mark.long
@pytest.mark.timeout(2400)
def test_nothing_that_the_lab_writes_or_runs_holds_a_secret(command: Cli, lab: Lab) -> None:
    _, newer = two_lines()
    mark = f"KAILAB_STATE={command.env['KAILAB_STATE']}".encode()
    logs, page = command.root / "logs", command.root / "report.html"
    outputs: dict[str, bytes] = {}
    with ProcessWatch(mark) as processes:
        for words, code in (
            (("up", "-f", str(command.root / "lab.yaml"), "--yes", "--json"), 0),
            (("status", "--name", NAME, "--json"), 0),
            (("tenant", "upgrade", OWN, "--kai", newer, "--no-suites", "--json", "--name", NAME), NotProven.exit_code),
            (("tenant", "rollback", OWN, "--to", KAI, "--json", "--name", NAME), 0),
            (("logs", "--name", NAME, "--out", str(logs), "--json"), 0),
            (("report", "--name", NAME, "--out", str(page), "--json"), 0),
            (
                ("bundle", "create", "-f", str(command.root / "lab.yaml"), "--image", PAUSE, "--out", "made", "--json"),
                0,
            ),
        ):
            done = command(*words, code=code)
            outputs[f"output of lab {' '.join(words[:2])}"] = f"{done.out}\n{done.err}".encode()
    secrets = needles(lab)
    assert len(secrets) > 20, sorted(secrets)
    kept = {*kubeconfigs(lab), lab.paths.volumes}

    def haystack() -> dict[str, bytes]:
        written = files_below(lab.paths.root.parent.parent, logs, page, command.root / "made", without=kept)
        return {**written, **processes.seen, **outputs}

    texts = haystack()
    assert {str(lab.paths.log), str(page)} <= texts.keys()
    assert any(name.endswith("pods.yaml") for name in texts)
    assert any(" helm " in name or "/helm" in name for name in processes.seen)
    assert leaks(texts, secrets) == {}

    for name in (f"{lab.paths.kubeconfig.name}: client-key-data", f"{OWN}: "):
        secret = next(value for key, value in secrets.items() if key.startswith(name))
        for form in secret:
            planted = lab.paths.root / "planted"
            planted.write_bytes(b"text " + form + b" text")
            assert str(planted) in leaks(haystack(), secrets)
            planted.unlink()
    token = b"eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJpdCJ9.c2lnbmF0dXJl"
    with subprocess.Popen(["sleep", "60"], env={**command.env, "TOKEN": token.decode()}) as planted_process:
        with ProcessWatch(mark) as seen:
            pass
        planted_process.kill()
    assert leaks(seen.seen, {"planted": forms(token)})


@pytest.mark.long
@pytest.mark.timeout(2400)
def test_kai_that_somebody_installs_on_the_host_is_named(command: Cli, lab: Lab, engine: HostRunner) -> None:
    """A plain ``helm install`` into a cluster with a tenant that has a KAI of its own."""
    (bundle, entry) = next(
        (bundle, entry)
        for bundle in installed()
        for entry in bundle.entries
        if (entry.kind, entry.version) == ("chart", f"v{KAI}")
    )
    assert is_whole(command), "the lab is whole before"
    helm = [str(lab.tool("helm")), "--kubeconfig", str(lab.paths.kubeconfig)]
    place = ("kai-scheduler", "-n", "kai-scheduler")
    chart = str(bundle.path(entry))
    engine.run([*helm, "install", *place, chart, "--create-namespace", "--set", f"global.registry={REGISTRY}"])
    grouper = "app=pod-grouper"
    try:
        lab.cluster.wait(
            "Pod",
            lambda pods: any(PodView.of(pod).ready for pod in pods),
            namespace="kai-scheduler",
            labels=grouper,
            timeout=SECONDS,
            what="the pod-grouper of that KAI runs",
        )
        status = command("status", "--name", NAME, "--json", code=5).json()
        (step,) = (step for step in status["steps"] if step["id"] == "host-kai")
        assert (step["state"], step["detail"]) == (
            "drifted",
            f"KAI {KAI} in namespace kai-scheduler is not the lab's, and tenants are not isolated from it",
        )
        verified = command("verify", "--name", NAME, "--json", code=13).json()
        assert "tenant-host-kai-apart" in [one["id"] for one in verified["invariants"] if one["findings"]]
        for refused in (up(command, None), command(*ADD, code=None)):
            assert refused.code not in (0, 1), refused.err
            assert f"KAI {KAI} in namespace kai-scheduler is not the lab's" in refused.out + refused.err
        assert lab.cluster.get("Namespace", tenant_namespace("late")) is None
    finally:
        uninstall(lab, engine, helm, place)
    up(command)
    assert is_whole(command), "the lab is whole again"


ADD = ("tenant", "add", "late", "--mode", "own-kai", "--kai", KAI, "--yes", "--json", "--name", NAME)


def is_whole(command: Cli) -> bool:
    return bool(command("status", "--name", NAME, "--json").json()["ok"])


def uninstall(lab: Lab, engine: HostRunner, helm: list[str], place: tuple[str, ...]) -> None:
    """Remove the KAI of somebody else, with its CRDs, as its owner does."""
    for kind, name in (("Config.kai.scheduler", "kai-config"), ("SchedulingShard", "default")):
        try:
            lab.cluster.delete(kind, name, wait=SECONDS)
        except LabError:
            continue
    engine.run([*helm, "uninstall", *place, "--no-hooks"])
    for crd in lab.cluster.list("CustomResourceDefinition"):
        if crd["metadata"]["name"].endswith((".kai.scheduler", ".run.ai")):
            lab.cluster.delete("CustomResourceDefinition", crd["metadata"]["name"], wait=SECONDS)
    for space in ("kai-scheduler", "kai-resource-reservation", "kai-scale-adjust"):
        lab.cluster.delete("Namespace", space, wait=SECONDS)

"""``kailab explain``: options, exit codes, text and JSON; and snapshots of a lab's clusters."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner, Result

from lab.cli.explain import explain as command
from lab.errors import ApiFailed, NoLab, SpecError
from lab.explain import LabSnapshot, NoSuchPod, explained, overview_of
from lab.explain.wait_evidence import wait_evidence
from lab.operations import explain
from lab.snapshot.cluster_snapshot import ClusterSnapshot
from lab.ui.explain import render_explained, render_overview
from lab.workloads.namespace import WorkloadNamespace
from tests.support.explain_world import SPACE, Scene, group, meta, pod, queue, synced

NONE = "no nodes with enough resources were found: 2 node(s) didn't have enough resources: GPUs."


class FakeLab:
    """A lab whose clusters are snapshots or errors."""

    def __init__(self, host: ClusterSnapshot, **tenants: ClusterSnapshot | Exception) -> None:
        self.worlds: dict[str, ClusterSnapshot | Exception] = {"": host, **tenants}
        self.tenants = tuple(SimpleNamespace(name=name, mode="host-kai") for name in tenants)
        self.cluster = SimpleNamespace(name="", kubeconfig=Path("/host"), context=None)

    def tenant(self, name: str) -> Any:
        if name not in self.worlds:
            raise NoLab(f"no tenant {name}")
        return SimpleNamespace(name=name, kubeconfig=Path(f"/{name}"), context="c")


@pytest.fixture
def take(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the clusters read; each cluster of a FakeLab yields its snapshot or error."""
    read: list[str] = []

    def fake(cluster: Any, **_: object) -> ClusterSnapshot:
        read.append(cluster.name)
        world = LABS[-1].worlds[cluster.name]
        if isinstance(world, Exception):
            raise world
        return world

    monkeypatch.setattr(explain, "take", fake)
    monkeypatch.setattr("lab.explain.wait_evidence.take", fake)
    return read


LABS: list[FakeLab] = []


def evidence_of(workloads: WorkloadNamespace, names: list[str]) -> list[str]:
    return wait_evidence(workloads.host, workloads.cluster, workloads.namespace, workloads.tenant, names)


def lab(host: ClusterSnapshot, **tenants: ClusterSnapshot | Exception) -> FakeLab:
    LABS.append(FakeLab(host, **tenants))
    return LABS[-1]


def run(monkeypatch: pytest.MonkeyPatch, worlds: LabSnapshot, *args: str) -> Result:
    monkeypatch.setattr("lab.cli.explain.Lab.attach", lambda name: None)
    monkeypatch.setattr("lab.cli.explain.read", lambda *_: worlds)
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, list(args))


@pytest.fixture
def stuck() -> LabSnapshot:
    scene = Scene()
    scene.pending(queue="nowhere")
    scene.pending(pod("silent", ago=2))
    scene.add(pod("well", node="worker-1", ready=True))
    return LabSnapshot(scene.world)


@pytest.mark.parametrize("args", [("team/p",), ("p", "-n", "team")])
def test_text_has_reason_and_next_action(
    monkeypatch: pytest.MonkeyPatch, stuck: LabSnapshot, args: tuple[str, ...]
) -> None:
    done = run(monkeypatch, stuck, *args)
    assert done.exit_code == 0
    assert "queue nowhere does not exist" in done.output
    assert "next: label the workload" in done.output


def test_json_has_stage_and_findings(monkeypatch: pytest.MonkeyPatch, stuck: LabSnapshot) -> None:
    data = json.loads(run(monkeypatch, stuck, "team/p", "--json").stdout)
    assert (data["schemaVersion"], data["stage"]) == (1, "unbound")
    assert data["findings"][0]["rule"] == "queue.unknown"


@pytest.mark.parametrize(("name", "code"), [("well", 0), ("silent", 1)])
def test_exit_code_without_a_finding(monkeypatch: pytest.MonkeyPatch, stuck: LabSnapshot, name: str, code: int) -> None:
    assert run(monkeypatch, stuck, f"team/{name}").exit_code == code


def test_missing_pod_is_exit_code_2_with_similar_names(monkeypatch: pytest.MonkeyPatch, stuck: LabSnapshot) -> None:
    done = run(monkeypatch, stuck, "team/wel")
    assert isinstance(done.exception, NoSuchPod)
    assert done.exception.exit_code == 2
    assert done.exception.evidence == ("team/well",)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "no pod named"),
        (("p", "--all"), "mutually exclusive"),
        (("p", "--context", "c"), "--context needs --kubeconfig"),
        (("p", "--tenant", "t", "--kubeconfig", "k"), "--tenant and --kubeconfig are mutually exclusive"),
    ],
)
def test_conflicting_options_are_refused(
    monkeypatch: pytest.MonkeyPatch, stuck: LabSnapshot, args: tuple[str, ...], message: str
) -> None:
    done = run(monkeypatch, stuck, *args)
    assert isinstance(done.exception, SpecError)
    assert message in done.exception.what


def test_all_option_describes_the_cluster(monkeypatch: pytest.MonkeyPatch, stuck: LabSnapshot) -> None:
    done = run(monkeypatch, stuck, "--all")
    assert done.exit_code == 0
    assert "KAI  0.16.8, all 7 components are up" in done.output
    assert "queue test: nothing used, no bounds" in done.output
    assert "2 pods or workloads with problems" in done.output
    assert json.loads(run(monkeypatch, stuck, "--all", "--json").stdout)["well"] is False


@pytest.mark.parametrize("args", [("job", "team/train"), ("job/train", "-n", "team"), ("team/train",)])
def test_a_workload_by_kind_and_name(monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...]) -> None:
    scene = Scene()
    owner = {"ownerReferences": [{"kind": "Job", "name": "train", "controller": True}]}
    scene.add({"kind": "Job", "metadata": meta("train", SPACE), "spec": {}, "status": {"active": 1}})
    for number in range(2):
        scene.pending(pod(f"train-{number}", group="pg", queue="nowhere", meta=owner))
    done = run(monkeypatch, LabSnapshot(scene.world), *args)
    assert done.exit_code == 0
    assert "Job team/train  2 pods: 2 unbound" in done.output
    assert done.output.count("queue nowhere does not exist") == 1
    data = json.loads(run(monkeypatch, LabSnapshot(scene.world), *args, "--json").stdout)
    assert {"kind", "stage", "settled", "facts", "findings", "reasons"} < set(data)
    assert data["reasons"][0]["pods"] == ["train-0", "train-1"]


def test_evictions(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene().add(pod("p"))
    made = group("pg-p")
    scene.add(made).event(made, "Evict", "Pod team/p was preempted by higher priority workload team/other")
    worlds = LabSnapshot(scene.world)
    for words in (("eviction", "team/p"), ("eviction", "pod", "p", "-n", "team"), ("evictions",)):
        done = run(monkeypatch, worlds, *words)
        assert done.exit_code == 0
        assert "preempt evicted Pod team/p" in done.output
        assert "unknown whether it was required" in done.output
    assert "metrics could not be read" in done.output
    data = json.loads(run(monkeypatch, worlds, "evictions", "--json").stdout)
    assert {"evictions", "required", "counted", "findings", "metrics", "subject"} < set(data)


def test_queues(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    scene = Scene().add(queue("test", "default", gpu={"quota": 1, "limit": 3}), group("pg-p"))
    scene.add(pod("p", gpus=2, node="worker-1", ready=True))
    worlds = LabSnapshot(scene.world)
    done = run(monkeypatch, worlds, "queue", "test", "--html", str(tmp_path / "q.html"))
    assert done.exit_code == 0
    assert "  ████████|███████        ▶" in done.output
    assert "borrows from: unreserved (1)" in done.output
    assert "status.allocated of queue test has 0 GPUs, and its pods have 2" in done.output
    assert "Queues of" in (tmp_path / "q.html").read_text()
    data = json.loads(run(monkeypatch, worlds, "queues", "--json").stdout)
    assert [row["name"] for row in data["queues"]] == ["default", "test"]
    assert data["queues"][1]["resources"]["gpu"]["fair"] == 2
    refused = run(monkeypatch, worlds, "team/p", "--html", "x")
    assert isinstance(refused.exception, SpecError)


def test_no_eviction_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    done = run(monkeypatch, LabSnapshot(Scene().add(pod("p")).world), "eviction", "team/p")
    assert done.exit_code == 1
    assert "no event of an eviction" in done.output


def test_a_snapshot_is_saved_and_read(monkeypatch: pytest.MonkeyPatch, stuck: LabSnapshot, tmp_path: Path) -> None:
    file = tmp_path / "s.json.gz"
    assert run(monkeypatch, stuck, "--all", "--save", str(file)).exit_code == 0
    assert "queue nowhere does not exist" in run(monkeypatch, stuck, "team/p", "--snapshot", str(file)).output
    file.write_text("no")
    done = run(monkeypatch, stuck, "team/p", "--snapshot", str(file))
    assert isinstance(done.exception, SpecError)


class FakeKinds:
    """API discovery of a cluster with one CRD."""

    def listable(self) -> list[Any]:
        return [SimpleNamespace(kind="PyTorchJob", plural="pytorchjobs")]


@pytest.mark.parametrize(
    ("word", "more"), [("pytorchjobs", ["PyTorchJob"]), ("deployment", []), ("team", []), ("", [])]
)
def test_a_further_kind_is_read_if_a_word_names_it(word: str, more: list[str]) -> None:
    cluster: Any = SimpleNamespace(kinds=FakeKinds(), get=lambda _, name: name == "team")
    assert explain._more(cluster, word) == more


def test_rules_are_listed_without_a_cluster() -> None:
    app = typer.Typer()
    app.command()(command)
    done = CliRunner().invoke(app, ["--rules"])
    assert done.exit_code == 0
    assert "queue.unknown" in done.output
    rows = json.loads(CliRunner().invoke(app, ["--rules", "--json"]).stdout)["rules"]
    assert {"id", "title", "stages", "source", "general", "read_only"} == set(rows[0])


def drawn(width: int, render: Any, data: Any) -> list[str]:
    raw = io.StringIO()
    console = Console(file=raw, width=width, force_terminal=True, color_system=None, highlight=False, markup=False)
    render(data, console)
    return raw.getvalue().splitlines()


def test_text_of_a_finding() -> None:
    scene = Scene()
    scene.pending(gpus=3, says=NONE)
    lines = drawn(120, render_explained, scene.explain())
    assert lines[0] == "Pod team/p  Pending for 30 s, no node yet"
    assert "  queue      default → test" in lines
    assert "✗ no node has as many GPUs as Pod team/p wants on one node" in lines
    assert "  nodes.gpus" in lines
    assert "  | node worker-1: has 2 GPUs, the pod wants 3" in lines
    assert lines[-2].startswith("  → next: ask for fewer GPUs per pod")
    assert lines[-1] == "more about a rule: kailab lint --explain nodes.gpus"


def test_text_without_a_finding_names_unread_kinds() -> None:
    scene = Scene()
    scene.pending(ago=1)
    scene.absent.add("Event")
    lines = drawn(120, render_explained, scene.explain())
    assert "! no rule explains it: kailab logs collects events, objects and logs" in lines
    assert lines[-1].startswith("! not read: Event; rules that need it were skipped")


def test_text_of_a_healthy_pod() -> None:
    explanation = Scene().add(pod(node="worker-1", ready=True)).explain()
    assert drawn(120, render_explained, explanation)[-1] == "✓ no problem found"


def test_text_of_a_healthy_cluster() -> None:
    assert drawn(120, render_overview, overview_of(LabSnapshot(Scene().world)))[-1] == "✓ no problem found"


def test_lab_is_read_with_its_tenants(take: list[str]) -> None:
    inside = Scene("")
    made = pod(group=None)
    inside.add(made, queue("mine"))
    host = Scene().add(synced("p-x", made, "blue", queue="mine", group=None, ago=1))
    explanation = explained(explain.read(lab(host.world, blue=inside.world), "blue"), "p", SPACE, "blue")
    assert explanation.findings[0].rule == "tenant.queue-only-inside"
    assert sorted(take) == ["", "blue"]


def test_unreachable_tenant_is_skipped_unless_requested(take: list[str]) -> None:
    scene = Scene()
    scene.pending(queue="nowhere")
    broken = lab(scene.world, blue=ApiFailed("does not answer"))
    assert explained(explain.read(broken), "p", SPACE).findings[0].rule == "queue.unknown"
    with pytest.raises(ApiFailed, match="does not answer"):
        explain.read(broken, "blue")
    with pytest.raises(NoLab):
        explain.read(broken, "red")


def test_suggested_commands_name_the_kubeconfig(take: list[str]) -> None:
    scene = Scene(down=("pod-grouper",)).add(pod(group=None))
    explanation = explained(explain.read(lab(scene.world)), "p", SPACE)
    assert explanation.findings[0].next.startswith("kubectl --kubeconfig /host get")


def test_failed_wait_is_explained(take: list[str]) -> None:
    scene = Scene()
    scene.pending(queue="nowhere")
    made = lab(scene.world)
    workloads = WorkloadNamespace("demo", made.cluster, made.cluster, SPACE)
    lines = evidence_of(workloads, ["p", "nobody"])
    assert lines[0].startswith("Pod team/p: Pending")
    assert lines[1].startswith("why [queue.unknown]")


def test_failed_wait_in_a_tenant_is_explained(take: list[str]) -> None:
    inside = Scene("")
    made = pod(group=None)
    inside.add(made)
    host = Scene().add(synced("p-x", made, "blue", queue="nowhere", group=None, ago=1))
    fake = lab(host.world, blue=inside.world)
    lines = evidence_of(WorkloadNamespace("demo", fake.cluster, fake.tenant("blue"), SPACE, "blue"), ["p"])
    assert any(line.startswith("why [queue.unknown]") for line in lines)


def test_failed_wait_without_a_snapshot_has_no_explanation(take: list[str]) -> None:
    made = lab(ApiFailed("gone"))  # type: ignore[arg-type]
    assert evidence_of(WorkloadNamespace("demo", made.cluster, made.cluster, SPACE), ["p"]) == ["no explanation: gone"]


def test_failed_explanation_is_reported(take: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    made = lab(Scene().world)
    monkeypatch.setattr("lab.explain.wait_evidence.explain_pod", lambda *_, **__: 1 / 0)
    lines = evidence_of(WorkloadNamespace("demo", made.cluster, made.cluster, SPACE), ["p"])
    assert lines == ["no explanation: ZeroDivisionError: division by zero"]

"""``kailab can-run`` over a snapshot: verdicts, evictions, reasons, changes, exit codes and text."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console
from typer.testing import CliRunner

from lab.cli import can_run as command
from lab.errors import SpecError
from lab.lint.document import read
from lab.operations.can_run import CanRun, judge
from lab.snapshot.cluster_snapshot import ClusterSnapshot
from lab.ui.can_run import render_can_run
from lab.ui.text_writer import TextWriter
from lab.workloads.controllers import deployment, job
from lab.workloads.pods import fraction_pod, gpu_pod

Obj = dict[str, Any]


def node(name: str, gpus: int, taints: list[Obj] | None = None) -> Obj:
    amounts = {"cpu": "16", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
    labels = {"nvidia.com/gpu.memory": "40960", "kubernetes.io/hostname": name}
    status = {"allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"metadata": {"name": name, "labels": labels}, "spec": {"taints": taints or []}, "status": status}


def queue(name: str, quota: float = 0, limit: float = -1, parent: str = "top") -> Obj:
    free = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    gpu = {"quota": quota, "limit": limit, "overQuotaWeight": 1}
    meta = {"name": name, "creationTimestamp": f"2026-01-01T00:00:00Z{name}"}
    return {"metadata": meta, "spec": {"parentQueue": parent, "resources": {"gpu": gpu, "cpu": free, "memory": free}}}


def running(name: str, queue: str, node: str, gpus: int = 1, priority: str = "train") -> tuple[Obj, Obj]:
    pod = gpu_pod(name, gpus=gpus, namespace="n", queue=queue)
    pod["metadata"] |= {"uid": name, "annotations": {"pod-group-name": f"pg-{name}"}}
    pod["spec"]["nodeName"] = node
    meta = {"name": f"pg-{name}", "namespace": "n", "uid": f"pg-{name}", "creationTimestamp": "2026-01-02T00:00:00Z"}
    group = {"metadata": meta, "spec": {"queue": queue, "minMember": 1, "priorityClassName": priority}}
    return {**pod, "status": {"phase": "Running"}}, group


def world(*pairs: tuple[Obj, Obj], queues: tuple[Obj, ...] = (), nodes: tuple[Obj, ...] = ()) -> ClusterSnapshot:
    classes = [("train", 50), ("build-preemptible", 75), ("build", 100), ("inference", 125)]
    objects = {
        "Node": nodes or (node("w1", 4), node("w2", 4)),
        "Queue": (queue("top", 8, parent=""), *(queues or (queue("a", 4), queue("b", 4)))),
        "Pod": tuple(pod for pod, _ in pairs),
        "PodGroup": tuple(group for _, group in pairs),
        "PriorityClass": tuple({"metadata": {"name": name}, "value": value} for name, value in classes),
    }
    return ClusterSnapshot(datetime.now(UTC), objects)


def full(queue: str, priority: str = "train") -> list[tuple[Obj, Obj]]:
    return [running(f"{queue}-{n}", queue, f"w{1 + n // 4}", priority=priority) for n in range(8)]


@pytest.fixture
def ask(tmp_path: Path) -> Any:
    def asked(snapshot: ClusterSnapshot, *documents: Obj) -> CanRun:
        file = tmp_path / "workload.yaml"
        file.write_text(yaml.safe_dump_all(documents))
        return judge(snapshot, read(file))

    return asked


def test_runs_now_on_a_free_node(ask: Any) -> None:
    (answer,) = ask(world(), gpu_pod("p", gpus=4, queue="a")).answers
    assert (answer.verdict, answer.action, answer.placed) == ("now", "allocate", {"w1": 1})
    assert answer.evictions == ()


def test_reclaims_what_another_queue_borrowed(ask: Any) -> None:
    (answer,) = ask(world(*full("b")), gpu_pod("p", queue="a")).answers
    assert (answer.verdict, answer.action) == ("after-evictions", "reclaim")
    assert [move.queue for move in answer.evictions] == ["b"]


def test_preempts_a_lower_priority_in_its_queue(ask: Any) -> None:
    pod = gpu_pod("p", queue="a")
    pod["metadata"]["labels"]["priorityClassName"] = "build-preemptible"
    (answer,) = ask(world(*full("a")), pod).answers
    assert (answer.verdict, answer.action) == ("after-evictions", "preempt")
    assert len(answer.evictions) == 1


def test_older_workload_takes_the_room_that_an_eviction_makes(ask: Any) -> None:
    """The second cycle places the older one first: allocation does not ask for the fair share (seen with 0.16.8)."""
    held = [running(f"b-{number}", "b", "w1") for number in range(3)] + [running("a-0", "a", "w1")]
    old, group = running("old", "b", "", gpus=4)
    old["status"] = {"phase": "Pending"}
    del old["spec"]["nodeName"]
    snapshot = world(*held, running("a-1", "a", "w2", gpus=4), (old, group), queues=(queue("a", 2), queue("b", 6)))
    (answer,) = ask(snapshot, gpu_pod("new", gpus=2, queue="b")).answers
    assert [move.pod for move in answer.evictions] == ["n/a-1"]
    assert answer.verdict == "no"
    assert answer.reasons[0] == "an older workload takes the room that KAI makes for it"


def test_equal_priority_in_a_full_queue_waits_and_a_higher_class_helps(ask: Any) -> None:
    (answer,) = ask(world(*full("a")), gpu_pod("p", queue="a")).answers
    assert answer.verdict == "no"
    assert "queue a would hold 9 GPUs, over its fair share of" in " ".join(answer.reasons)
    assert "give it priority class build-preemptible (75)" in answer.changes


def test_consolidation_moves_a_pod(ask: Any) -> None:
    pairs = [running("one", "a", "w1"), running("two", "a", "w2")]
    (answer,) = ask(world(*pairs), gpu_pod("p", gpus=4, queue="a")).answers
    assert (answer.verdict, answer.action) == ("after-evictions", "consolidation")
    (move,) = answer.evictions
    assert {move.node, move.to} == {"w1", "w2"}


def test_limit_names_the_queue_and_the_smallest_change(ask: Any) -> None:
    queues = (queue("a", 4, limit=4), queue("b", 4))
    gang = job("j", gpu_pod("p", queue="a"), pods=6, minimum=6)
    (answer,) = ask(world(queues=queues), gang).answers
    assert answer.verdict == "no"
    assert answer.reasons == ("queue a has a limit of 4 GPUs, 0 are used, and the workload needs 6",)
    assert answer.changes[:2] == ("raise the gpu limit of queue a to 6 GPUs", "ask for 4 pods")


def test_not_preemptible_needs_quota(ask: Any) -> None:
    doc = deployment("d", gpu_pod("p", gpus=2, queue="a"), replicas=3)
    (answer,) = ask(world(), doc).answers
    assert answer.verdict == "no"
    assert "not preemptible" in answer.reasons[0]
    assert "raise the gpu quota of queue a to 6 GPUs" in answer.changes
    assert "ask for 2 pods" in answer.changes


def test_too_many_gpus_for_any_node(ask: Any) -> None:
    (answer,) = ask(world(), gpu_pod("p", gpus=8, queue="a")).answers
    assert answer.reasons == ("a pod asks for 8 GPUs, and the largest node has 4",)
    assert answer.changes == ("ask for 4 GPUs per pod",)


@pytest.mark.parametrize(
    ("gpus", "why"),
    [
        (3, "a pod asks for 3 GPUs, and 2 of the 4 GPUs of node w1 are unhealthy"),
        (5, "a pod asks for 5 GPUs, and the largest allowed node has 4"),
    ],
)
def test_unhealthy_gpus_are_the_reason(ask: Any, gpus: int, why: str) -> None:
    sick, other = node("w1", 2), node("w2", 8, [{"key": "k", "effect": "NoSchedule"}])
    sick["status"]["capacity"] = {"nvidia.com/gpu": "4"}
    (answer,) = ask(world(nodes=(sick, other)), gpu_pod("p", gpus=gpus, queue="a")).answers
    assert answer.reasons == (why,)


def test_gpus_of_other_schedulers_are_the_reason(ask: Any) -> None:
    foreign = running("f", "a", "w1")[0]
    foreign["spec"]["schedulerName"] = "default-scheduler"
    snapshot = world((foreign, {"metadata": {"name": "none"}}), nodes=(node("w1", 4),))
    (answer,) = ask(snapshot, gpu_pod("p", gpus=4, queue="a")).answers
    assert answer.reasons == ("a pod asks for 4 GPUs, and pods outside KAI's queues hold 1 of the 4 GPUs of node w1",)


@pytest.mark.parametrize(
    ("product", "why"),
    [("H100", "node w1 has GPUs by its labels but offers none: look at its device plugin"), ("", "no node has GPUs")],
)
def test_gpus_that_no_node_offers(ask: Any, product: str, why: str) -> None:
    bare = node("w1", 0)
    bare["metadata"]["labels"]["nvidia.com/gpu.product"] = product
    (answer,) = ask(world(nodes=(bare,)), gpu_pod("p", queue="a")).answers
    assert answer.reasons == (f"a pod asks for 1 GPU, and {why}",)


def test_mig_is_an_estimate(ask: Any) -> None:
    pod = gpu_pod("p", queue="a")
    assert not any("MIG" in text for text in ask(world(), pod).answers[0].estimates)
    pod["spec"]["containers"][0]["resources"]["limits"] = {"nvidia.com/mig-1g.5gb": 1}
    assert any("MIG" in text for text in ask(world(), pod).answers[0].estimates)


def test_taints_are_the_reason(ask: Any) -> None:
    taint = [{"key": "k", "value": "v", "effect": "NoSchedule"}]
    (answer,) = ask(world(nodes=(node("w1", 4, taint),)), gpu_pod("p", queue="a")).answers
    assert answer.reasons == ("node w1: taint k=v:NoSchedule",)


def test_unknown_queue_and_parent_queue(ask: Any) -> None:
    first, second = ask(world(), gpu_pod("p", queue="x"), gpu_pod("q", queue="top")).answers
    assert first.reasons == ("queue x does not exist",)
    assert first.changes[:1] == ("use queue a",)
    assert "has children" in second.reasons[0]


def test_fraction_joins_a_shared_gpu(ask: Any) -> None:
    shared = running("s", "a", "w2")
    shared[0]["metadata"]["annotations"]["gpu-fraction"] = "0.5"
    shared[0]["metadata"]["labels"]["runai-gpu-group"] = "g"
    for side in ("requests", "limits"):
        del shared[0]["spec"]["containers"][0]["resources"][side]["nvidia.com/gpu"]
    (answer,) = ask(world(shared), fraction_pod("p", fraction=0.5, queue="a")).answers
    assert answer.placed == {"w2": 1}


def test_workloads_are_judged_one_after_the_other(ask: Any) -> None:
    result = ask(world(), gpu_pod("p", gpus=4, queue="a"), gpu_pod("q", gpus=4, queue="a"), gpu_pod("r", queue="a"))
    assert [answer.verdict for answer in result.answers] == ["now", "now", "no"]
    assert not result.runs


def test_estimates_name_what_is_not_modelled(ask: Any) -> None:
    pod = gpu_pod("p", queue="a")
    pod["spec"]["affinity"] = {"podAntiAffinity": {}} | {"podAffinity": {"x": 1}}
    (answer,) = ask(world(), pod).answers
    assert "affinity between pods is not modelled" in answer.estimates


def test_pytorch_job_is_one_gang(ask: Any) -> None:
    template = {k: v for k, v in gpu_pod("p", queue="a").items() if k in ("metadata", "spec")}
    spec = {"Master": {"replicas": 1, "template": template}, "Worker": {"replicas": 8, "template": template}}
    doc = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "t"},
        "spec": {"pytorchReplicaSpecs": spec},
    }
    (answer,) = ask(world(), doc).answers
    assert (answer.pods, answer.verdict) == (9, "no")
    assert "ask for 8 pods" in answer.changes


def test_a_file_without_pods_of_kai_is_an_error(ask: Any) -> None:
    with pytest.raises(SpecError, match="no manifest has pods that KAI schedules"):
        ask(world(), gpu_pod("p", scheduler=None))


def test_text_and_exit_codes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = world(*full("b"))
    monkeypatch.setattr(command, "judge_now", lambda _, documents, namespace: judge(snapshot, documents, namespace))
    monkeypatch.setattr(command, "cluster_of", lambda *_: object())
    file = tmp_path / "p.yaml"
    for pods, code in ((1, 0), (9, 17)):
        file.write_text(yaml.safe_dump(job("j", gpu_pod("p", queue="a"), pods=pods, minimum=pods)))
        assert CliRunner().invoke(command.app, [str(file), "--json"]).exit_code == code
    page = io.StringIO()
    render_can_run(judge(snapshot, read(file)), TextWriter(Console(file=page, width=200)))
    assert "Job default/j does not run" in page.getvalue()
    file.write_text(yaml.safe_dump(gpu_pod("p", queue="a")))
    render_can_run(judge(snapshot, read(file)), TextWriter(Console(file=page, width=200)))
    assert "runs after evictions, by reclaim" in page.getvalue()


def test_a_saved_snapshot_excludes_other_clusters(tmp_path: Path) -> None:
    saved, file = tmp_path / "saved.json.gz", tmp_path / "p.yaml"
    world(*full("b")).save(saved)
    file.write_text(yaml.safe_dump(gpu_pod("p", gpus=9, queue="a")))
    words = [str(file), "--snapshot", str(saved)]
    done = CliRunner().invoke(command.app, words)
    assert (done.exit_code, "the largest node has 4" in " ".join(done.output.split())) == (17, True)
    for other in ("--tenant", "--name", "--kubeconfig", "--context"):
        assert isinstance(CliRunner().invoke(command.app, [*words, other, "x"]).exception, SpecError)

"""Every lint rule on a manifest that violates it, and none on valid manifests."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from lab.config import load_profile
from lab.errors import ManifestsRefused, SpecError
from lab.kai import line_of
from lab.lint import RULES, LintContext, lint, parse, refuse
from lab.lint.context import lint_context
from lab.steps.queues import queue_documents

NEW = LintContext(
    line_of("0.16.8"), gpu_sharing=True, gpu_memory=40960, gpus_per_node=2, runtime_classes=frozenset({"nvidia"})
)
OLD = LintContext(line_of("0.9.8"), gpu_sharing=True)
CLOSED = replace(OLD, queues={}, all_queues=True)
KAI = "schedulerName: kai-scheduler"


def pod(meta: str = "", spec: str = KAI, container: str = "") -> str:
    labels = "" if "labels" in meta else ", labels: {kai.scheduler/queue: default-queue}"
    extra = f", {meta}" if meta else ""
    return (
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: p{labels}{extra}}}\n"
        f"spec: {{{spec}, containers: [{{name: c, image: i{', ' + container if container else ''}}}]}}\n"
    )


def note(text: str) -> str:
    return f"annotations: {{{text}}}"


def label(text: str) -> str:
    return f"labels: {{{text}}}"


def limits(gpus: str, requests: str = "") -> str:
    asked = f", requests: {{nvidia.com/gpu: {requests}}}" if requests else ""
    return f"resources: {{limits: {{nvidia.com/gpu: {gpus}}}{asked}}}"


def queue(spec: str, name: str = "q", meta: str = "", api: str = "scheduling.run.ai/v2") -> str:
    return f"apiVersion: {api}\nkind: Queue\nmetadata: {{name: {name}{meta}}}\nspec: {{{spec}}}\n---\n"


def shares(**changed: str) -> str:
    full = "{quota: -1, limit: -1, overQuotaWeight: 1}"
    rows = {"cpu": full, "memory": full, "gpu": full, **changed}
    return "resources: {" + ", ".join(f"{name}: {row}" for name, row in rows.items()) + "}"


def job(spec: str, meta: str = "") -> str:
    template = "template: {metadata: {labels: {kai.scheduler/queue: default-queue}}, spec: {" + KAI
    return (
        f"apiVersion: batch/v1\nkind: Job\nmetadata: {{name: j{meta}}}\n"
        f"spec: {{{spec}, {template}, containers: [{{name: c, image: i}}]}}}}}}\n"
    )


DEPLOYMENT = (
    "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: d{meta}}}\nspec: {{template: {{metadata: {{labels:"
    " {{kai.scheduler/queue: {queue}}}}}, spec: {{schedulerName: kai-scheduler, containers: [{{name: c, image: i,"
    " resources: {{requests: {{cpu: 1}}}}}}]}}}}}}\n"
)
MEMBER = 'annotations: {kai.scheduler/batch-min-member: "4"}'
OWN_GROUP = "annotations: {kai.scheduler/skip-podgrouper: 'true'}"
CHILD = queue(f"parentQueue: q, {shares()}", name="child")

CRON = (
    "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: c, labels: {kai.scheduler/queue: q}}\n"
    "spec: {jobTemplate: {spec: {template: {spec: {schedulerName: kai-scheduler, containers: [{name: c}]}}}}}\n"
)


LABELLED = "metadata: {labels: {kai.scheduler/queue: default-queue}}"
TEMPLATE = f"template: {{{LABELLED}, spec: {{{KAI}, containers: [{{name: c}}]}}}}"


def kubeflow(kind: str, key: str, groups: str, extra: str = "") -> str:
    api = f"apiVersion: kubeflow.org/v1\nkind: {kind}\nmetadata: {{name: t}}\n"
    return f"{api}spec: {{{extra}{key}: {{{groups}}}}}\n"


def group(name: str, replicas: str = "replicas: 2, ") -> str:
    return f"{name}: {{{replicas}{TEMPLATE}}}"


def ray(least: int, wanted: int, version: str = "v1") -> str:
    workers = f"[{{groupName: w, minReplicas: {least}, replicas: {wanted}, {TEMPLATE}}}]"
    api = f"apiVersion: ray.io/{version}\nkind: RayCluster\nmetadata: {{name: r}}\n"
    return f"{api}spec: {{headGroupSpec: {{{TEMPLATE}}}, workerGroupSpecs: {workers}}}\n"


MINIMUM = "runPolicy: {schedulingPolicy: {minAvailable: 9}}, "

BROKEN: dict[str, tuple[str, LintContext]] = {
    "duplicate-key": (pod(spec=f"{KAI}, restartPolicy: Never, restartPolicy: Always"), NEW),
    "indentation-lost": ("apiVersion: v1\nkind: Pod\nmetadata:\nname: p\nspec:\nschedulerName: kai-scheduler\n", NEW),
    "fraction-key-unknown": (pod(note('kai.scheduler/gpu-fraction: "0.5"')), NEW),
    "key-unknown": (pod(label("kai.scheduler/queue: default-queue, kai.scheduler/prioritty: x")), NEW),
    "label-as-annotation": (pod(note("kai.scheduler/queue: default-queue")), NEW),
    "annotation-as-label": (pod(label('kai.scheduler/queue: default-queue, gpu-fraction: "0.5"')), NEW),
    "share-on-owner": (DEPLOYMENT.format(meta=', annotations: {gpu-fraction: "0.5"}', queue="q"), NEW),
    "preemptibility-unknown": (
        pod(label("kai.scheduler/queue: default-queue, kai.scheduler/preemptibility: maybe")),
        NEW,
    ),
    "fraction-out-of-range": (pod(note('gpu-fraction: "1.0"')), NEW),
    "fraction-with-whole-gpu": (pod(note('gpu-fraction: "0.5"'), container=limits("1")), NEW),
    "fraction-and-memory": (pod(note('gpu-fraction: "0.5", gpu-memory: "2000"')), NEW),
    "gpu-memory-not-a-number": (pod(note('gpu-memory: "2Gi"')), NEW),
    "gpu-memory-over-gpu": (pod(note('gpu-memory: "50000"')), NEW),
    "devices-without-share": (pod(note('gpu-fraction-num-devices: "2"')), NEW),
    "mps-without-share": (pod(note('mps: "true"')), NEW),
    "sharing-off": (pod(note('gpu-fraction: "0.5"')), LintContext(line_of("0.16.8"), gpu_sharing=False)),
    "share-without-kai": (pod(note('gpu-fraction: "0.5"'), spec="restartPolicy: Never"), NEW),
    "container-of-share-unknown": (pod(note('gpu-fraction: "0.5", gpu-fraction-container-name: x')), NEW),
    "dotted-name-with-share": (
        pod(note('gpu-fraction: "0.5"')).replace("name: p,", "name: p.q,"),
        LintContext(line_of("0.16.4")),
    ),
    "gpu-not-whole": (pod(container=limits("0.5")), NEW),
    "gpu-request-without-limit": (pod(container=limits("2", "1")), NEW),
    "more-gpus-than-a-node": (pod(container=limits("3")), NEW),
    "whole-gpu-without-runtime-class": (pod(container=limits("1")), NEW),
    "runtime-class-unknown": (pod(spec=f"{KAI}, runtimeClassName: nvdia"), NEW),
    "visible-devices-set": (pod(container="env: [{name: NVIDIA_VISIBLE_DEVICES, value: all}]"), NEW),
    "queue-without-kai": (pod(spec="restartPolicy: Never"), NEW),
    "scheduler-misspelt": (pod(spec="schedulerName: kai-schedular"), NEW),
    "kai-namespace": (pod("namespace: kai-scheduler"), NEW),
    "namespace-opt-in": (pod("namespace: team"), replace(NEW, opt_in={"kailab.dev/kai": "host"})),
    "node-name-set": (pod(spec=f"{KAI}, nodeName: n"), NEW),
    "job-is-no-gang": (job("parallelism: 4"), NEW),
    "gang-larger-than-job": (job("parallelism: 2", f", {MEMBER}"), NEW),
    "min-member-not-read": (DEPLOYMENT.format(meta=f", {MEMBER}", queue="default-queue"), NEW),
    "owner-labels-not-read": (CRON, NEW),
    "not-a-gang-here": (ray(1, 1, "v1beta1"), NEW),
    "replicas-missing": (kubeflow("PyTorchJob", "pytorchReplicaSpecs", group("Worker", "replicas: 0, ")), NEW),
    "replica-type-missing": (kubeflow("MPIJob", "mpiReplicaSpecs", group("Worker")), NEW),
    "gang-larger-than-pods": (kubeflow("TFJob", "tfReplicaSpecs", group("Worker"), MINIMUM), NEW),
    "ray-group-below-minimum": (ray(3, 2), NEW),
    "queue-missing": (pod("labels: {}"), OLD),
    "queue-unknown": (
        queue(shares(), name="alpha") + pod(label("kai.scheduler/queue: alfa")),
        replace(NEW, queues={}, all_queues=True),
    ),
    "queue-is-parent": (queue(shares()) + CHILD + pod(label("kai.scheduler/queue: q")), NEW),
    "over-limit-for-ever": (
        queue(shares(gpu="{quota: 0, limit: 1}")) + pod(label("kai.scheduler/queue: q"), container=limits("2")),
        NEW,
    ),
    "quota-zero-not-preemptible": (
        queue(shares(cpu="{quota: 0, limit: -1}")) + DEPLOYMENT.format(meta="", queue="q"),
        NEW,
    ),
    "priority-class-unknown": (pod(label("kai.scheduler/queue: default-queue, priorityClassName: trian")), NEW),
    "queue-api": (queue(shares(), api="scheduling.volcano.sh/v1beta1"), NEW),
    "queue-namespaced": (queue(shares(), meta=", namespace: kai-scheduler"), NEW),
    "queue-without-resources": (queue("priority: 1"), NEW),
    "queue-limit-omitted": (queue(shares(gpu="{quota: 1}")), NEW),
    "queue-quota-omitted": (queue(shares(gpu="{limit: 1}")), NEW),
    "queue-weight-omitted": (queue(shares(gpu="{quota: 1, limit: 2}")), NEW),
    "queue-share-no-number": (queue(shares(memory="{quota: 10Gi, limit: -1}")), NEW),
    "queue-units": (queue(shares(cpu="{quota: 4, limit: -1, overQuotaWeight: 1}")), NEW),
    "queue-limit-below-quota": (queue(shares(gpu="{quota: 4, limit: 2}")), NEW),
    "queue-parent-unknown": (queue(f"parentQueue: nobody, {shares()}"), CLOSED),
    "queue-circle": (
        queue(f"parentQueue: b, {shares()}", name="a") + queue(f"parentQueue: a, {shares()}", name="b"),
        NEW,
    ),
    "queue-levels": (queue(shares()), CLOSED),
    "queue-children-over-quota": (
        queue(shares(gpu="{quota: 1, limit: -1}"))
        + queue(f"parentQueue: q, {shares(gpu='{quota: 2, limit: -1}')}", name="child"),
        NEW,
    ),
    "kai-class-key": ("global: {gpuSharing: true, resourceReservation: {runtimeClassName: nvidia}}\n", NEW),
    "kai-value-unknown": ("global: {gpuSharing: true}\nbinder: {clusterAutoscaling: true}\n", NEW),
    "kai-sharing-not-set": ("global: {leaderElection: true}\n", NEW),
    "vcluster-custom-resources": ("sync: {toHost: {customResources: {a.b: {enabled: true}}}}\n", NEW),
    "vcluster-virtual-scheduler": ("controlPlane: {distro: {k8s: {scheduler: {enabled: true}}}}\n", NEW),
    "vcluster-owner-set": ("experimental: {syncSettings: {setOwner: true}}\n", NEW),
    "kind-driver-version": (
        (
            "kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\n"
            "nodes: [{extraMounts: [{hostPath: /usr/lib/libcuda.so.570.1}]}]\n"
        ),
        NEW,
    ),
}


@pytest.mark.parametrize("name", RULES)
def test_each_rule_finds_its_fault(name: str) -> None:
    if name == "not-yaml":
        return  # test_reading.py
    text, setting = BROKEN[name]
    found = [one for one in lint(parse(text, "case.yaml"), setting) if one.rule == name]
    assert found
    for one in found:
        assert one.file == "case.yaml"
        assert one.line >= 1
        assert one.what
        assert one.next


WELL = {
    "cpu": (pod(), NEW),
    "whole": (pod(spec=f"{KAI}, runtimeClassName: nvidia", container=limits("1", "1")), NEW),
    "fraction": (pod(note('gpu-fraction: "0.5"')), NEW),
    "memory": (pod(note('gpu-memory: "2000"')), NEW),
    "not kai": ("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: i}]}\n", NEW),
    "queues": (queue(shares()) + CHILD, NEW),
    "two levels": (queue(shares()) + CHILD, OLD),
    "deployment": (queue(shares()) + DEPLOYMENT.format(meta="", queue="q"), NEW),
    "ray": (ray(2, 3), NEW),
    "minimum of a PyTorchJob": (
        kubeflow("PyTorchJob", "pytorchReplicaSpecs", group("Worker"), MINIMUM.replace("9", "2")),
        NEW,
    ),
    "a Job with a PodGroup of its own": (
        job("parallelism: 4", ", annotations: {kai.scheduler/skip-podgrouper: 'true'}").replace(
            "kai.scheduler/queue", "q"
        ),
        NEW,
    ),
    "values of KAI's chart": ("global: {gpuSharing: true}\nbinder: {resources: {limits: {cpu: 1}}}\n", NEW),
    "a queue whose parent is in another file": (queue(f"parentQueue: elsewhere, {shares()}"), NEW),
    "a third level runs on 0.9.8": (
        queue(shares()) + CHILD + queue(f"parentQueue: child, {shares()}", name="grandchild"),
        replace(CLOSED, queues={}),
    ),
    "config map": ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: b}\n", NEW),
}


@pytest.mark.parametrize("name", WELL)
def test_nothing_is_said_of_what_is_well(name: str) -> None:
    text, setting = WELL[name]
    assert [one.rule for one in lint(parse(text), setting)] == []


@pytest.mark.parametrize("profile", ["demo", "cpu", "minimal", "gpus"])
def test_nothing_is_said_of_the_labs_own_queues(profile: str) -> None:
    spec = load_profile(profile, ["gpu.mode=simulated"] if profile != "cpu" else [])
    text = yaml.safe_dump_all(queue_documents(spec))
    assert [one.rule for one in lint(parse(text), lint_context(spec))] == []


def test_lists_are_looked_into_and_lines_are_right() -> None:
    text = (
        "kind: List\nitems:\n- kind: Pod\n  metadata: {name: a}\n  spec:\n    schedulerName: kai\n    containers: []\n"
    )
    (found,) = (one for one in lint(parse(text), NEW) if one.rule == "scheduler-misspelt")
    assert (found.line, found.subject) == (6, "Pod a")


def test_a_share_without_a_map_is_refused_and_not_read_as_0() -> None:
    found = lint(parse(queue(shares(gpu="QueueResource"))), NEW)
    assert [(one.rule, one.line) for one in found] == [("queue-share-no-number", 4)]


def test_errors_refuse_and_warnings_do_not() -> None:
    refuse(lint(parse(BROKEN["queue-units"][0]), NEW))
    with pytest.raises(ManifestsRefused, match="admission refuses the pod") as refused:
        refuse(lint(parse(BROKEN["fraction-out-of-range"][0], "x.yaml"), NEW))
    assert refused.value.exit_code == 12
    assert any("x.yaml:3" in line for line in refused.value.evidence)


def test_bad_yaml_names_line_and_column(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"x.yaml:2:\d+: not valid YAML"):
        parse("a: 1\n b: [\n", "x.yaml")


@pytest.mark.parametrize("text", ["", "--- \n", "- 1\n- 2\n", "just text\n", "kind: Pod\n", "kind: Pod\nspec: 3\n"])
def test_odd_documents_are_no_trouble(text: str) -> None:
    lint(parse(text), NEW)


@pytest.mark.parametrize(("version", "warned"), [("0.17.0", True), ("0.18.3", False)])
def test_key_announced_for_a_newer_kai(version: str, warned: bool) -> None:
    text = pod(note('nvidia.com/container.c.gpu-memory.request: "2Gi"'))
    found = [one for one in lint(parse(text, "case.yaml"), LintContext(line_of(version))) if one.rule == "key-unknown"]
    assert [one.severity for one in found] == (["warning"] if warned else [])
    assert not found or "KAI 0.18 announces it" in found[0].what

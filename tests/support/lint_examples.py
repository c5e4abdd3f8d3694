"""A manifest that violates each lint rule, and the setting in which it does; the pages about rules show them."""

from __future__ import annotations

from dataclasses import replace

from lab.kai import line_of
from lab.lint import LintContext

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
    "key-outside-spec": (
        "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {ports: [{port: 80}]}\nselector: {app: a}\n",
        NEW,
    ),
    "kai-kind-unknown": (
        "apiVersion: scheduling.kai.nvidia.com/v2alpha2\nkind: PodGroup\nmetadata: {name: g}\nspec: {minMember: 2}\n",
        NEW,
    ),
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

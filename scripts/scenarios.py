"""The situations that ``capture_scenarios.py`` makes on a lab, and what ``lab explain`` must say of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from lab.workloads.pods import IMAGE, cpu_pod, fraction_pod, gpu_memory_pod, gpu_pod
from scripts.scenario_steps import Cordoned, Down, NoSharing, OddReservationClass, Step, Tainted

Json = dict[str, Any]


@dataclass(frozen=True)
class Setting:
    """Where a situation is made."""

    queue: str
    """A leaf queue with room."""
    parent: str
    """A queue with children; empty when the lab has none."""
    workers: int
    """Nodes with GPUs."""
    gpus: int
    """On each of them."""
    memory: int
    """MiB of one GPU."""


Docs = Callable[[Setting], list[Json]]


@dataclass(frozen=True)
class Situation:
    """One situation."""

    name: str
    expects: str
    """The rule that must come first; empty: the pod is well, and no rule may find anything."""
    docs: Docs
    first: Docs = lambda s: []
    """Pods that must be Ready before: holders of what the pod then lacks."""
    tenant: str = ""
    """Mode of the tenant that it is made in; empty: on the host."""
    steps: tuple[Step, ...] = ()
    """Changes of the cluster; such a situation needs the cluster for itself."""
    labels: dict[str, str] = field(default_factory=dict)
    """Of the namespace."""
    alone: bool = False
    """Needs all GPUs."""
    watch: str = "Event"
    """The kind whose changes are the moments to look."""

    @property
    def by_itself(self) -> bool:
        """Whether nothing else may run in the cluster meanwhile."""
        return self.alone or bool(self.steps)


def over(doc: Json, change: Json) -> Json:
    """A deep copy with changes laid over it; lists are replaced."""
    merged = dict(doc)
    for key, value in change.items():
        below = merged.get(key)
        merged[key] = over(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def main(pod: Json, **change: Any) -> Json:
    """The pod with its first container changed."""
    containers = pod["spec"]["containers"]
    return over(pod, {"spec": {"containers": [over(containers[0], change), *containers[1:]]}})


def notes(pod: Json, **annotations: str) -> Json:
    """The pod with more annotations; ``_`` stands for ``-``."""
    return over(pod, {"metadata": {"annotations": {key.replace("_", "-"): text for key, text in annotations.items()}}})


def job(pod: Json) -> Json:
    """A Job of one such pod, named p; what is refused at admission shows on it."""
    meta = {key: pod["metadata"].get(key) or {} for key in ("labels", "annotations")}
    template = {"metadata": meta, "spec": {**pod["spec"], "restartPolicy": "Never"}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "p"},
        "spec": {"backoffLimit": 0, "template": template},
    }


def queue(name: str, s: Setting, **shares: Json) -> Json:
    """A leaf queue beside the lab's; resources that are not given are unlimited."""
    free = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    resources = {kind: shares.get(kind, free) for kind in ("cpu", "memory", "gpu")}
    spec = {"resources": resources, **({"parentQueue": s.parent} if s.parent else {})}
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def gang(s: Setting, least: int) -> Json:
    """A PodGroup made by hand."""
    spec = {"minMember": least, "queue": s.queue}
    return {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": {"name": "g"}, "spec": spec}


def one(make: Callable[[Setting], Json]) -> Docs:
    """A situation of a single object."""
    return lambda s: [make(s)]


def cpu(s: Setting, name: str = "p", **more: Any) -> Json:
    """A pod for KAI without a GPU."""
    return over(cpu_pod(name, queue=s.queue), more)


def sized(s: Setting, **requests: Any) -> Json:
    """A pod for KAI with these requests."""
    return main(cpu(s), resources={"requests": requests})


def half(s: Setting, name: str = "p", fraction: float = 0.5) -> Json:
    """A pod with a part of a GPU."""
    return fraction_pod(name, fraction=fraction, queue=s.queue)


def plain(**spec: Any) -> Json:
    """A pod for the default scheduler."""
    return over(cpu_pod("p", scheduler=None), {"spec": spec})


def deployment(pod: Json) -> Json:
    """A Deployment of one such pod, named p."""
    labels = {**pod["metadata"]["labels"], "app": "p"}
    spec = {
        "selector": {"matchLabels": {"app": "p"}},
        "template": {"metadata": {"labels": labels}, "spec": pod["spec"]},
    }
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "p"}, "spec": spec}


def limits(name: str, kind: str, **spec: Any) -> Json:
    """A ResourceQuota or LimitRange."""
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def claim(**spec: Any) -> Json:
    """A PersistentVolumeClaim named data."""
    want = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}, **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": want}


def mounting(s: Setting) -> Json:
    """A pod that mounts the claim data."""
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    return main(cpu(s, spec={"volumes": volumes}), volumeMounts=[{"name": "data", "mountPath": "/data"}])


HANDLER = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "s-handler"}, "handler": "nope"}
GREEDY = ["sh", "-c", "a=aaaaaaaaaaaaaaaa; while :; do a=$a$a; done"]
INIT = [{"name": "wait", "image": IMAGE, "command": ["sh", "-c", "sleep infinity & wait"]}]
FAILING = {"exec": {"command": ["sh", "-c", "exit 1"]}, "periodSeconds": 1}

SITUATIONS = (
    Situation("healthy-cpu", "", one(cpu), watch="Pod"),
    Situation("healthy-whole", "", one(lambda s: gpu_pod("p", queue=s.queue)), watch="Pod"),
    Situation("healthy-fraction", "", one(half), watch="Pod"),
    Situation("healthy-gpu-memory", "", one(lambda s: gpu_memory_pod("p", queue=s.queue)), watch="Pod"),
    Situation("healthy-default-scheduler", "", one(lambda s: plain()), watch="Pod"),
    Situation("queue-unknown", "queue.unknown", one(lambda s: cpu_pod("p", queue="no-such-queue"))),
    Situation("queue-parent", "queue.not-leaf", one(lambda s: cpu_pod("p", queue=s.parent))),
    Situation(
        "queue-orphan",
        "queue.orphan",
        lambda s: [
            over(queue("s-orphan", s), {"spec": {"parentQueue": "no-such-parent"}}),
            cpu_pod("p", queue="s-orphan"),
        ],
    ),
    Situation(
        "queue-limit",
        "queue.over-limit",
        lambda s: [gpu_pod("p", queue="s-limit")],
        first=lambda s: [
            queue("s-limit", s, gpu={"quota": 0, "limit": 1, "overQuotaWeight": 1}),
            gpu_pod("holder", queue="s-limit"),
        ],
    ),
    Situation(
        "queue-limit-omitted",
        "queue.limit-zero",
        lambda s: [queue("s-omitted", s, memory={"quota": -1}), cpu_pod("p", queue="s-omitted")],
    ),
    Situation(
        "queue-over-quota",
        "queue.over-quota",
        lambda s: [
            queue("s-quota", s, gpu={"quota": 0, "limit": -1, "overQuotaWeight": 1}),
            over(gpu_pod("p", queue="s-quota"), {"metadata": {"labels": {"priorityClassName": "inference"}}}),
        ],
    ),
    Situation(
        "queue-default-trap",
        "queue.default-queue-quota",
        one(lambda s: deployment(cpu_pod("p", queue="default-queue"))),
    ),
    Situation(
        "queue-as-annotation",
        "spec.queue-key",
        one(
            lambda s: over(
                main(cpu_pod("p", queue=None), resources={"requests": {"cpu": "999"}}),
                {"metadata": {"annotations": {"kai.scheduler/queue": s.queue}}},
            )
        ),
    ),
    Situation("gpus-too-many", "nodes.gpus", one(lambda s: gpu_pod("p", gpus=s.gpus + 1, queue=s.queue))),
    Situation(
        "gpus-taken",
        "nodes.gpus-taken",
        one(lambda s: gpu_pod("p", queue=s.queue)),
        alone=True,
        first=lambda s: [gpu_pod(f"holder-{n}", gpus=s.gpus, queue=s.queue) for n in range(s.workers)],
    ),
    Situation(
        "fraction-no-room",
        "shared.no-room",
        one(half),
        alone=True,
        first=lambda s: [half(s, f"holder-{n}", 0.9) for n in range(s.workers * s.gpus)],
    ),
    Situation(
        "gpu-memory-too-big",
        "shared.memory-too-big",
        one(lambda s: gpu_memory_pod("p", mib=2 * s.memory, queue=s.queue)),
    ),
    Situation(
        "fraction-devices", "shared.devices", one(lambda s: fraction_pod("p", devices=s.gpus + 1, queue=s.queue))
    ),
    Situation("cpu-too-big", "nodes.cpu", one(lambda s: sized(s, cpu="10k"))),
    Situation("memory-too-big", "nodes.memory", one(lambda s: sized(s, memory="100Ti"))),
    Situation(
        "resource-unknown",
        "nodes.resource",
        one(lambda s: main(cpu(s), resources={"requests": {"example.com/fpga": 1}, "limits": {"example.com/fpga": 1}})),
    ),
    Situation("node-selector", "nodes.selector", one(lambda s: cpu(s, spec={"nodeSelector": {"disk": "ssd"}}))),
    Situation(
        "control-plane",
        "nodes.control-plane",
        one(lambda s: cpu(s, spec={"nodeSelector": {"node-role.kubernetes.io/control-plane": ""}})),
    ),
    Situation("default-cpu-too-big", "nodes.cpu", one(lambda s: main(plain(), resources={"requests": {"cpu": "10k"}}))),
    Situation("nodes-tainted", "nodes.taint", one(cpu), steps=(Tainted(),)),
    Situation("nodes-cordoned", "nodes.cordoned", one(cpu), steps=(Cordoned(),)),
    Situation(
        "gang-partly",
        "gang.partly-fits",
        alone=True,
        docs=lambda s: [
            gang(s, s.workers + 1),
            *(
                notes(gpu_pod(name, gpus=s.gpus, queue=s.queue), pod_group_name="g")
                for name in ["p", *(f"mate-{n}" for n in range(s.workers))]
            ),
        ],
    ),
    Situation("gang-too-few", "gang.too-few", lambda s: [gang(s, 3), notes(cpu(s), pod_group_name="g")]),
    Situation("group-missing", "group.missing", one(lambda s: notes(cpu(s), pod_group_name="nobody")), watch="Pod"),
    Situation(
        "gates",
        "spec.gates",
        one(lambda s: cpu(s, spec={"schedulingGates": [{"name": "kailab.dev/hold"}]})),
        watch="Pod",
    ),
    Situation(
        "scheduler-mistyped",
        "spec.no-such-scheduler",
        one(lambda s: cpu_pod("p", scheduler="kai-schedular")),
        watch="Pod",
    ),
    Situation(
        "scheduler-of-nobody", "spec.no-such-scheduler", one(lambda s: cpu_pod("p", scheduler="volcano")), watch="Pod"
    ),
    Situation(
        "fraction-without-kai",
        "spec.fraction-without-kai",
        one(lambda s: notes(plain(), gpu_fraction="0.5")),
        watch="Pod",
    ),
    Situation(
        "share-key",
        "spec.share-key",
        one(lambda s: over(cpu(s), {"metadata": {"annotations": {"kai.scheduler/gpu-fraction": "0.5"}}})),
        watch="Pod",
    ),
    Situation(
        "fraction-and-whole",
        "admission.fraction-and-whole",
        one(lambda s: job(notes(gpu_pod("p", queue=s.queue), gpu_fraction="0.5"))),
    ),
    Situation("fraction-value", "admission.fraction-value", one(lambda s: job(notes(cpu(s), gpu_fraction="1.5")))),
    Situation(
        "resource-quota",
        "admission.quota",
        lambda s: [limits("none", "ResourceQuota", hard={"pods": "0"}), job(cpu(s))],
    ),
    Situation(
        "limit-range",
        "admission.limit-range",
        lambda s: [limits("least", "LimitRange", limits=[{"type": "Container", "min": {"cpu": "500m"}}]), job(cpu(s))],
    ),
    Situation(
        "pod-security",
        "admission.pod-security",
        one(lambda s: job(cpu(s, spec={"hostNetwork": True}))),
        labels={"pod-security.kubernetes.io/enforce": "baseline"},
    ),
    Situation(
        "service-account",
        "admission.service-account",
        one(lambda s: job(cpu(s, spec={"serviceAccountName": "nobody"}))),
    ),
    Situation(
        "priority-class",
        "admission.priority-class",
        one(lambda s: job(cpu(s, spec={"priorityClassName": "no-such-class"}))),
    ),
    Situation(
        "runtime-class",
        "admission.runtime-class",
        one(lambda s: job(cpu(s, spec={"runtimeClassName": "no-such-class"}))),
    ),
    Situation("job-suspended", "spec.no-pods-wanted", one(lambda s: over(job(cpu(s)), {"spec": {"suspend": True}}))),
    Situation(
        "runtime-handler", "sandbox.no-handler", lambda s: [HANDLER, cpu(s, spec={"runtimeClassName": "s-handler"})]
    ),
    Situation(
        "image-missing",
        "image.registry-unreachable",
        one(lambda s: main(cpu(s), image="registry.kailab.dev/no-such-image:1")),
    ),
    Situation(
        "image-never",
        "image.never-pull",
        one(lambda s: main(cpu(s), image="registry.kailab.dev/no-such-image:1", imagePullPolicy="Never")),
    ),
    Situation("image-name", "image.name-invalid", one(lambda s: main(cpu(s), image="UPPER/Case:1"))),
    Situation(
        "crash-loop",
        "container.crash-loop",
        one(lambda s: main(cpu(s), command=["sh", "-c", "echo no licence found; exit 3"])),
    ),
    Situation(
        "out-of-memory",
        "container.oom",
        one(
            lambda s: main(
                cpu(s), command=GREEDY, resources={"requests": {"memory": "8Mi"}, "limits": {"memory": "24Mi"}}
            )
        ),
    ),
    Situation("command-missing", "container.no-command", one(lambda s: main(cpu(s), command=["/no/such/program"]))),
    Situation("not-ready", "container.not-ready", one(lambda s: main(cpu(s), readinessProbe=FAILING))),
    Situation("init-waits", "container.init", one(lambda s: cpu(s, spec={"initContainers": INIT})), watch="Pod"),
    Situation(
        "runs-as-root", "container.root", one(lambda s: cpu(s, spec={"securityContext": {"runAsNonRoot": True}}))
    ),
    Situation(
        "secret-missing",
        "volumes.not-there",
        one(lambda s: main(cpu(s), envFrom=[{"secretRef": {"name": "no-such-secret"}}])),
    ),
    Situation(
        "configmap-missing",
        "volumes.configmap-missing",
        one(lambda s: main(cpu(s), envFrom=[{"configMapRef": {"name": "no-such-map"}}])),
    ),
    Situation("claim-missing", "volumes.claim-missing", one(mounting)),
    Situation(
        "claim-unbound", "volumes.claim-unbound", lambda s: [claim(storageClassName="no-such-class"), mounting(s)]
    ),
    Situation("pod-grouper-down", "kai.pod-grouper-down", one(cpu), steps=(Down("pod-grouper"),), watch="Pod"),
    Situation("scheduler-down", "kai.scheduler-down", one(cpu), steps=(Down("kai-scheduler-default"),), watch="Pod"),
    Situation("binder-down", "kai.binder-down", one(cpu), steps=(Down("binder"),), watch="BindRequest"),
    Situation("admission-down", "kai.admission-down", one(lambda s: job(cpu(s))), steps=(Down("admission"),)),
    Situation("gpu-sharing-off", "admission.gpu-sharing-off", one(lambda s: job(half(s))), steps=(NoSharing(),)),
    Situation("reservation-class", "shared.reservation-class", one(half), steps=(OddReservationClass(),)),
    Situation("tenant-healthy", "", one(half), tenant="host-kai", watch="Pod"),
    Situation(
        "tenant-queue-unknown", "queue.unknown", one(lambda s: cpu_pod("p", queue="no-such-queue")), tenant="host-kai"
    ),
    Situation(
        "tenant-gpus-too-many",
        "nodes.gpus",
        one(lambda s: gpu_pod("p", gpus=s.gpus + 1, queue=s.queue)),
        tenant="host-kai",
    ),
    Situation(
        "tenant-refused",
        "admission.fraction-value",
        one(lambda s: notes(cpu(s), gpu_fraction="1.5")),
        tenant="host-kai",
    ),
    Situation(
        "tenant-image",
        "image.registry-unreachable",
        one(lambda s: main(cpu(s), image="registry.kailab.dev/no-such-image:1")),
        tenant="host-kai",
    ),
    Situation("tenant-own-healthy", "", one(half), tenant="own-kai", watch="Pod"),
    Situation(
        "tenant-own-queue",
        "tenant.queue-only-on-host",
        lambda s: [cpu_pod("p", queue="s-host-only")],
        first=lambda s: [queue("s-host-only", s)],
        tenant="own-kai",
    ),
    Situation(
        "tenant-default-cpu",
        "nodes.cpu",
        one(lambda s: main(plain(), resources={"requests": {"cpu": "10k"}})),
        tenant="default",
    ),
)

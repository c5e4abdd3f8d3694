"""The scenarios that ``scripts.scenarios.capture`` sets up on a lab, and the rule that ``kailab explain`` reports."""

from __future__ import annotations

from lab.workloads.pods import IMAGE, cpu_pod, fraction_pod, gpu_memory_pod, gpu_pod
from scripts.scenarios.admission_cases import ADMISSION, RUNNING
from scripts.scenarios.cluster_changes import Cordoned, ReservationRuntimeClass, ScaledDown, SharingOff, Tainted
from scripts.scenarios.kai_cases import KAI
from scripts.scenarios.manifests import (
    claim,
    cpu,
    deployment,
    gang,
    half,
    job,
    limits,
    main,
    mounting,
    notes,
    one,
    over,
    plain,
    queue,
    sized,
)
from scripts.scenarios.model import Scenario
from scripts.scenarios.node_cases import LOST_NODES
from scripts.scenarios.rare_cases import RARE
from scripts.scenarios.scheduling_cases import GROUPS, NODES
from scripts.scenarios.tenant_cases import TENANTS
from scripts.scenarios.version_cases import VERSIONS

HANDLER = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "s-handler"}, "handler": "nope"}
GREEDY = ["sh", "-c", "a=aaaaaaaaaaaaaaaa; while :; do a=$a$a; done"]
INIT = [{"name": "wait", "image": IMAGE, "command": ["sh", "-c", "sleep infinity & wait"]}]
FAILING = {"exec": {"command": ["sh", "-c", "exit 1"]}, "periodSeconds": 1}

SCENARIOS = (
    Scenario("healthy-cpu", "", one(cpu)),
    Scenario("healthy-whole", "", one(lambda s: gpu_pod("p", queue=s.queue))),
    Scenario("healthy-fraction", "", one(half)),
    Scenario("healthy-gpu-memory", "", one(lambda s: gpu_memory_pod("p", queue=s.queue))),
    Scenario("healthy-default-scheduler", "", one(lambda s: plain())),
    Scenario("queue-unknown", "queue.unknown", one(lambda s: cpu_pod("p", queue="no-such-queue"))),
    Scenario("queue-parent", "queue.not-leaf", one(lambda s: cpu_pod("p", queue=s.parent))),
    Scenario(
        "queue-orphan",
        "queue.orphan",
        lambda s: [
            over(queue("s-orphan", s), {"spec": {"parentQueue": "no-such-parent"}}),
            cpu_pod("p", queue="s-orphan"),
        ],
    ),
    Scenario(
        "queue-limit",
        "queue.over-limit",
        lambda s: [gpu_pod("p", queue="s-limit")],
        first=lambda s: [
            queue("s-limit", s, gpu={"quota": 0, "limit": 1, "overQuotaWeight": 1}),
            gpu_pod("holder", queue="s-limit"),
        ],
    ),
    Scenario(
        "queue-limit-omitted",
        "queue.limit-zero",
        lambda s: [queue("s-omitted", s, memory={"quota": -1}), cpu_pod("p", queue="s-omitted")],
    ),
    Scenario(
        "queue-over-quota",
        "queue.over-quota",
        lambda s: [
            queue("s-quota", s, gpu={"quota": 0, "limit": -1, "overQuotaWeight": 1}),
            over(gpu_pod("p", queue="s-quota"), {"metadata": {"labels": {"priorityClassName": "inference"}}}),
        ],
    ),
    Scenario(
        "queue-default-trap",
        "queue.default-queue-quota",
        one(lambda s: deployment(cpu_pod("p", queue="default-queue"))),
    ),
    Scenario(
        "queue-as-annotation",
        "spec.queue-key",
        one(
            lambda s: over(
                main(cpu_pod("p", queue=None), resources={"requests": {"cpu": "999"}}),
                {"metadata": {"annotations": {"kai.scheduler/queue": s.queue}}},
            )
        ),
    ),
    Scenario("gpus-too-many", "nodes.gpus", one(lambda s: gpu_pod("p", gpus=s.gpus + 1, queue=s.queue))),
    Scenario(
        "gpus-taken",
        "nodes.gpus-taken",
        one(lambda s: gpu_pod("p", queue=s.queue)),
        all_gpus=True,
        first=lambda s: [gpu_pod(f"holder-{n}", gpus=s.gpus, queue=s.queue) for n in range(s.workers)],
    ),
    Scenario(
        "fraction-no-room",
        "shared.no-room",
        one(half),
        all_gpus=True,
        first=lambda s: [half(s, f"holder-{n}", 0.9) for n in range(s.workers * s.gpus)],
    ),
    Scenario(
        "gpu-memory-too-big",
        "shared.memory-too-big",
        one(lambda s: gpu_memory_pod("p", mib=2 * s.memory, queue=s.queue)),
    ),
    Scenario("fraction-devices", "shared.devices", one(lambda s: fraction_pod("p", devices=s.gpus + 1, queue=s.queue))),
    Scenario("cpu-too-big", "nodes.cpu", one(lambda s: sized(s, cpu="10k"))),
    Scenario("memory-too-big", "nodes.memory", one(lambda s: sized(s, memory="100Ti"))),
    Scenario(
        "resource-unknown",
        "nodes.resource",
        one(lambda s: main(cpu(s), resources={"requests": {"example.com/fpga": 1}, "limits": {"example.com/fpga": 1}})),
    ),
    Scenario("node-selector", "nodes.selector", one(lambda s: cpu(s, spec={"nodeSelector": {"disk": "ssd"}}))),
    Scenario(
        "control-plane",
        "nodes.control-plane",
        one(lambda s: cpu(s, spec={"nodeSelector": {"node-role.kubernetes.io/control-plane": ""}})),
    ),
    Scenario("default-cpu-too-big", "nodes.cpu", one(lambda s: main(plain(), resources={"requests": {"cpu": "10k"}}))),
    Scenario("nodes-tainted", "nodes.taint", one(cpu), changes=(Tainted(),)),
    Scenario("nodes-cordoned", "nodes.cordoned", one(cpu), changes=(Cordoned(),)),
    Scenario(
        "gang-partly",
        "gang.partly-fits",
        all_gpus=True,
        docs=lambda s: [
            gang(s, s.workers + 1),
            *(
                notes(gpu_pod(name, gpus=s.gpus, queue=s.queue), pod_group_name="g")
                for name in ["p", *(f"mate-{n}" for n in range(s.workers))]
            ),
        ],
    ),
    Scenario("gang-too-few", "gang.too-few", lambda s: [gang(s, 3), notes(cpu(s), pod_group_name="g")]),
    Scenario("group-missing", "group.missing", one(lambda s: notes(cpu(s), pod_group_name="nobody"))),
    Scenario("gates", "spec.gates", one(lambda s: cpu(s, spec={"schedulingGates": [{"name": "kailab.dev/hold"}]}))),
    Scenario("scheduler-mistyped", "spec.no-such-scheduler", one(lambda s: cpu_pod("p", scheduler="kai-schedular"))),
    Scenario("scheduler-of-nobody", "spec.no-such-scheduler", one(lambda s: cpu_pod("p", scheduler="volcano"))),
    Scenario("fraction-without-kai", "spec.fraction-without-kai", one(lambda s: notes(plain(), gpu_fraction="0.5"))),
    Scenario(
        "share-key",
        "spec.share-key",
        one(lambda s: over(cpu(s), {"metadata": {"annotations": {"kai.scheduler/gpu-fraction": "0.5"}}})),
    ),
    Scenario(
        "fraction-and-whole",
        "admission.fraction-and-whole",
        one(lambda s: job(notes(gpu_pod("p", queue=s.queue), gpu_fraction="0.5"))),
    ),
    Scenario("fraction-value", "admission.fraction-value", one(lambda s: job(notes(cpu(s), gpu_fraction="1.5")))),
    Scenario(
        "resource-quota",
        "admission.quota",
        lambda s: [limits("none", "ResourceQuota", hard={"pods": "0"}), job(cpu(s))],
    ),
    Scenario(
        "limit-range",
        "admission.limit-range",
        lambda s: [limits("least", "LimitRange", limits=[{"type": "Container", "min": {"cpu": "500m"}}]), job(cpu(s))],
    ),
    Scenario(
        "pod-security",
        "admission.pod-security",
        one(lambda s: job(cpu(s, spec={"hostNetwork": True}))),
        labels={"pod-security.kubernetes.io/enforce": "baseline"},
    ),
    Scenario(
        "service-account",
        "admission.service-account",
        one(lambda s: job(cpu(s, spec={"serviceAccountName": "nobody"}))),
    ),
    Scenario(
        "priority-class",
        "admission.priority-class",
        one(lambda s: job(cpu(s, spec={"priorityClassName": "no-such-class"}))),
    ),
    Scenario(
        "runtime-class",
        "admission.runtime-class",
        one(lambda s: job(cpu(s, spec={"runtimeClassName": "no-such-class"}))),
    ),
    Scenario("job-suspended", "spec.no-pods-wanted", one(lambda s: over(job(cpu(s)), {"spec": {"suspend": True}}))),
    Scenario(
        "runtime-handler", "sandbox.no-handler", lambda s: [HANDLER, cpu(s, spec={"runtimeClassName": "s-handler"})]
    ),
    Scenario(
        "image-missing",
        "image.registry-unreachable",
        one(lambda s: main(cpu(s), image="registry.kailab.dev/no-such-image:1")),
    ),
    Scenario(
        "image-never",
        "image.never-pull",
        one(lambda s: main(cpu(s), image="registry.kailab.dev/no-such-image:1", imagePullPolicy="Never")),
    ),
    Scenario("image-name", "image.name-invalid", one(lambda s: main(cpu(s), image="UPPER/Case:1"))),
    Scenario(
        "crash-loop",
        "container.crash-loop",
        one(lambda s: main(cpu(s), command=["sh", "-c", "echo no licence found; exit 3"])),
    ),
    Scenario(
        "out-of-memory",
        "container.oom",
        one(
            lambda s: main(
                cpu(s), command=GREEDY, resources={"requests": {"memory": "8Mi"}, "limits": {"memory": "24Mi"}}
            )
        ),
    ),
    Scenario("command-missing", "container.no-command", one(lambda s: main(cpu(s), command=["/no/such/program"]))),
    Scenario("not-ready", "container.not-ready", one(lambda s: main(cpu(s), readinessProbe=FAILING))),
    Scenario("init-waits", "container.init", one(lambda s: cpu(s, spec={"initContainers": INIT}))),
    Scenario("runs-as-root", "container.root", one(lambda s: cpu(s, spec={"securityContext": {"runAsNonRoot": True}}))),
    Scenario(
        "secret-missing",
        "volumes.not-there",
        one(lambda s: main(cpu(s), envFrom=[{"secretRef": {"name": "no-such-secret"}}])),
    ),
    Scenario(
        "configmap-missing",
        "volumes.configmap-missing",
        one(lambda s: main(cpu(s), envFrom=[{"configMapRef": {"name": "no-such-map"}}])),
    ),
    Scenario("claim-missing", "volumes.claim-missing", one(mounting)),
    Scenario(
        "claim-unbound", "volumes.claim-unbound", lambda s: [claim(storageClassName="no-such-class"), mounting(s)]
    ),
    Scenario("pod-grouper-down", "kai.pod-grouper-down", one(cpu), changes=(ScaledDown("pod-grouper"),)),
    Scenario("scheduler-down", "kai.scheduler-down", one(cpu), changes=(ScaledDown("kai-scheduler-default"),)),
    Scenario("binder-down", "kai.binder-down", one(cpu), changes=(ScaledDown("binder"),)),
    Scenario(
        "admission-down",
        "kai.admission-down",
        one(lambda s: job(cpu(s))),
        changes=(ScaledDown("admission"),),
        also=("admission.webhook-unreachable",),
    ),
    Scenario("gpu-sharing-off", "admission.gpu-sharing-off", one(lambda s: job(half(s))), changes=(SharingOff(),)),
    Scenario("reservation-class", "shared.reservation-class", one(half), changes=(ReservationRuntimeClass(),)),
    Scenario("tenant-healthy", "", one(half), tenant="host-kai"),
    Scenario(
        "tenant-queue-unknown", "queue.unknown", one(lambda s: cpu_pod("p", queue="no-such-queue")), tenant="host-kai"
    ),
    Scenario(
        "tenant-gpus-too-many",
        "nodes.gpus",
        one(lambda s: gpu_pod("p", gpus=s.gpus + 1, queue=s.queue)),
        tenant="host-kai",
    ),
    Scenario(
        "tenant-refused",
        "admission.fraction-value",
        one(lambda s: notes(cpu(s), gpu_fraction="1.5")),
        tenant="host-kai",
    ),
    Scenario(
        "tenant-image",
        "image.registry-unreachable",
        one(lambda s: main(cpu(s), image="registry.kailab.dev/no-such-image:1")),
        tenant="host-kai",
    ),
    Scenario("tenant-own-healthy", "", one(half), tenant="own-kai"),
    Scenario(
        "tenant-own-queue",
        "tenant.queue-only-on-host",
        lambda s: [cpu_pod("p", queue="s-host-only")],
        first=lambda s: [queue("s-host-only", s)],
        tenant="own-kai",
    ),
    Scenario(
        "tenant-default-cpu",
        "nodes.cpu",
        one(lambda s: main(plain(), resources={"requests": {"cpu": "10k"}})),
        tenant="default",
    ),
    *ADMISSION,
    *RUNNING,
    *GROUPS,
    *NODES,
    *KAI,
    *RARE,
    *LOST_NODES,
    *TENANTS,
    *VERSIONS,
)

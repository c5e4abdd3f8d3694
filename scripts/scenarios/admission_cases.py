"""Scenarios in which admission refuses a pod, or a container cannot be started; each needs only its own namespace."""

from __future__ import annotations

from typing import Any

from lab.workloads.pods import IMAGE, gpu_pod
from scripts.scenarios.events import Deleted, Started
from scripts.scenarios.manifests import cpu, half, job, limits, main, notes, one, over, plain
from scripts.scenarios.model import Scenario

Json = dict[str, Any]

_PODS = [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}]
_IGNORES_TERM = ["sh", "-c", "trap '' TERM; while :; do sleep 1; done"]
_FAILS = {"exec": {"command": ["sh", "-c", "exit 1"]}, "periodSeconds": 1, "failureThreshold": 1}


def _selects(space: str) -> Json:
    return {"matchLabels": {"kubernetes.io/metadata.name": space}}


def webhook(name: str, space: str, **client: Any) -> Json:
    """A validating webhook for the pods of one namespace."""
    row = {
        "name": f"{name}.kailab.dev",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": client,
        "namespaceSelector": _selects(space),
        "rules": _PODS,
    }
    kind = "ValidatingWebhookConfiguration"
    api = "admissionregistration.k8s.io/v1"
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name}, "webhooks": [row]}


def policy(
    name: str, space: str, resource: str, *, group: str = "", version: str = "v1", operation: str = "CREATE"
) -> list[Json]:
    """A ValidatingAdmissionPolicy that denies an operation on a resource in one namespace, and its binding."""
    api = "admissionregistration.k8s.io/v1"
    rule = {"apiGroups": [group], "apiVersions": [version], "resources": [resource], "operations": [operation]}
    return [
        {
            "apiVersion": api,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {
                "matchConstraints": {"resourceRules": [rule]},
                "validations": [{"expression": "false", "message": "only signed workloads run here"}],
            },
        },
        {
            "apiVersion": api,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {
                "policyName": name,
                "validationActions": ["Deny"],
                "matchResources": {"namespaceSelector": _selects(space)},
            },
        },
    ]


def data(name: str, **values: str) -> Json:
    """A ConfigMap."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": values}


def mounted(pod: Json, path: str, **volume: Any) -> Json:
    """The pod with a volume at a path."""
    return main(
        over(pod, {"spec": {"volumes": [{"name": "v", **volume}]}}), volumeMounts=[{"name": "v", "mountPath": path}]
    )


def annotated(pod: Json, **annotations: str) -> Json:
    """The pod with annotations of KAI; ``_`` in a keyword becomes ``-``."""
    keys = {f"kai.scheduler/{key.replace('_', '-')}": text for key, text in annotations.items()}
    return over(pod, {"metadata": {"annotations": keys}})


def never(pod: Json, **spec: Any) -> Json:
    """The pod with restartPolicy Never."""
    return over(pod, {"spec": {"restartPolicy": "Never", **spec}})


ADMISSION = (
    Scenario("gpu-memory-value", "admission.gpu-memory-value", one(lambda s: job(notes(cpu(s), gpu_memory="2Gi")))),
    Scenario(
        "devices-value", "admission.devices-value", one(lambda s: job(notes(cpu(s), gpu_fraction_num_devices="2")))
    ),
    Scenario("mps-alone", "admission.mps-alone", one(lambda s: job(notes(cpu(s), mps="true")))),
    Scenario(
        "fraction-container",
        "admission.fraction-container",
        one(lambda s: job(notes(half(s), gpu_fraction_container_name="nobody"))),
    ),
    Scenario(
        "request-above-limit",
        "admission.invalid",
        lambda s: [
            limits("small", "LimitRange", limits=[{"type": "Container", "default": {"cpu": "50m"}}]),
            job(cpu(s)),
        ],
    ),
    Scenario(
        "webhook-unreachable",
        "admission.webhook-unreachable",
        one(lambda s: job(cpu(s))),
        first=one(
            lambda s: webhook(
                "s-unreachable", "s-webhook-unreachable", service={"name": "nobody", "namespace": "default"}
            )
        ),
        settle=3,
    ),
    Scenario(
        "quota-unspecified",
        "admission.quota-unspecified",
        lambda s: [limits("q", "ResourceQuota", hard={"limits.cpu": "4"}), job(cpu(s))],
    ),
    Scenario(
        "policy",
        "admission.policy",
        one(lambda s: job(cpu(s))),
        first=lambda s: policy("s-policy", "s-policy", "pods"),
        settle=5,
    ),
    Scenario("priority-number", "admission.refused", one(lambda s: job(cpu(s, spec={"priority": 5})))),
    Scenario(
        "bind-denied",
        "bind.policy",
        one(cpu),
        first=lambda s: policy("s-bind-denied", "s-bind-denied", "pods/binding"),
        settle=5,
    ),
)
"""Pods that admission refuses."""

RUNNING = (
    Scenario(
        "key-missing",
        "volumes.key-missing",
        lambda s: [
            data("settings", mode="fast"),
            main(
                cpu(s), env=[{"name": "MODE", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "speed"}}}]
            ),
        ],
    ),
    Scenario(
        "mount-failed",
        "volumes.mount-failed",
        one(lambda s: mounted(cpu(s), "/data", hostPath={"path": "/no/such/folder", "type": "Directory"})),
    ),
    Scenario(
        "mount-secret",
        "volumes.not-there",
        one(lambda s: mounted(cpu(s), "/data", secret={"secretName": "no-such-secret"})),
    ),
    Scenario("node-gone", "node.gone", one(lambda s: plain(nodeName="no-such-node"))),
    Scenario(
        "gpu-not-given",
        "pod.gpu-not-given",
        one(lambda s: over(gpu_pod("p", gpus=s.gpus + 1, scheduler=None), {"spec": {"nodeName": s.worker}})),
    ),
    Scenario(
        "resource-not-given",
        "pod.resource-not-given",
        one(lambda s: main(plain(nodeName=s.worker), resources={"requests": {"cpu": "10k"}})),
    ),
    Scenario("exited", "pod.exited", one(lambda s: never(main(cpu(s), command=["sh", "-c", "echo no data; exit 3"])))),
    Scenario("deadline", "pod.deadline", one(lambda s: never(cpu(s), activeDeadlineSeconds=5))),
    Scenario(
        "evicted-by-node",
        "pod.evicted",
        one(
            lambda s: main(
                cpu(s, spec={"volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1Mi"}}]}),
                command=["sh", "-c", "dd if=/dev/zero of=/data/x bs=1M count=20; sleep 600"],
                volumeMounts=[{"name": "v", "mountPath": "/data"}],
            )
        ),
        seconds=240,
    ),
    Scenario(
        "deleting",
        "pod.deleting",
        one(lambda s: main(cpu(s, spec={"terminationGracePeriodSeconds": 60}), command=_IGNORES_TERM)),
        then=(Started("s-deleting"), Deleted("Pod", "p", "s-deleting")),
    ),
    Scenario(
        "readiness-gate",
        "pod.readiness-gate",
        one(lambda s: cpu(s, spec={"readinessGates": [{"conditionType": "kailab.dev/warm"}]})),
    ),
    Scenario("registry-unknown-tag", "image.not-found", one(lambda s: main(cpu(s), image="127.0.0.1:10248/probe:9"))),
    Scenario(
        "sandbox-sysctl",
        "sandbox.failed",
        one(
            lambda s: cpu(
                s,
                spec={"securityContext": {"sysctls": [{"name": "net.ipv4.ping_group_range", "value": "not numbers"}]}},
            )
        ),
    ),
    Scenario(
        "liveness",
        "container.liveness",
        one(
            lambda s: main(
                cpu(s, spec={"terminationGracePeriodSeconds": 1}), livenessProbe={**_FAILS, "initialDelaySeconds": 3}
            )
        ),
    ),
    Scenario(
        "startup", "container.startup", one(lambda s: main(cpu(s), startupProbe={**_FAILS, "failureThreshold": 60}))
    ),
    Scenario(
        "sidecar-exited",
        "container.exited",
        one(
            lambda s: never(
                cpu(s),
                containers=[
                    *cpu(s)["spec"]["containers"],
                    {"name": "sidecar", "image": IMAGE, "command": ["sh", "-c", "exit 2"]},
                ],
            )
        ),
    ),
    Scenario("working-folder", "container.waits", one(lambda s: main(cpu(s), workingDir="/etc/passwd"))),
    Scenario(
        "post-start",
        "container.starting",
        one(lambda s: main(cpu(s), lifecycle={"postStart": {"exec": {"command": ["sh", "-c", "sleep 60"]}}})),
    ),
    Scenario(
        "registry-certificate", "image.registry-unreachable", one(lambda s: main(cpu(s), image="10.96.0.1:443/x:1"))
    ),
)
"""Pods on a node that do not run."""

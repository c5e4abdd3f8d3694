"""Scenarios that change KAI or the nodes: each needs the whole lab."""

from __future__ import annotations

from typing import Any

from lab.kai.names import RESERVATION_APP
from lab.workloads.pods import gpu_pod
from scripts.scenarios.admission_cases import webhook
from scripts.scenarios.cluster_changes import Absent, Configured, OnNodes, Patched, Restarted, ScaledDown
from scripts.scenarios.events import RESERVATIONS_DELETED, AllDeleted, Appears, Edited, Started
from scripts.scenarios.manifests import claim, cpu, half, job, limits, main, mounting, one, over, plain
from scripts.scenarios.model import Scenario
from scripts.scenarios.scheduling_cases import storage_class

Json = dict[str, Any]

_SCHEDULER = "kai-scheduler-default"
_STOP = "systemctl stop kubelet"
_START = "systemctl start kubelet"
_BINDING = {
    "runc": {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "s-runc"}, "handler": "runc"}
}


def powerless(binding: str, account: str) -> Patched:
    """A ClusterRoleBinding of KAI without its ServiceAccount, until the undo."""
    subject = {"kind": "ServiceAccount", "name": account, "namespace": "kai-scheduler"}
    return Patched("ClusterRoleBinding", binding, {"subjects": []}, {"subjects": [subject]})


def _reservation(**change: Any) -> Json:
    return {"binder": {"resourceReservation": change}}


KAI = (
    Scenario("shard-missing", "kai.no-shard", one(cpu), changes=(Absent("SchedulingShard", "default"),), seconds=90),
    Scenario(
        "scheduler-forbidden",
        "kai.silent",
        one(cpu),
        changes=(powerless("kai-scheduler", "scheduler"), Restarted(_SCHEDULER)),
        seconds=150,
    ),
    Scenario(
        "crd-missing",
        "kai.crd-missing",
        one(cpu),
        changes=(Absent("CustomResourceDefinition", "topologies.kai.scheduler"), Restarted(_SCHEDULER)),
    ),
    Scenario(
        "kube-scheduler-down",
        "kai.kube-scheduler-down",
        one(lambda s: plain()),
        changes=(
            OnNodes(
                "sed -i 's/- kube-scheduler$/- kube-scheduler\\n    - --no-such-option/' "
                "/etc/kubernetes/manifests/kube-scheduler.yaml",
                "sed -i '/--no-such-option/d' /etc/kubernetes/manifests/kube-scheduler.yaml",
                control_plane=True,
            ),
        ),
        seconds=120,
    ),
    Scenario(
        "grouper-forbidden",
        "group.none",
        one(cpu),
        changes=(powerless("kai-podgrouper", "pod-grouper"), Restarted("pod-grouper")),
    ),
    Scenario(
        "namespace-left-out",
        "group.namespace-left-out",
        one(cpu),
        changes=(
            Configured(
                {"global": {"namespaceLabelSelector": {"kailab.dev/scenario": "chosen"}}},
                {"global": {"namespaceLabelSelector": None}},
                "pod-grouper",
                "kailab.dev/scenario=chosen",
            ),
        ),
    ),
    Scenario(
        "visible-devices",
        "admission.visible-devices",
        one(lambda s: job(main(gpu_pod("p", queue=s.queue), env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]))),
        changes=(
            Configured(
                {"admission": {"blockNvidiaVisibleDevices": True}},
                {"admission": {"blockNvidiaVisibleDevices": False}},
                "admission",
                "--block-nvidia-visible-devices=true",
            ),
        ),
    ),
    Scenario(
        "nodes-restricted",
        "nodes.restricted",
        one(lambda s: gpu_pod("p", queue=s.queue)),
        changes=(
            Patched(
                "SchedulingShard",
                "default",
                {"spec": {"args": {"restrict-node-scheduling": "true"}}},
                {"spec": {"args": {"restrict-node-scheduling": None}}},
            ),
        ),
    ),
    Scenario(
        "reservation-image",
        "shared.reservation-image",
        one(half),
        changes=(
            Configured(
                _reservation(image={"tag": "no-such-tag"}),
                _reservation(image={"tag": "v0.16.8"}),
                "binder",
                "no-such-tag",
            ),
        ),
    ),
    Scenario(
        "reservation-runc",
        "shared.reservation-nvml",
        one(half),
        changes=(
            Configured(
                _reservation(runtimeClassName="s-runc"), _reservation(runtimeClassName="nvidia"), "binder", "s-runc"
            ),
        ),
        first=one(lambda s: _BINDING["runc"]),
    ),
    Scenario(
        "reservation-refused",
        "shared.reservation-refused",
        one(half),
        first=one(
            lambda s: over(
                limits("s-none", "ResourceQuota", hard={"pods": "0"}), {"metadata": {"namespace": RESERVATION_APP}}
            )
        ),
        alone=True,
        settle=3,
        seconds=120,
    ),
    Scenario(
        "reservation-forbidden",
        "shared.reservation-stuck",
        one(half),
        changes=(
            Patched(
                "RoleBinding",
                RESERVATION_APP,
                {"subjects": []},
                {"subjects": [{"kind": "ServiceAccount", "name": RESERVATION_APP, "namespace": RESERVATION_APP}]},
                RESERVATION_APP,
            ),
        ),
    ),
    Scenario(
        "reservation-deleted",
        "shared.reservation-missing",
        one(half),
        alone=True,
        then=(Started("s-reservation-deleted"), ScaledDown("binder"), RESERVATIONS_DELETED),
    ),
    Scenario(
        "configmaps-deleted",
        "shared.configmaps",
        one(lambda s: main(half(s), command=["sh", "-c", "sleep 20"])),
        alone=True,
        then=(Started("s-configmaps-deleted"), AllDeleted("ConfigMap", "s-configmaps-deleted")),
    ),
    Scenario(
        "not-mutated",
        "bind.not-mutated",
        one(lambda s: over(half(s), {"spec": {"schedulingGates": [{"name": "kailab.dev/hold"}]}})),
        then=(
            Appears("Pod", "s-not-mutated"),
            Edited("Pod", "p", {"metadata": {"annotations": {"runai/shared-gpu-configmap": None}}}, "s-not-mutated"),
            Edited("Pod", "p", {"spec": {"schedulingGates": None}}, "s-not-mutated"),
        ),
    ),
    Scenario(
        "volume-slow",
        "bind.in-progress",
        lambda s: [claim(storageClassName="s-slow"), mounting(s)],
        first=one(lambda s: storage_class("s-slow")),
    ),
    Scenario(
        "bind-webhook",
        "bind.failed",
        one(cpu),
        first=one(
            lambda s: on_bindings(
                webhook("s-bind", "s-bind-webhook", service={"name": "nobody", "namespace": "default"})
            )
        ),
        settle=3,
    ),
    Scenario("kubelets-stopped", "nodes.not-ready", one(cpu), changes=(OnNodes(_STOP, _START, not_ready=True),)),
    Scenario(
        "kubelet-lost",
        "node.not-ready",
        one(cpu),
        alone=True,
        then=(Started("s-kubelet-lost"), OnNodes(_STOP, _START, not_ready=True)),
    ),
    Scenario(
        "no-network-plugin",
        "sandbox.network",
        one(cpu),
        changes=(
            OnNodes("mv /opt/cni/bin/ptp /opt/cni/bin/ptp.away", "mv /opt/cni/bin/ptp.away /opt/cni/bin/ptp || true"),
        ),
    ),
)
"""KAI's components, its binder and reservation pods, and the nodes."""


def on_bindings(doc: Json) -> Json:
    """A webhook for pods, as one for their bindings."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/binding"], "operations": ["CREATE"]}
    return {**doc, "webhooks": [{**doc["webhooks"][0], "rules": [rule]}]}

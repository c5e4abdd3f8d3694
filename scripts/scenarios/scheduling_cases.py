"""Scenarios in which a scheduler does not place a pod, or KAI takes it away again."""

from __future__ import annotations

from typing import Any

from lab.workloads.pods import cpu_pod, gpu_memory_pod, gpu_pod
from scripts.scenarios.admission_cases import annotated, never
from scripts.scenarios.cluster_changes import (
    Absent,
    GpusFailed,
    NoDevicePlugin,
    NodeWithoutKubelet,
    WorkersLabelled,
    WorkersOffer,
)
from scripts.scenarios.events import Appears, Edited
from scripts.scenarios.manifests import claim, cpu, gang, main, mounting, notes, one, over, plain, sized
from scripts.scenarios.model import Scenario, Setting

Json = dict[str, Any]

_GATE = {"schedulingGates": [{"name": "kailab.dev/hold"}]}
_IGNORES_TERM = ["sh", "-c", "trap '' TERM; while :; do sleep 1; done"]
_TOLERATES = [{"operator": "Exists"}]
_FAKE = {"kailab.dev/scenario": "node"}
_FPGA = "example.com/fpga"


def topology(name: str, *labels: str) -> Json:
    """A Topology with levels, the widest first."""
    levels = [{"nodeLabel": label} for label in labels]
    return {
        "apiVersion": "kai.scheduler/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": name},
        "spec": {"levels": levels},
    }


def labelled(pod: Json, **labels: str) -> Json:
    """The pod with labels."""
    return over(pod, {"metadata": {"labels": labels}})


def on_fake(pod: Json) -> Json:
    """The pod, for the node without a kubelet only."""
    return over(pod, {"spec": {"nodeSelector": _FAKE, "tolerations": _TOLERATES}})


def volume(name: str) -> Json:
    """A PersistentVolume on a node that does not exist."""
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["no-such-node"]}]}
    spec = {
        "capacity": {"storage": "1Mi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "s-none",
        "local": {"path": "/no/such/folder"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


def storage_class(name: str, mode: str = "WaitForFirstConsumer") -> Json:
    """A StorageClass whose provisioner does not exist."""
    more = {"provisioner": "kailab.dev/nobody", "volumeBindingMode": mode}
    return {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}, **more}


def _firm(pod: Json, level: str, seconds: int = 60) -> Json:
    """The pod with a priority class of KAI, which ignores SIGTERM."""
    return main(
        over(
            pod,
            {"metadata": {"labels": {"priorityClassName": level}}, "spec": {"terminationGracePeriodSeconds": seconds}},
        ),
        command=_IGNORES_TERM,
    )


def _whole(s: Setting, name: str) -> Json:
    return gpu_pod(name, gpus=s.gpus, queue=s.queue)


def _overhead(s: Setting) -> Json:
    more = {"handler": "runc", "overhead": {"podFixed": {"cpu": f"{s.cpu - 100}m"}}}
    return {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "s-overhead"}, **more}


def _claimed(s: Setting) -> list[Json]:
    request = {"name": "r", "exactly": {"deviceClassName": "no-such-class"}}
    claimed = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "c"}}
    pod = cpu(s, spec={"resourceClaims": [{"name": "c", "resourceClaimName": "c"}]})
    return [{**claimed, "spec": {"devices": {"requests": [request]}}}, main(pod, resources={"claims": [{"name": "c"}]})]


GROUPS = (
    Scenario("group-skipped", "group.skipped", one(lambda s: annotated(cpu(s), skip_podgrouper="true"))),
    Scenario(
        "group-owner-unknown",
        "group.warned",
        one(
            lambda s: over(
                cpu(s),
                {
                    "metadata": {
                        "ownerReferences": [
                            {
                                "apiVersion": "kailab.dev/v1",
                                "kind": "Robot",
                                "name": "r",
                                "uid": "0",
                                "controller": True,
                            }
                        ]
                    }
                },
            )
        ),
    ),
    Scenario(
        "group-node-pool", "group.node-pool", one(lambda s: labelled(cpu(s), **{"kai.scheduler/node-pool": "nobody"}))
    ),
    Scenario(
        "group-gives-up",
        "nodes.cpu",
        lambda s: [
            over(gang(s, 1), {"spec": {"schedulingBackoff": 1}}),
            notes(sized(s, cpu="10k"), pod_group_name="g"),
        ],
        also=("group.gives-up",),
    ),
    Scenario(
        "queue-changed",
        "nodes.cpu",
        one(lambda s: sized(s, cpu="10k")),
        also=("group.queue-differs",),
        then=(
            Appears("PodGroup", "s-queue-changed"),
            Edited("Pod", "p", {"metadata": {"labels": {"kai.scheduler/queue": "default-queue"}}}, "s-queue-changed"),
        ),
    ),
    Scenario(
        "gang-gated",
        "gang.gated",
        lambda s: [gang(s, 2), notes(cpu(s), pod_group_name="g"), notes(cpu(s, "q", spec=_GATE), pod_group_name="g")],
    ),
    Scenario(
        "subgroup-unknown",
        "gang.unknown-subgroup",
        lambda s: [
            gang(s, 1),
            labelled(notes(cpu(s), pod_group_name="g"), **{"kai.scheduler/subgroup-name": "workers"}),
        ],
    ),
    Scenario(
        "topology-missing",
        "gang.no-topology",
        one(lambda s: annotated(cpu(s), topology="s-none", topology_required_placement="kubernetes.io/hostname")),
    ),
    Scenario(
        "topology-level",
        "gang.topology-level",
        one(lambda s: annotated(cpu(s), topology="s-level", topology_required_placement="kailab.dev/shelf")),
        first=one(lambda s: topology("s-level", "kubernetes.io/hostname")),
    ),
    Scenario(
        "topology-unmet",
        "gang.topology-unmet",
        lambda s: [
            over(
                gang(s, 2),
                {
                    "spec": {
                        "topologyConstraint": {"topology": "s-unmet", "requiredTopologyLevel": "kubernetes.io/hostname"}
                    }
                },
            ),
            *(notes(_whole(s, name), pod_group_name="g") for name in ("p", "q")),
        ],
        first=one(lambda s: topology("s-unmet", "kubernetes.io/hostname")),
    ),
    Scenario(
        "gang-stale",
        "gang.stale",
        lambda s: [
            gang(s, 2),
            notes(cpu(s), pod_group_name="g"),
            notes(never(main(cpu(s, "q"), command=["sh", "-c", "sleep 10; exit 1"])), pod_group_name="g"),
        ],
    ),
    Scenario(
        "evicted-for-others",
        "gang.evicted",
        lambda s: [_firm(_whole(s, "urgent"), "build")],
        all_gpus=True,
        first=lambda s: [
            _firm(_whole(s, "p"), "train", 40),
            *(_firm(_whole(s, f"holder-{n}"), "inference") for n in range(s.workers - 1)),
        ],
    ),
    Scenario(
        "waits-for-evicted",
        "nodes.pipelined",
        lambda s: [_firm(_whole(s, "p"), "build")],
        all_gpus=True,
        first=lambda s: [
            _firm(_whole(s, "victim"), "train", 40),
            *(_firm(_whole(s, f"holder-{n}"), "inference") for n in range(s.workers - 1)),
        ],
    ),
    Scenario(
        "default-queue-missing",
        "queue.no-default",
        one(lambda s: cpu_pod("p", queue=None)),
        changes=(Absent("Queue", "default-queue"),),
    ),
    Scenario(
        "default-queue-named",
        "queue.no-default",
        one(lambda s: cpu_pod("p", queue="default-queue")),
        changes=(Absent("Queue", "default-queue"),),
    ),
)
"""PodGroups and queues."""

NODES = (
    Scenario(
        "gpus-unhealthy",
        "nodes.gpus-unhealthy",
        one(lambda s: gpu_pod("p", gpus=s.gpus, queue=s.queue)),
        changes=(GpusFailed(),),
    ),
    Scenario(
        "no-fit",
        "nodes.no-fit",
        one(lambda s: over(sized(s, cpu="10k"), {"spec": {"nodeSelector": {"a": "b"}}})),
        also=("told.unschedulable",),
    ),
    Scenario(
        "pod-affinity",
        "nodes.pod-affinity",
        one(
            lambda s: cpu(
                s,
                spec={
                    "affinity": {
                        "podAffinity": {
                            "requiredDuringSchedulingIgnoredDuringExecution": [
                                {
                                    "labelSelector": {"matchLabels": {"app": "nobody"}},
                                    "topologyKey": "kubernetes.io/hostname",
                                }
                            ]
                        }
                    }
                },
            )
        ),
    ),
    Scenario(
        "topology-spread",
        "nodes.topology-spread",
        one(
            lambda s: plain(
                topologySpreadConstraints=[
                    {
                        "maxSkew": 1,
                        "topologyKey": "kailab.dev/rack",
                        "whenUnsatisfiable": "DoNotSchedule",
                        "labelSelector": {"matchLabels": {"app": "p"}},
                    }
                ]
            )
        ),
    ),
    Scenario(
        "host-port",
        "nodes.host-ports",
        one(lambda s: main(cpu(s), ports=[{"containerPort": 80, "hostPort": 39876}])),
        first=lambda s: [
            main(cpu(s, f"holder-{n}"), ports=[{"containerPort": 80, "hostPort": 39876}]) for n in range(s.workers)
        ],
    ),
    Scenario("claim-of-no-class", "nodes.claims", _claimed),
    Scenario(
        "overhead",
        "nodes.cpu-taken",
        one(lambda s: cpu(s, spec={"runtimeClassName": "s-overhead"})),
        first=one(_overhead),
        also=("nodes.overhead",),
    ),
    Scenario(
        "volume-elsewhere",
        "volumes.node-conflict",
        one(mounting),
        first=lambda s: [volume("s-volume"), claim(storageClassName="s-none", volumeName="s-volume")],
        settle=3,
    ),
    Scenario(
        "cpu-taken",
        "nodes.cpu-taken",
        one(lambda s: sized(s, cpu=f"{s.cpu * 45 // 100}m")),
        first=lambda s: [
            over(sized(s, cpu=f"{s.cpu * 60 // 100}m"), {"metadata": {"name": f"holder-{n}"}}) for n in range(s.workers)
        ],
        alone=True,
    ),
    Scenario(
        "memory-taken",
        "nodes.memory-taken",
        one(lambda s: sized(s, memory=f"{s.ram * 55 // 100}Mi")),
        first=lambda s: [
            over(sized(s, memory=f"{s.ram * 55 // 100}Mi"), {"metadata": {"name": f"holder-{n}"}})
            for n in range(s.workers)
        ],
        alone=True,
    ),
    Scenario(
        "resource-taken",
        "nodes.resource-taken",
        one(lambda s: _fpga(s, "p")),
        first=lambda s: [_fpga(s, f"holder-{n}") for n in range(s.workers)],
        changes=(WorkersOffer(_FPGA, "1"),),
    ),
    Scenario("pool-unserved", "nodes.pool", one(cpu), changes=(WorkersLabelled("kai.scheduler/node-pool", "s-pool"),)),
    Scenario(
        "gpu-memory-unknown",
        "shared.memory-label",
        one(lambda s: gpu_memory_pod("p", queue=s.queue)),
        changes=(WorkersLabelled("nvidia.com/gpu.memory", None),),
    ),
    Scenario(
        "no-device-plugin",
        "nodes.no-gpus",
        one(lambda s: gpu_pod("p", queue=s.queue)),
        also=("nodes.gpus-unhealthy",),
        changes=(NoDevicePlugin(),),
    ),
    Scenario(
        "pods-full",
        "nodes.pods-full",
        one(lambda s: on_fake(cpu(s))),
        changes=(NodeWithoutKubelet(_FAKE, {"pods": "0"}),),
    ),
    Scenario(
        "mig-node",
        "nodes.mig",
        one(lambda s: on_fake(gpu_pod("p", queue=s.queue))),
        changes=(
            NodeWithoutKubelet(
                {
                    **_FAKE,
                    "nvidia.com/gpu.present": "true",
                    "nvidia.com/mig.strategy": "mixed",
                    "nvidia.com/gpu.memory": "40960",
                    "nvidia.com/gpu.count": "2",
                },
                {"nvidia.com/gpu": "2", "nvidia.com/mig-1g.5gb": "7"},
            ),
        ),
    ),
)
"""Nodes that accept no pod."""


def _fpga(s: Setting, name: str) -> Json:
    return main(cpu(s, name), resources={"requests": {_FPGA: 1}, "limits": {_FPGA: 1}})

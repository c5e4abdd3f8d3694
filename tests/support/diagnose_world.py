"""Output of diagnose.sh on nodes, and clusters with a device plugin: healthy, and with problems that a test adds."""

from __future__ import annotations

import json
from typing import Any

from lab.snapshot.cluster_snapshot import ClusterSnapshot
from tests.support.explain_world import NOW, node, pod, stamp

Json = dict[str, Any]

UUIDS = ("GPU-00000000-0000-4000-8000-000000000000", "GPU-00000000-0000-4000-8000-000000000001")
NODE = "kailab-demo-worker"
PLUGIN = "nvcr.io/nvidia/k8s-device-plugin:v0.18.0"
LIBRARY = "/usr/local/lib/kailab/nvml-1/libnvidia-ml.so.1"

CONTAINERD = """
version = 2
[plugins."io.containerd.grpc.v1.cri".containerd]
  default_runtime_name = "runc"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
    SystemdCgroup = true
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia]
  runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia.options]
    BinaryName = "/usr/bin/nvidia-container-runtime"
    SystemdCgroup = true
"""

SPEC = {
    "cdiVersion": "0.5.0",
    "kind": "nvidia.com/gpu",
    "devices": [{"name": name} for name in ("0", "1", *UUIDS, "all")],
}

SECTIONS = {
    "units": "containerd active\nkubelet active",
    "changed": "",
    "containerd": CONTAINERD,
    "toolkit": '[nvidia-container-runtime]\nmode = "cdi"',
    "programs": "/usr/bin/nvidia-container-runtime\n/usr/bin/nvidia-ctk",
    "devices": "/dev/nvidia0 195:0\n/dev/nvidia1 195:1\n/dev/nvidiactl 195:255\n/dev/nvidia-uvm 195:253",
    "driver": "",
    "cdi": f"@@ /etc/cdi/kailab.json\n{json.dumps(SPEC, indent=1)}",
    "files": f"file {LIBRARY}\nfile /etc/kailab/nvml.conf",
    "nvml": f"gpu index=0 minor=0 uuid={UUIDS[0]} memory=40960 name=A\ngpu index=1 minor=1 uuid={UUIDS[1]} name=A\nend",
    "smi": "GPU 0: A\nGPU 1: A\nrc 0",
    "containerd-log": "",
    "kubelet-log": "",
}


def printed(**changes: str) -> str:
    """Return the output of diagnose.sh on a node; underscores in names of sections become dashes."""
    sections = {**SECTIONS, **{name.replace("_", "-"): text for name, text in changes.items()}}
    return "".join(f"@@@ {name}\n{text}\n" for name, text in sections.items())


def plugin_pod(name: str = "plugin-x", on: str = NODE, **more: Any) -> Json:
    """A pod of the device plugin, ready by default."""
    made = pod(name, "kube-system", scheduler="default-scheduler", node=on, **{"ready": True, **more})
    made["spec"]["containers"][0]["image"] = PLUGIN
    return made


def daemon_set(wanted: int = 1) -> Json:
    """The plugin's DaemonSet."""
    template = {"spec": {"containers": [{"image": PLUGIN}]}}
    meta = {"name": "nvidia-device-plugin-daemonset", "namespace": "kube-system", "uid": "ds"}
    return {
        "kind": "DaemonSet",
        "metadata": meta,
        "spec": {"template": template},
        "status": {"desiredNumberScheduled": wanted, "currentNumberScheduled": wanted},
    }


def gpu_node(name: str = NODE, gpus: int = 2, **labels: str) -> Json:
    """A node with GPUs, labelled as one; an empty text removes a label."""
    made = node(name, gpus=gpus, capacity=2)
    keys = {"present": "nvidia.com/gpu.present", "memory": "nvidia.com/gpu.memory", "fake": "run.ai/fake.gpu"}
    wanted = {"nvidia.com/gpu.present": "true", **made["metadata"]["labels"]}
    wanted |= {keys[key]: value for key, value in labels.items()}
    made["metadata"]["labels"] = {key: value for key, value in wanted.items() if value}
    return made


def runtime_class(handler: str = "nvidia") -> Json:
    """RuntimeClass nvidia."""
    return {"kind": "RuntimeClass", "metadata": {"name": "nvidia"}, "handler": handler}


def event(about: Json, reason: str, message: str, *, ago: float = 5.0, kind: str = "Warning") -> Json:
    """An event about an object."""
    meta = about["metadata"]
    return {
        "kind": "Event",
        "metadata": {"name": f"e-{reason}-{ago}", "namespace": meta.get("namespace", "")},
        "type": kind,
        "reason": reason,
        "message": message,
        "lastTimestamp": stamp(ago),
        "involvedObject": {
            "kind": about["kind"],
            "name": meta["name"],
            "namespace": meta.get("namespace", ""),
            "uid": meta.get("uid", ""),
        },
    }


def world(*objects: Json, **changes: Any) -> ClusterSnapshot:
    """A healthy cluster with these objects; ``drop`` names kinds that are left out."""
    found: dict[str, list[Json]] = {
        "Node": [gpu_node()],
        "DaemonSet": [daemon_set()],
        "RuntimeClass": [runtime_class()],
        "Pod": [plugin_pod()],
        "Event": [],
        "ReplicaSet": [],
        "StatefulSet": [],
        "Job": [],
        "BindRequest": [],
    }
    for kind in changes.get("drop", ()):
        found[kind] = []
    for obj in objects:
        name = obj["metadata"]["name"]
        rest = [one for one in found[obj["kind"]] if one["metadata"]["name"] != name]
        found[obj["kind"]] = [*rest, obj]
    return ClusterSnapshot(at=NOW, objects={kind: tuple(objs) for kind, objs in found.items()})

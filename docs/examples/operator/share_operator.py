"""The code under test: what an operator makes of the resource of a model server."""

from typing import Any


def pod_of(name: str, share: float, queue: str) -> dict[str, Any]:
    """The pod that serves a model on a share of one GPU; a share of 1 or more is a number of whole GPUs."""
    meta: dict[str, Any] = {"name": name, "labels": {"kai.scheduler/queue": queue}}
    container: dict[str, Any] = {
        "name": "server",
        "image": "registry.kailab.dev/probe:2",
        "command": ["sleep", "infinity"],
    }
    spec: dict[str, Any] = {"schedulerName": "kai-scheduler", "terminationGracePeriodSeconds": 0}
    if share >= 1:
        spec["runtimeClassName"] = "nvidia"  # KAI sets it on pods with a fraction only
        container["resources"] = {"limits": {"nvidia.com/gpu": str(int(share))}}
    else:
        meta["annotations"] = {"gpu-fraction": str(share)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {**spec, "containers": [container]}}

"""Pods for the cases of test_gpu_failures.py."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from lab.gpu import GpuPlugin
from lab.workloads.pods import IMAGE
from tests.integration.broken_lab import RESERVATIONS, SPACE, BrokenLab, Json

_NUMBERS = itertools.count(1)


def pod(
    name: str,
    *,
    image: str = IMAGE,
    command: tuple[str, ...] = ("sleep", "600"),
    gpus: int = 0,
    namespace: str = SPACE,
    env: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> Json:
    """Return a pod for the default scheduler; further keywords are keys of its spec."""
    amount = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    box = {
        "name": "main",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": list(command),
        "env": [{"name": key, "value": value} for key, value in (env or {}).items()],
        "resources": {"limits": amount, "requests": amount},
        **spec.pop("container", {}),
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels or {})},
        "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [box], **spec},
    }


def victim(*, uuid: str = "all") -> Json:
    """Return a pod of RuntimeClass nvidia that requests GPUs from the runtime only."""
    # the node reports problems of a pod by name, and for a while: each pod has its own name
    return pod(f"victim-{next(_NUMBERS)}", runtimeClassName="nvidia", env={"NVIDIA_VISIBLE_DEVICES": uuid})


def bare_plugin(ground: BrokenLab, *args: str, **env: str) -> Json:
    """Return a pod of the device plugin's image under runc, beside the active one."""
    doc = GpuPlugin(ground.ctx.spec).documents()[1]["spec"]["template"]["spec"]
    box = doc["containers"][0]
    return pod(
        "bare-plugin",
        image=box["image"],
        command=(*box["command"], *args),
        env=env,
        volumes=doc["volumes"],
        container={"volumeMounts": box["volumeMounts"]},
    )


def reservation(name: str, **more: Any) -> Json:
    """Return a pod that looks like one of KAI's reservation pods, without a GPU group."""
    return pod(name, namespace=RESERVATIONS, labels={"app": RESERVATIONS}, **more)

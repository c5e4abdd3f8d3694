"""Builders of Kubernetes objects and Helm releases, for tests."""

from __future__ import annotations

import base64
import gzip
import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Json = dict[str, Any]


def release_secret(
    name: str,
    namespace: str,
    values: Json,
    *,
    version: str,
    chart: str = "",
    revision: int = 1,
    status: str = "deployed",
    manifest: str = "",
) -> Json:
    """A Secret as Helm stores a release."""
    record = {
        "name": name,
        "namespace": namespace,
        "version": revision,
        "info": {"status": status},
        "chart": {"metadata": {"name": chart or name, "version": version}},
        "config": values,
        "manifest": manifest,
    }
    inner = base64.b64encode(gzip.compress(json.dumps(record).encode()))
    return {
        "kind": "Secret",
        "metadata": {
            "name": f"sh.helm.release.v1.{name}.v{revision}",
            "namespace": namespace,
            "labels": {"owner": "helm", "name": name, "version": str(revision), "status": status},
        },
        "data": {"release": base64.b64encode(inner).decode()},
    }


def chart_file(path: Path, name: str, files: Mapping[str, str]) -> Path:
    """A chart's .tgz with these files."""
    with tarfile.open(path, "w:gz") as archive:
        for inside, text in files.items():
            info = tarfile.TarInfo(f"{name}/{inside}")
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))
    return path


def metadata(name: str, namespace: str = "", **fields: Any) -> Json:
    """Metadata with a uid; cluster-scoped objects have no namespace."""
    where = {"namespace": namespace} if namespace else {}
    return {"name": name, **where, "uid": f"uid-{namespace}-{name}" if namespace else f"uid-{name}", **fields}


def pod(
    name: str,
    namespace: str = "default",
    *,
    node: str = "",
    scheduler: str = "",
    phase: str = "Running",
    ready: bool | None = None,
    container: Mapping[str, Any] | None = None,
    spec: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    **meta: Any,
) -> Json:
    """A pod with one container, Ready when it is Running; ``meta`` are fields of its metadata."""
    is_ready = phase == "Running" if ready is None else ready
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata(name, namespace, **meta),
        "spec": {
            **({"schedulerName": scheduler} if scheduler else {}),
            **({"nodeName": node} if node else {}),
            "containers": [{"name": "main", **(container or {})}],
            **(spec or {}),
        },
        "status": {"phase": phase, "conditions": [{"type": "Ready", "status": str(is_ready)}], **(status or {})},
    }


def running_pod(name: str, namespace: str, *, labels: Mapping[str, str], waiting: str = "", restarts: int = 0) -> Json:
    """A pod that is Ready, or whose container waits."""
    state: Json = {"waiting": {"reason": waiting, "message": "why"}} if waiting else {"running": {}}
    statuses = [{"name": "main", "state": state, "restartCount": restarts}]
    phase = "Pending" if waiting else "Running"
    return pod(name, namespace, phase=phase, status={"containerStatuses": statuses}, labels=dict(labels))


def node(
    name: str,
    *,
    gpus: int | None = None,
    tenant: str = "",
    ready: bool = True,
    spec: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    **meta: Any,
) -> Json:
    """A node; ``gpus`` can be allocated, and it is dedicated to ``tenant``."""
    labels = {**({"kailab.dev/tenant": tenant} if tenant else {}), **meta.pop("labels", {})}
    amounts = {} if gpus is None else {"allocatable": {"nvidia.com/gpu": str(gpus)}}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata(name, **{"labels": labels, **meta}),
        "spec": {**(spec or {})},
        "status": {**amounts, "conditions": [{"type": "Ready", "status": str(ready)}], **(status or {})},
    }


def queue(name: str = "test", parent: str = "", *, resources: Mapping[str, Json] | None = None, **fields: Any) -> Json:
    """A queue of KAI; ``fields`` are fields of its metadata."""
    return {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": metadata(name, **fields),
        "spec": {
            **({"parentQueue": parent} if parent else {}),
            **({} if resources is None else {"resources": dict(resources)}),
        },
    }


def ready_deployment(name: str, namespace: str, *, available: int = 1) -> Json:
    """A Deployment of one replica, rolled out when ``available`` is 1."""
    return {
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "generation": 1},
        "spec": {"replicas": 1, "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": []}}},
        "status": {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "availableReplicas": available},
    }

"""Objects as Kubernetes and Helm keep them, for tests."""

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
) -> Json:
    """A Secret as Helm stores a release."""
    record = {
        "name": name,
        "namespace": namespace,
        "version": revision,
        "info": {"status": status},
        "chart": {"metadata": {"name": chart or name, "version": version}},
        "config": values,
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


def running_pod(name: str, namespace: str, *, labels: Mapping[str, str], waiting: str = "", restarts: int = 0) -> Json:
    """A pod that is Ready, or whose container waits."""
    state: Json = {"waiting": {"reason": waiting, "message": "why"}} if waiting else {"running": {}}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels)},
        "spec": {"containers": [{"name": "main"}]},
        "status": {
            "phase": "Pending" if waiting else "Running",
            "conditions": [{"type": "Ready", "status": "False" if waiting else "True"}],
            "containerStatuses": [{"name": "main", "state": state, "restartCount": restarts}],
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

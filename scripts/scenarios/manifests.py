"""Manifests of the objects that scenarios consist of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lab.workloads.pods import cpu_pod, fraction_pod
from scripts.scenarios.model import Docs, Json, Setting


def over(doc: Json, change: Json) -> Json:
    """Merge changes into a document; lists are replaced."""
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
    """The pod with more annotations; ``_`` in a keyword becomes ``-``."""
    return over(pod, {"metadata": {"annotations": {key.replace("_", "-"): text for key, text in annotations.items()}}})


def job(pod: Json) -> Json:
    """A Job of one such pod, named p; its events show what admission refuses."""
    meta = {key: pod["metadata"].get(key) or {} for key in ("labels", "annotations")}
    template = {"metadata": meta, "spec": {**pod["spec"], "restartPolicy": "Never"}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "p"},
        "spec": {"backoffLimit": 0, "template": template},
    }


def queue(name: str, s: Setting, **shares: Json) -> Json:
    """A leaf queue next to the lab's; resources that are not named are unlimited."""
    free = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    resources = {kind: shares.get(kind, free) for kind in ("cpu", "memory", "gpu")}
    spec = {"resources": resources, **({"parentQueue": s.parent} if s.parent else {})}
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def gang(s: Setting, least: int) -> Json:
    """A PodGroup created by the user."""
    spec = {"minMember": least, "queue": s.queue}
    return {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": {"name": "g"}, "spec": spec}


def one(make: Callable[[Setting], Json]) -> Docs:
    """A scenario of a single object."""
    return lambda s: [make(s)]


def cpu(s: Setting, name: str = "p", **more: Any) -> Json:
    """A pod for KAI without a GPU."""
    return over(cpu_pod(name, queue=s.queue), more)


def sized(s: Setting, **requests: Any) -> Json:
    """A pod for KAI with these requests."""
    return main(cpu(s), resources={"requests": requests})


def half(s: Setting, name: str = "p", fraction: float = 0.5) -> Json:
    """A pod with a GPU fraction."""
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

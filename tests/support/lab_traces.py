"""What a lab has: in its clusters, in its journal, and in its state directory; to compare before and after a kill."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lab.engine.journal import Journal
from lab.kube import Cluster
from lab.objects.fields import labels_of, parts
from lab.objects.isolation_labels import HOST_KAI, HOST_KAI_LABEL
from lab.paths import LabPaths

_NAMES = (
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "PriorityClass",
    "RuntimeClass",
    "DaemonSet",
    "Job",
    "SchedulingShard",
    "Config.kai.scheduler",
    "Queue.scheduling.run.ai",
)
"""Kinds whose objects count by name."""

_FILES = ("lab.log", "lab.lock", "runs")
"""In the state directory, what each run changes."""


def traces_in(cluster: Cluster) -> frozenset[str]:
    """One line for each object that a lab or a killed command may leave in a cluster."""
    return frozenset(_traces(cluster))


def _traces(cluster: Cluster) -> Iterator[str]:
    for kind in _NAMES:
        for obj in cluster.list(kind):
            meta = parts(obj)[0]
            if "deletionTimestamp" not in meta and not meta["name"].startswith("system:"):
                yield f"{kind} {meta.get('namespace', '')}/{meta['name']}"
    for space in cluster.list("Namespace"):
        labels = {key: value for key, value in labels_of(space["metadata"]).items() if key.startswith("kailab")}
        if labels.get(HOST_KAI_LABEL) == HOST_KAI[HOST_KAI_LABEL]:
            del labels[HOST_KAI_LABEL]  # stays after the last own-kai tenant: without the measures, nobody reads it
        yield f"Namespace {space['metadata']['name']} {sorted(labels.items())}"
    for node in cluster.list("Node"):
        meta, spec, _ = parts(node)
        labels = {key: value for key, value in labels_of(meta).items() if key.startswith("kailab")}
        taints = [f"{taint['key']}={taint.get('value', '')}" for taint in spec.get("taints") or []]
        yield f"Node {meta['name']} {sorted(labels.items())} {sorted(taints)} {spec.get('unschedulable', False)}"
    for kind in ("Deployment", "StatefulSet"):
        for obj in cluster.list(kind):
            meta, spec, _ = parts(obj)
            yield f"{kind} {meta['namespace']}/{meta['name']} with {spec.get('replicas')} replicas"
    yield from _releases(cluster)
    for pod in cluster.list("Pod"):
        meta = parts(pod)[0]
        if not meta.get("ownerReferences") and "deletionTimestamp" not in meta:
            yield f"Pod {meta['namespace']}/{meta['name']}"


def _releases(cluster: Cluster) -> Iterator[str]:
    """The state of each Helm release: that of its newest revision, since earlier ones are history."""
    newest: dict[str, tuple[int, str]] = {}
    for secret in cluster.list("Secret", labels="owner=helm"):
        labels = labels_of(secret["metadata"])
        name = f"{secret['metadata']['namespace']}/{labels['name']}"
        newest[name] = max(newest.get(name, (0, "")), (int(labels["version"]), labels["status"]))
    yield from (f"Helm release {name} is {status}" for name, (_, status) in newest.items())


def traces_on_machine(paths: LabPaths) -> frozenset[str]:
    """One line for each entry of the journal and each file of the state directory."""
    owned = {f"journal: {one.kind} {Path(one.name).name}" for one in Journal(paths.journal).owned()}
    return frozenset(owned | {f"file {path.name}" for path in paths.root.iterdir() if not _unimportant(path)})


def _unimportant(path: Path) -> bool:
    """What each run changes, and a folder whose last file has gone."""
    return path.name in _FILES or (path.is_dir() and not any(path.iterdir()))

"""The objects that put the watch into a cluster, from manifests/watch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lab.kube.api import OWNER_LABEL
from lab.kube.rest_mapper import KNOWN, Resource
from lab.objects.fields import parts
from lab.paths import assets
from lab.watch.alerts import alert_groups
from lab.watch.names import APP_LABELS, KINDS
from lab.watch.serve import INTERVAL

Json = dict[str, Any]

LOCAL_IMAGE = "registry.kailab.dev/watch:1"
"""The image of a lab, which kailab makes and loads into the nodes; no registry has it."""

OPERATOR_GROUP = "monitoring.coreos.com"
"""API group of the Prometheus Operator; its objects are applied where it is served."""

_IDENTITY = "kailab.dev/image"
"""Annotation of the pods: what the image contains. A changed image of the same name so replaces the pod."""


@dataclass(frozen=True)
class WatchObjects:
    """The settings of a watch in a cluster."""

    owner: str
    """Value of the label of everything that kailab creates: the lab's name, or ``kailab-watch``."""
    image: str
    identity: str = ""
    """Name of the image's content, where kailab loads it into the nodes; empty: the kubelet pulls it."""
    canary: bool = False
    queues: tuple[str, ...] = ()
    """Queues of the canary pods; empty: all leaf queues."""
    interval: float = INTERVAL
    pull_secrets: tuple[str, ...] = ()
    """Secrets of its namespace with which the kubelet pulls the image."""
    namespace_labels: Mapping[str, str] = field(default_factory=dict)
    """Labels that its namespace needs for KAI to serve the canary pods."""

    def documents(self, *, operator: bool = True) -> list[Json]:
        """The objects in the order of their creation; with ``operator`` also those of the Prometheus Operator."""
        found = [*_read("watch"), *(_read("canary") if self.canary else ()), *(_read("prometheus") if operator else ())]
        for doc in found:
            meta = doc["metadata"]
            meta["labels"] = {**APP_LABELS, **meta.get("labels", {}), OWNER_LABEL: self.owner}
            if doc["kind"] == "Namespace":
                meta["labels"] = {**meta["labels"], **self.namespace_labels, OWNER_LABEL: self.owner}
            elif doc["kind"] == "ClusterRole":
                doc["rules"] = rules()
            elif doc["kind"] == "Deployment":
                self._fill(doc["spec"]["template"])
            elif doc["kind"] == "PrometheusRule":
                doc["spec"]["groups"] = alert_groups()
        return found

    def _fill(self, template: Json) -> None:
        """Set what differs between clusters in the pod template."""
        template["metadata"]["labels"][OWNER_LABEL] = self.owner
        if self.identity:
            template["metadata"]["annotations"] = {_IDENTITY: self.identity}
        if self.pull_secrets:
            template["spec"]["imagePullSecrets"] = [{"name": name} for name in self.pull_secrets]
        (container,) = template["spec"]["containers"]
        container["image"] = self.image
        container["imagePullPolicy"] = "Never" if self.identity else "IfNotPresent"
        if self.canary:
            queues = [f"--queue={queue}" for queue in self.queues]
            canary = (f"--canary-image={self.image}", f"--interval={self.interval:g}", f"--owner={self.owner}")
            container["args"] = [*canary, *queues]


def identity_of(deployment: Mapping[str, Any]) -> str:
    """The name of the image's content of a Deployment; empty without one."""
    meta = parts(deployment)[1].get("template", {}).get("metadata", {})
    return str((meta.get("annotations") or {}).get(_IDENTITY, ""))


def rules() -> list[Json]:
    """The rules of the ClusterRole: read access to the kinds of the invariants, and to nothing else."""
    return [
        {"apiGroups": [resource.group], "resources": [resource.plural], "verbs": ["get", "list", "watch"]}
        for resource in map(_resource, KINDS)
    ]


def _resource(kind: str) -> Resource:
    return next(resource for resource in KNOWN if resource.kind == kind)


def _read(name: str) -> list[Json]:
    import yaml

    return list(yaml.safe_load_all((assets("manifests") / "watch" / f"{name}.yaml").read_text()))

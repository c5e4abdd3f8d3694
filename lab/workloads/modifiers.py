"""Changes to pods and to objects with pod templates; each function returns a changed copy."""

from __future__ import annotations

import copy
from typing import Any

from lab.kai.names import POD_GROUP_ANNOTATION
from lab.workloads.pods import IMAGE

PRIORITY_LABEL = "priorityClassName"
"""Label with the PriorityClass of a pod or its owner; KAI's pod-grouper prefers it over the pod's own field.

A label also reaches KAI from a vCluster that does not sync PriorityClasses (plugins/constants/constants.go, KAI
0.7.11 to 0.17.0).
"""

Pod = dict[str, Any]


def brief(pod: Pod) -> Pod:
    """The pod with a grace period of one second, for pods that KAI will evict."""
    changed = copy.deepcopy(pod)
    changed["spec"]["terminationGracePeriodSeconds"] = 1
    return changed


def of_priority(pod: Pod, priority_class: str) -> Pod:
    """The pod in a PriorityClass of KAI: train 50, build-preemptible 75, build 100 or inference 125.

    KAI does not evict workloads from 100 on (docs/priority, KAI 0.16).
    """
    changed = copy.deepcopy(pod)
    changed["metadata"].setdefault("labels", {})[PRIORITY_LABEL] = priority_class
    return changed


def on_node(pod: Pod, node: str) -> Pod:
    """The pod with a node selector; the scheduler still places it."""
    changed = copy.deepcopy(pod)
    changed["spec"]["nodeSelector"] = {"kubernetes.io/hostname": node}
    return changed


def among_nodes(pod: Pod, *nodes: str) -> Pod:
    """The pod with a required node affinity to any of these nodes."""
    changed = copy.deepcopy(pod)
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": list(nodes)}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    changed["spec"]["affinity"] = {"nodeAffinity": required}
    return changed


def bound_to(pod: Pod, node: str) -> Pod:
    """The pod bound to a node without a scheduler."""
    changed = copy.deepcopy(pod)
    changed["spec"]["nodeName"] = node
    return changed


def in_group(pod: Pod, group: str) -> Pod:
    """The pod as a member of an existing PodGroup; the pod-grouper ignores such a bare pod."""
    changed = copy.deepcopy(pod)
    changed["metadata"].setdefault("annotations", {})[POD_GROUP_ANNOTATION] = group
    return changed


def staying_on(node: str, doc: dict[str, Any]) -> dict[str, Any]:
    """The object with a node selector for its pods, unless they already select nodes; schedulers still place them."""
    spec = doc.get("spec") or {}
    if "template" in spec:
        return {**doc, "spec": {**spec, "template": staying_on(node, spec["template"])}}
    if "containers" not in spec or spec.get("nodeName") or spec.get("nodeSelector") or spec.get("affinity"):
        return doc
    return {**doc, "spec": {**spec, "nodeSelector": {"kubernetes.io/hostname": node}}}


def as_cluster_has(
    doc: dict[str, Any], runtime_class: str | None, image: str = IMAGE, pull_secrets: tuple[str, ...] = ()
) -> dict[str, Any]:
    """The object with this RuntimeClass, or none, wherever its pods ask for one, and this image for the suites' own."""
    spec = dict(doc.get("spec") or {})
    if "template" in spec:
        inner = as_cluster_has(spec["template"], runtime_class, image, pull_secrets)
        return {**doc, "spec": {**spec, "template": inner}}
    if spec.pop("runtimeClassName", None) and runtime_class:
        spec["runtimeClassName"] = runtime_class
    if "containers" in spec:
        spec["containers"] = [{**one, "image": image} if one["image"] == IMAGE else one for one in spec["containers"]]
        if pull_secrets:
            spec["imagePullSecrets"] = [{"name": name} for name in pull_secrets]
    return {**doc, "spec": spec} if spec else doc

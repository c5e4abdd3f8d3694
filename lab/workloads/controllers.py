"""Deployments and Jobs of the pods of ``lab.workloads.pods``, and PodGroups for gangs."""

from __future__ import annotations

import copy
from typing import Any

from lab.errors import LabError
from lab.kai.names import MIN_MEMBER_ANNOTATION
from lab.workloads.pods import manifest

APP_LABEL = "app"  # label of the pods of a Deployment or Job; the value is its name

Json = dict[str, Any]


def deployment(name: str, pod: Json, *, replicas: int = 1) -> Json:
    """A Deployment of ``pod``, which replaces evicted pods at once. Raises LabError if ``replicas`` is below 1.

    KAI gives each pod its own PodGroup with the PriorityClass ``inference``, which is never evicted, unless a label of
    the pods names another one (podgrouper/plugins/deployment, KAI 0.16).
    """
    _at_least_one(f"deployment {name}", replicas)
    doc = manifest("deployment")
    doc["metadata"]["name"] = name
    doc["spec"] |= {"replicas": replicas, "selector": {"matchLabels": {APP_LABEL: name}}}
    doc["spec"]["template"] = _template(name, pod)
    return doc


def job(name: str, pod: Json, *, pods: int = 1, minimum: int | None = None) -> Json:
    """A Job that runs ``pods`` of ``pod`` in parallel; ``minimum`` of them or none start (KAI 0.14.7 and newer).

    Raises LabError if ``pods`` is below 1, or ``minimum`` is not from 1 to ``pods``.
    """
    _at_least_one(f"job {name}", pods)
    doc = manifest("job")
    doc["metadata"]["name"] = name
    if minimum is None:
        doc["metadata"].pop("annotations", None)
    elif not 1 <= minimum <= pods:
        raise LabError(f"job {name}: {minimum} of {pods} pods cannot start together", fix=f"use 1 to {pods}")
    else:
        doc["metadata"]["annotations"] = {MIN_MEMBER_ANNOTATION: str(minimum)}
    doc["spec"] |= {"completions": pods, "parallelism": pods, "template": _template(name, pod)}
    doc["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    return doc


def pod_group(
    name: str,
    *,
    queue: str,
    minimum: int,
    priority_class: str = "train",
    topology: str = "",
    required: str = "",
    preferred: str = "",
) -> Json:
    """A PodGroup for bare pods that are ``in_group``; ``minimum`` is its minMember. Raises LabError if that is below 1.

    The name must be unique in the cluster: KAI's scheduler identifies PodGroups without their namespace
    (cache/cluster_info/cluster_info.go, KAI 0.16). ``topology`` names a Topology (KAI 0.12 and newer), ``required`` and
    ``preferred`` are the node labels of the levels that must or should contain all pods.
    """
    _at_least_one(f"PodGroup {name}", minimum)
    doc = manifest("pod-group")
    doc["metadata"]["name"] = name
    doc["spec"] = {"queue": queue, "minMember": minimum, "priorityClassName": priority_class}
    if topology:
        levels = {"requiredTopologyLevel": required, "preferredTopologyLevel": preferred}
        constraint = {"topology": topology, **{key: level for key, level in levels.items() if level}}
        doc["spec"]["topologyConstraint"] = constraint
    return doc


def _template(name: str, pod: Json) -> Json:
    meta = copy.deepcopy(pod["metadata"])
    meta.pop("name", None)
    meta.pop("namespace", None)
    meta["labels"] = {**meta.get("labels", {}), APP_LABEL: name}
    return {"metadata": meta, "spec": copy.deepcopy(pod["spec"])}


def _at_least_one(what: str, count: int) -> None:
    if count < 1:
        raise LabError(f"{what} has {count} pods", fix="request at least 1")

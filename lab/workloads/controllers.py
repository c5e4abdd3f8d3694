"""Workloads that make pods: Deployments and Jobs of any pod of ``lab.workloads.pods``, and PodGroups for gangs."""

from __future__ import annotations

import copy
from typing import Any

from lab.errors import LabError
from lab.kai.names import MIN_MEMBER_ANNOTATION
from lab.paths import assets

APP_LABEL = "app"
"""Label of the pods of a Deployment or Job; the value is its name."""

Json = dict[str, Any]


def deployment(name: str, pod: Json, *, replicas: int = 1) -> Json:
    """A Deployment of ``pod``: whoever of its pods is evicted is made again at once.

    KAI gives each of its pods a PodGroup of its own, of the PriorityClass ``inference``, which is never evicted,
    unless the pods are labelled otherwise (podgrouper/plugins/deployment, KAI 0.16).

    Raises:
        LabError: no replicas.
    """
    _at_least_one(f"deployment {name}", replicas)
    doc = _manifest("deployment")
    doc["metadata"]["name"] = name
    doc["spec"] |= {"replicas": replicas, "selector": {"matchLabels": {APP_LABEL: name}}}
    doc["spec"]["template"] = _template(name, pod)
    return doc


def job(name: str, pod: Json, *, pods: int = 1, minimum: int | None = None) -> Json:
    """A Job that runs ``pods`` of ``pod`` at the same time.

    Args:
        name: its name.
        pod: what it runs.
        pods: completions and parallelism.
        minimum: so many must start together, or none does (KAI 0.14.7 and newer).

    Raises:
        LabError: no pods, or a minimum that is not reached.
    """
    _at_least_one(f"job {name}", pods)
    doc = _manifest("job")
    doc["metadata"]["name"] = name
    if minimum is None:
        doc["metadata"].pop("annotations", None)
    elif not 1 <= minimum <= pods:
        raise LabError(f"job {name}: {minimum} of {pods} pods cannot start together", fix="choose 1 to all of them")
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
    """A PodGroup for bare pods that are ``in_group``: ``minimum`` of them start together, or none does.

    KAI's scheduler knows PodGroups and their pods by the group's name alone, without its namespace
    (cache/cluster_info/cluster_info.go, KAI 0.16): the name must be the cluster's only one.

    Args:
        name: its name.
        queue: KAI queue.
        minimum: minMember; what is above it may start later, and is evicted first.
        priority_class: PriorityClass.
        topology: a Topology, for KAI 0.12 and newer.
        required: node label of the level that must hold all of its pods.
        preferred: node label of the level that should.

    Raises:
        LabError: no members.
    """
    _at_least_one(f"PodGroup {name}", minimum)
    doc = _manifest("pod-group")
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


def _manifest(name: str) -> Json:
    import yaml

    doc: Json = yaml.safe_load((assets("manifests") / "workloads" / f"{name}.yaml").read_text())
    return doc


def _at_least_one(what: str, count: int) -> None:
    if count < 1:
        raise LabError(f"{what}: {count} pods are none", fix="give at least 1")

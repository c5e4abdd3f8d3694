"""What a pod can be given beyond its share of a GPU: each function returns a changed copy."""

from __future__ import annotations

import copy
from typing import Any

from lab.kai.names import POD_GROUP_ANNOTATION

PRIORITY_LABEL = "priorityClassName"
"""Label by which KAI's pod-grouper takes the PriorityClass of a pod or of its owner, before the pod's own field.

A label also reaches KAI from a vCluster that does not sync PriorityClasses (plugins/constants/constants.go, KAI
0.7.11 to 0.17.0).
"""

Pod = dict[str, Any]


def brief(pod: Pod) -> Pod:
    """The pod, stopped after one second at most: for pods that KAI is going to evict."""
    changed = copy.deepcopy(pod)
    changed["spec"]["terminationGracePeriodSeconds"] = 1
    return changed


def of_priority(pod: Pod, priority_class: str) -> Pod:
    """The pod in a PriorityClass: KAI makes train 50, build-preemptible 75, build 100 and inference 125.

    From 100 on KAI does not evict a workload (docs/priority, KAI 0.16).
    """
    changed = copy.deepcopy(pod)
    changed["metadata"].setdefault("labels", {})[PRIORITY_LABEL] = priority_class
    return changed


def on_node(pod: Pod, node: str) -> Pod:
    """The pod, for one node only; the scheduler still has to place it there."""
    changed = copy.deepcopy(pod)
    changed["spec"]["nodeSelector"] = {"kubernetes.io/hostname": node}
    return changed


def bound_to(pod: Pod, node: str) -> Pod:
    """The pod, on a node without asking any scheduler."""
    changed = copy.deepcopy(pod)
    changed["spec"]["nodeName"] = node
    return changed


def in_group(pod: Pod, group: str) -> Pod:
    """The pod as a member of a PodGroup that is there already; the pod-grouper leaves such a bare pod alone."""
    changed = copy.deepcopy(pod)
    changed["metadata"].setdefault("annotations", {})[POD_GROUP_ANNOTATION] = group
    return changed

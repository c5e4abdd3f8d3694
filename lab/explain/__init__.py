"""Explains why a pod does not run: pure rules over cluster snapshots, with evidence and one next action each.

``lab.operations.explain`` reads the snapshots of a lab.
"""

from lab.explain.diagnosis import explain
from lab.explain.explanation import Explanation, PodStage
from lab.explain.lookup import LabSnapshot, NoSuchPod, TenantSnapshot, explain_pod, explained
from lab.explain.overview import Overview, overview_of
from lab.explain.pod_context import PodContext
from lab.explain.registry import all_rules
from lab.explain.rule import PodRule

__all__ = [
    "Explanation",
    "LabSnapshot",
    "NoSuchPod",
    "Overview",
    "PodContext",
    "PodRule",
    "PodStage",
    "TenantSnapshot",
    "all_rules",
    "explain",
    "explain_pod",
    "explained",
    "overview_of",
]

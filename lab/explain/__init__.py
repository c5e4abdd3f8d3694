"""Explains why pods and workloads do not run: pure rules over cluster snapshots, with evidence and one next action.

``lab.operations.explain`` reads the snapshots of a lab.
"""

from lab.explain.diagnosis import explain
from lab.explain.eviction import EvictionExplanation, explain_evictions
from lab.explain.explanation import Explanation, PodStage
from lab.explain.lookup import LabSnapshot, NoSuchPod, TenantSnapshot, explain_pod, explained
from lab.explain.overview import Overview, overview_of
from lab.explain.pod_context import PodContext
from lab.explain.registry import all_rules
from lab.explain.rule import PodRule
from lab.explain.workload_explanation import WorkloadExplanation, explain_workload

__all__ = [
    "EvictionExplanation",
    "Explanation",
    "LabSnapshot",
    "NoSuchPod",
    "Overview",
    "PodContext",
    "PodRule",
    "PodStage",
    "TenantSnapshot",
    "WorkloadExplanation",
    "all_rules",
    "explain",
    "explain_evictions",
    "explain_pod",
    "explain_workload",
    "explained",
    "overview_of",
]

"""Why a pod does not run: rules over frozen views, each with its evidence and one next action.

Pure: everything works on snapshots that were read before. ``lab.operations.explain`` reads those of a lab.
"""

from lab.explain.diagnosis import explain
from lab.explain.finding import Certainty, Explained, Finding, Stage
from lab.explain.lookup import NoSuchPod, TenantWorld, Worlds, explain_pod, explained, find
from lab.explain.overview import Picture, picture
from lab.explain.pod_context import Case, Twin
from lab.explain.registry import all_rules
from lab.explain.rule import Rule

__all__ = [
    "Case",
    "Certainty",
    "Explained",
    "Finding",
    "NoSuchPod",
    "Picture",
    "Rule",
    "Stage",
    "TenantWorld",
    "Twin",
    "Worlds",
    "all_rules",
    "explain",
    "explain_pod",
    "explained",
    "find",
    "picture",
]

"""Why a pod does not run: rules over frozen views, each with its evidence and one next action.

Pure: everything works on Worlds that were read before (lab.kube.world). ``lab.parts.why`` reads those of a lab.
"""

from lab.explain.case import Case, Twin
from lab.explain.finding import Certainty, Explained, Finding, Stage
from lab.explain.judge import explain
from lab.explain.picture import Picture, picture
from lab.explain.rule import Rule
from lab.explain.rulebook import all_rules
from lab.explain.subject import NoSuchPod, TenantWorld, Worlds, explain_pod, explained, find

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

"""Applies all rules to a pod, and orders what they find."""

from __future__ import annotations

from collections.abc import Sequence

from lab.explain.explanation import Explanation, PodStage
from lab.explain.pod_context import PodContext
from lab.explain.registry import all_rules
from lab.findings import Certainty, Finding
from lab.snapshot.cluster_snapshot import UNREAD
from lab.text import whole_seconds

_SURE = tuple(Certainty)


def explain(case: PodContext, *others: PodContext) -> Explanation:
    """Why the pod of ``case`` does not run.

    Args:
        case: the pod as the person who asks knows it.
        others: the same pod elsewhere: what the syncer made of it on the host.

    Returns:
        The reasons, those first that are certain and come first in a pod's life. What both sides report is
        told once, as the person who asks sees it.
    """
    cases = (case, *others)
    unread = sorted({kind for one in cases for kind in one.world.absent} & _NEEDED)
    late = [one.world.facts[UNREAD] for one in cases if UNREAD in one.world.facts]
    return Explanation(
        namespace=case.pod.namespace,
        name=case.pod.name,
        kind=case.kind,
        stage=case.stage,
        summary=_summary(case),
        findings=_reasons(cases),
        side=case.side,
        unread=tuple(dict.fromkeys([*unread, *late])),
        facts=_facts(cases),
    )


_NEEDED = frozenset({"Event", "Node", "Pod"})
"""Kinds that every cluster has: where one cannot be read, the rules that need it said nothing."""


def _reasons(cases: Sequence[PodContext]) -> tuple[Finding, ...]:
    """One finding of each rule, the most certain and fundamental first.

    A general one, which repeats the message of a component, only where no other explains it.
    """
    rules = {rule.id: (rule.general, number) for number, rule in enumerate(all_rules())}
    once: dict[str, Finding] = {}
    for finding in (finding for case in cases for rule in all_rules() for finding in rule.apply(case)):
        once.setdefault(finding.rule, finding)
    found = [one for one in once.values() if not rules[one.rule][0]]
    if all(one.certainty is Certainty.POSSIBLE for one in found):
        found = list(once.values())
    return tuple(sorted(found, key=lambda one: (_SURE.index(one.certainty), *rules[one.rule])))


def _summary(case: PodContext) -> str:
    pod, seconds = case.pod, case.age.total_seconds()
    since = f" for {whole_seconds(seconds)}" if seconds >= 1 else ""
    if case.stage is PodStage.MISSING:
        owner = case.owners[0]
        return f"{owner.have} of {owner.want} pods exist"
    if case.stage is PodStage.UNBOUND:
        return f"Pending{since}, no node yet"
    if case.stage is PodStage.RUNNING:
        return f"Running and Ready on {pod.node}"
    if case.stage is PodStage.BOUND:
        why = f": {', '.join(dict.fromkeys(pod.waiting_reasons))}" if pod.waiting else ""
        return f"{pod.phase or 'bound'} on {pod.node}, not Ready{why}"
    if case.stage is PodStage.DELETING:
        return f"being deleted{f', on {pod.node}' if pod.node else ''}"
    return f"{pod.phase}{f' ({pod.reason})' if pod.reason else ''}"


def _facts(cases: Sequence[PodContext]) -> dict[str, str]:
    """What the pod asks for and where it goes, from the side that schedules it."""
    case = next((one for one in cases if one.schedules), cases[0])
    facts = {
        "asks for": case.needs.in_words(),
        "scheduler": case.pod.scheduler_name,
        "queue": " → ".join(q.name for q in reversed(case.chain)) or (case.queue_name if case.by_kai else ""),
        "PodGroup": case.pod.pod_group,
        "KAI": case.kai.version if case.kai and case.by_kai else "",
        "GPU group": ", ".join(case.pod.gpu_groups),
        "node": case.pod.node or (case.request.node if case.request else ""),
        "on the host": next((f"{c.pod.namespace}/{c.pod.name}" for c in cases[1:]), ""),
    }
    return {key: value for key, value in facts.items() if value}

"""Applies all rules to a pod and orders the findings."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from lab.explain.explanation import Explanation, PodStage
from lab.explain.pod_context import PodContext
from lab.explain.registry import all_rules
from lab.explain.rule import PodRule
from lab.findings import Certainty, Finding
from lab.snapshot.cluster_snapshot import UNREAD
from lab.text import whole_seconds

_CERTAINTIES = tuple(Certainty)
_NEEDED = frozenset({"Event", "Node", "Pod"})
"""Kinds that every cluster has: if one cannot be read, the rules that need it find nothing."""


def explain(asked: PodContext, *others: PodContext) -> Explanation:
    """Explain why the pod of ``asked`` does not run; ``others`` are the same pod in other clusters.

    Certain reasons come first, then those that come first in a pod's life. A reason that several clusters show is
    reported once, as seen in the cluster of ``asked``.
    """
    contexts = (asked, *others)
    unread = sorted({kind for ctx in contexts for kind in ctx.snapshot.absent} & _NEEDED)
    late = [ctx.snapshot.facts[UNREAD] for ctx in contexts if UNREAD in ctx.snapshot.facts]
    return Explanation(
        namespace=asked.pod.namespace,
        name=asked.pod.name,
        kind=asked.kind,
        stage=asked.stage,
        summary=_summary(asked),
        findings=_reasons(contexts),
        side=asked.side,
        unread=tuple(dict.fromkeys([*unread, *late])),
        facts=_facts(contexts),
    )


def _reasons(contexts: Sequence[PodContext]) -> tuple[Finding, ...]:
    """Return one finding per rule, ordered; general ones only if no other rule gives a likely reason."""
    rules = _order()
    first: dict[str, Finding] = {}
    for finding in (finding for ctx in contexts for rule in _rules(ctx.stage) for finding in rule.apply(ctx)):
        first.setdefault(finding.rule, finding)
    found = [finding for finding in first.values() if not rules[finding.rule][0]]
    if all(finding.certainty is Certainty.POSSIBLE for finding in found):
        found = list(first.values())
    return tuple(sorted(found, key=lambda one: (_CERTAINTIES.index(one.certainty), *rules[one.rule])))


@functools.cache
def _rules(stage: PodStage) -> tuple[PodRule, ...]:
    return tuple(rule for rule in all_rules() if stage in rule.stages)


@functools.cache
def _order() -> dict[str, tuple[bool, int]]:
    """Return whether each rule is general, and its place."""
    return {rule.id: (rule.general, number) for number, rule in enumerate(all_rules())}


def _summary(ctx: PodContext) -> str:
    pod, seconds = ctx.pod, ctx.age.total_seconds()
    match ctx.stage:
        case PodStage.MISSING:
            return f"{ctx.owners[0].have} of {ctx.owners[0].want} pods exist"
        case PodStage.UNBOUND:
            return f"Pending{f' for {whole_seconds(seconds)}' if seconds >= 1 else ''}, no node yet"
        case PodStage.RUNNING:
            return f"Running and Ready on {pod.node}"
        case PodStage.BOUND:
            why = f": {', '.join(dict.fromkeys(pod.waiting_reasons))}" if pod.waiting else ""
            return f"{pod.phase or 'bound'} on {pod.node}, not Ready{why}"
        case PodStage.DELETING:
            return f"being deleted{f', on {pod.node}' if pod.node else ''}"
    return f"{pod.phase}{f' ({pod.reason})' if pod.reason else ''}"


def _facts(contexts: Sequence[PodContext]) -> dict[str, str]:
    """Return the pod's requests and placement, as seen in the cluster that schedules it."""
    ctx = next((one for one in contexts if one.schedules), contexts[0])
    facts = {
        "asks for": ctx.requests.in_words(),
        "scheduler": ctx.pod.scheduler_name,
        "queue": (" → ".join(q.name for q in reversed(ctx.chain)) or ctx.queue_name) if ctx.by_kai else "",
        "PodGroup": ctx.pod.pod_group,
        "KAI": ctx.kai.version if ctx.kai and ctx.by_kai else "",
        "GPU group": ", ".join(ctx.pod.gpu_groups),
        "node": ctx.pod.node or (ctx.bind_request.node if ctx.bind_request else ""),
        "on the host": next((f"{one.pod.namespace}/{one.pod.name}" for one in contexts[1:]), ""),
    }
    return {key: value for key, value in facts.items() if value}

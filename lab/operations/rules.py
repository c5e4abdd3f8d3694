"""All rules of lint, explain, doctor and verify, and KAI's known defects, described in one registry."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import lab.host.checks  # noqa: F401 - registers the checks
from lab.errors import SpecError
from lab.explain import all_rules
from lab.explain.eviction_verdict import ACTIONS
from lab.explain.message_rules import patterns
from lab.findings import Registry, Rule, RuleDescription, example
from lab.gpu.diagnosis.node_stages import CHECK, STAGES
from lab.gpu.diagnosis.symptoms import STREAMS, symptoms
from lab.host.check import CHECKS
from lab.invariants.catalogue import ALL
from lab.kai import known_defects
from lab.lint import RULES
from lab.text import nearest


@functools.cache
def rules() -> tuple[RuleDescription, ...]:
    """Return the description of every rule, in the order of areas and of their registries.

    An id is unique in its area. Raises LabError for a duplicate.
    """
    found = (*_lint(), *_explain(), *_doctor(), *_symptoms(), *_invariants(), *_defects())
    for area in dict.fromkeys(one.area for one in found):
        Registry(area, (one for one in found if one.area == area))
    return found


def described(rule: str) -> tuple[RuleDescription, ...]:
    """Return the descriptions with an id, one for each area that has it. Raises SpecError if none has."""
    if found := tuple(one for one in rules() if one.id == rule):
        return found
    near = nearest(rule, {one.id for one in rules()})
    raise SpecError(
        f"no rule has the id {rule!r}", fix=f"--explain {near}" if near else "kailab lint --rules lists rules"
    )


def _of(area: str, rule: Rule[Any], **facts: str) -> RuleDescription:
    """Describe a rule that is a function: its docstring has the meaning, its example the cure."""
    text = " ".join((inspect.getdoc(rule.find) or "").split())
    meaning = "" if text.rstrip(".") == rule.title else text
    seen = example(area, rule.id)
    return RuleDescription(
        area,
        rule.id,
        rule.title,
        meaning,
        seen.next if seen else "",
        rule.source,
        {name: value for name, value in facts.items() if value},
        seen,
    )


def _lint() -> Iterator[RuleDescription]:
    yield from (_of("lint", rule) for rule in RULES.values())


def _explain() -> Iterator[RuleDescription]:
    for rule in all_rules():
        facts = {"stages": ", ".join(rule.stages), "read only": rule.read_only}
        if (row := patterns().get(rule.id)) is not None:
            facts["messages of"] = ", ".join(sorted(row.streams))
            yield RuleDescription.of_pattern("explain", row, {name: text for name, text in facts.items() if text})
        else:
            yield _of("explain", rule, **facts)
    for action, (title, meaning) in ACTIONS.items():
        rule_id = f"eviction.{action}"
        seen = example("explain", rule_id)
        yield RuleDescription(
            "explain", rule_id, title, meaning, seen.next if seen else "", "pkg/scheduler/actions", example=seen
        )


def _doctor() -> Iterator[RuleDescription]:
    for check in CHECKS.values():
        yield _of("doctor", check, effect="advisory: a failure is a warning" if check.advisory else "")
    for stage, (title, meaning) in STAGES.items():
        fix = "kailab doctor names the known failure behind it; kailab up repairs a lab's own nodes"
        yield RuleDescription("doctor", f"{CHECK}.{stage}", f"GPU path: {title}", meaning, fix)


def _symptoms() -> Iterator[RuleDescription]:
    for row in symptoms().values():
        streams = "; ".join(STREAMS[name] for name in STREAMS if name in row.streams)
        yield RuleDescription.of_pattern("symptom", row, {"seen in": streams, "proof": row.proof})


_BY_DEFECT = (
    "recreate the pods that the evidence names; kailab kai advise says which release cures the defects that break it"
)
_UNKNOWN = (
    "recreate the pods that the evidence names; no release of KAI is known to break it, so report it with the folder"
    " that kailab logs writes"
)


def _invariants() -> Iterator[RuleDescription]:
    for one in ALL:
        grace = f"{one.grace:g} s: {one.why_grace}" if one.grace else "none: it holds in every single state"
        facts = {"kinds read": ", ".join(one.needs), "grace period": grace, "in tenants": ", ".join(one.tenant_needs)}
        found = _of("invariant", one, **facts, **{"known defects that break it": ", ".join(one.defects)})
        yield replace(found, next=_BY_DEFECT if one.defects else _UNKNOWN)


def _defects() -> Iterator[RuleDescription]:
    for one in known_defects():
        facts = {
            "releases": one.releases,
            "brought by": one.brought,
            "cured by": one.cured,
            "known by": one.proof,
            "invariants that it breaks": ", ".join(rule.id for rule in ALL if one.id in rule.defects),
        }
        shown = {name: text for name, text in facts.items() if text}
        yield RuleDescription(
            "defect", one.id, one.what, "", one.next, one.issue, shown, example=example("defect", one.id)
        )

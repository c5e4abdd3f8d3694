"""All rules: those of each theme in its file, and those that match messages; the most fundamental first."""

from __future__ import annotations

import functools

from lab.errors import LabError
from lab.explain import rules as _rules  # noqa: F401 - registers the rules
from lab.explain.message_rules import message_rules
from lab.explain.rule import RULES, PodRule
from lab.findings import Registry

THEMES = (
    "spec",
    "kai",
    "admission",
    "tenant",
    "group",
    "gang",
    "queue",
    "nodes",
    "volumes",
    "shared",
    "bind",
    "node",
    "pod",
    "image",
    "sandbox",
    "container",
    "told",
)
"""In the order of a pod's life: a reason further up makes those below it irrelevant."""


@functools.cache
def all_rules() -> tuple[PodRule, ...]:
    """Return every rule, sorted by theme. Raises LabError for a duplicate id or an unknown theme."""
    found = Registry(RULES.area, (*RULES.values(), *message_rules()))
    if unknown := [rule.id for rule in found.values() if rule.theme not in THEMES]:
        raise LabError(f"explain: unknown theme of rules {', '.join(unknown)}")
    return tuple(sorted(found.values(), key=lambda rule: THEMES.index(rule.theme)))

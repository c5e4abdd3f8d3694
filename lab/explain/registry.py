"""All rules: those of each theme in its file, and those that read messages; the most fundamental first."""

from __future__ import annotations

import functools

from lab.errors import LabError
from lab.explain import rules as _rules  # noqa: F401 - enters the rules into the registry
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
"""In the order in which a pod meets them: a reason further up makes those below it moot."""


@functools.cache
def all_rules() -> tuple[PodRule, ...]:
    """Every rule, by theme.

    Raises:
        LabError: an id is there twice, or its theme is not known.
    """
    found = Registry(RULES.area, (*RULES.values(), *message_rules()))
    if strange := [rule.id for rule in found.values() if rule.theme not in THEMES]:
        raise LabError(f"explain: no such theme: {', '.join(strange)}")
    return tuple(sorted(found.values(), key=lambda rule: THEMES.index(rule.theme)))

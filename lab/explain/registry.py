"""All rules: those of each theme in its file, and those that read messages; the most fundamental first."""

from __future__ import annotations

import functools

from lab.errors import LabError
from lab.explain.message_rules import message_rules
from lab.explain.rule import Rule
from lab.explain.rules import (
    binding,
    components,
    containers,
    groups,
    nodes,
    pods,
    queues,
    reservation,
    spec,
    tenants,
    volumes,
)

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
def all_rules() -> tuple[Rule, ...]:
    """Every rule, by theme.

    Raises:
        LabError: an id is there twice, or its theme is not known.
    """
    modules = (spec, components, tenants, groups, queues, nodes, volumes, reservation, binding, pods, containers)
    found = [rule for module in modules for rule in module.RULES] + list(message_rules())
    ids = [rule.id for rule in found]
    for rule in found:
        if ids.count(rule.id) > 1 or rule.theme not in THEMES:
            raise LabError(f"lab/explain: rule {rule.id}: its id is not unique, or its theme is not known")
    return tuple(sorted(found, key=lambda rule: THEMES.index(rule.theme)))

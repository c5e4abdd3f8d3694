"""All facts of one KAI source tree."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from scripts.kai_facts import chart, scheduling
from scripts.kai_facts.go_source import GoSource
from scripts.kai_facts.keys import keys

_MESSAGES = Path(__file__).parents[2] / "lab/explain/messages.toml"

Facts = dict[str, dict[str, Any]]
"""Topic → name → value; lab/kai/facts.py describes the topics."""


def facts_of(root: Path) -> Facts:
    """Read a tree. Raises FileNotFoundError where it lacks go.mod or the chart's values."""
    source = GoSource(root)
    found = keys(source)
    for key in sorted(chart.chart_keys(root)):
        found.setdefault(key, {"on": [], "readers": [], "writers": []})["readers"].append("chart")
    hooks: dict[str, list[str]] = {}
    for name, kind in sorted(chart.webhooks(root) | scheduling.webhooks(source)):
        hooks.setdefault(name, []).append(kind)
    rules = tomllib.loads(_MESSAGES.read_text())
    return {
        "keys": found,
        "chart_values": chart.values(root),
        "unread_values": dict.fromkeys(sorted(chart.unread_values(root)), True),
        "crds": dict(chart.crds(root)),
        "queues": dict(chart.queues(root)),
        **scheduling.scheduling(root, source),
        "images": dict.fromkeys(sorted(chart.images(root) | scheduling.images(source)), True),
        "binaries": dict.fromkeys(sorted(chart.binaries(root)), True),
        "webhooks": hooks,
        "events": dict(scheduling.events(source)),
        "messages": dict.fromkeys(sorted(scheduling.messages(source, rules)), True),
        "support": chart.support(root),
    }

"""Rules that match the messages of components: rows of messages.toml and kubelet.toml."""

from __future__ import annotations

import functools
from pathlib import Path

from lab.explain.component_messages import ComponentMessage
from lab.explain.explanation import PodStage
from lab.explain.pod_context import PodContext
from lab.explain.rule import Find, PodRule
from lab.findings import Finding, PatternRule, Registry, load

_FILES = ("messages.toml", "kubelet.toml")
_STREAMS = ("refusals", "verdicts", "bind_errors", "kubelet", "failure")
"""Attributes of PodContext."""


@functools.cache
def patterns() -> Registry[PatternRule]:
    """Load the rows. Raises LabError for an invalid one."""
    return load((Path(__file__).with_name(name) for name in _FILES), _STREAMS)


def message_rules() -> tuple[PodRule, ...]:
    """Return a rule for each row, in order. Raises LabError for an invalid row."""
    return tuple(
        PodRule(
            row.id,
            row.title,
            _finder(row),
            row.source,
            row.general,
            read_only=row.read_only,
            stages=tuple(map(PodStage, row.stages)),
        )
        for row in patterns().values()
    )


def _finder(row: PatternRule) -> Find:
    def find(ctx: PodContext) -> Finding | None:
        for stream in _STREAMS:
            messages: tuple[ComponentMessage, ...] = getattr(ctx, stream) if stream in row.streams else ()
            for message in messages:
                if match := row.search(message.text, message.sender if stream == "kubelet" else ""):
                    return row.finding(match, (message.line,), _names(ctx))
        return None

    return find


def _names(ctx: PodContext) -> dict[str, str]:
    return {
        "title": ctx.title,
        "pod": ctx.pod.name,
        "namespace": ctx.pod.namespace,
        "node": ctx.pod.node,
        "queue": ctx.queue_name,
        "scheduler": ctx.pod.scheduler_name,
        "kubectl": ctx.kubectl(),
    }

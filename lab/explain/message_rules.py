"""Rules that read what a component said: rows of messages.toml and kubelet.toml."""

from __future__ import annotations

import functools
from pathlib import Path

from lab.explain.component_messages import ComponentMessage
from lab.explain.explanation import PodStage
from lab.explain.pod_context import PodContext
from lab.explain.rule import Find, PodRule
from lab.findings import Finding, PatternRule, Registry, load

_FILES = ("messages.toml", "kubelet.toml")
_STREAMS = ("refusals", "verdicts", "bind_errors", "kubelet")
"""Attributes of PodContext."""


@functools.cache
def patterns() -> Registry[PatternRule]:
    """The rows. Raises LabError when one is not well-formed."""
    return load((Path(__file__).with_name(name) for name in _FILES), _STREAMS)


def message_rules() -> tuple[PodRule, ...]:
    """The rules of all rows, in their order. Raises LabError when a row is not well-formed."""
    return tuple(
        PodRule(row.id, row.title, _finder(row), row.source, row.general, stages=tuple(map(PodStage, row.stages)))
        for row in patterns().values()
    )


def _finder(row: PatternRule) -> Find:
    def find(case: PodContext) -> Finding | None:
        for stream in _STREAMS:
            messages: tuple[ComponentMessage, ...] = getattr(case, stream) if stream in row.streams else ()
            for message in messages:
                if match := row.search(message.text, message.who if stream == "kubelet" else ""):
                    return row.finding(match, (message.line,), _names(case))
        return None

    return find


def _names(case: PodContext) -> dict[str, str]:
    return {
        "title": case.title,
        "pod": case.pod.name,
        "namespace": case.pod.namespace,
        "queue": case.queue_name,
        "scheduler": case.pod.scheduler_name,
        "kubectl": case.kubectl(),
    }

"""Lint: what will go wrong with a manifest on this KAI version, before it is applied."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from lab.errors import ManifestsRefused
from lab.findings import Finding
from lab.lint import rules as _rules  # noqa: F401 - enters the rules into the registry
from lab.lint.document import ManifestDocument, parse, read
from lab.lint.model import RULES, LintContext, Manifest, QueueFact
from lab.lint.queues import default_queues, queue_facts

__all__ = [
    "RULES",
    "LintContext",
    "Manifest",
    "ManifestDocument",
    "QueueFact",
    "lint",
    "lint_files",
    "parse",
    "read",
    "refuse",
]


def lint(documents: Iterable[ManifestDocument], setting: LintContext) -> tuple[Finding, ...]:
    """Try all rules on all documents; findings in the order of file, line and rule.

    Queues and namespaces among the documents count as known, so that a pod may name one that comes with it.
    """
    manifests = [Manifest(document.data, document) for document in documents]
    if own := queue_facts(manifests):
        known: Mapping[str, QueueFact] | None = setting.queues
        setting = replace(setting, queues={**(known or default_queues(setting.line)), **own})
    if spaces := {one.name: one.labels for one in manifests if one.kind == "Namespace"}:
        setting = replace(setting, namespaces={**setting.namespaces, **spaces})
    found = [
        replace(one, subject=str(manifest), file=manifest.document.file, line=manifest.document.line(one.at))
        for manifest in manifests
        for rule in RULES.values()
        for one in rule.apply(manifest, setting)
    ]
    return tuple(sorted(found, key=lambda one: (one.file, one.line, one.rule)))


def lint_files(files: Iterable[Path], setting: LintContext) -> tuple[Finding, ...]:
    """Lint files, and the YAML files of folders, together. Raises SpecError for one that cannot be read."""
    documents: list[ManifestDocument] = []
    for file in files:
        inside = sorted([*file.rglob("*.yaml"), *file.rglob("*.yml")]) if file.is_dir() else [file]
        for one in inside:
            documents.extend(read(one))
    return lint(documents, setting)


def refuse(findings: Iterable[Finding]) -> None:
    """Raise ManifestsRefused when there is an error among the findings."""
    errors = [one for one in findings if one.severity == "error"]
    if errors:
        first = errors[0]
        raise ManifestsRefused(
            f"{first.subject}: {first.what}",
            evidence=[f"{one.file}:{one.line}: {one.subject}: {one.what} ({one.rule})" for one in errors],
            fix=first.next,
        )

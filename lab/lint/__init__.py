"""Lint: reports what will fail in a manifest on a KAI version, before it is applied."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from pathlib import Path

from lab.errors import ManifestsRefused, SpecError
from lab.findings import Finding
from lab.lint import rules as _rules  # noqa: F401 - registers the rules
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


def lint(documents: Iterable[ManifestDocument], ctx: LintContext) -> tuple[Finding, ...]:
    """Apply all rules to all documents; findings are sorted by file, line and rule.

    Queues and namespaces among the documents count as known, so that a pod may name one that comes with it.
    """
    manifests = [Manifest(document.data, document) for document in documents]
    if own := queue_facts(manifests):
        ctx = replace(ctx, queues={**(ctx.queues or default_queues(ctx.line)), **own})
    namespaces = {one.name: one.labels for one in manifests if one.kind == "Namespace"}
    ctx = replace(ctx, namespaces={**ctx.namespaces, **namespaces})
    findings = [
        replace(one, subject=str(manifest), file=manifest.document.file, line=manifest.document.line(one.at))
        for manifest in manifests
        for rule in RULES.values()
        for one in rule.apply(manifest, ctx)
    ]
    return tuple(sorted(findings, key=lambda one: (one.file, one.line, one.rule)))


def lint_files(files: Collection[Path], ctx: LintContext) -> tuple[Finding, ...]:
    """Lint files, and the YAML files of folders, together. Raises SpecError: a file is unreadable, or all are empty."""
    documents: list[ManifestDocument] = []
    for file in files:
        paths = sorted([*file.rglob("*.yaml"), *file.rglob("*.yml")]) if file.is_dir() else [file]
        for path in paths:
            documents.extend(read(path))
    if not documents:
        raise SpecError(
            f"{', '.join(map(str, files))}: no manifest to lint", fix="name a file or folder with manifests"
        )
    return lint(documents, ctx)


def refuse(findings: Iterable[Finding]) -> None:
    """Raise ManifestsRefused if the findings contain an error."""
    errors = [one for one in findings if one.severity == "error"]
    if errors:
        raise ManifestsRefused(
            f"{errors[0].subject}: {errors[0].what}",
            evidence=[f"{one.file}:{one.line}: {one.subject}: {one.what} ({one.rule})" for one in errors],
            fix=errors[0].next,
        )

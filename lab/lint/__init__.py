"""Lint: reports what will fail in a manifest on a KAI version, before it is applied."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from lab.errors import ManifestsRefused, SpecError
from lab.findings import Finding
from lab.kai import line_of
from lab.lint import rules as _rules  # noqa: F401 - registers the rules
from lab.lint.document import PROSE_SUFFIXES, YAML_SUFFIXES, ManifestDocument, documents, parse, read
from lab.lint.model import RULES, LintContext, Manifest, QueueFact
from lab.lint.queues import default_queues, queue_facts

STRUCTURE = ("not-yaml", "indentation-lost")
"""Rules that exclude the others: they come first."""

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
    "read_all",
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
    found = dict.fromkeys(one for manifest in manifests for one in _findings(manifest, ctx))
    return tuple(sorted(found, key=lambda one: (one.file, one.line, one.rule)))


def _findings(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """Apply all rules to each pod template of a manifest; one of ``structure`` excludes the others."""
    document = manifest.document
    if document.version:
        with suppress(SpecError):  # older than all lines
            ctx = replace(ctx, line=line_of(document.version))
    for number in range(max(len(manifest.pods), 1)):
        view = replace(manifest, number=number) if number else manifest
        for rule in RULES.values():
            found = rule.apply(view, ctx)
            for one in found:
                yield replace(one, subject=str(manifest), file=document.file, line=one.line or document.line(one.at))
            if found and rule.id in STRUCTURE:
                return


def read_all(files: Collection[Path], *, empty: bool = False) -> tuple[ManifestDocument, ...]:
    """Read files, folders (YAML and Markdown) and stdin (``-``).

    Raises SpecError: a file is unreadable, or all are without a manifest and ``empty`` is false.
    """
    found: list[ManifestDocument] = []
    for file in files:
        suffixes = (*YAML_SUFFIXES[:2], *PROSE_SUFFIXES[:2])
        inside = sorted(path for path in file.rglob("*") if path.suffix in suffixes) if file.is_dir() else [file]
        for path in inside:
            found.extend(documents(path))
    if not found and not empty:
        raise SpecError(
            f"{', '.join(map(str, files))}: no manifest to lint", fix="name a file or folder with manifests"
        )
    return tuple(found)


def lint_files(files: Collection[Path], ctx: LintContext) -> tuple[Finding, ...]:
    """Lint files together. Raises SpecError: a file is unreadable, or all are without a manifest."""
    return lint(read_all(files), ctx)


def refuse(findings: Iterable[Finding]) -> None:
    """Raise ManifestsRefused if the findings contain an error."""
    errors = [one for one in findings if one.severity == "error"]
    if errors:
        raise ManifestsRefused(
            f"{errors[0].subject}: {errors[0].what}",
            evidence=[f"{one.file}:{one.line}: {one.subject}: {one.what} ({one.rule})" for one in errors],
            fix=errors[0].next,
        )

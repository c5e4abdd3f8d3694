"""Rules about text that is not a manifest, or has lost its shape. Where one applies, no other rule does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lab.findings import Finding
from lab.lint.model import LintContext, Manifest, finding, rule


@rule("not-yaml", "YAML 1.1, as kubectl reads it")
def not_yaml(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """Text that is not valid YAML."""
    document = manifest.document
    if document.problem and document.template:
        yield finding((), "a template with {{ }}, not YAML", "helm template CHART | lab lint -", "note")
    elif document.problem:
        yield finding((), f"not valid YAML (column {document.place[1]}): {document.problem}", "correct the line")


@rule("indentation-lost", "seen in published guides: copied from a web page, every line starts at the margin")
def indentation(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """An object without indentation: its metadata and spec are empty."""
    obj = manifest.obj
    if manifest.kind and "metadata" in obj and obj["metadata"] is None and obj.keys() & {"name", "generateName"}:
        what = f"the indentation is lost: metadata is empty, and name is a key of the {manifest.kind} itself"
        yield finding(("metadata",), what, "indent what belongs to metadata and spec")


@rule("duplicate-key", "kubectl keeps the last value of a key without a message, measured with 1.34")
def duplicate(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """A key that occurs twice: only its last value counts."""
    for key, first, last in manifest.document.twice:
        found = finding((), f"{key} is on line {first} already: kubectl keeps this value only", "remove one", "warning")
        yield replace(found, line=last)

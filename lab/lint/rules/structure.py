"""Rules about text that is not a manifest or has lost its shape, and about objects that no API has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from lab.findings import Finding
from lab.kai import facts, release
from lab.lint.model import LintContext, Manifest, finding, rule

_OF_OBJECTS = frozenset({"apiVersion", "kind", "metadata", "spec", "status"})
OWN_GROUPS = ("scheduling.run.ai", "kai.scheduler")
"""API groups of KAI."""


@rule("not-yaml", "YAML 1.1, as kubectl reads it")
def not_yaml(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """Text that is not valid YAML."""
    document = manifest.document
    if document.problem and document.template:
        yield finding((), "a template with {{ }}, not YAML", "helm template CHART | kailab lint -", "note")
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


@rule("key-outside-spec", "Kubernetes: the API reference of the kind; kubectl's validation is strict since 1.25")
def outside_spec(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """Keys of spec that are beside it, in objects that have nothing else: indentation lost in part."""
    known = manifest.workload is not None or manifest.kind in ("Service", "Queue", "PodGroup")
    extra = [key for key in manifest.obj if key not in _OF_OBJECTS] if known and manifest.spec else []
    if extra:
        what = f"{', '.join(map(str, extra))}: beside spec, where a {manifest.kind} has no such key; kubectl refuses it"
        yield finding((extra[0],), what, "indent what belongs to spec")


@rule("kai-kind-unknown", "lab/kai/derived/crds.json: KAI's CRDs at the tag of the version")
def unknown_kind(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """A kind, or a version of its API, that this KAI does not have; queue-api reports Queues."""
    group, _, version = manifest.api.rpartition("/")
    plural = re.sub("ys$", "ies", f"{manifest.kind.lower()}s")
    crds = {
        name: versions for name, versions in facts.at("crds", ctx.line.version).items() if name.endswith(OWN_GROUPS)
    }
    own = {name.partition(".")[2]: versions for name, versions in crds.items() if name.startswith(f"{plural}.")}
    like_kais = group in OWN_GROUPS or (own and "kai" in re.split("[.-]", group))
    if manifest.kind == "Queue" or not like_kais or version in own.get(group, ()):
        return
    what, fix = (
        f"KAI {ctx.line.version} has no {manifest.kind} of {manifest.api}: the API server refuses it",
        "remove it",
    )
    having = [one for one in facts.releases() if version in facts.at("crds", one).get(f"{plural}.{group}", ())]
    if ctx.line.newer:
        what = f"{manifest.kind} of {manifest.api} is unknown to this release of kailab"
        fix = f"look for it in the CRDs of KAI {ctx.line.version}"
    elif own:
        right = next(iter(own))
        fix = f"write apiVersion: {right}/{own[right][0]}"
    elif having:
        newer = release(having[0]) > release(ctx.line.version)
        fix = f"KAI {having[0]} and newer have it" if newer else f"KAI {having[-1]} was the last to have it"
    yield finding(("apiVersion",), what, fix, "note" if ctx.line.newer else "error")

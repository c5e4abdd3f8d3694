"""Rules about keys that KAI ignores, or reads in another place."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from lab.findings import Finding
from lab.kai import facts, line_of, release
from lab.lint.document import Loc
from lab.lint.model import LintContext, Manifest, finding, rule
from lab.lint.workloads import mapping
from lab.text import nearest

_LABELS = ("queue", "priority_class", "preemptibility", "subgroup", "node_pool", "gpu_group")
_ON_PODS = ("fraction", "gpu_memory", "num_devices", "fraction_container", "mps")
_ON_OWNERS = ("topology", "required_topology", "preferred_topology", "segment_size", "min_member")
_PREFIXES = ("kai.scheduler/", "scheduling.kai.io/", "runai/", "run.ai/", "runai-")
_FORMER = {"runai/queue": "up to 0.5"}
"""Keys of KAI before 0.6: cmd/podgrouper/app/options.go."""


@functools.cache
def _known(version: str) -> frozenset[str]:
    """Return all labels and annotations of a version."""
    return frozenset(facts.at("keys", version)) | (set(vars(line_of(version).keys).values()) - {""})


def _keys(manifest: Manifest, kinds: tuple[str, ...] = ("labels", "annotations")) -> Iterator[tuple[Loc, str, str]]:
    """Yield every label and annotation of the object and its pods: location of the mapping, key and value."""
    pod = manifest.pod
    places = {("metadata",): manifest.meta, manifest.owner[0]: manifest.owner[1]}
    if pod is not None:
        places[pod.meta_at] = pod.meta
    for at, meta in places.items():
        for kind in kinds:
            for key, value in mapping(meta.get(kind)).items():
                yield (*at, kind), str(key), str(value)


@rule("fraction-key-unknown", "KAI v0.7.11 to v0.17.0, pkg/common/constants/constants.go: the key is gpu-fraction")
def fraction_key(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """A prefixed or misspelt gpu-fraction or gpu-memory: the pod gets no GPU, without an error."""
    keys = ctx.line.keys
    for at, key, _ in _keys(manifest):
        bare = _letters(key.rpartition("/")[2].lower()).removesuffix("s")
        for right in (keys.fraction, keys.gpu_memory):
            if key not in (right, *vars(keys).values()) and bare == _letters(right):
                yield finding(
                    (*at, key),
                    f"every KAI version ignores {key}: it schedules the pod like one without a GPU",
                    f"write the annotation {right} on the pod",
                )


def _letters(key: str) -> str:
    return key.replace("_", "").replace("-", "")


@rule("key-unknown", "lab/kai/derived/keys.json: what KAI's code names at the tag of the version")
def unknown_key(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """A KAI key that this version does not have."""
    line, names = ctx.line, _known(ctx.line.version)
    for at, key, _ in _keys(manifest):
        if minor := facts.announced(key):
            if not line.newer:
                what = f"KAI {line.version} ignores {key}: KAI {minor} announces it"
                yield finding((*at, key), what, f"use KAI {minor} or newer, or the annotation gpu-fraction", "warning")
            continue
        if not key.startswith(_PREFIXES) or key in names or key.startswith(line.keys.gpu_groups):
            continue
        if key.replace("_", "-").endswith(("gpu-fraction", "gpu-memory")):
            continue  # fraction-key-unknown reports it
        if line.newer:
            what = f"{key} is unknown to this release of kailab, which knows KAI up to {facts.releases()[-1]}"
            yield finding((*at, key), what, f"look for it in the documentation of KAI {line.version}", "note")
            continue
        having = facts.having("keys", key)
        near = line.keys.queue if key.endswith("/queue") else nearest(key, names, 0.75)
        what, fix = f"KAI {line.version} ignores {key}", f"perhaps you meant {near}" if near else "remove it"
        if key in _FORMER:
            what += f": KAI read it {_FORMER[key]}"
        elif having and release(having[0]) > release(line.version):
            fix = f"KAI {having[0]} and newer read it"
        elif having:
            what += f": KAI {having[-1]} was the last to read it"
        yield finding((*at, key), what, fix, "warning")


@rule("label-as-annotation", "pkg/podgrouper: the queue is read from labels only")
def label_as_annotation(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """An annotation that KAI reads as a label, such as the queue."""
    labels = {getattr(ctx.line.keys, name) for name in _LABELS} - {""}
    for at, key, _ in _keys(manifest, ("annotations",)):
        if key in labels:
            yield finding((*at, key), f"{key} is an annotation here, and KAI reads it as a label", "move it to labels")


@rule("annotation-as-label", "pkg/binder/plugins/gpusharing/gpu-request: annotations of the pod")
def annotation_as_label(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """A label that KAI reads as an annotation, such as gpu-fraction."""
    annotations = {getattr(ctx.line.keys, name) for name in (*_ON_PODS, *_ON_OWNERS)} - {""}
    for at, key, _ in _keys(manifest, ("labels",)):
        if key in annotations:
            what = f"{key} is a label here, and KAI reads it as an annotation"
            yield finding((*at, key), what, "move it to annotations")


@rule("share-on-owner", "pkg/admission: only the pod's own annotations count")
def share_on_owner(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """A GPU share on the workload instead of its pods: the pods get no GPU."""
    pod = manifest.pod
    if pod is None or not pod.is_template:
        return
    for name in _ON_PODS:
        key = getattr(ctx.line.keys, name)
        if key and key in manifest.annotations and key not in pod.annotations:
            yield finding(
                ("metadata", "annotations", key),
                f"{key} is on the {manifest.kind}, not on its pods: KAI schedules them without it",
                f"move it to {'.'.join(map(str, pod.meta_at))}.annotations",
            )


@rule("preemptibility-unknown", "KAI v0.16.8, pkg/apis/scheduling/v2alpha2/podgroup_types.go")
def preemptibility(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """An unknown preemptibility: KAI ignores it."""
    name = ctx.line.keys.preemptibility
    for at, key, value in _keys(manifest, ("labels",)):
        if name and key == name and value.lower() not in ("preemptible", "non-preemptible"):
            yield finding(
                (*at, key),
                f"{key}: {value} is unknown, so the workload's priority decides",
                "write preemptible or non-preemptible",
                "warning",
            )

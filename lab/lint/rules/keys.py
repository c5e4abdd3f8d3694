"""Keys that KAI does not know, or knows in another place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

from lab.findings import Finding
from lab.kai import VersionLine, lines
from lab.lint.document import Loc
from lab.lint.model import LintContext, Manifest, found, rule
from lab.text import nearest

_LABELS = ("queue", "priority_class", "preemptibility", "subgroup", "node_pool", "gpu_group")
_ON_PODS = ("fraction", "gpu_memory", "num_devices", "fraction_container", "mps")
_ON_OWNERS = ("topology", "required_topology", "preferred_topology", "segment_size", "min_member")
_PREFIXES = ("kai.scheduler/", "runai/", "run.ai/", "runai-")


def known(line: VersionLine) -> frozenset[str]:
    """All labels and annotations of a version."""
    return frozenset(value for value in asdict(line.keys).values() if value)


@rule(
    "fraction-key-unknown",
    "kai.scheduler/gpu-fraction and its like are ignored",
    "KAI v0.7.11 to v0.17.0, pkg/common/constants/constants.go: the key is gpu-fraction",
)
def fraction_key(manifest: Manifest, setting: LintContext) -> Iterator[Finding]:
    """gpu-fraction or gpu-memory under a prefix, or misspelt: the pod gets no GPU, and nothing says so."""
    keys = setting.line.keys
    wanted = {key: key.replace("-", "").replace("_", "") for key in (keys.fraction, keys.gpu_memory)}
    for at, key in _written(manifest):
        bare = key.rpartition("/")[2].lower().replace("_", "").replace("-", "").removesuffix("s")
        for right, squeezed in wanted.items():
            if key not in (right, *asdict(keys).values()) and bare == squeezed:
                yield found(
                    (*at, key),
                    f"{key} is ignored by every KAI version: the pod is scheduled as one without a GPU",
                    f"write the annotation {right} on the pod",
                )


@rule(
    "key-unknown",
    "a KAI key that this version does not have",
    "pkg/common/constants/constants.go at the tag of the version",
)
def unknown_key(manifest: Manifest, setting: LintContext) -> Iterator[Finding]:
    """A key under one of KAI's prefixes that this version does not read."""
    names = known(setting.line)
    for at, key in _written(manifest):
        if not key.startswith(_PREFIXES) or key in names or key.startswith(setting.line.keys.gpu_groups):
            continue
        if any(key.replace("_", "-").endswith(word) for word in ("gpu-fraction", "gpu-memory")):
            continue  # fraction-key-unknown says it
        since = [line.version for line in lines().values() if key in known(line)]
        near = nearest(key, names, 0.75)
        if since:
            what, fix = f"{key} is not read by KAI {setting.line.version}", f"KAI {since[0]} reads it"
        elif near:
            what, fix = f"{key} is no key of KAI's and is ignored", f"perhaps you meant {near}"
        else:
            what, fix = f"{key} is no key of KAI {setting.line.version} and is ignored", "leave it out"
        yield found((*at, key), what, fix, "warning")


@rule(
    "label-as-annotation",
    "a key that KAI reads as a label stands among the annotations",
    "pkg/podgrouper: the queue is read from labels only",
)
def label_as_annotation(manifest: Manifest, setting: LintContext) -> Iterator[Finding]:
    """The queue as an annotation, for one."""
    labels = {getattr(setting.line.keys, name) for name in _LABELS} - {""}
    for at, key in _written(manifest, ("annotations",)):
        if key in labels:
            yield found((*at, key), f"{key} is an annotation here, and KAI reads it as a label", "move it to labels")


@rule(
    "annotation-as-label",
    "a key that KAI reads as an annotation stands among the labels",
    "pkg/binder/plugins/gpusharing/gpu-request: annotations of the pod",
)
def annotation_as_label(manifest: Manifest, setting: LintContext) -> Iterator[Finding]:
    """gpu-fraction as a label, for one."""
    annotations = {getattr(setting.line.keys, name) for name in (*_ON_PODS, *_ON_OWNERS)} - {""}
    for at, key in _written(manifest, ("labels",)):
        if key in annotations:
            yield found(
                (*at, key), f"{key} is a label here, and KAI reads it as an annotation", "move it to annotations"
            )


@rule(
    "share-on-owner",
    "a GPU share on the workload instead of its pods",
    "pkg/admission: only the pod's own annotations count",
)
def share_on_owner(manifest: Manifest, setting: LintContext) -> Iterator[Finding]:
    """gpu-fraction in the metadata of a Deployment: its pods get no GPU."""
    pod = manifest.pod
    if pod is None or not pod.at:
        return
    for name in _ON_PODS:
        key = getattr(setting.line.keys, name)
        if key and key in manifest.annotations and key not in pod.annotations:
            where = ".".join(map(str, pod.at))
            yield found(
                ("metadata", "annotations", key),
                f"{key} stands on the {manifest.kind}, not on its pods: they are scheduled without it",
                f"move it to {where}.metadata.annotations",
            )


@rule(
    "preemptibility-unknown",
    "a preemptibility that KAI does not know",
    "KAI v0.16.8, pkg/apis/scheduling/v2alpha2/podgroup_types.go",
)
def preemptibility(manifest: Manifest, setting: LintContext) -> Iterator[Finding]:
    """Only preemptible and non-preemptible count; anything else is as if it were not there."""
    key = setting.line.keys.preemptibility
    for at, written in _written(manifest, ("labels",)):
        value = _value(manifest, at, written)
        if key and written == key and value.lower() not in ("preemptible", "non-preemptible"):
            yield found(
                (*at, key),
                f"{key}: {value} is not known, and the workload's priority decides instead",
                "write preemptible or non-preemptible",
                "warning",
            )


@rule("topology-not-here", "topology keys on a version without topology", "KAI CHANGELOG.md, 0.12.0")
def topology(manifest: Manifest, setting: LintContext) -> Iterator[Finding]:
    """Topology-aware placement came with KAI's own Topology in 0.12."""
    if "topology" in setting.line.features:
        return
    newest = replace(setting.line.keys, required_topology="kai.scheduler/topology-required-placement")
    for at, key in _written(manifest, ("annotations",)):
        if key in (newest.required_topology, "kai.scheduler/topology-preferred-placement", "kai.scheduler/topology"):
            yield found(
                (*at, key),
                f"{key} is ignored: KAI {setting.line.version} places pods without regard to topology",
                "take KAI 0.12 or newer",
            )


def _written(manifest: Manifest, kinds: tuple[str, ...] = ("labels", "annotations")) -> Iterator[tuple[Loc, str]]:
    """Every label and annotation key of the object and of its pods, with the place of its mapping."""
    pod = manifest.pod
    parts = [((), manifest.meta), *([(pod.at, pod.meta)] if pod is not None and pod.at else [])]
    for at, meta in parts:
        for kind in kinds:
            mapping = meta.get(kind)
            for key in mapping if isinstance(mapping, dict) else ():
                yield (*at, "metadata", kind), str(key)


def _value(manifest: Manifest, at: Loc, key: str) -> str:
    here: Any = manifest.obj
    for word in at:
        here = here[word]
    return str(here.get(key, ""))

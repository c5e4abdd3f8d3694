"""Adapts a workload file to a tenant: namespace, owner label, scheduler, queue, and keys as its KAI spells them.

What a tenant cannot express is an error if the workload would be a different one without it; otherwise it is left out
with a note.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lab.compare.kai_keys import NEEDED, WRITTEN, meaning, spelled
from lab.compare.target import DEFAULT_SCHEDULER, Target
from lab.errors import ManifestsRefused
from lab.kai import lines
from lab.kube import OWNER_LABEL
from lab.lint import Manifest, ManifestDocument, lint, refuse

Json = dict[str, Any]

WAVE_ANNOTATION = "kailab.dev/wave"
"""On a document: a number, by default 0. A wave is created when the previous one has settled."""

KINDS = ("Pod", "Job", "Deployment", "StatefulSet", "ReplicaSet", "ConfigMap", "Service", "PodGroup")
"""Supported kinds: all are namespaced, and are deleted with the run's namespace."""


@dataclass(frozen=True)
class Planned:
    """One object, as it is created in the tenant."""

    doc: Json
    workload: str
    """``Kind/name``."""
    wave: int
    pods: int
    """Number of pods that it creates or is."""
    queue: str
    """As in the workload file; empty without one."""

    @property
    def kind(self) -> str:
        return str(self.doc["kind"])


@dataclass(frozen=True)
class Fitted:
    """The workload for one tenant."""

    objects: tuple[Planned, ...] = ()
    notes: tuple[str, ...] = ()
    """Changes, omissions and lint's warnings, a sentence each."""

    @property
    def waves(self) -> tuple[tuple[Planned, ...], ...]:
        """The objects by wave, in the order of the file."""
        numbers = sorted({one.wave for one in self.objects})
        return tuple(tuple(one for one in self.objects if one.wave == number) for number in numbers)

    def placed(self, namespace: str, lab: str) -> Fitted:
        """The workload in a namespace, with the lab's label; the names of PodGroups get the namespace as a prefix.

        KAI's scheduler identifies PodGroups by name alone (cache/cluster_info/cluster_info.go, KAI 0.16).
        """
        groups = {one.doc["metadata"]["name"] for one in self.objects if one.kind == "PodGroup"}
        placed = (replace(one, doc=_placed(one.doc, namespace, lab, groups)) for one in self.objects)
        return replace(self, objects=tuple(placed))


@dataclass
class _Notes:
    """Notes and errors about one document."""

    notes: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


def fit(documents: Sequence[ManifestDocument], target: Target) -> Fitted:
    """Adapt the workload to a tenant, and lint the result.

    Raises ManifestsRefused if the tenant cannot express it, or lint finds an error.
    """
    objects: list[Planned] = []
    changed: list[ManifestDocument] = []
    notes: list[str] = []
    errors: list[str] = []
    for document in documents:
        manifest = Manifest(copy.deepcopy(document.data), document)
        title, own = str(manifest), _Notes()
        _check_kind(manifest, target, own)
        if not own.errors:
            objects.append(_planned(manifest, target, own))
            changed.append(replace(document, data=manifest.obj))
        notes += [f"{target.tenant}: {title}: {text}" for text in own.notes]
        errors += [f"{document.file}:{document.line(())}: {title}: {text}" for text in own.errors]
    if errors or not any(one.pods for one in objects):
        raise ManifestsRefused(
            f"tenant {target.tenant} ({target.side.scheduler}) cannot run this workload as it is written",
            evidence=errors or ["it contains no pods"],
            fix="remove it from the workload file, or compare tenants that both support it",
        )
    return Fitted(tuple(objects), (*notes, *_linted(changed, target)))


def _linted(documents: Sequence[ManifestDocument], target: Target) -> Iterator[str]:
    found = lint(documents, target.setting)
    try:
        refuse(found)
    except ManifestsRefused as error:
        raise ManifestsRefused(
            f"tenant {target.tenant}: {error.what}", evidence=error.evidence, fix=error.fix
        ) from error
    return (f"{target.tenant}: {one.subject}: {one.what} ({one.rule})" for one in found if one.severity == "warning")


def _check_kind(manifest: Manifest, target: Target, notes: _Notes) -> None:
    kind, line = manifest.kind, target.line
    if kind not in KINDS:
        notes.errors.append(f"unsupported kind; use {', '.join(KINDS)}")
    elif not manifest.meta.get("name"):
        notes.errors.append("metadata.name is missing: pods of the two tenants are paired by name")
    elif kind == "PodGroup" and line is None:
        notes.errors.append("the default scheduler does not support PodGroups")
    elif kind == "PodGroup" and target.by_host:
        notes.errors.append("PodGroups of a host-kai tenant exist on the host only")


def _planned(manifest: Manifest, target: Target, notes: _Notes) -> Planned:
    """Adapt the manifest in place, and return it with its facts."""
    obj, pod = manifest.obj, manifest.pod
    kind, name = manifest.kind, manifest.name
    obj.pop("status", None)
    manifest.meta.pop("namespace", None)  # every run has its own namespace
    queue = _queue_of(manifest)
    wave = _wave(manifest, notes)
    for meta in (manifest.meta, *([pod.meta] if pod is not None and pod.is_template else [])):
        for part in ("labels", "annotations"):
            if isinstance(meta.get(part), dict):
                meta[part] = dict(_translated(meta[part], target, notes))
    if pod is not None:
        _schedule(pod.spec, target, notes)
        scheduled = pod.spec.get("schedulerName") == target.scheduler_name
        if target.line is not None and scheduled and not queue and target.queues:
            queue = target.queues[0]
            pod.meta.setdefault("labels", {})[spelled(target.line, "queue")] = queue
            notes.notes.append(f"no queue given: uses {queue}")
        if target.by_host and kind == "Job" and any(meaning(key) == "min_member" for key in manifest.annotations):
            notes.notes.append("no gang: the host's KAI sees its pods without their Job")
    return Planned(obj, f"{kind}/{name}", wave, _pods(manifest), queue)


def _queue_of(manifest: Manifest) -> str:
    if manifest.kind == "PodGroup":
        return str(manifest.spec.get("queue") or "")
    pod = manifest.pod
    both = {**(pod.labels if pod else {}), **manifest.labels}
    return next((value for key, value in both.items() if meaning(key) == "queue"), "")


def _wave(manifest: Manifest, notes: _Notes) -> int:
    annotations = manifest.meta.get("annotations")
    text = str(annotations.pop(WAVE_ANNOTATION, 0)) if isinstance(annotations, dict) else "0"
    if not text.isdecimal():
        notes.errors.append(f"{WAVE_ANNOTATION}: {text!r} must be a number")
        return 0
    return int(text)


def _translated(found: Mapping[str, Any], target: Target, notes: _Notes) -> Iterator[tuple[str, Any]]:
    """Labels or annotations as the tenant's KAI spells them, without those that it does not have."""
    for key, value in found.items():
        what, line = meaning(key), target.line
        if not what:
            yield key, value
        elif what in WRITTEN:
            notes.notes.append(f"{key} is left out: KAI writes it itself")
        elif line is not None and (name := spelled(line, what)):
            if name != key:
                notes.notes.append(f"{key} is spelled {name} there")
            yield name, value
        else:
            scheduler = "the default scheduler" if line is None else f"KAI {line.version}"
            missing = f"{scheduler} has no such key"
            if what in NEEDED:
                notes.errors.append(f"{key}: {missing}")
            else:
                notes.notes.append(f"{key}: {value} is left out: {missing}")


def _schedule(spec: Json, target: Target, notes: _Notes) -> None:
    names = {line.scheduler_name for line in lines().values()} | {target.scheduler_name, ""}
    asked = str(spec.get("schedulerName") or "")
    if asked == DEFAULT_SCHEDULER and target.line is not None:
        notes.notes.append(f"schedulerName {DEFAULT_SCHEDULER} is kept")
    elif asked not in names | {DEFAULT_SCHEDULER}:
        notes.errors.append(f"unknown scheduler {asked!r}; omit schedulerName to use the tenant's own")
    else:
        spec["schedulerName"] = target.scheduler_name
    classes = {name for line in lines().values() for name in line.priority_classes}
    if target.line is None and spec.get("priorityClassName") in classes:
        notes.notes.append(f"priorityClassName: {spec.pop('priorityClassName')} is left out: it is one of KAI's")


def _pods(manifest: Manifest) -> int:
    def number(key: str) -> int:
        value = manifest.spec.get(key)
        return value if isinstance(value, int) else 1

    if manifest.kind == "Job":
        together = number("parallelism")
        return min(together, number("completions")) if "completions" in manifest.spec else together
    if manifest.kind in ("Deployment", "StatefulSet", "ReplicaSet"):
        return number("replicas")
    return 1 if manifest.kind == "Pod" else 0


def _placed(doc: Json, namespace: str, lab: str, groups: set[str]) -> Json:
    """A copy in the namespace; references to the PodGroups ``groups`` follow their names."""
    new = copy.deepcopy(doc)
    meta = new["metadata"]
    meta["namespace"] = namespace
    meta["labels"] = {**(meta.get("labels") or {}), OWNER_LABEL: lab}
    if new["kind"] == "PodGroup":
        meta["name"] = f"{namespace}-{meta['name']}"
    template = ((new.get("spec") or {}).get("template") or {}).get("metadata") or {}
    for notes in (meta.get("annotations"), template.get("annotations")):
        for key, value in list((notes or {}).items()):
            if notes and meaning(key) == "pod_group" and value in groups:
                notes[key] = f"{namespace}-{value}"
    return new

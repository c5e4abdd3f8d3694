"""A manifest file made fit for a tenant: namespace, owner label, scheduler, queue, and keys as its KAI spells them.

What a tenant cannot express is refused when the workload would be another one without it, and told otherwise.
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
"""On a document: a whole number, 0 where it is missing. A wave is created when the one before has come to rest."""

KINDS = ("Pod", "Job", "Deployment", "StatefulSet", "ReplicaSet", "ConfigMap", "Service", "PodGroup")
"""What a workload may consist of; all of it is namespaced, and gone with the run."""


@dataclass(frozen=True)
class Planned:
    """One object, as it is created in the tenant."""

    doc: Json
    workload: str
    """``Kind/name``."""
    wave: int
    pods: int
    """How many pods it makes, or is."""
    queue: str
    """As the workload file names it; empty: none."""

    @property
    def kind(self) -> str:
        return str(self.doc["kind"])


@dataclass(frozen=True)
class Fitted:
    """The workload for one tenant."""

    objects: tuple[Planned, ...] = ()
    told: tuple[str, ...] = ()
    """What was changed or left out, and what lint said, a sentence each."""

    @property
    def waves(self) -> tuple[tuple[Planned, ...], ...]:
        """The objects by wave, in the order of the file."""
        numbers = sorted({one.wave for one in self.objects})
        return tuple(tuple(one for one in self.objects if one.wave == number) for number in numbers)

    def placed(self, namespace: str, lab: str) -> Fitted:
        """The same in a namespace, with the lab's label. PodGroups get the namespace into their name.

        KAI's scheduler knows PodGroups by name alone (cache/cluster_info/cluster_info.go, KAI 0.16).
        """
        groups = {one.doc["metadata"]["name"] for one in self.objects if one.kind == "PodGroup"}
        return replace(
            self, objects=tuple(replace(o, doc=_placed(o.doc, namespace, lab, groups)) for o in self.objects)
        )


@dataclass
class _Notes:
    """What comes up while one document is made fit."""

    title: str
    told: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


def fit(documents: Sequence[ManifestDocument], target: Target) -> Fitted:
    """The workload for a tenant, checked by lint as it will be applied there.

    Raises:
        ManifestsRefused: it cannot be expressed in this tenant, or lint finds an error.
    """
    objects, told, refused = [], [], []
    changed = []
    for document in documents:
        manifest = Manifest(copy.deepcopy(document.data), document)
        notes = _Notes(str(manifest))
        _refuse_kind(manifest, target, notes)
        if not notes.refused:
            objects.append(_planned(manifest, target, notes))
            changed.append(replace(document, data=manifest.obj))
        told += [f"{target.tenant}: {notes.title}: {text}" for text in notes.told]
        refused += [f"{document.file}:{document.line(())}: {notes.title}: {text}" for text in notes.refused]
    if refused or not any(one.pods for one in objects):
        raise ManifestsRefused(
            f"tenant {target.tenant} ({target.side.scheduler}) cannot run this workload as it is written",
            evidence=refused or ["there is no pod in it"],
            fix="take it out of the workload file, or compare tenants that can both do it",
        )
    return Fitted(tuple(objects), (*told, *_linted(changed, target)))


def _linted(documents: Sequence[ManifestDocument], target: Target) -> Iterator[str]:
    found = lint(documents, target.setting)
    try:
        refuse(found)
    except ManifestsRefused as error:
        raise ManifestsRefused(
            f"tenant {target.tenant}: {error.what}", evidence=error.evidence, fix=error.fix
        ) from error
    return (f"{target.tenant}: {one.subject}: {one.what} ({one.rule})" for one in found if one.severity == "warning")


def _refuse_kind(manifest: Manifest, target: Target, notes: _Notes) -> None:
    kind, line = manifest.kind, target.line
    if kind not in KINDS:
        notes.refused.append(f"a workload consists of {', '.join(KINDS)}")
    elif not manifest.meta.get("name"):
        notes.refused.append("it needs a name of its own: pods of the two tenants are paired by name")
    elif kind == "PodGroup" and line is None:
        notes.refused.append("the default scheduler knows no PodGroups")
    elif kind == "PodGroup" and target.by_host:
        notes.refused.append("a tenant on the host's KAI has no PodGroups: they are on the host")


def _planned(manifest: Manifest, target: Target, notes: _Notes) -> Planned:
    """Change the manifest in place, and say what it is."""
    obj, pod = manifest.obj, manifest.pod
    kind, name = manifest.kind, manifest.name
    obj.pop("status", None)
    manifest.meta.pop("namespace", None)  # every run has a namespace of its own
    queue = _queue_of(manifest)
    wave = _wave(manifest, notes)
    for meta in (manifest.meta, *([pod.meta] if pod is not None and pod.at else [])):
        for part in ("labels", "annotations"):
            if isinstance(meta.get(part), dict):
                meta[part] = dict(_translated(meta[part], target, notes))
    if pod is not None:
        _schedule(pod.spec, target, notes)
        scheduled = pod.spec.get("schedulerName") == target.scheduler_name
        if target.line is not None and scheduled and not queue and target.queues:
            queue = target.queues[0]
            pod.meta.setdefault("labels", {})[spelled(target.line, "queue")] = queue
            notes.told.append(f"it names no queue and goes to {queue}")
        if target.by_host and kind == "Job" and any(meaning(key) == "min_member" for key in manifest.annotations):
            notes.told.append("no gang: the host's KAI sees its pods without the Job that owns them")
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
        notes.refused.append(f"{WAVE_ANNOTATION}: {text!r} is no whole number")
        return 0
    return int(text)


def _translated(found: Mapping[str, Any], target: Target, notes: _Notes) -> Iterator[tuple[str, Any]]:
    """Labels or annotations as the tenant's KAI spells them, without those that it does not have."""
    for key, value in found.items():
        what, line = meaning(key), target.line
        if not what:
            yield key, value
        elif what in WRITTEN:
            notes.told.append(f"{key} is left out: KAI writes it itself")
        elif line is not None and (name := spelled(line, what)):
            if name != key:
                notes.told.append(f"{key} is called {name} there")
            yield name, value
        else:
            missing = (
                f"KAI {line.version} has no such key" if line is not None else "the default scheduler knows no such key"
            )
            (notes.refused if what in NEEDED else notes.told).append(
                f"{key}: {missing}" if what in NEEDED else f"{key}: {value} is left out: {missing}"
            )


def _schedule(spec: Json, target: Target, notes: _Notes) -> None:
    names = {line.scheduler_name for line in lines().values()} | {target.scheduler_name, ""}
    asked = str(spec.get("schedulerName") or "")
    if asked == DEFAULT_SCHEDULER and target.line is not None:
        notes.told.append(f"it goes to {DEFAULT_SCHEDULER} by its own wish")
    elif asked not in names | {DEFAULT_SCHEDULER}:
        notes.refused.append(f"there is no scheduler {asked!r}; leave schedulerName out for the tenant's own")
    else:
        spec["schedulerName"] = target.scheduler_name
    classes = {name for line in lines().values() for name in line.priority_classes}
    if target.line is None and spec.get("priorityClassName") in classes:
        notes.told.append(f"priorityClassName: {spec.pop('priorityClassName')} is left out: it is one of KAI's")


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
    """A copy in the namespace; ``groups`` are the PodGroups that come along."""
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

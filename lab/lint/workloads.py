"""Kinds of workloads from ``workloads.toml``: where their pods are, and what KAI's pod-grouper reads of them."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.kai import VersionLine, release
from lab.lint.document import Loc

Obj = dict[str, Any]


@dataclass(frozen=True)
class PodPath:
    """The place of pod templates in a workload; paths are dotted, and ``*`` is each item or value."""

    at: str
    meta: str = "metadata"
    spec: str = "spec"
    meta_from: str = ""
    spec_from: str = ""
    without: tuple[str, ...] = ()
    partial: bool = False


@dataclass(frozen=True)
class WorkloadKind:
    """A kind of workload; ``workloads.toml`` explains the fields."""

    pods: tuple[PodPath, ...]
    versions: tuple[str, ...] = ()
    since: str = ""
    owner: str = ""
    pod_first: bool = False
    priority: str = "train"
    own_gang: bool = False
    replicas: str = ""
    minimum: str = ""
    types: tuple[str, ...] = ()
    groups: str = ""
    min_member: bool = False

    def grouped_by(self, line: VersionLine, version: str) -> bool:
        """Whether this KAI has a plugin for the kind in an API version such as v1."""
        return (not self.since or release(line.version) >= release(self.since)) and (
            not self.versions or version in self.versions
        )


@dataclass(frozen=True)
class PodTemplate:
    """The pod in a manifest: the manifest itself, or a template of a workload."""

    meta: Obj
    spec: Obj
    meta_at: Loc = ("metadata",)
    spec_at: Loc = ("spec",)
    inherited: Mapping[str, str] = field(default_factory=dict)
    """Labels from elsewhere in the workload."""
    partial: bool = False
    """The workload's controller adds to it: a missing schedulerName may still become KAI's."""

    @functools.cached_property
    def labels(self) -> Mapping[str, str]:
        return {**self.inherited, **texts(self.meta.get("labels"))}

    @functools.cached_property
    def annotations(self) -> Mapping[str, str]:
        return texts(self.meta.get("annotations"))

    @property
    def scheduler(self) -> str:
        """schedulerName; empty for the default scheduler."""
        return str(self.spec.get("schedulerName") or "")

    def scheduled_by(self, scheduler: str) -> bool | None:
        """Whether this scheduler handles the pod; None if the workload's controller may set the scheduler."""
        return None if self.partial and not self.scheduler else self.scheduler == scheduler

    @property
    def is_template(self) -> bool:
        """Whether it is a template of a workload, not a Pod."""
        return self.meta_at != ("metadata",)


@functools.cache
def kinds() -> Mapping[str, WorkloadKind]:
    """All kinds by ``KIND.GROUP``."""
    rows = tomllib.loads(Path(__file__).with_name("workloads.toml").read_text())
    return {name: _kind(row) for name, row in rows.items()}


def _kind(row: Obj) -> WorkloadKind:
    values: Obj = {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}
    paths = [{**path, "without": tuple(path.get("without", ()))} for path in row["pods"]]
    return WorkloadKind(**{**values, "pods": tuple(PodPath(**path) for path in paths)})


def templates(obj: Obj, kind: WorkloadKind | None) -> Iterator[PodTemplate]:
    """Yield the pods of an object; of an unknown kind, every ``…Template`` that has containers."""
    if kind is None:
        for loc in _template_locs(obj, ()):
            template = value_at(obj, loc)
            yield PodTemplate(mapping(template.get("metadata")), template["spec"], (*loc, "metadata"), (*loc, "spec"))
        return
    for path in kind.pods:
        for loc, template in walk(obj, path.at):
            meta_at, spec_at = (*loc, *_words(path.meta)), (*loc, *_words(path.spec))
            spec = value_at(obj, spec_at)
            if not isinstance(template, dict) or not isinstance(spec, dict) or not spec.keys().isdisjoint(path.without):
                continue
            over = mapping(value_at(obj, _words(path.spec_from))) if path.spec_from else {}
            above = mapping(value_at(obj, _words(path.meta_from))) if path.meta_from else {}
            spec = {**over, **spec} if over else spec
            meta = mapping(value_at(obj, meta_at))
            yield PodTemplate(meta, spec, meta_at, spec_at, texts(above.get("labels")), path.partial)


def walk(obj: Any, path: str) -> Iterator[tuple[Loc, Any]]:
    """Yield location and value of everything at a dotted path, in which ``*`` is each item or value."""
    found: list[tuple[Loc, Any]] = [((), obj)]
    for word in _words(path):
        found = [((*loc, key), value) for loc, here in found for key, value in _below(here, word)]
    yield from found


def _below(here: Any, word: str) -> list[tuple[str | int, Any]]:
    if word == "*":
        return list(here.items()) if isinstance(here, dict) else list(enumerate(here)) if isinstance(here, list) else []
    return [(word, here[word])] if isinstance(here, dict) and word in here else []


def _words(path: str) -> tuple[str, ...]:
    return tuple(path.split(".")) if path else ()


def _template_locs(here: Any, loc: Loc) -> Iterator[Loc]:
    if isinstance(here, dict):
        if str(loc[-1] if loc else "").lower().endswith("template") and mapping(here.get("spec")).get("containers"):
            yield loc
            return
        for key, value in here.items():
            yield from _template_locs(value, (*loc, key))
    elif isinstance(here, list):
        for number, value in enumerate(here):
            yield from _template_locs(value, (*loc, number))


def value_at(obj: Any, loc: Loc) -> Any:
    """Return the value at a location; None without one."""
    for key in loc:
        if isinstance(obj, dict):
            obj = obj.get(key)
        elif isinstance(obj, list) and isinstance(key, int) and key < len(obj):
            obj = obj[key]
        else:
            return None
    return obj


def mapping(value: Any) -> Obj:
    """Return the value if it is a mapping, else an empty one."""
    return value if isinstance(value, dict) else {}


def texts(value: Any) -> Mapping[str, str]:
    """Return a mapping of labels or annotations as text."""
    return {str(key): "" if text is None else str(text) for key, text in mapping(value).items()}

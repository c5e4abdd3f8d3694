"""Rules between values of a lab file: errors and warnings. This module has those of the cluster and of KAI.

Each rule names the place in the lab file that breaks it, so that the loader can name the line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lab.config.sections import LabFields
from lab.errors import SpecError
from lab.kai import VersionLine, line_of, lines, release

RULE = "lab_rule"  # type of the pydantic errors that rules raise

_HOST = r"[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?(:[0-9]{1,5})?"
_MIRROR = rf"(https?://)?{_HOST}(/[A-Za-z0-9._-]+)*/?"

Loc = tuple[int | str, ...]
"""A place in the lab file, in the file's spelling: ``("tenants", 0, "kaiVersion")``."""


@dataclass(frozen=True)
class BrokenRule:
    """A violated rule: the place, what is wrong, and the places of the other values involved."""

    loc: Loc
    what: str
    about: tuple[Loc, ...] = ()


def dotted(loc: Loc) -> str:
    """A place as text: ``tenants.0.kaiVersion``."""
    return ".".join(str(word) for word in loc)


def prefix(loc: Loc) -> str:
    """``tenants.0.kaiVersion: ``; empty for the top level."""
    return f"{dotted(loc)}: " if loc else ""


def violations(spec: LabFields) -> Iterator[BrokenRule]:
    """Violated rules of the cluster and its KAI."""
    about: tuple[Loc, ...] = (("cluster", "provider"),)
    for key, value in (("kubeconfig", spec.cluster.kubeconfig), ("context", spec.cluster.context)):
        if spec.cluster.provider == "existing" and value is None:
            yield BrokenRule(("cluster", key), "is missing: provider 'existing' needs kubeconfig and context", about)
        if spec.cluster.provider == "kind" and value is not None:
            yield BrokenRule(("cluster", key), f"'{value}' requires provider 'existing', not 'kind'", about)
    yield from _mirrors(spec.supply.mirrors)
    if spec.scheduler != "default" and spec.cluster.provider == "kind":
        yield from kai_on(spec.kai.version, spec.cluster.kubernetes, ("kai", "version"), ("cluster", "kubernetes"))


def _mirrors(mirrors: Mapping[str, str]) -> Iterator[BrokenRule]:
    """Mirrors that are no addresses: they become file names and text in the nodes, and arguments of commands."""
    for registry, mirror in mirrors.items():
        at: Loc = ("supply", "mirrors", registry)
        if not re.fullmatch(_HOST, registry):
            yield BrokenRule(at, "the key is not a registry host such as ghcr.io or localhost:5000")
        elif not re.fullmatch(_MIRROR, mirror):
            yield BrokenRule(at, f"{mirror!r} is not a mirror such as localhost:5001 or https://mirror.example/path")


def kai_on(kai: str, kubernetes: str, loc: Loc, about: Loc) -> Iterator[BrokenRule]:
    """A KAI version (at ``loc``) that is too old, or does not support a Kubernetes version (at ``about``)."""
    try:
        line = line_of(kai)
    except SpecError as error:
        yield BrokenRule(loc, error.what)
        return
    if not line.runs_on(kubernetes):
        what = f"KAI {kai} needs Kubernetes {line.kubernetes_max} or older, but {dotted(about)} is {kubernetes}"
        first = next((other.first for other in lines().values() if other.runs_on(kubernetes)), "")
        yield BrokenRule(loc, f"{what} (KAI {first} and newer support it)" if first else what, (about,))


def known_line(version: str) -> VersionLine | None:
    """The line of a KAI version; None for one older than all lines, which ``kai_on`` refuses."""
    try:
        return line_of(version)
    except SpecError:
        return None


def duplicates(at: Loc, names: Sequence[str]) -> Iterator[BrokenRule]:
    """Duplicate names in the list at a place of the lab file."""
    for index, name in enumerate(names):
        if (first := names.index(name)) < index:
            yield BrokenRule((*at, index, "name"), f"'{name}' is already used by {dotted((*at, first))}")


def warnings(spec: LabFields) -> Iterator[str]:
    """Warnings about values that are valid but probably unintended."""
    # kubelet 1.35 has failCgroupV1 on by default.
    if spec.cluster.provider == "kind" and release(spec.cluster.kubernetes)[:2] > (1, 34):
        version = spec.cluster.kubernetes
        yield f"cluster.kubernetes: {version} does not run on machines with cgroup v1 (1.34 does)"
    if spec.scheduler != "default":
        line = known_line(spec.kai.version)
        if line is not None and line.warning:
            yield f"kai.version: {line.warning}"

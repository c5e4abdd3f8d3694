"""Rules between values of a lab file: errors and warnings. This module has those of the cluster and of KAI.

Each rule names the place in the lab file that breaks it, so that the loader can name the line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lab.config.sections import LabFields
from lab.errors import SpecError
from lab.kai import VersionLine, line_of, release

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
    yield from _provider(spec)
    yield from _mirrors(spec.supply.mirrors)
    if spec.kai.manage == "none" and spec.scheduler == "kai":
        yield BrokenRule(("scheduler",), "'kai' contradicts kai.manage 'none'", (("kai", "manage"),))
    if spec.scheduler != "default":
        yield from kai_version(spec.kai.version, ("kai", "version"))


def _provider(spec: LabFields) -> Iterator[BrokenRule]:
    """Values that only one of the two providers has."""
    about: tuple[Loc, ...] = (("cluster", "provider"),)
    of_existing: dict[Loc, object] = {
        ("cluster", "kubeconfig"): spec.cluster.kubeconfig,
        ("cluster", "context"): spec.cluster.context,
        ("cluster", "exclusive"): "true" if spec.cluster.exclusive else None,
        ("kai", "manage"): "adopt" if spec.kai.manage == "adopt" else None,
        ("gpu", "mode"): "present" if spec.gpu.mode == "present" else None,
        ("gpu", "runtimeClass"): spec.gpu.runtime_class,
        ("gpu", "nodes"): ", ".join(spec.gpu.nodes) or None,
        ("gpu", "image"): spec.gpu.image,
        ("supply", "pullSecrets"): ", ".join(spec.supply.pull_secrets) or None,
    }
    if spec.cluster.own:
        for loc, value in of_existing.items():
            if value is not None:
                yield BrokenRule(loc, f"'{value}' requires provider 'existing', not 'kind'", about)
        return
    for key in ("kubeconfig", "context"):
        if of_existing["cluster", key] is None:
            yield BrokenRule(("cluster", key), "is missing: provider 'existing' needs kubeconfig and context", about)
    if spec.gpu.mode == "nvidia":
        what = "'nvidia' puts GPUs into nodes that the lab creates, and provider 'existing' creates none"
        yield BrokenRule(("gpu", "mode"), f"{what}; use 'present', 'simulated' with gpu.nodes, or 'none'", about)
    yield from _named_nodes(spec)
    if spec.budget.gpus is None and spec.gpu.mode != "none":
        what = "is missing: with provider 'existing' the lab file says how many GPUs the lab may take"
        yield BrokenRule(("budget", "gpus"), what, about)


def _named_nodes(spec: LabFields) -> Iterator[BrokenRule]:
    """Simulated GPUs of an existing cluster: on nodes that the lab file names, and with an image for fractions."""
    about: tuple[Loc, ...] = (("gpu", "mode"),)
    if spec.gpu.mode != "simulated":
        if spec.gpu.nodes:
            yield BrokenRule(("gpu", "nodes"), "requires gpu.mode 'simulated'", about)
        return
    if not spec.gpu.nodes:
        what = "is missing: name the nodes of the existing cluster that get simulated GPUs"
        yield BrokenRule(("gpu", "nodes"), what, about)
    if spec.gpu.per_node == 0:
        yield BrokenRule(("gpu", "perNode"), "0 leaves the named nodes without GPUs; use gpu.mode 'none'", about)
    if spec.gpu.image is None and gpus_are_shared(spec):
        what = "is missing: fractions of simulated GPUs need a pod of kailab in the cluster"
        yield BrokenRule(("gpu", "image"), f"{what}; or set kai.gpuSharing: false", (*about, ("kai", "gpuSharing")))


def gpus_are_shared(spec: LabFields) -> bool:
    """Whether the lab's KAI gives pods fractions of GPUs."""
    return spec.wants_kai and spec.kai.gpu_sharing


def _mirrors(mirrors: Mapping[str, str]) -> Iterator[BrokenRule]:
    """Mirrors that are no addresses: they become file names and text in the nodes, and arguments of commands."""
    for registry, mirror in mirrors.items():
        at: Loc = ("supply", "mirrors", registry)
        if not re.fullmatch(_HOST, registry):
            yield BrokenRule(at, "the key is not a registry host such as ghcr.io or localhost:5000")
        elif not re.fullmatch(_MIRROR, mirror):
            yield BrokenRule(at, f"{mirror!r} is not a mirror such as localhost:5001 or https://mirror.example/path")


def kai_version(version: str, loc: Loc) -> Iterator[BrokenRule]:
    """A KAI version (at ``loc``) that is older than all lines."""
    try:
        line_of(version)
    except SpecError as error:
        yield BrokenRule(loc, error.what)


def known_line(version: str) -> VersionLine | None:
    """The line of a KAI version; None for one older than all lines, which ``kai_version`` refuses."""
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
    if spec.cluster.own and release(spec.cluster.kubernetes)[:2] > (1, 34):
        version = spec.cluster.kubernetes
        yield f"cluster.kubernetes: {version} does not run on machines with cgroup v1 (1.34 does)"
    if spec.scheduler != "default" and spec.kai.manage == "install":
        line = known_line(spec.kai.version)
        if line is not None and spec.cluster.own and (outside := line.outside(spec.cluster.kubernetes)):
            yield f"cluster.kubernetes: {outside}"
        if line is not None and line.warning:
            yield f"kai.version: {line.warning}"

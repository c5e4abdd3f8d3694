"""How the values of a lab file must go together: what is refused, and what is only doubtful. The cluster's rules.

Each rule names the place in the lab file that breaks it, so that the loader can name the line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lab.config.sections import LabFields
from lab.errors import SpecError
from lab.kai import VersionLine, line_of, lines

RULE = "lab_rule"
"""Type of the pydantic errors that come from this module."""

Loc = tuple[int | str, ...]
"""A place in the lab file, in the file's own spelling: ``("tenants", 0, "kaiVersion")``."""


@dataclass(frozen=True)
class BrokenRule:
    """A broken rule: where, what is wrong, and the places of the other values it depends on."""

    loc: Loc
    what: str
    about: tuple[Loc, ...] = ()


def release(version: str) -> tuple[int, int, int, int]:
    """A version as something that can be compared; a pre-release comes before its release."""
    numbers, _, pre = version.partition("-")
    major, minor, patch = (int(number) for number in numbers.split("."))
    return major, minor, patch, 0 if pre else 1


def broken(spec: LabFields) -> Iterator[BrokenRule]:
    """The rules of the cluster and of its KAI that the lab breaks."""
    yield from _cluster(spec)
    if spec.scheduler != "default" and spec.cluster.provider == "kind":
        place: Loc = ("cluster", "kubernetes")
        yield from kai_on(spec.kai.version, spec.cluster.kubernetes, ("kai", "version"), place)


def _cluster(spec: LabFields) -> Iterator[BrokenRule]:
    about: tuple[Loc, ...] = (("cluster", "provider"),)
    for key, value in (("kubeconfig", spec.cluster.kubeconfig), ("context", spec.cluster.context)):
        if spec.cluster.provider == "existing" and value is None:
            yield BrokenRule(("cluster", key), "is missing: provider 'existing' needs kubeconfig and context", about)
        if spec.cluster.provider == "kind" and value is not None:
            yield BrokenRule(("cluster", key), f"'{value}' belongs to provider 'existing', not to 'kind'", about)


def kai_on(kai: str, kubernetes: str, loc: Loc, about: Loc) -> Iterator[BrokenRule]:
    """A KAI version that the lab does not know, or that does not run on a Kubernetes version.

    Args:
        loc: the place of the KAI version in the lab file.
        about: the place of the Kubernetes version.
    """
    try:
        line = line_of(kai)
    except SpecError as error:
        yield BrokenRule(loc, error.what)
        return
    if not line.runs_on(kubernetes):
        what = f"KAI {kai} needs Kubernetes {line.kubernetes_max} or older, but {_path(about)} is {kubernetes}"
        first = next((other.first for other in lines().values() if other.runs_on(kubernetes)), "")
        yield BrokenRule(loc, f"{what} (KAI {first} and newer run on it)" if first else what, (about,))


def known_line(version: str) -> VersionLine | None:
    """What is known of a KAI version; None for one too old to be known, which ``kai_on`` refuses."""
    try:
        return line_of(version)
    except SpecError:
        return None


def twice(at: Loc, names: Sequence[str]) -> Iterator[BrokenRule]:
    """Names that stand twice in the list at a place of the lab file."""
    for index, name in enumerate(names):
        if (first := names.index(name)) < index:
            yield BrokenRule((*at, index, "name"), f"'{name}' is taken already, by {_path((*at, first))}")


def doubtful(spec: LabFields) -> Iterator[str]:
    """What is allowed but probably not meant."""
    # kubelet 1.35 has failCgroupV1 on by default.
    if spec.cluster.provider == "kind" and release(spec.cluster.kubernetes)[:2] > (1, 34):
        version = spec.cluster.kubernetes
        yield f"cluster.kubernetes: {version} does not run on machines with cgroup v1 (1.34 does)"
    if spec.scheduler != "default":
        line = known_line(spec.kai.version)
        if line is not None and line.warning:
            yield f"kai.version: {line.warning}"


def _path(loc: Loc) -> str:
    return ".".join(str(word) for word in loc)

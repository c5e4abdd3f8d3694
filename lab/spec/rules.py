"""How the values of a lab file must go together: what is refused, and what is only doubtful.

Each rule names the place in the lab file that breaks it, so that the loader can name the line.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from lab.errors import SpecError
from lab.kai import Line, line_of, lines

if TYPE_CHECKING:
    from lab.spec.models import LabSpec, QueueSpec

RULE = "lab_rule"
"""Type of the pydantic errors that come from this module."""

Loc = tuple[int | str, ...]
"""A place in the lab file, in the file's own spelling: ``("tenants", 0, "kaiVersion")``."""

VCLUSTER_FLOOR = "0.35.3"
"""Older ones leave pods unhealthy with Kubernetes below 1.34 on a newer host (loft-sh/vcluster#4037)."""


@dataclass(frozen=True)
class Broken:
    """A broken rule: where, what is wrong, and the places of the other values it depends on."""

    loc: Loc
    what: str
    about: tuple[Loc, ...] = ()


def release(version: str) -> tuple[int, int, int, int]:
    """A version as something that can be compared; a pre-release comes before its release."""
    numbers, _, pre = version.partition("-")
    major, minor, patch = (int(number) for number in numbers.split("."))
    return major, minor, patch, 0 if pre else 1


def perhaps(word: str, known: Sequence[str]) -> str:
    """``; perhaps you meant 'x'?`` where one of the known words is near, otherwise nothing."""
    folded = {name.lower(): name for name in reversed(known)}
    near = difflib.get_close_matches(word.lower(), folded, n=1, cutoff=0.65)
    return f"; perhaps you meant '{folded[near[0]]}'?" if near else ""


def broken(spec: LabSpec) -> Iterator[Broken]:
    """All rules the lab breaks."""
    yield from _cluster(spec)
    yield from _queues(spec)
    yield from _tenants(spec)
    if spec.scheduler != "default" and spec.cluster.provider == "kind":
        place: Loc = ("cluster", "kubernetes")
        yield from _kai_on(spec.kai.version, spec.cluster.kubernetes, ("kai", "version"), place)


def _cluster(spec: LabSpec) -> Iterator[Broken]:
    about: tuple[Loc, ...] = (("cluster", "provider"),)
    for key, value in (("kubeconfig", spec.cluster.kubeconfig), ("context", spec.cluster.context)):
        if spec.cluster.provider == "existing" and value is None:
            yield Broken(
                ("cluster", key), "is missing: provider 'existing' needs kubeconfig and context", about
            )
        if spec.cluster.provider == "kind" and value is not None:
            yield Broken(("cluster", key), f"'{value}' belongs to provider 'existing', not to 'kind'", about)


def _kai_on(kai: str, kubernetes: str, loc: Loc, about: Loc) -> Iterator[Broken]:
    try:
        line = line_of(kai)
    except SpecError as error:
        yield Broken(loc, error.what)
        return
    if not line.runs_on(kubernetes):
        what = f"KAI {kai} needs Kubernetes {line.kubernetes_max} or older, but {_path(about)} is {kubernetes}"
        first = next((other.first for other in lines().values() if other.runs_on(kubernetes)), "")
        yield Broken(loc, f"{what} (KAI {first} and newer run on it)" if first else what, (about,))


def _queues(spec: LabSpec) -> Iterator[Broken]:
    yield from _twice("queues", [queue.name for queue in spec.queues])
    by_name = {queue.name: queue for queue in reversed(spec.queues)}
    circling: set[str] = set()
    for index, queue in enumerate(spec.queues):
        for resource in ("gpu", "cpu", "memory"):
            share = getattr(queue, resource)
            if share.limit != -1 and share.quota > share.limit:
                what = f"{share.quota:g} is above the limit {share.limit:g}"
                limit: Loc = ("queues", index, resource, "limit")
                yield Broken(("queues", index, resource, "quota"), what, (limit,))
        if queue.parent is not None and queue.parent not in by_name:
            what = f"there is no queue '{queue.parent}'{perhaps(queue.parent, list(by_name))}"
            yield Broken(("queues", index, "parent"), what)
        chain = _chain(queue, by_name)
        if chain[-1] == queue.name and len(chain) > 1 and queue.name not in circling:
            circling.update(chain)
            yield Broken(("queues", index, "parent"), f"the parents form a circle: {' → '.join(chain)}")
    if spec.scheduler != "default":
        yield from _two_levels(spec, by_name)


def _two_levels(spec: LabSpec, by_name: dict[str, QueueSpec]) -> Iterator[Broken]:
    line = _line(spec.kai.version)
    # of a version that only its neighbour's line describes, doubtful() speaks
    if line is None or not line.queue_levels or not line.exact:
        return
    more = next((other.first for other in lines().values() if not other.queue_levels), "")
    leaves = spec.leaf_queues
    about: tuple[Loc, ...] = (("kai", "version"),)
    for index, queue in enumerate(spec.queues):
        chain = _chain(queue, by_name)
        if len(set(chain)) < len(chain) or (chain[-1] not in by_name):
            continue  # a circle or an unknown parent, said elsewhere
        if len(chain) > 2:
            what = (
                f"'{queue.name}' would be on level {len(chain)}, but KAI {spec.kai.version} has exactly two"
            )
            yield Broken(("queues", index, "parent"), f"{what} (KAI {more} and newer take more)", about)
        elif len(chain) == 1 and queue.name in leaves:
            what = (
                f"'{queue.name}' is a leaf queue without a parent: KAI {spec.kai.version} never runs its pods"
            )
            yield Broken(("queues", index), f"{what} (KAI {more} and newer do)", about)


def _line(version: str) -> Line | None:
    """What is known of a KAI version; None for one too old to be known, which ``_kai_on`` refuses."""
    try:
        return line_of(version)
    except SpecError:
        return None


def _chain(queue: QueueSpec, by_name: dict[str, QueueSpec]) -> list[str]:
    """The queue, its parent, and so on, to a root, an unknown parent, or where it comes round again."""
    chain = [queue.name]
    parent = queue.parent
    while parent is not None:
        chain.append(parent)
        if parent in chain[:-1] or parent not in by_name:
            break
        parent = by_name[parent].parent
    return chain


def _tenants(spec: LabSpec) -> Iterator[Broken]:
    yield from _twice("tenants", [tenant.name for tenant in spec.tenants])
    for index, tenant in enumerate(spec.tenants):
        at: Loc = ("tenants", index)
        if release(tenant.vcluster) < release(VCLUSTER_FLOOR):
            yield Broken(
                (*at, "vcluster"),
                f"'{tenant.vcluster}' is too old: {VCLUSTER_FLOOR} is the oldest that works",
            )
        if tenant.mode == "host-kai" and spec.scheduler == "default":
            what = "host-kai needs KAI on the host, but scheduler is 'default'"
            yield Broken((*at, "mode"), what, (("scheduler",),))
        if tenant.mode != "own-kai" and tenant.kai_version is not None:
            what = f"'{tenant.kai_version}' belongs to mode 'own-kai', not to '{tenant.mode}'"
            yield Broken((*at, "kaiVersion"), what, ((*at, "mode"),))
        if tenant.mode == "own-kai" and tenant.kai_version is None:
            what = "is missing: mode 'own-kai' needs the version of the KAI inside"
            yield Broken((*at, "kaiVersion"), what, ((*at, "mode"),))
        elif tenant.mode == "own-kai" and tenant.kai_version is not None:
            yield from _kai_on(
                tenant.kai_version, tenant.kubernetes, (*at, "kaiVersion"), (*at, "kubernetes")
            )


def _twice(field: str, names: list[str]) -> Iterator[Broken]:
    for index, name in enumerate(names):
        if (first := names.index(name)) < index:
            yield Broken((field, index, "name"), f"'{name}' is taken already, by {field}.{first}")


def doubtful(spec: LabSpec) -> Iterator[str]:
    """What is allowed but probably not meant."""
    # kubelet 1.35 has failCgroupV1 on by default.
    if spec.cluster.provider == "kind" and release(spec.cluster.kubernetes)[:2] > (1, 34):
        version = spec.cluster.kubernetes
        yield f"cluster.kubernetes: {version} does not run on machines with cgroup v1 (1.34 does)"
    if spec.scheduler == "default":
        if spec.queues:
            yield f"queues: have no effect, as scheduler is 'default' ({len(spec.queues)} given)"
        return
    for version in dict.fromkeys([spec.kai.version, *(t.kai_version for t in spec.tenants if t.kai_version)]):
        line = _line(version)
        if line is not None and line.warning:
            yield f"kai.version: {line.warning}"
    host = _line(spec.kai.version)
    if not spec.queues and host is not None and not host.default_queues:
        yield f"queues: none given, and KAI {spec.kai.version} makes none by itself: its pods would never run"
    for queue in spec.queues:
        for resource in ("gpu", "cpu", "memory"):
            yield from _overpromised(spec, queue, resource)


def _overpromised(
    spec: LabSpec, queue: QueueSpec, resource: Literal["gpu", "cpu", "memory"]
) -> Iterator[str]:
    own = getattr(queue, resource).quota
    quotas = [getattr(child, resource).quota for child in spec.queues if child.parent == queue.name]
    if own == -1 or not quotas:
        return
    if -1 in quotas or sum(quotas) > own:
        total = "unlimited" if -1 in quotas else f"{sum(quotas):g}"
        yield f"queues: '{queue.name}' has a {resource} quota of {own:g}, its children together {total}"


def _path(loc: Loc) -> str:
    return ".".join(str(word) for word in loc)

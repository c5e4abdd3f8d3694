"""How the values of KAI queues must go together: the host's, and those inside a tenant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from lab.config.queue import QueueSpec
from lab.config.rules import BrokenRule, Loc, known_line, twice
from lab.config.sections import LabFields
from lab.kai import lines
from lab.text import perhaps

_RESOURCES: tuple[Literal["gpu", "cpu", "memory"], ...] = ("gpu", "cpu", "memory")


def broken(spec: LabFields) -> Iterator[BrokenRule]:
    """The rules that the host's queues break."""
    yield from shape(spec.queues, ("queues",))
    if spec.scheduler != "default":
        yield from levels(spec.queues, ("queues",), spec.kai.version, ("kai", "version"))


def shape(queues: Sequence[QueueSpec], at: Loc) -> Iterator[BrokenRule]:
    """Rules of every KAI version: names, limits, parents.

    Args:
        queues: of one cluster.
        at: the place of the list in the lab file.
    """
    yield from twice(at, [queue.name for queue in queues])
    by_name = {queue.name: queue for queue in reversed(queues)}
    circling: set[str] = set()
    for index, queue in enumerate(queues):
        for resource in _RESOURCES:
            share = getattr(queue, resource)
            if share.limit != -1 and share.quota > share.limit:
                what = f"{share.quota:g} is above the limit {share.limit:g}"
                limit: Loc = (*at, index, resource, "limit")
                yield BrokenRule((*at, index, resource, "quota"), what, (limit,))
        if queue.parent is not None and queue.parent not in by_name:
            what = f"there is no queue '{queue.parent}'{perhaps(queue.parent, list(by_name))}"
            yield BrokenRule((*at, index, "parent"), what)
        chain = _chain(queue, by_name)
        if chain[-1] == queue.name and len(chain) > 1 and queue.name not in circling:
            circling.update(chain)
            yield BrokenRule((*at, index, "parent"), f"the parents form a circle: {' → '.join(chain)}")


def levels(queues: Sequence[QueueSpec], at: Loc, kai: str, version: Loc) -> Iterator[BrokenRule]:
    """How deep the tree may be with a KAI version, whose place in the lab file is ``version``."""
    line = known_line(kai)
    # of a version that only its neighbour's line describes, doubtful() speaks
    if line is None or not line.queue_levels or not line.exact:
        return
    more = next((other.first for other in lines().values() if not other.queue_levels), "")
    by_name = {queue.name: queue for queue in reversed(queues)}
    parents = {queue.parent for queue in queues}
    for index, queue in enumerate(queues):
        chain = _chain(queue, by_name)
        if len(set(chain)) < len(chain) or (chain[-1] not in by_name):
            continue  # a circle or an unknown parent, said elsewhere
        if len(chain) > 2:
            what = f"'{queue.name}' would be on level {len(chain)}, but KAI {kai} has exactly two"
            yield BrokenRule((*at, index, "parent"), f"{what} (KAI {more} and newer take more)", (version,))
        elif len(chain) == 1 and queue.name not in parents:
            what = f"'{queue.name}' is a leaf queue without a parent: KAI {kai} never runs its pods"
            yield BrokenRule((*at, index), f"{what} (KAI {more} and newer do)", (version,))


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


def doubtful(spec: LabFields) -> Iterator[str]:
    """What is allowed of the host's queues but probably not meant."""
    if spec.scheduler == "default":
        if spec.queues:
            yield f"queues: have no effect, as scheduler is 'default' ({len(spec.queues)} given)"
        return
    host = known_line(spec.kai.version)
    if not spec.queues and host is not None and not host.default_queues:
        yield f"queues: none given, and KAI {spec.kai.version} makes none by itself: its pods would never run"
    yield from overpromised(spec.queues, "queues")


def overpromised(queues: Sequence[QueueSpec], path: str) -> Iterator[str]:
    """Queues whose children are promised more than they have themselves; ``path`` is that of the list."""
    for queue in queues:
        for resource in _RESOURCES:
            own = getattr(queue, resource).quota
            quotas = [getattr(child, resource).quota for child in queues if child.parent == queue.name]
            if own == -1 or not quotas:
                continue
            if -1 in quotas or sum(quotas) > own:
                total = "unlimited" if -1 in quotas else f"{sum(quotas):g}"
                yield f"{path}: '{queue.name}' has a {resource} quota of {own:g}, its children together {total}"

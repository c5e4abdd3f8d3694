"""Rules between the values of KAI queues: the host's, and those inside a tenant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from lab.config.budget import budget_queue
from lab.config.queue import QueueSpec
from lab.config.rules import BrokenRule, Loc, duplicates, known_line
from lab.config.sections import LabFields
from lab.kai import lines
from lab.text import perhaps

_RESOURCES: tuple[Literal["gpu", "cpu", "memory"], ...] = ("gpu", "cpu", "memory")


def violations(spec: LabFields) -> Iterator[BrokenRule]:
    """Violated rules of the host's queues."""
    yield from shape(spec.queues, ("queues",))
    for index, queue in enumerate(spec.queues):
        if not spec.cluster.own and queue.name == spec.name and queue != budget_queue(spec):
            what = f"'{queue.name}' is the queue with the lab's budget, above all queues of the lab file"
            yield BrokenRule(("queues", index, "name"), what, (("name",),))
    # an existing cluster's KAI has its own version, and its queues have the budget's above them
    if spec.scheduler != "default" and spec.cluster.own:
        yield from levels(spec.queues, ("queues",), spec.kai.version, ("kai", "version"))


def shape(queues: Sequence[QueueSpec], at: Loc) -> Iterator[BrokenRule]:
    """Rules of every KAI version about a cluster's queues: names, limits, parents."""
    yield from duplicates(at, [queue.name for queue in queues])
    by_name = {queue.name: queue for queue in reversed(queues)}
    cycles: set[str] = set()
    for index, queue in enumerate(queues):
        for resource in _RESOURCES:
            share = getattr(queue, resource)
            if share.limit != -1 and share.quota > share.limit:
                what = f"{share.quota:g} is above the limit {share.limit:g}"
                limit: Loc = (*at, index, resource, "limit")
                yield BrokenRule((*at, index, resource, "quota"), what, (limit,))
        if queue.parent is not None and queue.parent not in by_name:
            what = f"unknown queue '{queue.parent}'{perhaps(queue.parent, list(by_name))}"
            yield BrokenRule((*at, index, "parent"), what)
        chain = _chain(queue, by_name)
        if chain[-1] == queue.name and len(chain) > 1 and queue.name not in cycles:
            cycles.update(chain)
            yield BrokenRule((*at, index, "parent"), f"the parents form a cycle: {' → '.join(chain)}")


def levels(queues: Sequence[QueueSpec], at: Loc, kai: str, version: Loc) -> Iterator[BrokenRule]:
    """Rules about the depth of the tree in a KAI version, whose place in the lab file is ``version``."""
    line = known_line(kai)
    # warnings() reports about a version that is not in any line
    if line is None or not line.queue_levels or not line.exact:
        return
    more = next((other.first for other in lines().values() if not other.queue_levels), "")
    by_name = {queue.name: queue for queue in reversed(queues)}
    parents = {queue.parent for queue in queues}
    for index, queue in enumerate(queues):
        chain = _chain(queue, by_name)
        if len(set(chain)) < len(chain) or (chain[-1] not in by_name):
            continue  # a cycle or an unknown parent, which shape() reports
        if len(chain) > 2:
            what = f"'{queue.name}' is on level {len(chain)}, but KAI {kai} supports exactly two"
            yield BrokenRule((*at, index, "parent"), f"{what} (KAI {more} and newer support more)", (version,))
        elif len(chain) == 1 and queue.name not in parents:
            what = f"'{queue.name}' is a leaf queue without a parent: KAI {kai} never runs its pods"
            yield BrokenRule((*at, index), f"{what} (KAI {more} and newer do)", (version,))


def _chain(queue: QueueSpec, by_name: dict[str, QueueSpec]) -> list[str]:
    """The queue, its parent, and so on, up to a root, an unknown parent or a repetition."""
    chain = [queue.name]
    parent = queue.parent
    while parent is not None:
        chain.append(parent)
        if parent in chain[:-1] or parent not in by_name:
            break
        parent = by_name[parent].parent
    return chain


def warnings(spec: LabFields) -> Iterator[str]:
    """Warnings about the host's queues."""
    if spec.scheduler == "default":
        if spec.queues:
            yield f"queues: have no effect, as scheduler is 'default' ({len(spec.queues)} given)"
        return
    host = known_line(spec.kai.version)
    if not spec.queues and host is not None and not host.default_queues:
        yield f"queues: none given, and KAI {spec.kai.version} creates none: its pods would never run"
    # the one that a budget puts above them has no quota on purpose
    below = [queue for queue in spec.queues if spec.cluster.own or queue.name != spec.name]
    yield from overcommitted(below, "queues")


def overcommitted(queues: Sequence[QueueSpec], path: str) -> Iterator[str]:
    """Warnings about queues whose children's quotas exceed their own; ``path`` is that of the list."""
    for queue in queues:
        for resource in _RESOURCES:
            own = getattr(queue, resource).quota
            quotas = [getattr(child, resource).quota for child in queues if child.parent == queue.name]
            if own == -1 or not quotas:
                continue
            if -1 in quotas or sum(quotas) > own:
                total = "unlimited" if -1 in quotas else f"{sum(quotas):g}"
                yield f"{path}: '{queue.name}' has a {resource} quota of {own:g}, its children together {total}"

"""Verify clusters once, for a while, or until they are quiet."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from lab.errors import ApiFailed
from lab.invariants.catalogue import ALL
from lab.invariants.model import Invariant
from lab.invariants.report import InvariantReport
from lab.invariants.scope import Scope
from lab.invariants.watcher import Watcher
from lab.kube.informers import Informers, InformerSource

QUIET_LIMIT = 600.0
"""Default limit in seconds for a cluster to become quiet."""


def verify(
    scopes: Sequence[Scope],
    *,
    seconds: float = 0.0,
    until_quiet: bool = False,
    invariants: Iterable[Invariant] = ALL,
    settling: Callable[[int], None] = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
    informers: Callable[[Iterable[InformerSource]], Informers] = Informers,
) -> InvariantReport:
    """Verify clusters once, for ``seconds``, or ``until_quiet`` (with ``seconds`` as the limit), without changing them.

    Then waits until each breach has ended or exceeded its grace period, at most two minutes; calls ``settling`` with
    their number before. Raises ApiFailed when no invariant could be evaluated, and Interrupted.
    """
    quiet: bool | None = None
    with Watcher(scopes, invariants, clock=clock, informers=informers) as watcher:
        watcher.run(lambda: watcher.synced)
        if until_quiet:
            limit = seconds or QUIET_LIMIT
            watcher.run(lambda: watcher.quiet or watcher.seconds >= limit)
            quiet = watcher.quiet
        elif seconds:
            watcher.run(lambda: watcher.seconds >= seconds)
        watcher.look()
        if waiting := watcher.waiting():
            settling(waiting)
        watcher.settle()
        report = replace(watcher.report(), quiet=quiet)
    if all(result.state == "not judged" for result in report.results):
        evidence = list(dict.fromkeys(result.why for result in report.results))[:6]
        fix = "check with 'kailab status' whether the API server answers"
        raise ApiFailed("no invariant could be evaluated", evidence=evidence, fix=fix)
    return report

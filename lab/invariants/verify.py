"""One verification: look once, or for a while, or until the cluster is quiet."""

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
"""Seconds after which a cluster that never gets quiet is given up, unless told otherwise."""


def verify(
    scopes: Sequence[Scope],
    *,
    seconds: float = 0.0,
    until_quiet: bool = False,
    invariants: Iterable[Invariant] = ALL,
    settling: Callable[[int], None] = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
    feed: Callable[[Iterable[InformerSource]], Informers] = Informers,
) -> InvariantReport:
    """Judge clusters. Only reads.

    A breach that may pass is looked at until it has passed or its grace is over, at most two minutes.

    Args:
        scopes: the clusters.
        seconds: how long to watch; 0 looks once.
        until_quiet: stop as soon as nothing has changed for a few seconds; ``seconds`` is then the limit.
        invariants: by which rules.
        settling: called with the number of breaches that may pass, before they are waited for.
        clock: seconds.
        feed: makes what follows the clusters; tests pass a script.

    Raises:
        ApiFailed: nothing could be judged.
        Interrupted: the run was cancelled.
    """
    quiet: bool | None = None
    with Watcher(scopes, invariants, clock=clock, feed=feed) as watcher:
        watcher.run(lambda: watcher.read)
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
        whys = list(dict.fromkeys(result.why for result in report.results))
        raise ApiFailed(
            "nothing could be judged", evidence=whys[:6], fix="see whether the API server answers: lab status"
        )
    return report

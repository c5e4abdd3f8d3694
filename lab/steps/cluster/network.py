"""kind's network, which the labs of an engine share: one of them creates it, and the last one removes it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from lab.engine.journal import Journal, Owned
from lab.paths import LabPaths, lab_names, network_lock
from lab.session.context import LabContext
from lab.steps.cluster.ownership import is_of_labs
from lab.tools.lock import lock


def network_name() -> str:
    """The name that kind uses."""
    return os.environ.get("KIND_EXPERIMENTAL_DOCKER_NETWORK", "kind")


@contextmanager
def creating(ctx: LabContext) -> Iterator[Callable[[], None]]:
    """Hold a lock while there is no network; call what is yielded to release it as soon as kind has created one.

    Two kinds that start at once create two networks of one name, and then the engine refuses both by name (seen with
    kind 0.33 and Docker 20.10). Raises Interrupted, LabError.
    """

    def missing() -> bool:
        return not ctx.engine.exists("network", network_name())

    with ExitStack() as held:
        waits = "another lab creates kind's network; waiting"
        if missing():
            held.enter_context(lock(network_lock(), ctx.run.stopped, lambda: ctx.progress(waits)))
        unlocked = False

        def unlock() -> None:
            nonlocal unlocked
            if not unlocked and not missing():
                unlocked = True
                held.close()

        unlock()
        yield unlock


def claim_network(ctx: LabContext, step: str) -> bool:
    """Record kind's network, and return whether kind creates it for labs: then the last of them removes it.

    A network that exists was created for labs if the journal of one in this state directory says so, or a node on it.
    """
    name = network_name()
    journals = (Journal(LabPaths(lab).journal) for lab in lab_names())
    made = (
        not ctx.engine.exists("network", name)
        or any(one.name == name and _made(one) for journal in journals for one in journal.owned("network"))
        or is_of_labs(ctx.engine, name)
    )
    ctx.journal.owns("network", name, step, made="yes" if made else "no")
    return made


def _made(network: Owned) -> bool:
    return network.facts.get("made") != "no"


def why_kept(ctx: LabContext, network: Owned) -> str:
    """Why a network outlives the lab; empty if the lab has to remove it."""
    if not _made(network):
        return f"it existed before lab {ctx.spec.name}"
    users = ctx.engine.users_of_network(network.name)
    return f"{', '.join(users)} {'uses' if len(users) == 1 else 'use'} it" if users else ""

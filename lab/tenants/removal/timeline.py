"""The moments by which the removal of a tenant is measured, and what is told of a removal. Pure.

One clock for all: seconds since just before the command. "Gone" alone says little: a namespace can be gone while a
cluster-wide role is left, and a pod can be gone while its GPU is still held.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from lab.errors import Leftovers

SCHEDULER_STOPPED = "scheduler stopped"
PODS_GONE = "pods gone"
GPUS_FREE = "GPUs free"
NAMESPACE_GONE = "namespace gone"
CLUSTER_CLEAN = "cluster scope clean"
HOST_UNDISTURBED = "host undisturbed"
READY_AGAIN = "ready again"

MEANING = {
    SCHEDULER_STOPPED: "the tenant's control plane is not Ready any more, so that nothing in it is scheduled",
    PODS_GONE: "the host has none of the tenant's pods",
    GPUS_FREE: "a pod of the host runs on all GPUs that the tenant held",
    NAMESPACE_GONE: "the tenant's namespace is gone",
    CLUSTER_CLEAN: "nothing cluster-wide is left of the tenant",
    HOST_UNDISTURBED: "all other pods that were Ready have the same UID and restarts, and were Ready throughout",
    READY_AGAIN: "a tenant of the same name is Ready",
}
"""The seven moments in the order in which they are told."""


@dataclass(frozen=True)
class Milestone:
    """One of the moments.

    Attributes:
        name: a key of ``MEANING``.
        seconds: since just before the command; None: not reached.
        detail: what was seen.
    """

    name: str
    seconds: float | None
    detail: str = ""


@dataclass(frozen=True)
class Removal:
    """How the removal of a tenant went.

    Attributes:
        tenant: its name.
        moments: what was reached when; those that nobody asked for are missing.
        grace: seconds that its pods got to stop; None: each its own.
        cut_grace: pods whose own grace is longer than what they got, each with its own seconds.
        left: what is left of the tenant; empty is the proof that it is gone.
        disturbed: pods outside the tenant that did not come through unharmed.
    """

    tenant: str
    moments: tuple[Milestone, ...]
    grace: float | None
    cut_grace: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    disturbed: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing is left, nobody was disturbed, and every moment asked for was reached."""
        reached = all(moment.seconds is not None for moment in self.moments)
        return reached and not self.left and not self.disturbed

    @property
    def seconds(self) -> float:
        """Until the last of the moments up to a clean cluster scope was reached."""
        ends = (SCHEDULER_STOPPED, PODS_GONE, GPUS_FREE, NAMESPACE_GONE, CLUSTER_CLEAN)
        return max((at for name in ends if (at := self.at(name)) is not None), default=0.0)

    def at(self, name: str) -> float | None:
        """Seconds of a moment; None where it was not reached or not asked for."""
        return next((moment.seconds for moment in self.moments if moment.name == name), None)

    def then(self, moment: Milestone) -> Removal:
        """The same with one moment more, such as ``READY_AGAIN``."""
        return replace(self, moments=(*self.moments, moment))

    def raise_left(self) -> None:
        """Raise Leftovers where something of the tenant is left."""
        if self.left:
            raise Leftovers(
                f"{len(self.left)} thing(s) of tenant {self.tenant} remain",
                evidence=self.left,
                fix="remove the tenant again; if the same is left, delete what is named by hand",
            )

    def as_json(self) -> dict[str, Any]:
        return {
            "tenant": self.tenant,
            "ok": self.ok,
            "seconds": round(self.seconds, 3),
            "grace": self.grace,
            "moments": [replace(m, seconds=None if m.seconds is None else round(m.seconds, 3)) for m in self.moments],
            "cut_grace": self.cut_grace,
            "left": self.left,
            "disturbed": self.disturbed,
        }


class Stopwatch:
    """Notes moments; of several of one name the first counts. Thread-safe.

    Args:
        clock: seconds; read once here, for the start.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._start = clock()
        self._noted: dict[str, Milestone] = {}
        self._lock = threading.Lock()

    def note(self, name: str, detail: str = "", *, reached: bool = True) -> None:
        """A moment is now; or, not ``reached``, it will not come for the reason in ``detail``."""
        with self._lock:
            seconds = self._clock() - self._start if reached else None
            self._noted.setdefault(name, Milestone(name, seconds, detail))

    def has(self, name: str) -> bool:
        with self._lock:
            return name in self._noted

    @property
    def moments(self) -> tuple[Milestone, ...]:
        """What was noted, in the order of the protocol."""
        with self._lock:
            return tuple(self._noted[name] for name in MEANING if name in self._noted)

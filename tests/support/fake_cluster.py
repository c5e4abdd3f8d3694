"""A real client of FakeApiServer that does not sleep, and records its waits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.kube import Cluster
from lab.kube.transport import Transport
from tests.support.api_requests import Json


@dataclass(frozen=True)
class WaitCall:
    """A wait that the code under test requested."""

    what: str
    timeout: float
    hold: float


class FakeCluster(Cluster):
    """A real client of a FakeApiServer that neither sleeps nor waits for a condition to last.

    ``patience`` is the maximum duration of a wait in seconds; ``meanwhile`` is called before each.
    """

    def __init__(self, api: Transport) -> None:
        super().__init__(Path("/lab/kubeconfig"), "kind-kailab-demo", transport=api)
        self.waits: list[WaitCall] = []
        self.patience = 20.0
        self.meanwhile: Callable[[], None] = lambda: None
        self.cancel = self.pauses = Pauses()

    def wait(
        self, kind: str, predicate: Any, *, timeout: float, what: str, hold: float = 0.0, **more: Any
    ) -> list[Json]:  # type: ignore[override]
        """See Cluster.wait."""
        self.waits.append(WaitCall(what, timeout, hold))
        self.meanwhile()
        return super().wait(kind, predicate, timeout=min(timeout, self.patience), what=what, **more)


class Pauses(threading.Event):
    """A cancel event that is never set; waiting for it takes no time."""

    def __init__(self) -> None:
        super().__init__()
        self.slept = 0.0

    def wait(self, timeout: float | None = None) -> bool:
        """Add to ``slept``."""
        self.slept += timeout or 0.0
        return False

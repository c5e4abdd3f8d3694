"""Another lab on this machine that creates an item which the test's lab also needs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from lab.errors import Interrupted
from lab.supply.cache import alone


class AnotherLab:
    """Runs in its own thread, because a lock detects that its own holder waits for it."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1)
        self._held = ExitStack()

    def begins(self, name: str) -> bool:
        """Start creating the item ``name``; False if that would block."""
        waits: list[bool] = []
        try:
            self._thread.submit(
                lambda: self._held.enter_context(alone(name, lambda: bool(waits), lambda: waits.append(True)))
            ).result()
        except Interrupted:
            return False
        return True

    def ends(self) -> None:
        """Finish or abort the creation."""
        self._thread.submit(self._held.close).result()

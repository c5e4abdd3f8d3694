"""Another lab on this machine that makes what the test's lab needs, too."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from lab.errors import Interrupted
from lab.supply.cache import alone


class AnotherLab:
    """In a thread of its own: a lock knows who waits for himself."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1)
        self._held = ExitStack()

    def begins(self, name: str) -> bool:
        """It makes what ``name`` names; False where that would have to wait."""
        waits: list[bool] = []
        try:
            self._thread.submit(
                lambda: self._held.enter_context(alone(name, lambda: bool(waits), lambda: waits.append(True)))
            ).result()
        except Interrupted:
            return False
        return True

    def ends(self) -> None:
        """It has made it, or given up."""
        self._thread.submit(self._held.close).result()

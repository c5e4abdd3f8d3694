"""Work in a thread beside a ``with`` block."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self


class Background:
    """A context manager: ``work`` runs in a thread of its own until the block ends.

    What it raises ends the thread. It is raised when the block ends without an error of its own, unless ``check`` has
    raised it before.

    Args:
        work: called with an event that is set when the block ends; then it has to return.
        name: of the thread.
        join: seconds for which the end of the block waits for the thread; None: until it has ended.
    """

    def __init__(self, work: Callable[[threading.Event], object], name: str, *, join: float | None = None) -> None:
        self.stopping = threading.Event()
        self.error: Exception | None = None
        """What ended the work."""
        self._raised = False
        self._work = work
        self._join = join
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if error is None and not self._raised:
            self.check()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ask the work to end, and wait for that."""
        self.stopping.set()
        self.join(self._join)

    def join(self, seconds: float | None = None) -> None:
        """Wait until the work has ended by itself, for so many seconds."""
        self._thread.join(seconds)

    def check(self) -> None:
        """Raise what ended the work."""
        if self.error is not None:
            self._raised = True
            raise self.error

    def _run(self) -> None:
        try:
            self._work(self.stopping)
        except Exception as error:  # noqa: BLE001 - raised when the block ends
            self.error = error

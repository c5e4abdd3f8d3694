"""Work in a thread during a ``with`` block."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self


class Background:
    """A context manager that runs ``work`` in a thread until the block ends.

    An exception ends the thread, and is raised at the end of the block unless ``check`` raised it before or the block
    raises another one.

    Args:
        work: called with an event that is set when the block ends; then it has to return.
        name: of the thread.
        join: seconds that the end of the block waits for the thread; None waits until the thread ends.
        cleanup: called at the end of the block; its exception is dropped if the block raises another one.
    """

    def __init__(
        self,
        work: Callable[[threading.Event], object],
        name: str,
        *,
        join: float | None = None,
        cleanup: Callable[[], object] = lambda: None,
    ) -> None:
        self.stopping = threading.Event()
        self.error: Exception | None = None
        """The exception that ended the work."""
        self._raised = False
        self._work = work
        self._join = join
        self._cleanup = cleanup
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        try:
            self._cleanup()
        except Exception:
            if error is None:
                raise
        if error is None and not self._raised:
            self.check()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ask the work to return, and wait until the thread ends."""
        self.stopping.set()
        self.join(self._join)

    def join(self, seconds: float | None = None) -> None:
        self._thread.join(seconds)

    @property
    def running(self) -> bool:
        """Whether the work has not returned."""
        return self._thread.is_alive()

    def check(self) -> None:
        """Raise the exception that ended the work."""
        if self.error is not None:
            self._raised = True
            raise self.error

    def _run(self) -> None:
        try:
            self._work(self.stopping)
        except Exception as error:  # noqa: BLE001 - raised when the block ends
            self.error = error

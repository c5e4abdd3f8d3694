"""Work in threads: during a ``with`` block, or for a limited time."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from types import TracebackType
from typing import Self, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


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


def within(seconds: float, jobs: Mapping[K, Callable[[], V]], *, at_once: int) -> dict[K, V]:
    """Run jobs in ``at_once`` threads for at most some seconds; returns the results of those that ended.

    Raises the first exception of a job. The threads are daemons: a server that does not answer must not keep the
    program from ending.
    """
    waiting: queue.SimpleQueue[K] = queue.SimpleQueue()
    ended: queue.SimpleQueue[tuple[K, V | Exception]] = queue.SimpleQueue()
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            try:
                key = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                ended.put((key, jobs[key]()))
            except Exception as error:  # noqa: BLE001 - raised by the caller's thread
                ended.put((key, error))

    for key in jobs:
        waiting.put(key)
    for _ in range(min(at_once, len(jobs))):
        threading.Thread(target=work, daemon=True).start()
    found: dict[K, V] = {}
    deadline = time.monotonic() + seconds
    try:
        while len(found) < len(jobs):
            key, result = ended.get(timeout=max(deadline - time.monotonic(), 0))
            if isinstance(result, Exception):
                raise result
            found[key] = result
    except queue.Empty:
        pass
    finally:
        over.set()
    return found

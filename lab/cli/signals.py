"""Ctrl-C and SIGTERM: the first one stops running steps, the second one ends the process."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType


@contextlib.contextmanager
def stopping(cancel: threading.Event) -> Iterator[None]:
    """Set ``cancel`` on SIGINT, SIGTERM and SIGHUP while the block runs."""

    def stop(number: int, frame: FrameType | None) -> None:
        if cancel.is_set():
            os._exit(128 + number)
        cancel.set()
        sys.stderr.write("\nstopping: waiting for running commands (press again to exit at once)\n")

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

"""Repeat a call while it raises a transient error."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from lab.errors import ApiFailed

T = TypeVar("T")


def retry(
    call: Callable[[], T],
    *,
    when: Callable[[ApiFailed], bool],
    timeout: float | None = None,
    attempts: int | None = None,
    interval: float = 0.25,
    max_interval: float | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> T:
    """Repeat a call while it raises an ApiFailed that ``when`` accepts; the last one is raised.

    It stops after ``timeout`` seconds or ``attempts`` calls. Calls are ``interval`` seconds apart; with
    ``max_interval`` the interval doubles up to that. ``sleep`` may raise Interrupted, like ``RestClient.pause``.
    """
    start = time.monotonic()
    attempt = 1
    while True:
        try:
            return call()
        except ApiFailed as error:
            late = timeout is not None and time.monotonic() - start >= timeout
            if late or attempt == attempts or not when(error):
                raise
        sleep(interval)
        attempt += 1
        interval = interval if max_interval is None else min(2 * interval, max_interval)

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
    from tenacity import (
        Retrying,
        retry_if_exception,
        stop_after_attempt,
        stop_after_delay,
        stop_never,
        wait_exponential,
        wait_fixed,
    )

    retrying = Retrying(
        stop=(stop_after_delay(timeout) if timeout is not None else stop_never)
        | (stop_after_attempt(attempts) if attempts is not None else stop_never),
        wait=wait_fixed(interval) if max_interval is None else wait_exponential(multiplier=interval, max=max_interval),
        retry=retry_if_exception(lambda error: isinstance(error, ApiFailed) and when(error)),
        sleep=sleep,
        reraise=True,
    )
    return retrying(call)

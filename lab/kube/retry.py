"""Asks again: ``poll`` until an answer is right, ``retry`` while an error may pass. For what no watch tells."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from lab.errors import ApiFailed

T = TypeVar("T")

Sleep = Callable[[float], None]
"""Sleeps so many seconds, or raises Interrupted when the run is cancelled; such as ``RestClient.pause``."""


def poll(
    check: Callable[[], T],
    *,
    until: Callable[[T], bool] = bool,
    timeout: float,
    interval: float = 0.25,
    sleep: Sleep = time.sleep,
) -> T:
    """Call ``check`` until its answer is right or time is up; returns the last answer, as ``Condition.wait_for`` does.

    Args:
        check: asked at least once; what it raises is raised.
        until: whether an answer is right.
        timeout: seconds.
        interval: seconds between two calls.
        sleep: what sleeps in between.
    """
    from tenacity import Retrying, retry_if_not_result, stop_after_delay, wait_fixed

    last: list[T] = []

    def ask() -> bool:
        last[:] = [check()]
        return until(last[0])

    Retrying(
        stop=stop_after_delay(timeout),
        wait=wait_fixed(interval),
        retry=retry_if_not_result(bool),
        sleep=sleep,
        retry_error_callback=lambda _: None,
    )(ask)
    return last[0]


def retry(
    call: Callable[[], T],
    *,
    when: Callable[[ApiFailed], bool],
    timeout: float | None = None,
    attempts: int | None = None,
    interval: float = 0.25,
    max_interval: float | None = None,
    sleep: Sleep = time.sleep,
) -> T:
    """Call again while it raises an ApiFailed that may pass; the last one is raised.

    Args:
        call: called at least once.
        when: whether the error may pass.
        timeout: seconds after which it is not called again.
        attempts: calls in all.
        interval: seconds between two calls.
        max_interval: the interval doubles each time up to this.
        sleep: what sleeps in between.
    """
    from tenacity import (
        Retrying,
        retry_if_exception,
        stop_after_attempt,
        stop_after_delay,
        stop_any,
        stop_never,
        wait_exponential,
        wait_fixed,
    )

    return Retrying(
        stop=stop_any(
            stop_never if timeout is None else stop_after_delay(timeout),
            stop_never if attempts is None else stop_after_attempt(attempts),
        ),
        wait=wait_fixed(interval) if max_interval is None else wait_exponential(multiplier=interval, max=max_interval),
        retry=retry_if_exception(lambda error: isinstance(error, ApiFailed) and when(error)),
        sleep=sleep,
        reraise=True,
    )(call)

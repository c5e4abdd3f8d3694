"""Retries of commands that fail for reasons that may pass, such as a network error."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_exponential

from lab.errors import CommandFailed

P = ParamSpec("P")
R = TypeVar("R")


def retried(attempts: int = 3) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Call the decorated function again when it raises CommandFailed, with growing pauses; raise the last one."""
    return retry(
        retry=retry_if_exception_type(CommandFailed),
        stop=stop_after_attempt(attempts),
        reraise=True,
        wait=wait_exponential(multiplier=2, max=20),
    )

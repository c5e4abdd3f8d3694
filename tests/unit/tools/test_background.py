"""Background threads that live as long as a `with` block."""

from __future__ import annotations

import threading

import pytest

from lab.tools.background import Background


def test_leaving_the_block_stops_the_thread() -> None:
    done = threading.Event()

    def work(stopping: threading.Event) -> None:
        assert stopping.wait(5)
        done.set()

    with Background(work, "test"):
        assert not done.is_set()
    assert done.is_set()


def fail(stopping: threading.Event) -> None:
    raise ValueError("from the thread")


def test_thread_error_is_raised_on_leaving_the_block() -> None:
    with pytest.raises(ValueError, match="from the thread"), Background(fail, "test"):
        pass


def test_block_error_takes_precedence_over_thread_error() -> None:
    background = Background(fail, "test")

    def block() -> None:
        with background:
            background.join(5)
            raise KeyError

    with pytest.raises(KeyError):
        block()
    assert isinstance(background.error, ValueError)


def test_join_zero_does_not_wait_for_the_thread() -> None:
    go = threading.Event()
    with Background(lambda _: go.wait(5), "test", join=0):
        pass
    go.set()

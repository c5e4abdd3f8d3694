"""Work in a thread beside a block."""

from __future__ import annotations

import threading

import pytest

from lab.tools.background import Background


def test_the_end_of_the_block_ends_the_work() -> None:
    done = threading.Event()

    def work(stopping: threading.Event) -> None:
        assert stopping.wait(5)
        done.set()

    with Background(work, "test"):
        assert not done.is_set()
    assert done.is_set()


def fail(stopping: threading.Event) -> None:
    raise ValueError("from the thread")


def test_what_the_work_raises_is_raised_at_the_end() -> None:
    with pytest.raises(ValueError, match="from the thread"), Background(fail, "test"):
        pass


def test_an_error_of_the_block_comes_first() -> None:
    background = Background(fail, "test")

    def block() -> None:
        with background:
            background.join(5)
            raise KeyError

    with pytest.raises(KeyError):
        block()
    assert isinstance(background.error, ValueError)


def test_the_end_need_not_wait_for_the_work() -> None:
    go = threading.Event()
    with Background(lambda _: go.wait(5), "test", join=0):
        pass
    go.set()

"""Background threads: as long as a `with` block, and for a limited time."""

from __future__ import annotations

import subprocess  # noqa: TID251 - a Python that ends
import sys
import threading
from pathlib import Path

import pytest

from lab.tools.background import Background, within


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


def test_jobs_that_take_too_long_are_left_behind() -> None:
    late = threading.Event()
    jobs = {"late": late.wait, "quick": lambda: True, "other": lambda: False}
    assert within(0.3, jobs, at_once=2) == {"quick": True, "other": False}
    late.set()


@pytest.mark.processes(Path(sys.executable).name)
def test_program_ends_while_a_job_still_waits() -> None:
    job = "{1: lambda: time.sleep(60)}"
    code = f"import time; from lab.tools.background import within; print(within(0.1, {job}, at_once=1))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20, check=True)
    assert done.stdout == "{}\n"


def test_first_exception_of_a_job_is_raised() -> None:
    with pytest.raises(ValueError, match="from the thread"):
        within(5, {"a": lambda: fail(threading.Event())}, at_once=1)

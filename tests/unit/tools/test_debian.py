"""apt package lists: a failed update is an error only while no older lists exist."""

from __future__ import annotations

import pytest

from lab.errors import CommandFailed
from lab.tools.debian import Debian
from tests.support.fakes import FakeRunner


@pytest.fixture(autouse=True)
def _no_retry_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Debian._update.retry, "sleep", lambda seconds: None)


def test_failed_update_is_tolerated_when_older_lists_exist(runner: FakeRunner) -> None:
    runner.handle("apt-get update -q", code=100, err="E: Failed to fetch")
    runner.handle("apt-cache pkgnames libc6", out="libc6\nlibc6-dev\n")
    Debian(runner).update()


def test_failed_update_without_lists_is_an_error(runner: FakeRunner) -> None:
    runner.handle("apt-get update -q", code=100, err="E: Failed to fetch: Temporary failure resolving")
    runner.handle("apt-cache pkgnames libc6", out="")
    with pytest.raises(CommandFailed) as failed:
        Debian(runner).update()
    assert "Temporary failure resolving" in str(failed.value)

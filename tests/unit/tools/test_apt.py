"""apt's lists: those of a new machine are empty, and then a failed update is the end."""

from __future__ import annotations

import pytest

from lab.errors import CommandFailed
from lab.tools.apt import Apt
from lab.tools.debian import Debian
from tests.support.fakes import FakeRunner


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Debian.update.retry, "sleep", lambda seconds: None)


def test_old_lists_do_where_a_source_does_not_answer(runner: FakeRunner) -> None:
    runner.handle("apt-get update -q", code=100, err="E: Failed to fetch")
    runner.handle("apt-cache pkgnames libc6", out="libc6\nlibc6-dev\n")
    Apt(runner).update()


def test_without_any_lists_the_reason_is_told(runner: FakeRunner) -> None:
    runner.handle("apt-get update -q", code=100, err="E: Failed to fetch: Temporary failure resolving")
    runner.handle("apt-cache pkgnames libc6", out="")
    with pytest.raises(CommandFailed) as failed:
        Apt(runner).update()
    assert "Temporary failure resolving" in str(failed.value)

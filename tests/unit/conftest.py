"""Fixtures of the unit tests, and the guard that keeps them away from the real machine.

Markers that lift part of the guard:
    ``@pytest.mark.processes("echo", "sleep")``: these programs may really run.
    ``@pytest.mark.loopback``: sockets on 127.0.0.1, ::1 and Unix sockets may be used.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from lab.kube import Cluster, reflector, wait
from tests.support.another_lab import AnotherLab
from tests.support.fakes import FakeClock, FakeRunner
from tests.support.guard import Guard
from tests.support.kube_fake import FakeApi

Strict = TypeVar("Strict", FakeRunner, FakeApi)


def pytest_configure(config: pytest.Config) -> None:
    """Register the guard's markers."""
    config.addinivalue_line("markers", "processes(*names): programs that this unit test may really run")
    config.addinivalue_line("markers", "loopback: this unit test may use sockets on this machine")


@pytest.fixture(autouse=True)
def _guard(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
    """No real process, no socket, no state or cache outside the test's own directory."""
    # A separate MonkeyPatch: monkeypatch.undo() in a test must not lift the guard.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KAILAB_STATE", str(tmp_path / "state"))
        patch.setenv("KAILAB_CACHE", str(tmp_path / "cache"))
        guard = Guard(patch)
        marker = request.node.get_closest_marker("processes")
        guard.processes(marker.args if marker else ())
        guard.sockets(loopback=request.node.get_closest_marker("loopback") is not None)
        yield
    if guard.refused:
        pytest.fail("; ".join(guard.refused), pytrace=False)


def strictly(fake: Strict) -> Iterator[Strict]:
    """A fake for one test, which fails if declared answers are not used."""
    yield fake
    if unmet := fake.unmet():
        pytest.fail("\n".join(unmet), pytrace=False)


@pytest.fixture
def runner() -> Iterator[FakeRunner]:
    """A strict runner; the test fails if a declared command did not run."""
    yield from strictly(FakeRunner())


@pytest.fixture
def clock() -> FakeClock:
    """A clock that moves only when advanced."""
    return FakeClock()


@pytest.fixture
def other() -> Iterator[AnotherLab]:
    """Another lab on this machine; its creations finish with the test."""
    lab = AnotherLab()
    yield lab
    lab.ends()


@pytest.fixture
def api() -> Iterator[FakeApi]:
    """A strict API server; the test fails if a declared answer was not requested."""
    yield from strictly(FakeApi())


@pytest.fixture
def pauses() -> list[float]:
    """Pauses of ``cluster`` between attempts, in seconds."""
    return []


@pytest.fixture
def cluster(api: FakeApi, pauses: list[float], monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """The cluster behind ``api``, with short timeouts and recorded pauses."""
    monkeypatch.setattr(reflector, "PAUSE", 0.01)
    monkeypatch.setattr(wait, "FIRST_LIST", 0.3)
    made = Cluster(Path("/lab/kubeconfig"), "kind-kailab-demo", transport=api)
    monkeypatch.setattr(made.calls, "pause", pauses.append)
    return made

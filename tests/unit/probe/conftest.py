"""The compiled probe, and one that serves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.probe_world import Served, compiled


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("probe"))


@pytest.fixture
def server(program: Path) -> Iterator[Served]:
    served = Served(program)
    yield served
    assert served.process.poll() is None, "the server exited unexpectedly"
    served.close()

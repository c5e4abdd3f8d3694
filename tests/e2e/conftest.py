"""Brings in the lab's fixtures (lab/pytest_fixtures.py); the suites need no others."""

from __future__ import annotations

import pytest

from lab.pytest_plugin import activate


def pytest_configure(config: pytest.Config) -> None:
    # pytest-xdist makes this marker known; the suites also run without it.
    config.addinivalue_line("markers", "xdist_group(name): tests of one group run in one worker")
    activate(config)

"""Loads the lab's fixtures (lab/pytest_plugin); the suites need no others."""

from __future__ import annotations

import pytest

from lab.pytest_plugin.plugin import activate


def pytest_configure(config: pytest.Config) -> None:
    activate(config)

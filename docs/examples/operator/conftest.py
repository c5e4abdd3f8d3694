"""The tests need a lab: without one they are skipped."""

import os

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not (config.getoption("lab_name", None) or os.environ.get("KAILAB_LAB")):
        for item in items:
            item.add_marker(pytest.mark.skip(reason="needs a lab: pytest --lab NAME"))

"""Fixtures of the tests of GPUs: a lab with simulated GPUs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.gpu_world import GpuWorld, pretend_machine


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GpuWorld:
    pretend_machine(monkeypatch)
    return GpuWorld(tmp_path)

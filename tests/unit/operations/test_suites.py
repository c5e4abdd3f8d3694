from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest

from lab import paths
from lab.errors import HostNotReady
from lab.operations.suites import e2e_command, pytest_command

ROOT = Path(__file__).parents[3]


def test_suites_of_a_checkout_use_its_settings() -> None:
    *command, option, _ = pytest_command()
    assert command == [sys.executable, "-m", "pytest", ROOT / "tests" / "e2e"]
    assert option == "-W"


def test_suites_of_a_wheel_run_without_the_settings_of_a_project_around_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    inside = tmp_path / "site-packages" / "lab" / "suites"
    inside.mkdir(parents=True)
    monkeypatch.setattr(paths, "__file__", str(inside.parent / "paths.py"))
    command = pytest_command()
    assert command[3] == inside
    assert {"-c", os.devnull, f"--rootdir={inside}"} <= set(command)


def test_e2e_passes_options_to_pytest_and_knows_two_short_ones() -> None:
    command = e2e_command(Path("out"), ["--require", "kai,gpus", "--name=demo", "-k", "fraction"])
    assert command[-5:] == ["--lab-require", "kai,gpus", "--lab=demo", "-k", "fraction"]
    assert {"--junitxml=out/junit.xml", "--lab-report=out/report.html", "--lab-artifacts=out"} <= set(command)
    assert command[command.index("--dist") + 1] == "loadgroup"
    assert "timeout_func_only=true" in command, "a test may wait for GPUs longer than it may run"


@pytest.mark.parametrize(
    ("prefix", "fix"),
    [
        ("/home/a/project/.venv", "pip install 'kailab-cli[test]'"),
        ("/home/a/.local/share/pipx/venvs/kailab-cli", "pipx install --force 'kailab-cli[test]'"),
        (
            "/home/a/.cache/uv/archive-v0/x",
            "uvx --from 'kailab-cli[test]' kailab e2e, or uv tool install 'kailab-cli[test]'",
        ),
    ],
)
def test_a_missing_extra_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, prefix: str, fix: str
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "xdist" else object())
    monkeypatch.setattr(sys, "prefix", prefix)
    with pytest.raises(HostNotReady, match=r"^the suites need pytest-xdist, which") as missing:
        e2e_command(Path("out"), [])
    assert missing.value.fix == fix


def test_an_installation_without_suites_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(paths, "__file__", str(tmp_path / "lab" / "paths.py"))
    with pytest.raises(HostNotReady, match="has no suites"):
        pytest_command()

from __future__ import annotations

from typing import Any

import pytest
from typer.testing import CliRunner

from lab.cli import e2e
from lab.cli.app import app
from lab.version import VERSION


def test_options_of_pytest_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []
    monkeypatch.setattr(e2e, "replace_process", lambda argv, env: started.append((argv, env)))
    monkeypatch.setenv("KAILAB_ARTIFACTS", "out")
    done = CliRunner().invoke(app, ["e2e", "--name", "demo", "-x", "-k", "fraction", "--lab-long"])
    assert done.exit_code == 0, done.output
    ((argv, env),) = started
    assert argv[-6:] == ["--lab", "demo", "-x", "-k", "fraction", "--lab-long"]
    assert "--junitxml=out/junit.xml" in argv
    assert env == {}


def test_version_is_an_option_too() -> None:
    done = CliRunner().invoke(app, ["--version"])
    assert (done.exit_code, done.stdout) == (0, f"kailab {VERSION}\n")

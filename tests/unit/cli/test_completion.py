"""Completion for the shell, from saved state only."""

from __future__ import annotations

import os
import subprocess  # noqa: TID251 - a user's shell
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.cli.completion import (
    complete_gpu,
    complete_kai,
    complete_lab,
    complete_profile,
    complete_tenant,
    complete_workers,
)
from lab.config import load_profile
from lab.paths import LabPaths
from lab.session.session import Session


def context(**params: Any) -> Any:
    """What completion reads of typer's context: the options on the line so far."""
    return SimpleNamespace(params=params)


@pytest.fixture(autouse=True)
def labs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAILAB_LAB", raising=False)
    for name, profile in (("big", "tenants"), ("one", "minimal")):
        spec = load_profile(profile, [f"name={name}"], {})
        Session(spec, spec).save()


def test_labs_and_profiles() -> None:
    assert complete_lab("") == ["big", "one"]
    assert complete_lab("o") == ["one"]
    assert complete_profile("g") == ["gpu", "gpus"]


def test_releases_of_kai_also_in_a_list() -> None:
    assert "0.16.8" in complete_kai("0.16.")
    assert "0.9.8,0.16.8" in complete_kai("0.9.8,0.16")
    assert complete_kai("7") == []


def test_what_a_lab_has(monkeypatch: pytest.MonkeyPatch) -> None:
    assert complete_tenant(context(), "team-") == ["team-host", "team-own"]
    assert complete_tenant(context(name="one"), "") == []
    assert complete_workers(context(), "worker2,w") == ["worker2,worker", "worker2,worker2", "worker2,worker3"]
    assert complete_gpu(context(name="one"), "") == ["control-plane/0"]
    assert complete_gpu(context(), "worker2/") == ["worker2/0", "worker2/1"]
    monkeypatch.setenv("KAILAB_LAB", "one")
    assert complete_tenant(context(), "") == []


def test_damaged_state_completes_nothing() -> None:
    LabPaths("big").spec.write_text("{")
    assert complete_tenant(context(), "") == []


@pytest.mark.processes(Path(sys.executable).name)
def test_shell_gets_words() -> None:
    words = {"COMP_WORDS": "kailab gpu fail --name one contr", "COMP_CWORD": "5"}
    script = "import sys; sys.argv = ['kailab']; from lab.__main__ import main; main()"
    env = {**os.environ, "_KAILAB_COMPLETE": "complete_bash", **words}
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=False)
    assert (done.stdout.split(), done.stderr) == (["control-plane/0"], "")

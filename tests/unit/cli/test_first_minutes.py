"""``kailab try``, and the question of ``kailab up`` without a lab file."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from lab.cli import try_, up
from lab.cli.app import app
from lab.config import LabSpec, load_profile
from lab.operations.profiles import profile_offers
from lab.session.session import Session
from lab.ui.first_minutes import render_profiles, render_trial_kept


@pytest.fixture
def brought_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Names of the labs that 'kailab up' brought up."""
    names: list[str] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(up, "bring_up", lambda lab, **options: names.append(lab.spec.name))
    monkeypatch.setattr(up, "render_up", lambda report: None)
    monkeypatch.setattr(up, "on_terminal", lambda: True)
    return names


def run(*words: str, answer: str = "") -> str:
    done = CliRunner().invoke(app, list(words), input=answer)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.parametrize(
    ("answer", "name"), [("\n", "demo"), ("minimal\n", "minimal"), ("2\n", "cpu"), ("9\nx\ngpus\n", "gpus")]
)
def test_up_without_a_lab_file_asks_for_a_profile(brought_up: list[str], answer: str, name: str) -> None:
    assert "number or name [demo]" in run("up", answer=answer)
    assert brought_up == [name]


@pytest.mark.parametrize("words", [["--yes"], ["--profile", "cpu"], ["-f", "mine.yaml"], ["--json"]])
def test_up_asks_only_where_nothing_is_named(brought_up: list[str], words: list[str], monkeypatch: Any) -> None:
    Path("mine.yaml").write_text("name: mine\n")
    monkeypatch.setattr(up, "print_json", lambda report: None)
    assert "number or name" not in run("up", *words)
    assert len(brought_up) == 1


def test_up_asks_neither_beside_a_lab_file_nor_a_lab_nor_in_a_pipe(brought_up: list[str], monkeypatch: Any) -> None:
    Path("lab.yaml").write_text("name: mine\n")
    run("up")
    Path("lab.yaml").unlink()
    monkeypatch.setattr(up, "on_terminal", lambda: False)
    run("up")
    monkeypatch.setattr(up, "on_terminal", lambda: True)
    spec = load_profile("cpu", (), {})
    Session(spec, spec).save()
    run("up")
    assert brought_up == ["mine", "demo", "demo"]


def test_profiles_are_numbered_with_needs_and_times() -> None:
    out = io.StringIO()
    render_profiles(profile_offers(), Console(file=out, width=100))
    lines = out.getvalue().splitlines()
    assert lines[2].startswith(" 1  demo  The whole demo: one GPU cluster")
    assert lines[3] == "    3 node containers, 4 simulated GPUs, KAI 0.16.8, 2 vClusters"


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What 'kailab try' did."""
    done: list[Any] = []

    def bring_up(lab: Any, **options: Any) -> None:
        done.append(("up", lab.spec.name, sorted(options["require"]), type(lab.spec) is LabSpec))

    monkeypatch.setattr(try_, "bring_up", bring_up)
    monkeypatch.setattr(try_, "try_out", lambda lab: SimpleNamespace(lab=lab.spec.name))
    monkeypatch.setattr(try_, "render_trial", lambda trial, name: done.append(("shown", name)))
    monkeypatch.setattr(try_, "take_down", lambda name, **options: done.append(("down", name)))
    monkeypatch.setattr(try_, "render_down", lambda report: None)
    return done


@pytest.mark.parametrize(
    ("words", "terminal", "answer", "removed"),
    [
        ([], True, "y\n", True),
        ([], True, "n\n", False),
        ([], False, "", False),
        (["--down"], False, "", True),
        (["--keep"], True, "y\n", False),
    ],
)
def test_try_offers_to_remove_its_lab(
    tried: list[Any], words: list[str], terminal: bool, answer: str, removed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(try_, "confirm", lambda question: terminal and answer == "y\n")
    output = run("try", *words)
    assert tried[:2] == [("up", "try", ["kai"], True), ("shown", "try")]
    assert (("down", "try") in tried) is removed
    assert ("kailab down --name try" in output) is not removed


def test_kept_lab_is_shown_with_its_next_commands() -> None:
    out = io.StringIO()
    render_trial_kept("try", Path("/k"), Console(file=out, width=100))
    assert out.getvalue().splitlines() == [
        " kubectl --kubeconfig /k -n try get pods",
        " kailab e2e --name try · kailab down --name try",
    ]

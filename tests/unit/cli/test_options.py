"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from lab.cli import kubeconfig, logs, status
from lab.errors import NoLab
from lab.session.session import Session


@pytest.mark.parametrize("command", [status, logs, kubeconfig], ids=["status", "logs", "kubeconfig"])
@pytest.mark.parametrize(
    ("words", "name"),
    [(["-f", "lab.yaml"], "mine"), (["--profile", "cpu"], "cpu"), (["-f", "lab.yaml", "--name", "other"], "other")],
)
def test_running_lab_is_named_by_file_profile_or_name(
    command: object, words: list[str], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def attached(wanted: str) -> Session:
        asked.append(wanted)
        raise NoLab(wanted)

    monkeypatch.chdir(tmp_path)
    Path("lab.yaml").write_text("name: mine\n")
    monkeypatch.setattr(Session, "attached", attached)
    done = CliRunner().invoke(command.app, words)  # type: ignore[attr-defined]
    assert asked == [name]
    assert isinstance(done.exception, NoLab)

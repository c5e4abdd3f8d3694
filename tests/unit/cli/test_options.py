"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from lab.cli import kubeconfig, logs, status
from lab.cli.app import app
from lab.cli.options import spec_of, warn_about_kai
from lab.errors import LabError, NoLab
from lab.session.session import Session
from lab.supply import Supply


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


@pytest.mark.parametrize(
    ("file", "profile", "settings", "name", "expected"),
    [
        ("", "cpu", [], None, "ours"),
        ("", None, [], None, "ours"),  # lab.yaml here
        ("lab.yaml", None, [], None, "mine"),
        ("", "cpu", ["name=chosen"], None, "chosen"),
        ("", "cpu", ["name=chosen"], "named", "named"),
    ],
)
def test_environment_names_the_lab_unless_something_else_does(
    file: str,
    profile: str | None,
    settings: list[str],
    name: str | None,
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KAILAB_LAB", "ours")
    Path("lab.yaml").write_text("name: mine\n")
    assert spec_of(Path(file) if file else None, profile, settings, name).name == expected


def test_kai_newer_than_all_known_is_stated_once_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    warn_about_kai("0.18.3")
    seen = capsys.readouterr()
    assert (seen.out, seen.err.count("KAI 0.18.3 is newer than all releases that kailab knows")) == ("", 1)


def test_kubernetes_that_kai_is_not_validated_with_is_stated(capsys: pytest.CaptureFixture[str]) -> None:
    warn_about_kai("0.14.7", "1.36.1")
    warn_about_kai("0.14.7", "1.34.4")
    expected = "warning: KAI 0.14.7 is validated with Kubernetes 1.31 to 1.35, not 1.36.1\n"
    assert capsys.readouterr().err == expected


@pytest.mark.parametrize("version", ["0.16.8", "0.16.9", "0.6.0", "", "latest"])
def test_other_versions_of_kai_are_not_stated(version: str, capsys: pytest.CaptureFixture[str]) -> None:
    warn_about_kai(version)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("can-run none.yaml", "none.yaml: cannot be read"),
        ("can-run none.yaml --snapshot saved.json.gz", "none.yaml: cannot be read"),
        ("tenant compare a b -f none.yaml", "none.yaml: cannot be read"),
        ("tenant add a -f none.yaml", "none.yaml"),
        ("tenant add a --values none.yaml", "none.yaml"),
        ("tenant remove a --grace soon", "--grace soon: must be 'own' or seconds"),
        ("explain team/p --html page.html", "--html: only 'kailab explain queue' writes a page"),
        ("explain --all --html page.html", "--html: only 'kailab explain queue' writes a page"),
        ("status -f none.yaml", "none.yaml"),
        ("verify --kubeconfig none.yaml", "--kubeconfig none.yaml: no such file"),
        ("bundle create --out made --profile cpu", "made already exists"),
    ],
)
def test_arguments_are_checked_before_a_lab_is_looked_for_or_anything_is_built(
    words: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_late(*_: object) -> None:
        raise AssertionError("the arguments come first")

    monkeypatch.chdir(tmp_path)
    Path("made").mkdir()
    monkeypatch.setattr(Session, "attached", too_late)
    monkeypatch.setattr(Supply, "path", too_late)
    error = CliRunner().invoke(app, words.split()).exception
    assert isinstance(error, LabError), error
    assert message in str(error)

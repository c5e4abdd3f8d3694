"""Errors and tables as text."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from lab.errors import LabError, StepFailed
from lab.ui.lab import render_error
from lab.ui.text_writer import TextWriter, render_table


def console(width: int = 80, *, terminal: bool = True, encoding: str = "utf-8") -> tuple[Console, io.BytesIO]:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding, write_through=True)
    made = Console(file=file, width=width, force_terminal=terminal, color_system=None, highlight=False, markup=False)
    return made, raw


def text(raw: io.BytesIO) -> list[str]:
    return raw.getvalue().decode().splitlines()


ERROR = StepFailed(
    "kai: helm ended with status 1",
    command="helm upgrade --install kai-scheduler " + "--set global.gpuSharing=true " * 4,
    evidence=["Error: [bold]timed out[/bold]", "    indented \x1b[31mred\x1b[0m"],
    fix="run the same command again; if it stays, look at 'kailab logs' and free some memory on this host",
)


def test_error_on_a_terminal_is_folded_except_for_its_command() -> None:
    made, raw = console(60)
    render_error(ERROR, made)
    lines = text(raw)
    assert lines[0] == "✗ step: kai: helm ended with status 1"
    assert lines[1] == f"  $ {ERROR.command.rstrip()}"  # one line, so that it can be pasted
    assert lines[2:4] == ["  | Error: [bold]timed out[/bold]", "  |     indented red"]
    assert lines[4].startswith("  → next: run the same command again;")
    assert lines[5].startswith("    ")
    assert max(map(len, lines[4:])) <= 60


def test_error_in_a_pipe_is_not_folded() -> None:
    made, raw = console(60, terminal=False)
    render_error(ERROR, made)
    assert text(raw)[-1] == f"  → next: {ERROR.fix}"


def test_error_without_details_is_one_line() -> None:
    made, raw = console()
    render_error(LabError("it broke"), made)
    assert text(raw) == ["✗ error: it broke"]


def test_ascii_terminal_gets_ascii_only() -> None:
    made, raw = console(encoding="ascii")
    render_error(LabError("größer … → x", fix="do → it"), made)
    assert raw.getvalue().isascii()
    assert text(raw) == ["x error: gr??er ... -> x", "  -> next: do -> it"]


def test_error_is_an_annotation_at_its_line_on_github(monkeypatch: pytest.MonkeyPatch) -> None:
    error = LabError("2 errors in lab.yaml", evidence=["lab.yaml:2: gpu.pool: unknown key", "no line"], fix="edit it")
    made, raw = console()
    render_error(error, made)
    assert not [line for line in text(raw) if line.startswith("::")]
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    render_error(error, made)
    annotations = [line for line in text(raw) if line.startswith("::")]
    assert annotations == ["::error file=lab.yaml,line=2::gpu.pool: unknown key"]


def test_error_goes_to_stderr_and_table_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    render_error(LabError("it broke"))
    render_table("Bundle", ("kind", "name"), [("image", "kai")])
    captured = capsys.readouterr()
    assert captured.err == "✗ error: it broke\n"
    assert captured.out == "Bundle\n kind   name\n image  kai\n"


def test_table_is_aligned_and_has_no_trailing_blanks() -> None:
    made, raw = console()
    render_table("Bundle", ("kind", "name", "size"), [("image", "漢字", "1 MiB"), ("chart", "kai-scheduler", "")], made)
    assert text(raw) == [
        "Bundle",
        " kind   name           size",
        " image  漢字           1 MiB",
        " chart  kai-scheduler",
    ]


def test_empty_table_prints_none() -> None:
    made, raw = console()
    render_table("Bundle", ("kind",), [], made)
    assert text(raw) == ["Bundle", " none"]


def test_last_column_folds_under_itself() -> None:
    made, raw = console(40)
    TextWriter(made).columns([["id", "word " * 12]])
    lines = text(raw)
    assert len(lines) > 1
    assert all(line.startswith("     word") for line in lines[1:])
    assert max(map(len, lines)) <= 40


def test_long_last_cell_without_room_has_lines_of_its_own() -> None:
    made, raw = console(width=30)
    rows = [("image", "registry.example/a", "here"), ("image", "registry.example/b", "/home/of/a/bundle-with-a-name")]
    render_table("", (), rows, made)
    assert text(raw) == [
        " image  registry.example/a  here",
        " image  registry.example/b",
        "     /home/of/a/bundle-with-a-",
        "     name",
    ]


def test_column_before_an_empty_one_is_wrapped() -> None:
    made, raw = console(width=40)
    render_table("", (), [("node", "a library and a device node for each of its GPUs", "")], made)
    assert text(raw) == [" node  a library and a device node for", "       each of its GPUs"]

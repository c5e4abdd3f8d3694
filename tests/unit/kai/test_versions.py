"""The table of KAI versions, as text and as JSON."""

from __future__ import annotations

import io
import json

from rich.console import Console
from typer.testing import CliRunner

from lab.cli.kai import app as kai_app
from lab.kai import lines
from lab.serialization import to_json
from lab.ui.kai_versions import render_kai_versions


def printed(encoding: str = "utf-8") -> list[str]:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, write_through=True)
    render_kai_versions(tuple(lines().values()), Console(file=stream, width=200, highlight=False))
    return raw.getvalue().decode(encoding).splitlines()


def row(name: str, rows: list[str]) -> list[str]:
    return next(line.split() for line in rows if line.split()[:1] == [name])


def test_each_line_has_a_row_with_its_releases() -> None:
    rows = printed()
    assert rows[0] == "KAI versions that kailab knows"
    assert row("0.7", rows)[:9] == ["0.7", "0.7.0", "to", "0.7.13", "0.7.11", "not", "stated", "not", "stated"]
    assert row("0.14", rows)[5:12] == ["LTS", "until", "Mar", "2027", "1.31", "to", "1.35"]
    assert row("0.17", rows)[-5:] == ["1.36", "any", "gets", "an", "event"]


def test_features_are_marked_by_line() -> None:
    rows = printed()
    assert row("gang", rows)[1:] == ["✓"] * len(lines())
    assert row("hierarchical_queues", rows)[1:] == ["·"] * 7 + ["✓"] * 5


def test_defects_name_the_release_that_fixed_them() -> None:
    text = " ".join(row("double-reservation", printed()))
    assert text.startswith(
        "double-reservation all all all all 0.9.7-0.9.19 all 0.12.0-0.12.21 all 0.14.0-0.14.5 all · · two"
    )
    assert "CHANGELOG.md" in text


def test_ascii_streams_get_ascii_marks() -> None:
    assert row("hierarchical_queues", printed("ascii"))[1:] == ["-"] * 7 + ["+"] * 5


def test_command_prints_the_table() -> None:
    done = CliRunner().invoke(kai_app, ["versions"])
    assert done.exit_code == 0
    assert "0.9.7 to 0.9.20" in done.stdout


def test_command_prints_json() -> None:
    data = json.loads(CliRunner().invoke(kai_app, ["versions", "--json"]).stdout)
    assert [line["version"] for line in data] == list(lines())
    assert data == json.loads(json.dumps([to_json(line) for line in lines().values()]))
    assert data[-1]["helm"]["fips"] == "global.fips"

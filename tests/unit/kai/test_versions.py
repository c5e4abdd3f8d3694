"""The table of KAI versions, as text and as JSON."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console
from typer.testing import CliRunner

from lab.cli.kai import app as kai_app
from lab.kai import VersionLine, lines
from lab.serialization import to_json
from lab.ui.kai_versions import render_kai_versions


def printed(known: Sequence[VersionLine] = tuple(lines().values())) -> list[str]:
    out = io.StringIO()
    render_kai_versions(known, Console(file=out, width=200, highlight=False))
    return out.getvalue().splitlines()


def row(name: str, rows: list[str]) -> list[str]:
    return next(line.split() for line in rows if line.split()[:1] == [name])


def test_each_line_has_a_row_with_its_releases() -> None:
    rows = printed()
    assert rows[0] == "KAI versions that kailab knows"
    assert row("0.7", rows)[:9] == ["0.7", "0.7.0", "to", "0.7.13", "0.7.11", "not", "stated", "not", "stated"]
    assert row("0.14", rows)[5:12] == ["LTS", "until", "Mar", "2027", "1.31", "to", "1.35"]
    assert row("0.17", rows)[-3:] == ["1.28", "to", "1.36"]


def test_features_name_the_lines_that_have_them() -> None:
    rows = printed()
    assert row("gang", rows)[1:] == ["all", "lines"]
    assert row("hierarchical_queues", rows)[1:] == ["0.13", "and", "newer"]


def test_feature_that_is_gone_names_its_lines() -> None:
    gone = [
        replace(line, features=frozenset({"gone"} if line.name in ("0.7", "0.9.1") else ()))
        for line in lines().values()
    ]
    assert row("gone", printed(gone))[1:] == ["0.7,", "0.9.1"]


def test_defects_name_their_releases_and_issue() -> None:
    rows = printed()
    at = next(number for number, line in enumerate(rows) if line.split()[-1:] == ["double-reservation"])
    assert "CHANGELOG.md" in rows[at + 1]
    assert rows[at + 2].startswith("   in 0.7.0 to 0.9.19, ")


def test_command_prints_the_table() -> None:
    done = CliRunner().invoke(kai_app, ["versions"])
    assert done.exit_code == 0
    assert "0.9.7 to 0.9.20" in done.stdout


def test_command_prints_json() -> None:
    data = json.loads(CliRunner().invoke(kai_app, ["versions", "--json"]).stdout)
    assert [line["version"] for line in data] == list(lines())
    assert data == json.loads(json.dumps([to_json(line) for line in lines().values()]))
    assert data[-1]["helm"]["fips"] == "global.fips"

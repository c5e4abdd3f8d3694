"""Findings: rules, unique ids, rows of TOML files, and the JSON."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.errors import LabError
from lab.findings import Certainty, Finding, Registry, Rule, load
from lab.serialization import document

ROW = {
    "title": "t",
    "source": "s",
    "streams": ["log"],
    "patterns": ["no (?P<what>.+)"],
    "what": "w {what}",
    "next": "n",
}


def toml(folder: Path, **change: object) -> Path:
    """A TOML file with one row, with some keys changed."""
    lines = [f"{key} = {value!r}" for key, value in {**ROW, **change}.items()]
    path = folder / "rows.toml"
    path.write_text("[row]\n" + "\n".join(lines))
    return path


def test_rule_adds_its_id_title_and_source() -> None:
    (found,) = Rule("r", "t", lambda text: Finding(f"{text} is broken", "fix it"), "s").apply("it")
    assert (found.rule, found.title, found.source) == ("r", "t", "s")
    assert (found.what, found.next, found.severity) == ("it is broken", "fix it", "error")


def test_rule_may_yield_any_number_of_findings() -> None:
    def two() -> Iterator[Finding]:
        yield Finding("one")
        yield Finding("two", severity="ok")

    assert Rule("r", "t", lambda: None).apply() == ()
    assert [one.what for one in Rule("r", "t", two).apply()] == ["one", "two"]
    assert [one.severity for one in Rule("r", "t", two, advisory=True).apply()] == ["warning", "ok"]


def test_duplicate_rule_ids_are_refused() -> None:
    rule = Rule("r", "t", lambda: None)
    rules = Registry("area", [rule])
    assert (dict(rules), len(rules)) == ({"r": rule}, 1)
    with pytest.raises(LabError, match="area: two rules have the id r"):
        rules.add(rule)


def test_row_fills_in_matched_groups(tmp_path: Path) -> None:
    row = load([toml(tmp_path, what="{who}: w {what}", unless="never")], ["log"])["row"]
    match = row.search("there is no  way\tout")
    assert match is not None
    found = row.finding(match, ["line"], {"who": "it"})
    assert (found.what, found.next, found.evidence) == ("it: w way out", "n", ("line",))
    assert (found.rule, found.title, found.source, found.certainty) == ("row", "t", "s", Certainty.CERTAIN)
    assert row.search("no way, never") is None


def test_pattern_may_match_the_sender(tmp_path: Path) -> None:
    row = load([toml(tmp_path, patterns=["^kubelet: gone"])], ["log"])["row"]
    assert row.search("gone") is None
    assert row.search("gone", "kubelet")


@pytest.mark.parametrize(
    ("change", "message"),
    [({"colour": "red"}, "row: unknown key: colour"), ({"streams": ["nobody"]}, "row: unknown stream: nobody")],
)
def test_invalid_row_is_refused(tmp_path: Path, change: dict[str, object], message: str) -> None:
    with pytest.raises(LabError, match=message):
        load([toml(tmp_path, **change)], ["log"])


def test_json_omits_empty_optional_keys() -> None:
    found = Finding("w", "n", ("e",), rule="r", subject="Pod a", title="t", source="s", file="f", line=3, at=("a", 0))
    assert document({"findings": [found]}) == {
        "schemaVersion": 1,
        "findings": [
            {
                "rule": "r",
                "severity": "error",
                "subject": "Pod a",
                "title": "t",
                "what": "w",
                "evidence": ["e"],
                "next": "n",
                "source": "s",
                "certainty": "certain",
                "file": "f",
                "line": 3,
                "field": "a.0",
            }
        ],
    }

"""The registry of all rules, their recorded examples, and ``--explain RULE``."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console
from typer.testing import CliRunner

from lab.cli.app import app
from lab.errors import SpecError
from lab.findings.description import EXAMPLES
from lab.operations.rules import described, rules
from lab.ui.findings import render_rules
from scripts.docs import examples

AREAS = {"lint", "explain", "doctor", "symptom", "invariant", "defect"}


def printed(*words: str) -> str:
    done = CliRunner().invoke(app, list(words), env={"COLUMNS": "100"})
    assert done.exit_code == 0, done.output
    return done.stdout


def test_examples_are_those_of_the_captures_and_messages() -> None:
    assert EXAMPLES.read_text(encoding="utf-8") == examples.text(), "run python -m scripts.docs.examples"


def test_each_example_has_its_rule() -> None:
    known = {f"{one.area}/{one.id}" for one in rules()}
    assert set(json.loads(EXAMPLES.read_text(encoding="utf-8"))) <= known
    without = {one.id for one in rules() if one.example is None and one.area in ("lint", "symptom", "invariant")}
    assert without == {"not-yaml"}
    assert {one.area for one in rules()} == AREAS


def test_rule_is_described_with_cure_source_and_example() -> None:
    (one,) = described("nodes.gpus")
    assert one.next.startswith("ask for fewer GPUs")
    assert one.source
    assert one.example is not None
    assert "scenario gpus-too-many" in one.example.origin
    assert one.page == "reference/rules/explain/nodes.gpus"


def test_id_of_two_areas_gives_both() -> None:
    assert [one.area for one in described("sharing-off")] == ["lint", "symptom"]


def test_error_text_is_what_the_component_reports() -> None:
    texts = {one.id: one.error_text for one in rules()}
    assert texts["device-rules-lost"] == "Failed to initialize NVML: Unknown Error"
    assert texts["admission.fraction-value"].startswith("Error creating: admission webhook")
    assert texts["gang-whole"] == "Of a PodGroup at least minMember pods are bound, or none."


def test_unknown_id_names_a_similar_one() -> None:
    with pytest.raises(SpecError) as refused:
        described("nodes.gpu")
    assert refused.value.fix == "--explain nodes.gpus"


@pytest.mark.parametrize("command", ["explain", "doctor", "verify"])
def test_each_command_explains_any_rule(command: str) -> None:
    text = printed(command, "--explain", "reservation-lost-on-retry")
    assert text == printed("lint", "--explain", "reservation-lost-on-retry")
    assert "0.14.1-0.17.0" in text


def test_explained_rule_as_json() -> None:
    (row,) = json.loads(printed("doctor", "--explain", "queue-units", "--json"))["rules"]
    assert (row["area"], row["id"]) == ("lint", "queue-units")
    assert row["example"]["input"].startswith("apiVersion: scheduling.run.ai/v2")


def test_every_rule_can_be_printed() -> None:
    console = Console(file=io.StringIO(), width=80)
    render_rules(rules(), console)
    text = console.file.getvalue()
    assert all(one.id in text for one in rules())

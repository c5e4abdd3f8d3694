"""The table of known failures: complete rows, patterns that match real lines, existing proofs; and the matching."""

from __future__ import annotations

import re
import string
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

from lab.findings import PatternRule
from lab.gpu.diagnosis.symptoms import FILES, NOT_HERE, STREAMS, TEXT, Evidence, in_text, match, normal, symptoms
from lab.kai import facts, line_of
from tests.integration.gpu_failure_cases import CASES as ON_A_LAB
from tests.integration.gpu_failure_texts import CASES as IN_WORDS
from tests.integration.gpu_failure_texts import DOCKER

MESSAGES: Mapping[str, list[str]] = tomllib.loads(
    (Path(__file__).parents[3] / "data" / "symptoms_messages.toml").read_text()
)
LINES = [(symptom, line) for symptom, lines in MESSAGES.items() for line in lines]
ROWS = list(symptoms().values())

PROOFS = {
    "tests/integration/test_gpu_failures.py::test_failure": set(ON_A_LAB),
    "tests/integration/test_gpu_failure_texts.py::test_text": set(IN_WORDS),
    "tests/integration/test_gpu_failure_texts.py::test_docker": set(DOCKER),
}


def ids(*evidence: Evidence) -> list[str]:
    return [found.rule for found in match(evidence)]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_every_row_is_complete(row: PatternRule) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9-]+", row.id)
    for text in (row.title, row.what, row.next, row.source):
        assert text.strip() == text
        assert len(text) > 5
    assert row.what.endswith(".")
    assert not row.next.endswith(".")
    assert row.streams <= STREAMS.keys() - {TEXT}
    # every pattern fills every placeholder
    names = {name for text in (row.what, row.next) for _, name, _, _ in string.Formatter().parse(text) if name}
    assert all(names - {"where"} <= pattern.groupindex.keys() for pattern in row.patterns)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_every_proof_is_a_test_of_the_symptom_or_a_reason(row: PatternRule) -> None:
    if row.proof.startswith(NOT_HERE):
        assert len(row.proof) > len(NOT_HERE) + 10
        return
    test, _, case = row.proof.rstrip("]").partition("[")
    assert case in PROOFS[test]
    produced = ON_A_LAB[case].also | {case} if "test_failure[" in row.proof else {case}
    assert row.id in produced


def test_every_case_is_a_symptom() -> None:
    assert set().union(*PROOFS.values()) <= symptoms().keys()
    assert {name for case in ON_A_LAB.values() for name in case.also | case.may} <= symptoms().keys()


def test_files_follow_the_gpu_path_and_few_rows_are_unproved() -> None:
    assert FILES == ("machine", "system", "node", "plugin", "kai")
    unproved = [row.id for row in ROWS if row.proof.startswith(NOT_HERE)]
    assert len(ROWS) > 80
    assert len(unproved) < 16


@pytest.mark.parametrize(("symptom", "line"), LINES, ids=[f"{symptom}-{n}" for n, (symptom, _) in enumerate(LINES)])
def test_real_lines_match_only_their_symptom(symptom: str, line: str) -> None:
    assert [found.rule for found in in_text(line)] == [symptom]


def test_every_pattern_matches_a_real_line() -> None:
    for row in ROWS:
        lines = [normal(line) for line in MESSAGES[row.id]]
        unused = [pattern.pattern for pattern in row.patterns if not any(pattern.search(line) for line in lines)]
        assert unused == [], row.id


def test_colours_and_backslashes_of_log_lines_are_ignored() -> None:
    line = '\x1b[31mE\x1b[0m level=error error="failed: no runtime for \\\\\\"nvidia\\\\\\" is configured\\nnext"'
    assert [found.rule for found in in_text(line)] == ["handler-missing"]
    assert normal('a \\"b\\"\\nc') == 'a "b"\nc'


def test_symptom_is_matched_only_in_its_streams() -> None:
    line = "Incompatible strategy detected auto"
    assert ids(Evidence("plugin-log", "kube-system/p", line)) == ["plugin-strategy"]
    assert ids(Evidence("event", "kube-system/p", line)) == []
    assert ids(Evidence(TEXT, "text", line)) == ["plugin-strategy"]


def test_consequences_are_reported_only_without_a_cause_on_the_node() -> None:
    crash = Evidence("node", "kube-system/p", "device plugin kube-system/p is not ready: CrashLoopBackOff", "worker")
    cause = Evidence("plugin-log", "kube-system/p", "Incompatible strategy detected auto", "worker")
    elsewhere = Evidence("plugin-log", "kube-system/q", "Incompatible strategy detected auto", "worker2")
    assert ids(crash) == ["plugin-crashes"]
    assert ids(crash, cause) == ["plugin-strategy"]
    assert ids(crash, elsewhere) == ["plugin-strategy", "plugin-crashes"]


def test_meaning_and_fix_name_the_objects_of_the_evidence() -> None:
    (found,) = match([Evidence("node", "worker", "device /dev/nvidia1 is missing")])
    assert found.what.startswith("/dev/nvidia1 is missing")
    (down,) = match([Evidence("node", "worker2", "containerd is failed")])
    assert "docker exec worker2 systemctl restart containerd" in down.next
    assert (down.subject, down.evidence) == ("worker2", ("worker2 (node): containerd is failed",))


def test_evidence_is_limited_in_lines_and_length() -> None:
    lines = [Evidence("plugin-log", f"p{n}", f"Incompatible strategy detected auto {'x' * 500}") for n in range(9)]
    (found,) = match(lines)
    assert len(found.evidence) == 4
    assert all(len(line) <= 401 for line in found.evidence)


def test_long_log_without_symptoms_matches_nothing() -> None:
    assert in_text("\n".join(f"I1121 nothing happens {n}" for n in range(20000))) == ()


def test_advice_on_the_reservation_class_names_the_value_of_each_chart() -> None:
    text = symptoms()["reservation-nvml"].next
    dead = "binder.resourceReservation.runtimeClassName"
    for version in facts.releases():
        assert line_of(version).helm.reservation_class in text
        assert not facts.has_value(version, dead)

"""Records of suite runs: from pytest reports to the JSON file and back, without secrets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.objects.redact import redact_text
from lab.report.object_text import gpus_of
from lab.report.suite_run import CaseRun, Collector, SuiteRun, without_group
from tests.support.gpu_map_world import demo

TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJzeXN0ZW0ifQ.c2lnbmF0dXJl-_x"


def report(when: str, outcome: str = "passed", **more: Any) -> Any:
    """A pytest report of the test ``t.py::test``."""
    known = {"nodeid": "t.py::test", "duration": 1.0, "start": 100.0, "user_properties": [], "longreprtext": ""}
    return SimpleNamespace(when=when, outcome=outcome, **{**known, **more})


def collected(*reports: Any) -> CaseRun:
    collector = Collector()
    for one in reports:
        collector.add(one)
    (case,) = collector.tests
    return case


def test_passed_test_has_phase_times_and_worker() -> None:
    phases = [
        report(when, duration=took, worker_id="gw1") for when, took in (("setup", 0.5), ("call", 2), ("teardown", 1))
    ]
    assert collected(*phases) == CaseRun("t.py::test", "passed", 100.0, 0.5, 2, 1, "gw1")


def test_failure_has_a_one_line_reason_and_the_full_text() -> None:
    text = "def test():\n>       assert 1 == 2\nE       assert 1 == 2\nE        +  where …\nt.py:2: AssertionError"
    folder = [("kailab.artifacts", "/tmp/kept")]
    case = collected(
        report("setup"), report("call", "failed", longreprtext=text), report("teardown", user_properties=folder)
    )
    assert (case.outcome, case.why, case.text, case.artifacts) == ("failed", "assert 1 == 2", text, "/tmp/kept")
    assert case.bad


def test_failure_without_a_traceback_uses_its_first_line() -> None:
    error = report("setup", "failed", longreprtext="no lab named 'x' exists\n  next: kailab up")
    case = collected(error, report("teardown"))
    assert (case.outcome, case.why) == ("error", "no lab named 'x' exists")


def test_first_failure_is_the_reason() -> None:
    broken = report("teardown", "failed", longreprtext="E   leftovers")
    case = collected(report("setup"), report("call", "failed", longreprtext="E   wrong"), broken)
    assert (case.outcome, case.why) == ("failed", "wrong")
    assert case.text.endswith("teardown:\nE   leftovers")
    assert collected(report("setup"), report("call"), broken).outcome == "error"


@pytest.mark.parametrize(
    ("more", "outcome", "why"),
    [
        ({"outcome": "skipped", "longrepr": ("f.py", 3, "Skipped: needs 3 GPUs")}, "skipped", "needs 3 GPUs"),
        ({"outcome": "skipped", "wasxfail": "KAI #2075"}, "xfailed", "KAI #2075"),
        ({"outcome": "passed", "wasxfail": "KAI #2075"}, "xpassed", "KAI #2075"),
    ],
)
def test_skips_and_expected_failures_have_a_reason(more: dict[str, Any], outcome: str, why: str) -> None:
    case = collected(report("setup"), report("call", **more), report("teardown"))
    assert (case.outcome, case.why, case.bad) == (outcome, why, False)


def test_tests_are_sorted_by_start() -> None:
    collector = Collector()
    for nodeid, start in (("b", 5.0), ("a", 9.0), ("c", 1.0)):
        collector.add(report("call", nodeid=nodeid, start=start))
        collector.add(report("setup", nodeid="c", start=1.0))
    assert [case.id for case in collector.tests] == ["c", "b", "a"]


def test_secrets_are_redacted() -> None:
    case = collected(report("call", "failed", longreprtext=f"E   Bearer {TOKEN}"))
    assert TOKEN not in case.text + case.why


def test_long_texts_keep_their_end() -> None:
    case = collected(report("call", "failed", longreprtext="x" * 90_000 + "\nE   the cause"))
    assert len(case.text) == 20_000
    assert case.text.endswith("the cause")


def test_saved_run_loads_unchanged(tmp_path: Path) -> None:
    collector = Collector()
    collector.add(report("call"))
    gpus = demo().map()
    run = collector.run("demo", status=0, facts={"kai_version": "0.16.8"}, before=gpus, after=gpus, notes=("n",))
    path = tmp_path / "deep" / "suite.json"
    run.save(path)
    assert SuiteRun.load(path) == run
    assert (run.ok, run.count("passed"), run.count("failed")) == (True, 1, 0)
    assert not replace(run, status=1).ok
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("text", ["", "{", '{"lab": 3}', '{"lab": "demo", "began": "", "tests": [{"no": "id"}]}'])
def test_unreadable_file_loads_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "suite.json").write_text(text)
    assert SuiteRun.load(tmp_path / "suite.json") is None
    assert SuiteRun.load(tmp_path / "missing.json") is None


def test_redaction_removes_credentials_only() -> None:
    text = f"""
    client-key-data: TFMwdExTMUNSVWRKVGc9PQ==
    "token": "{TOKEN}"
    curl -H 'Authorization: Bearer {TOKEN}'
    -----BEGIN RSA PRIVATE KEY-----
    MIIEpAIBAAKCAQEA
    -----END RSA PRIVATE KEY-----
    automountServiceAccountToken: false
    server: https://127.0.0.1:6443
    """
    clean = redact_text(text)
    for secret in ("TFMwdEx", TOKEN, "MIIEpAIB"):
        assert secret not in clean
    assert "automountServiceAccountToken: false" in clean
    assert "server: https://127.0.0.1:6443" in clean
    assert redact_text(clean) == clean


def test_artifacts_have_a_gpu_map_if_gpus_exist() -> None:
    world = demo().world
    cluster: Any = SimpleNamespace(list=lambda kind: list(world.of(kind)))
    text = gpus_of(cluster)
    assert "pod team-a/train-0: 0.5 on " in text
    assert text.endswith("waiting\n")
    assert gpus_of(SimpleNamespace(list=lambda kind: [])) == ""  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("nodeid", "shown"),
    [
        ("t/a.py::test_x@gpus", "t/a.py::test_x"),
        ("t/a.py::test_x[host]@gpus", "t/a.py::test_x[host]"),
        ("t/a.py::test_x[me@home]", "t/a.py::test_x[me@home]"),
        ("t@2/a.py::test_x", "t@2/a.py::test_x"),
    ],
)
def test_xdist_groups_are_removed_from_names(nodeid: str, shown: str) -> None:
    assert without_group(nodeid) == shown

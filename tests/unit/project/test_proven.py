"""The table at the end of a CI run: what was proven, what not, and what should have been."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import proven

CASES = """<testsuites><testsuite>
<properties><property name="kailab.lab" value="demo"/><property name="kailab.gpu_mode" value="simulated"/>
<property name="kailab.no_kai" value="not available"/></properties>
<testcase classname="tests.e2e.test_queues" name="a"/>
<testcase classname="tests.e2e.test_queues" name="b"><skipped message="lab demo has no KAI: not available"/></testcase>
<testcase classname="tests.e2e.test_storm" name="c"><skipped message="takes minutes: --lab-long runs it"/></testcase>
<testcase classname="tests.e2e.test_gangs.TestGangs" name="d"><failure message="no"/></testcase>
</testsuite></testsuites>"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    folder = Path("tests/e2e")
    folder.mkdir(parents=True)
    for name in ("queues", "storm", "gangs", "gone"):
        (folder / f"test_{name}.py").touch()
    Path("junit.xml").write_text(CASES)
    return ["tests/e2e=junit.xml"]


def test_table_has_every_suite(run: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert proven.main(run) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "tests/e2e: lab demo: GPUs simulated, NO KAI (not available)",
        "suite passed skipped, for want of",
        "tests/e2e/test_gangs FAILED 0 1 failed;",
        "tests/e2e/test_gone NOT PROVEN 0 did not run",
        "tests/e2e/test_queues partly 1 1 kai",
        "tests/e2e/test_storm NOT PROVEN 0 1 long",
        "1 tests passed, 2 skipped; suites: 1 FAILED, 2 NOT PROVEN, 1 partly",
    ]


def test_required_proof_that_is_missing_fails(run: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert proven.main(["--require", "kai", *run]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "should have run: tests/e2e/test_gone did not run",
        "should have run: tests/e2e/test_queues was skipped for want of kai: lab demo has no KAI: not available",
    ]
    Path("tests/e2e/test_gone.py").unlink()
    assert proven.main(["--require", "gpus", *run]) == 0


def test_run_that_stopped_before_its_suites_has_not_proven_them(
    run: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("junit.xml").unlink()
    assert proven.main(["--require", "engine", *run]) == 1
    assert capsys.readouterr().out.count("did not run") == 5


@pytest.mark.parametrize(
    ("reason", "need"),
    [
        ("needs KAI: KAI 0.16.8 is not available: bundle: not in any bundle", "kai"),
        ("NO KAI", "kai"),
        ("needs 1 tenants (own-kai), lab demo has 0", "own-kai tenants"),
        ("needs 2 tenants (any), lab demo has 0", "tenants"),
        ("needs 3 GPUs, lab demo has 1 (simulated)", "gpus"),
        ("needs KAI >=0.13, lab demo has 0.9.8", "another KAI"),
        ("no bundle in the cache has a KAI chart of line 0.9", "another KAI"),
        ("no bundle in the cache has a KAI chart", "kai"),
        ("takes minutes: KAILAB_LONG=1 runs it", "long"),
        ("lab demo has KAI 0.16.8", "a lab without KAI"),
        ("no container engine runs here: kailab up --yes installs one", "engine"),
        ("a scratch host needs root", "this machine"),
    ],
)
def test_need_of_a_skipped_test_follows_from_its_reason(reason: str, need: str) -> None:
    assert proven.lacked(reason) == need

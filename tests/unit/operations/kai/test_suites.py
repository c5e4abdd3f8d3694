from __future__ import annotations

import importlib.util
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab import paths
from lab.operations.kai.suites import run_suites
from lab.paths import LabPaths
from lab.steps.kai.upgrade.rehearsal_result import Rehearsal, Suites
from tests.support.fakes import FakeRunner


@pytest.fixture
def pytest_run(runner: FakeRunner) -> Any:
    def declare(out: str, code: int) -> Suites:
        lab: Any = SimpleNamespace(spec=SimpleNamespace(name="demo"), runner=runner, paths=LabPaths("demo"))
        runner.handle([..., "-m", "pytest"], out=out, code=code)
        return run_suites(lab, "ml")

    return declare


def test_suites_select_the_tests_of_the_tenant(pytest_run: Any, runner: FakeRunner) -> None:
    found = pytest_run("...\n==== 3 passed, 2 skipped in 9.1s ====\n", 0)
    folder = LabPaths("demo").root / "rehearsal-ml"
    assert found == Suites(ran=True, summary="3 passed, 2 skipped in 9.1s", folder=str(folder), passed=3)
    assert (folder / "pytest.txt").read_text() == "...\n==== 3 passed, 2 skipped in 9.1s ====\n"
    argv = runner.calls[0].argv
    assert argv[argv.index("--lab") + 1] == "demo"
    assert argv[argv.index("-k") + 1] == "[ml] or [ml- or -ml] or -ml-"
    assert f"--lab-artifacts={folder}" in argv
    assert runner.calls[0].env == {"PYTEST_ADDOPTS": "", "COLUMNS": "400"}


def test_failed_suites_name_their_tests(pytest_run: Any) -> None:
    out = "F.\nFAILED tests/e2e/a.py::b[ml] - assert 1\nERROR tests/e2e/c.py::d[ml]\n1 failed, 1 error in 2s\n"
    found = pytest_run(out, 1)
    assert found.failed == ("tests/e2e/a.py::b[ml] - assert 1", "tests/e2e/c.py::d[ml]")
    (reason,) = Rehearsal("ml", "0.9.8", "0.16.8", None, suites=found).reasons
    assert reason == "2 tests failed: tests/e2e/a.py::b[ml], tests/e2e/c.py::d[ml]"
    assert found.summary == "1 failed, 1 error in 2s"


@pytest.mark.parametrize(("out", "code", "ran", "failed"), [("1 deselected\n", 5, False, 0), ("", 4, True, 1)])
def test_suites_without_results(pytest_run: Any, out: str, code: int, ran: bool, failed: int) -> None:
    found = pytest_run(out, code)
    assert (found.ran, len(found.failed)) == (ran, failed)


def test_skipped_tests_are_named(pytest_run: Any) -> None:
    out = "ss\nSKIPPED [2] tests/e2e/a.py:7: needs 2 GPUs\n2 skipped in 1s\n"
    found = pytest_run(out, 0)
    assert (found.ran, found.passed, found.skipped) == (True, 0, ("[2] tests/e2e/a.py:7: needs 2 GPUs",))


@pytest.mark.parametrize(("lacks", "why"), [("suites", "has no suites"), ("pytest", "pip install 'kailab-cli[test]'")])
def test_what_the_installation_lacks_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, runner: FakeRunner, lacks: str, why: str
) -> None:
    if lacks == "suites":
        monkeypatch.setattr(paths, "__file__", str(tmp_path / "lab" / "paths.py"))
    else:
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    found = run_suites(SimpleNamespace(runner=runner), "ml")  # type: ignore[arg-type]
    assert not found.ran
    assert why in found.summary
    assert runner.calls == []


def test_suites_of_the_host_are_those_of_kai(runner: FakeRunner) -> None:
    lab: Any = SimpleNamespace(spec=SimpleNamespace(name="demo"), runner=runner, paths=LabPaths("demo"))
    runner.handle([..., "-m", "pytest"], out="7 passed in 9s\n")
    assert run_suites(lab, "").passed == 7
    argv = runner.calls[0].argv
    assert (argv[argv.index("-m", 3) + 1], "-k" in argv) == ("kai and not disturbs", False)
    assert (LabPaths("demo").root / "rehearsal-kai" / "pytest.txt").exists()

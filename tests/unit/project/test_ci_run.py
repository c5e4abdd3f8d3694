"""``.ci/run`` with fake programs: what it requires, and when it fails."""

from __future__ import annotations

import os
import shutil
import subprocess  # noqa: TID251 - bash runs it, as CI does
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.processes("bash")
ROOT = Path(__file__).parents[3]
PYTHON = """#!/bin/bash
[ "$1 $2" = "-m venv" ] || exec {python} "$@"
mkdir -p "$3/bin" && touch "$3/bin/activate"
"""
NOX = """#!/bin/bash
echo "$KAILAB_REQUIRE: $*" >>"$CALLS"
case "$2" in
e2e) cp "$JUNIT" "$KAILAB_ARTIFACTS/junit.xml" ;;
tests) cp "$JUNIT" "$KAILAB_ARTIFACTS/integration.xml" ;;
esac
[ "$2" != "$FAILS" ]
"""
CASE = '<testcase classname="tests.{folder}.test_one" name="a">{skip}</testcase>'


class Run:
    """A checkout with ``.ci/run``, one suite in each folder, and a cache."""

    def __init__(self, root: Path) -> None:
        self.root, self.calls = root, root / "calls"
        (root / ".ci").mkdir()
        shutil.copy(ROOT / ".ci" / "run", root / ".ci")
        (root / "scripts").mkdir()
        shutil.copy(ROOT / "scripts" / "proven.py", root / "scripts")
        programs = root / "bin"
        programs.mkdir()
        texts = {"python3": PYTHON.format(python=sys.executable), "nox": NOX, "pip": "#!/bin/sh\n"}
        for name, text in texts.items():
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        for folder in ("e2e", "integration"):
            (root / "tests" / folder).mkdir(parents=True)
            (root / "tests" / folder / "test_one.py").touch()

    def bundle_of_kai(self) -> None:
        bundle = self.root / "cache" / "bundles" / "kai"
        bundle.mkdir(parents=True)
        (bundle / "kailab-bundle.json").write_text('{"entries": [{"kind": "chart", "name": "kai-scheduler"}]}')

    def __call__(self, skipped: str = "", fails: str = "") -> subprocess.CompletedProcess[str]:
        skip = f'<skipped message="{skipped}"/>' if skipped else ""
        junit = self.root / "suite.xml"
        cases = "".join(CASE.format(folder=folder, skip=skip) for folder in ("e2e", "integration"))
        junit.write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
        env = {
            "PATH": f"{self.root / 'bin'}:{os.environ['PATH']}",
            "KAILAB_CACHE": str(self.root / "cache"),
            "JUNIT": str(junit),
            "CALLS": str(self.calls),
            "FAILS": fails,
        }
        command = ["bash", ".ci/run"]
        return subprocess.run(command, cwd=self.root, env=env, capture_output=True, text=True, check=False)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def test_with_a_bundle_of_kai_nothing_may_lack_it(run: Run) -> None:
    run.bundle_of_kai()
    done = run()
    assert done.returncode == 0, done.stderr
    calls = run.calls.read_text()
    assert "engine,kai: -s lab-up -- --yes --ui plain --set gpu.perNode=4 --require kai\n" in calls
    assert "engine,kai: -s e2e -- --require kai,gpus\n" in calls
    assert "engine,kai: -s tests\n" in calls
    skipped = run(skipped="lab demo has no KAI: not available")
    assert skipped.returncode == 1
    assert "should have run: tests/integration/test_one was skipped for want of kai" in skipped.stderr


def test_without_a_bundle_the_table_says_what_was_not_proven(run: Run) -> None:
    done = run(skipped="lab demo has no KAI: not available")
    assert done.returncode == 0, done.stderr
    assert "--require" not in run.calls.read_text()
    end = done.stdout.partition("what this run has proven")[2]
    assert [line.split()[:3] for line in end.splitlines() if "test_one" in line] == [
        ["tests/e2e/test_one", "NOT", "PROVEN"],
        ["tests/integration/test_one", "NOT", "PROVEN"],
    ]


@pytest.mark.parametrize("session", ["lab-up", "e2e", "lint", "lab-down", "tests"])
def test_session_that_fails_ends_the_run_after_the_table(run: Run, session: str) -> None:
    done = run(fails=session)
    assert done.returncode != 0
    assert "what this run has proven" in done.stdout
    assert "-s lab-down" in run.calls.read_text(), "the machine is left without a lab"

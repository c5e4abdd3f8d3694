"""The wheel carries the suites, and they can be used outside the checkout."""

from __future__ import annotations

import os
import subprocess  # noqa: TID251 - a user's commands
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the built wheel installed; its dependencies come from this environment."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    subprocess.run([*pip, "wheel", "--no-deps", "-w", folder, ROOT], check=True)
    (wheel,) = folder.glob("*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--target", folder / "site", wheel], check=True)
    return folder / "site"


def outside(installed: Path, cwd: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    """Run Python outside the checkout with the installed wheel."""
    env = {**os.environ, "PYTHONPATH": str(installed), "KAILAB_STATE": str(cwd / "state"), "PYTEST_ADDOPTS": ""}
    return subprocess.run([sys.executable, *argv], cwd=cwd, env=env, capture_output=True, text=True, check=False)


def suites(installed: Path, cwd: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run pytest on the suites of the wheel."""
    return outside(installed, cwd, "-m", "pytest", "--pyargs", "lab.suites", "-q", "-p", "no:cacheprovider", *options)


def test_wheel_has_every_suite_of_the_checkout(installed: Path, tmp_path: Path) -> None:
    done = suites(installed, tmp_path, "--collect-only")
    assert done.returncode == 0, done.stdout + done.stderr
    found = {line.partition("::")[0].rpartition("/")[2] for line in done.stdout.splitlines() if "::" in line}
    assert found == {path.name for path in (ROOT / "tests" / "e2e").glob("test_*.py")}
    where = outside(installed, tmp_path, "-c", "import lab.paths; print(lab.paths.suites())")
    assert Path(where.stdout.strip()) == installed / "lab" / "suites"


def test_suites_of_the_wheel_look_for_the_lab_that_is_named(installed: Path, tmp_path: Path) -> None:
    done = suites(installed, tmp_path, "--lab", "nowhere", "-x")
    assert done.returncode == 1
    assert "no lab named 'nowhere' exists" in done.stdout

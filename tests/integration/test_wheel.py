"""The wheel carries the suites, and they can be used outside the checkout."""

from __future__ import annotations

import os
import re
import subprocess  # noqa: TID251 - a user's commands
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONTENTS = ROOT / "tests" / "data" / "golden" / "wheel.txt"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the built wheel installed; its dependencies come from this environment."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    subprocess.run([*pip, "wheel", "--no-deps", "-w", folder, ROOT], check=True)
    (wheel,) = folder.glob("*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--target", folder / "site", wheel], check=True)
    return folder / "site"


def test_wheel_contains_what_is_recorded(installed: Path) -> None:
    """KAILAB_GOLDEN=write records the list again. Modules are those of the checkout; all else is listed."""
    folders = ("lab", "kailab_cli")
    files = {str(path.relative_to(installed)) for path in installed.rglob("*") if path.is_file()}
    files = {name for name in files if name.startswith(folders) and "__pycache__" not in name}
    own = {name for name in files if name.startswith("lab/") and not name.startswith(("lab/suites/", "lab/_assets/"))}
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "lab").rglob("*.py")} | {"lab/_version.py"}
    assert {name for name in own if name.endswith(".py")} == modules
    pips = {"INSTALLER", "RECORD", "REQUESTED", "direct_url.json"}  # written by pip
    files = {name for name in files if name.rpartition("/")[2] not in pips}
    rest = [re.sub(r"^kailab_cli-.*?\.dist-info", "kailab_cli.dist-info", name) for name in files - modules]
    text = "".join(f"{name}\n" for name in sorted(rest))
    if os.environ.get("KAILAB_GOLDEN") == "write":
        CONTENTS.write_text(text)
    assert text == CONTENTS.read_text()


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

"""Every example in docs/examples, with the commands of its page as they are written there, on the examples' lab."""

from __future__ import annotations

import re
import shutil
import subprocess  # noqa: TID251 - bash runs the pages' commands
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.config import load_spec
from lab.supply import Supply
from lab.tools.container import ContainerEngine
from lab.tools.process import HostRunner
from tests.integration.conftest import Cli, lacking

FOLDER = Path(__file__).parents[2] / "docs" / "examples"
NAMES = sorted(path.parent.name for path in FOLDER.glob("*/README.md"))
WRAPPER = '#!/bin/sh\nexec {python} -m {module} "$@"\n'


def commands(page: Path) -> str:
    """The shell block of an example's page."""
    (block,) = re.findall(r"^```sh\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    return str(block)


@pytest.fixture(scope="module")
def examples(engine: HostRunner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, str]]]:
    """A copy of the examples, as in somebody's own project, and the environment of their commands; the lab is up."""
    root = tmp_path_factory.mktemp("examples")
    folder, programs = root / "project", root / "bin"
    shutil.copytree(FOLDER, folder)
    programs.mkdir()
    for name, module in (("kailab", "lab"), ("pytest", "pytest")):
        (programs / name).write_text(WRAPPER.format(python=sys.executable, module=module))
        (programs / name).chmod(0o755)
    cli = Cli(root)
    cli.labs.append("examples")
    done = cli("up", "-f", str(folder / "lab.yaml"), "--require", "kai", "--yes", "--json", code=None)
    if done.code == 3:
        lacking("kai", f"no KAI here: {done.err[-400:]}")
    assert done.code == 0, done.err
    supply = Supply(load_spec(folder / "lab.yaml"), engine, ContainerEngine(engine))
    for name in ("kubectl", "helm"):
        (programs / name).symlink_to(supply.binary(name))
    env = {**cli.env, "PATH": f"{programs}:{cli.env['PATH']}", "KAILAB_LAB": "examples"}
    env["KUBECONFIG"] = cli("kubeconfig", "--name", "examples").out.strip()
    yield folder, env
    cli("down", "--name", "examples")


def test_each_folder_has_a_page_that_the_overview_links() -> None:
    folders = {path.name for path in FOLDER.iterdir() if path.is_dir()}
    assert folders == set(NAMES)
    assert set(re.findall(r"\]\((.+)/README\.md\)", (FOLDER / "README.md").read_text())) == folders


@pytest.mark.parametrize("name", NAMES)
def test_commands_of_the_page_succeed(name: str, examples: tuple[Path, dict[str, str]]) -> None:
    folder, env = examples
    script = commands(folder / name / "README.md")
    argv = ["bash", "-euxo", "pipefail", "-c", script]
    done = subprocess.run(argv, cwd=folder / name, env=env, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-3000:]}"

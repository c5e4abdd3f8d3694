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

DOCS = Path(__file__).parents[2] / "docs"
FOLDER = DOCS / "examples"
NAMES = sorted(path.parent.name for path in FOLDER.glob("*/README.md"))
WRAPPER = '#!/bin/sh\nexec {python} -m {module} "$@"\n'


def fenced(page: Path, language: str) -> str:
    """The only block of a language on a page."""
    (block,) = re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    return str(block)


def run(script: str, folder: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a script as a reader of a page would."""
    argv = ["bash", "-uxo", "pipefail", "-c", script]
    return subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, timeout=600, check=False)


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
    done = run(f"set -e\n{fenced(folder / name / 'README.md', 'sh')}", folder / name, env)
    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-3000:]}"


def test_first_test_of_the_tutorial_passes_and_fails(examples: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    _, env = examples
    written = fenced(DOCS / "tutorial" / "first-test.md", "python")
    (tmp_path / "test_sharing.py").write_text(written)
    done = run("pytest -p no:cacheprovider --lab examples test_sharing.py", tmp_path, env)
    assert "1 passed" in done.stdout, done.stdout[-3000:]
    (tmp_path / "test_sharing.py").write_text(written.replace('"second", fraction=0.5', '"second", fraction=0.7'))
    done = run("pytest -p no:cacheprovider --lab examples test_sharing.py", tmp_path, env)
    assert "1 failed" in done.stdout, done.stdout[-3000:]


def test_what_the_tutorial_breaks_is_explained(examples: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    """Its commands in order, but for those of the queue tree, which is an example; this lab has one node."""
    _, env = examples
    page = DOCS / "tutorial" / "break-and-explain.md"
    (tmp_path / "half.yaml").write_text(fenced(page, "yaml"))
    blocks = re.findall(r"(?:^    (?:kailab|kubectl) .*\n(?:^ {4,}.*\n)*)+", page.read_text(), re.MULTILINE)
    big, rule, gpu, _, removal = (re.sub(r"^    ", "", block, flags=re.MULTILINE) for block in blocks)
    done = run(f"{big}kubectl wait --for=condition=PodScheduled=false pod/big\n{big.splitlines()[-1]}", tmp_path, env)
    assert "no node has as many GPUs as Pod default/big wants on one node" in done.stdout, done.stderr[-3000:]
    assert "More GPUs than any node has" in run(rule, tmp_path, env).stdout
    assert run("kailab lint half.yaml", tmp_path, env).returncode == 12
    done = run(gpu.replace("worker/0", "control-plane/0"), tmp_path, env)
    assert "1 unhealthy" in done.stdout, done.stdout + done.stderr[-3000:]
    done = run(removal, tmp_path, env)
    assert done.returncode == 0, done.stderr[-3000:]

"""The workflow of a release on this machine: its scripts as they stand, with a real registry, builds and installations.

What is not here is replaced: root and apt by nothing, the login, GitHub's own actions. The probe alone is pushed, and
once more under the name of the other architecture, of which this machine makes no images.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess  # noqa: TID251 - git makes a checkout
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.config import load_profile
from lab.supply import Item, Supply
from lab.supply.catalogue import arch
from lab.tools.container import ContainerEngine
from lab.tools.process import HostRunner
from lab.workloads.pods import IMAGE
from tests.integration import local_registry
from tests.support.github_actions import Job

ROOT = Path(__file__).parents[2]
FILE = ROOT / ".github" / "workflows" / "release.yml"
VERSION = "9.8.7"
OTHER = {"amd64": "arm64", "arm64": "amd64"}


def checkout(folder: Path) -> str:
    """A clone of this repository with its uncommitted files; returns its commit."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True).stdout

    subprocess.run(["git", "clone", "-q", ROOT, folder], check=True)
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    for name in listed.splitlines():
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    log = folder / "CHANGELOG.md"
    log.write_text(log.read_text().replace("## Unreleased\n", f"## Unreleased\n\n## {VERSION} (2026-01-02)\n", 1))
    git("add", "-A")
    git("-c", "user.name=x", "-c", "user.email=x@localhost", "commit", "-qm", "tree", "--allow-empty")
    git("update-ref", "refs/remotes/origin/main", "HEAD")
    return git("rev-parse", "HEAD").strip()


@pytest.mark.long
@pytest.mark.timeout(1500)
def test_release_is_made_and_checked(engine: HostRunner, tmp_path: Path) -> None:
    docker = ContainerEngine(engine)
    supply = Supply(load_profile("minimal"), engine, docker)
    if not supply.has("binary", "registry"):
        pytest.skip(f"no registry program: {supply.choices[Item('binary', 'registry')].why}")
    sha = checkout(tmp_path / "work")
    programs = tmp_path / "bin"
    programs.mkdir()
    fakes = {
        "sudo": 'exec "$@"',
        "apt-get": "",
        "docker": f'[ "$1" = login ] || exec {shutil.which("docker")} "$@"; cat >/dev/null',
    }
    for name, line in fakes.items():
        (programs / name).write_text(f"#!/bin/sh\n{line}\n")
        (programs / name).chmod(0o755)
    doc: dict[Any, Any] = yaml.safe_load(FILE.read_text())
    uses = {
        step["uses"]: lambda job, given: None for one in doc["jobs"].values() for step in one["steps"] if "uses" in step
    }
    context = {"inputs.version": VERSION, "inputs.kubernetes": "", "inputs.publish": "", "github.token": "t"}
    env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    env |= {"PATH": f"{programs}:{Path(sys.executable).parent}:{env['PATH']}", "KAILAB_STATE": str(tmp_path / "state")}
    with local_registry.serving(supply.binary("registry"), tmp_path / "registry", tmp_path) as registry:
        env |= {"GITHUB_REPOSITORY": "Some/KaiLab", "GITHUB_ACTOR": "me", "GITHUB_SHA": sha, "REGISTRY_HOST": registry}
        for name in ("images", "package"):
            job = Job(tmp_path / "work", tmp_path / f"temp-{name}", uses, context, dict(env))
            job.env |= {key: job.text(str(value), context) for key, value in doc["jobs"][name]["env"].items()}
            job.steps(doc["jobs"][name]["steps"])
            assert not job.failed, job.log[-6000:]
            if name == "images":
                mine = f"{registry}/some/kailab/probe:2-{arch()}"
                docker.call("tag", mine, mine.replace(f"-{arch()}", f"-{OTHER[arch()]}"))
                docker.call("push", "-q", mine.replace(f"-{arch()}", f"-{OTHER[arch()]}"))

    dist = tmp_path / "work" / "dist"
    assert {path.name for path in dist.iterdir()} == {
        f"kailab_cli-{VERSION}-py3-none-any.whl",
        f"kailab_cli-{VERSION}.tar.gz",
        f"kailab-{VERSION}.cdx.json",
    }
    with zipfile.ZipFile(dist / f"kailab_cli-{VERSION}-py3-none-any.whl") as wheel:
        published = json.loads(wheel.read("lab/supply/published.json"))
    assert published["registry"] == f"{registry}/some/kailab"
    assert published["pins"][IMAGE].startswith("sha256:")
    with tarfile.open(dist / f"kailab_cli-{VERSION}.tar.gz") as source:
        assert f"kailab_cli-{VERSION}/lab/supply/published.json" in source.getnames()
    parts = {one["name"] for one in json.loads((dist / f"kailab-{VERSION}.cdx.json").read_text())["components"]}
    assert {"kailab-cli", "pydantic", "typer"} <= parts

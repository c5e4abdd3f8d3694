"""The action of this repository, and the template for GitLab: scripts as they stand, programs that record calls."""

from __future__ import annotations

import os
import re
import shlex
import subprocess  # noqa: TID251 - bash runs the template's script
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.config import profile_names
from tests.support.github_actions import Job

ROOT = Path(__file__).parents[3]
COLLECT = ROOT / ".github" / "actions" / "collect"
TEMPLATE = ROOT / ".gitlab" / "kailab.yml"

pytestmark = pytest.mark.processes("bash")

KAILAB = """#!/bin/sh
echo "kailab $*" >>"$CALLS"
case $1 in
    kubeconfig) echo /state/kubeconfig ;;
    report | logs) [ -z "$NO_LAB" ] || exit 1; for at in "$@"; do case $at in */lab*) touch "$at" ;; esac; done ;;
    gpus | verify) echo "$1 of the lab" ;;
    up) exit "${UP_CODE:-0}" ;;
    down) exit "${DOWN_CODE:-0}" ;;
esac
"""
PYTHON = """#!/bin/sh
[ "$2" != venv ] || { mkdir -p "$3/bin"; ln -s "$HERE/python" "$3/bin/python"; ln -s "$HERE/kailab" "$3/bin/kailab"; }
[ "$2" != pip ] || echo "pip $*" >>"$CALLS"
"""
DOCKER = '#!/bin/sh\necho "docker $*" >>"$CALLS"\n[ "$1" != ps ] || printf %s "${CONTAINERS:-}"\n'


class Used:
    """The actions of others that a step uses, as calls."""

    def __init__(self) -> None:
        self.calls: dict[str, dict[str, str]] = {}
        self.hit = "true"

    def __call__(self, name: str) -> Any:
        def use(job: Job, given: dict[str, str]) -> Mapping[str, str]:
            self.calls[name] = given
            return {"cache-hit": self.hit} if name.startswith("actions/cache/restore") else {}

        return use

    @property
    def all(self) -> dict[str, Any]:
        names = (
            "actions/setup-python@v6",
            "actions/cache/restore@v5",
            "actions/cache/save@v5",
            "actions/upload-artifact@v6",
        )
        return {name: self(name) for name in names}


@pytest.fixture
def used() -> Used:
    return Used()


@pytest.fixture
def job(tmp_path: Path, used: Used) -> Job:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in (("kailab", KAILAB), ("python", PYTHON), ("python3", PYTHON), ("docker", DOCKER)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    job = Job(tmp_path / "work", tmp_path / "temp", used.all)
    job.env |= {"PATH": f"{programs}:{os.environ['PATH']}", "CALLS": str(tmp_path / "calls"), "HERE": str(programs)}
    job.env |= {"HOME": str(tmp_path)}
    job.env.pop("KAILAB_LAB", None)
    return job


def calls(job: Job) -> list[str]:
    file = Path(job.env["CALLS"])
    return file.read_text().splitlines() if file.exists() else []


def test_lab_comes_up_with_the_inputs(job: Job, used: Used) -> None:
    settings = "gpu.perNode=4\n\nsupply.mirrors={'a.example': 'b.example'}\n"
    outputs = job.action(ROOT, profile="gpus", kai="0.17.0", bundle="kai.tar", set=settings)
    assert not job.failed, job.log
    pip, up, _ = calls(job)
    assert pip == f"pip -m pip install --quiet {ROOT}[test]"
    assert up == (
        "kailab up --name ci --yes --profile gpus --set kai.version=0.17.0 --set supply.bundle=kai.tar --require kai"
        " --set gpu.perNode=4 --set supply.mirrors={'a.example': 'b.example'}"
    )
    assert outputs == {"name": "ci", "kubeconfig": "/state/kubeconfig", "cache-hit": "true"}
    assert {key: job.env[key] for key in ("KAILAB_LAB", "KUBECONFIG")} == {
        "KAILAB_LAB": "ci",
        "KUBECONFIG": "/state/kubeconfig",
    }
    assert job.env["PATH"].startswith(f"{job.temp}/kailab/bin:")
    cache = used.calls["actions/cache/restore@v5"]
    assert "actions/cache/save@v5" not in used.calls
    assert re.fullmatch(r"kailab-1-\w+-\w+[\d.]*-[0-9a-f]{16}", cache["key"])
    assert cache["key"].startswith(cache["restore-keys"])


def test_file_and_no_cache(job: Job, used: Used) -> None:
    job.action(ROOT, file="my lab.yaml", cache="false", require="")
    assert "kailab up --name ci --yes --file my lab.yaml" in calls(job)
    assert not [name for name in used.calls if "cache" in name]


def test_cache_is_saved_when_the_lab_is_up(job: Job, used: Used) -> None:
    used.hit = "false"
    job.action(ROOT)
    saved = used.calls["actions/cache/save@v5"]
    assert saved == {key: used.calls["actions/cache/restore@v5"][key] for key in ("path", "key")}


def test_inputs_are_not_run_by_the_shell(job: Job) -> None:
    job.action(ROOT, name="$(touch stolen)", set="a=$(touch stolen)")
    assert not list(job.workspace.glob("*"))


def test_lab_that_fails_is_collected_and_removed(job: Job, used: Used) -> None:
    job.env |= {"UP_CODE": "5", "NO_LAB": "yes", "CONTAINERS": "c1"}
    job.action(ROOT)
    assert job.failed
    job.steps([])
    job.action(COLLECT)
    assert calls(job)[-3:] == ["kailab down", "docker ps -aq --filter label=kailab=ci", "docker rm -f -v c1"]
    assert "actions/upload-artifact@v6" in used.calls


def test_results_are_collected(job: Job, used: Used) -> None:
    job.env["KAILAB_LAB"] = "ci"
    outputs = job.action(COLLECT, artifacts="out")
    assert not job.failed, job.log
    assert outputs == {"artifacts": "out"}
    assert {path.name for path in (job.workspace / "out").iterdir()} == {"lab.html", "lab"}
    assert job.summary == "## Lab ci\n```\ngpus of the lab\nverify of the lab\n```\n"
    assert used.calls["actions/upload-artifact@v6"] == {
        "name": "kailab",
        "path": "out",
        "if-no-files-found": "warn",
        "retention-days": "14",
    }


def test_failed_removal_fails_the_job_and_keeps_the_artifacts(job: Job, used: Used) -> None:
    job.env |= {"KAILAB_LAB": "ci", "DOWN_CODE": "7"}
    job.action(COLLECT)
    assert job.failed
    assert "actions/upload-artifact@v6" in used.calls


def test_lab_may_be_kept_and_nothing_uploaded(job: Job, used: Used) -> None:
    job.env["KAILAB_LAB"] = "ci"
    job.action(COLLECT, down="false", **{"artifact-name": ""})
    assert "kailab down" not in calls(job)
    assert used.calls == {}


def test_default_profile_exists() -> None:
    assert yaml.safe_load((ROOT / "action.yml").read_text())["inputs"]["profile"]["default"] in profile_names()


def gitlab(job: Job, tmp_path: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a job that extends the template as GitLab's runner does: before_script and script in one subshell.

    Its status is 1 for any failure, unless the runner has FF_USE_NEW_BASH_EVAL_STRATEGY.
    """
    doc = yaml.safe_load(TEMPLATE.read_text())
    template = doc[".kailab"]
    env = {**job.env, "CI_PROJECT_DIR": str(job.workspace), **{k: str(v) for k, v in doc["variables"].items()}}
    env |= {"KAILAB_CACHE": f"{job.workspace}/.kailab-cache", **variables}
    lines = [*template["before_script"], 'echo "tests on $KUBECONFIG" >>"$CALLS"']
    done = []
    for script in (lines, template["after_script"]):
        argv = ["bash", "-eo", "pipefail", "-c", f": | eval {shlex.quote(chr(10).join(script))}"]
        done.append(subprocess.run(argv, cwd=job.workspace, env=env, text=True, capture_output=True, check=False))
    return done[0]


def test_gitlab_job_brings_the_lab_up_and_removes_it(job: Job, tmp_path: Path) -> None:
    done = gitlab(job, tmp_path, KAILAB_KAI="0.17.0")
    assert done.returncode == 0, done.stderr
    assert calls(job) == [
        "pip -m pip install --quiet kailab-cli[test]",
        "kailab up --name ci --yes --profile minimal --set kai.version=0.17.0 --require kai",
        "kailab kubeconfig --name ci",
        "tests on /state/kubeconfig",
        f"kailab report --out {job.workspace}/kailab-artifacts/lab.html",
        f"kailab logs --out {job.workspace}/kailab-artifacts/lab --budget 60",
        "kailab down --name ci",
        "kailab down --name ci",  # after_script
    ]


def test_gitlab_job_whose_lab_fails_removes_it(job: Job, tmp_path: Path) -> None:
    done = gitlab(job, tmp_path, UP_CODE="5", KAILAB_FILE="lab.yaml")
    assert done.returncode == 1
    assert "kailab up --name ci --yes --file lab.yaml --require kai" in calls(job)
    assert calls(job)[-2:] == ["kailab down --name ci"] * 2
    assert not [call for call in calls(job) if call.startswith("tests")]


def test_gitlab_job_that_leaves_something_fails(job: Job, tmp_path: Path) -> None:
    assert gitlab(job, tmp_path, DOWN_CODE="7").returncode == 1

"""The workflow of a release: who may start it, what each job may do, and its scripts as they stand, dry.

tests/integration/test_release.py runs them with a real registry, builds and installations.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.supply.catalogue import ready_node
from scripts.release import images
from tests.support.github_actions import Job

ROOT = Path(__file__).parents[3]
FILE = ROOT / ".github" / "workflows" / "release.yml"
DOC: dict[Any, Any] = yaml.safe_load(FILE.read_text())
JOBS: dict[str, dict[str, Any]] = DOC["jobs"]
STEPS = [(name, step) for name, job in JOBS.items() for step in job["steps"]]

# What a job may do beyond reading, and why.
RIGHTS = {
    "images": {"packages"},  # pushes
    "package": {"packages", "id-token", "attestations"},  # the images' index, provenance
    "pypi": {"id-token"},  # trusted publishing
    "github": {"contents"},  # tag and release
}
PROGRAM = '#!/bin/sh\necho "{name} $*" >>"$CALLS"\n{more}\n'
FAKES = {
    "sudo": 'exec "$@"',
    "apt-get": "",
    "docker": "cat >/dev/null",
    "python": '[ "$2" != venv ] || { mkdir -p "$3/bin"; ln -s "$(command -v python)" "$3/bin/python"; '
    'ln -s "$(command -v kailab)" "$3/bin/kailab"; }',
    "kailab": 'echo "kailab ${SAYS:-$VERSION}"',
    "twine": "",
    "cyclonedx-py": "",
    "gh": 'cat notes.md >>"$CALLS"',
    "git": 'case "$*" in "tag --list"*) printf %s "$TAGS" ;; merge-base*) exit ${ELSEWHERE:-0} ;; esac',
}


def test_only_a_person_starts_it() -> None:
    assert set(DOC[True]) == {"workflow_dispatch"}, "PyYAML reads 'on' as true"
    assert DOC[True]["workflow_dispatch"]["inputs"]["publish"]["default"] is False
    assert DOC["concurrency"]["cancel-in-progress"] is False
    assert "secrets." not in FILE.read_text()


def test_each_job_may_do_what_it_needs_and_no_more() -> None:
    assert DOC["permissions"] == {"contents": "read"}
    for name, job in JOBS.items():
        assert {right for right, level in job["permissions"].items() if level == "write"} == RIGHTS[name]
        assert 0 < job["timeout-minutes"] <= 120
    assert JOBS["pypi"]["environment"] == "pypi"


def test_nothing_is_published_unless_asked_for() -> None:
    assert JOBS["pypi"]["if"] == "${{ inputs.publish }}"
    assert JOBS["github"]["needs"] == "pypi"
    (provenance,) = [step for _, step in STEPS if "attest" in step.get("uses", "")]
    assert provenance["if"] == "${{ inputs.publish }}"


def test_actions_have_full_versions_and_scripts_no_expressions() -> None:
    uses = [step["uses"] for _, step in STEPS if "uses" in step]
    assert [one for one in uses if not re.fullmatch(r"(actions|pypa)/[\w-]+@v\d+\.\d+\.\d+", one)] == []
    assert [step["run"] for _, step in STEPS if "${{" in step.get("run", "")] == []
    checkouts = [step["with"] for _, step in STEPS if "checkout" in step.get("uses", "")]
    assert all(given["persist-credentials"] is False for given in checkouts)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, more in FAKES.items():
        (programs / name).write_text(PROGRAM.format(name=name, more=more))
        (programs / name).chmod(0o755)
    nothing = {step["uses"]: lambda job, given: None for _, step in STEPS if "uses" in step}
    env = {"PATH": f"{programs}:{os.environ['PATH']}", "CALLS": str(tmp_path / "calls"), "TAGS": "", "HOME": "/root"}
    env |= {"GITHUB_REPOSITORY": "Some/KaiLab", "GITHUB_ACTOR": "me", "GITHUB_SHA": "abc"}
    context = {"inputs.version": "1.2.3", "inputs.kubernetes": "1.34.4", "inputs.publish": "true", "github.token": "t"}
    return Job(tmp_path / "work", tmp_path / "temp", nothing, context, {**os.environ, **env})


def run(job: Job, name: str) -> list[str]:
    """Run a job of the workflow, and return what was called."""
    given = {**DOC["env"], **JOBS[name].get("env", {})}
    job.env |= {key: job.text(str(value), job.context) for key, value in given.items()}
    job.steps(JOBS[name]["steps"])
    file = Path(job.env["CALLS"])
    return file.read_text().splitlines() if file.exists() else []


@pytest.fixture(autouse=True)
def changelog(job: Job) -> None:
    job.workspace.mkdir(parents=True, exist_ok=True)
    text = "# Changelog\n\n## Unreleased\n\n- newer\n\n## 1.2.3 (2026-01-02)\n\n- new\n\n## 1.0.0\n\n- old\n"
    (job.workspace / "CHANGELOG.md").write_text(text)


@pytest.mark.processes("bash")
def test_images_are_pushed_by_the_recipe(job: Job) -> None:
    calls = run(job, "images")
    assert not job.failed, job.log
    assert "python -m scripts.release.images push ghcr.io/some/kailab 1.34.4" in calls
    assert "docker login ghcr.io --username me --password-stdin" in calls


@pytest.mark.processes("bash")
@pytest.mark.parametrize(
    ("version", "tags", "elsewhere", "why"),
    [
        ("1.2", "", "0", "1.2 is not a version"),
        ("$(id)", "", "0", "is not a version"),
        ("1.2.3", "v1.2.3", "0", "v1.2.3 exists"),
        ("1.2.3", "", "1", "not on main"),
        ("1.2.4", "", "0", "CHANGELOG.md has no 1.2.4"),
    ],
)
def test_other_versions_are_refused(job: Job, version: str, tags: str, elsewhere: str, why: str) -> None:
    job.context["inputs.version"] = version
    job.env |= {"TAGS": tags, "ELSEWHERE": elsewhere}
    calls = run(job, "images")
    assert job.failed
    assert f"::error::{version if 'version' in why else ''}" in job.log
    assert why in job.log
    assert not [call for call in calls if "push" in call]


@pytest.mark.processes("bash", "awk")
def test_package_is_built_checked_and_described(job: Job) -> None:
    calls = run(job, "package")
    assert not job.failed, job.log
    order = ["scripts.release.images join ghcr.io/some/kailab amd64,arm64 1.34.4", "tag -m 1.2.3 v1.2.3", "-m build"]
    order += ["twine check --strict", "kailab_cli-1.2.3-py3-none-any.whl", "cyclonedx-py environment"]
    at = [next(n for n, call in enumerate(calls) if part in call) for part in order]
    assert at == sorted(at)


@pytest.mark.processes("bash")
def test_package_of_another_version_is_refused(job: Job) -> None:
    job.env["SAYS"] = "1.2.4.dev0"
    run(job, "package")
    assert job.failed
    assert "actions/attest-build-provenance@v3.2.0" not in job.ran


@pytest.mark.processes("bash")
def test_release_has_the_notes_of_the_changelog(job: Job) -> None:
    (job.workspace / "dist").mkdir()
    (job.workspace / "dist" / "a.whl").touch()
    calls = run(job, "github")
    assert not job.failed, job.log
    (release,) = [call for call in calls if call.startswith("gh ")]
    assert release.startswith("gh release create v1.2.3 dist/a.whl --repo Some/KaiLab --target abc")
    assert [call for call in calls if call.startswith("- ")] == ["- new"]


def test_recipe_names_images_as_labs_do() -> None:
    assert images.published_name(ready_node("1.34.4").name, "ghcr.io/o/kailab") == "ghcr.io/o/kailab/node:v1.34.4"
    assert images.main(["what"]) == 2

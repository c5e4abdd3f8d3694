"""The CI workflows in .github: triggers, permissions, artifacts and cleanup; and the page about runners."""

from __future__ import annotations

import os
import re
import subprocess  # noqa: TID251 - bash runs the workflows' scripts
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import lab.host.checks  # noqa: F401 - registers the doctor's checks
from lab.config import InferenceSpec, LabSpec, profile_names
from lab.host.check import CHECKS
from lab.pytest_plugin.state import NEEDS
from lab.workloads.inference import InferenceServer

ROOT = Path(__file__).parents[3]
RELEASE = "release"
"""Has rules of its own: test_release_workflow.py."""
WORKFLOWS = {path.stem: path for path in sorted((ROOT / ".github" / "workflows").glob("*.yml")) if path.stem != RELEASE}
PAGE = ROOT / "docs" / "how-to" / "gpu-runners.md"
DOWN = "Lab down, and no container left"

ACTIONS = {
    "actions/cache/restore@v5",
    "actions/cache/save@v5",
    "actions/checkout@v5",
    "actions/setup-go@v6",
    "actions/setup-python@v6",
    "actions/upload-artifact@v6",
}

Json = dict[str, Any]


def load(name: str) -> Json:
    text = WORKFLOWS[name].read_text()
    doc: Json = yaml.safe_load(text)
    # PyYAML reads YAML 1.1, in which "on" is true.
    return {"on" if key is True else key: value for key, value in doc.items()}


def job(name: str) -> Json:
    (found,) = load(name)["jobs"].values()
    return dict(found)


def steps(name: str) -> list[Json]:
    return list(job(name)["steps"])


def at(name: str, *words: str) -> int:
    """Index of the step whose script, action or name contains these words."""
    texts = [" ".join(str(step.get(key, "")) for key in ("run", "uses", "name")) for step in steps(name)]
    (found,) = [number for number, text in enumerate(texts) if all(word in text for word in words)]
    return found


def scripts() -> Iterator[Any]:
    for name in WORKFLOWS:
        for number, step in enumerate(steps(name)):
            if "run" in step:
                yield pytest.param(step["run"], id=f"{name}-{number}")


LABS = ("gpu", "simulated")
"""Those that run the suites on a lab."""
LONGEST = {"nightly": 350}
"""Minutes of those that may take longer than two hours; GitHub ends a job after six."""

every = pytest.mark.parametrize("name", list(WORKFLOWS))
with_lab = pytest.mark.parametrize("name", LABS)


def test_each_kind_of_runner_has_a_workflow() -> None:
    assert set(WORKFLOWS) == {*LABS, "checks", "nightly"}
    assert {"self-hosted", "gpu"} <= set(job("gpu")["runs-on"])
    assert job("simulated")["runs-on"].startswith("ubuntu-")


@every
def test_forks_get_no_permissions_and_no_self_hosted_runner(name: str) -> None:
    triggers = set(load(name)["on"])
    assert "pull_request_target" not in triggers
    if "self-hosted" in job(name)["runs-on"]:
        # on pull_request the workflow comes from the fork, so its conditions protect nothing
        assert triggers == {"push", "workflow_dispatch"}
        assert load(name)["on"]["push"]["branches"] == ["main"]
    assert load(name)["permissions"] == {"contents": "read"}
    assert "permissions" not in job(name)
    assert "secrets." not in WORKFLOWS[name].read_text()


@every
def test_only_known_actions_are_used(name: str) -> None:
    assert {step["uses"] for step in steps(name) if "uses" in step} <= ACTIONS
    assert steps(name)[at(name, "actions/checkout@v5")]["with"]["persist-credentials"] is False


@every
def test_scripts_contain_no_expressions(name: str) -> None:
    """GitHub inserts expressions as text: bash would run a branch named $(…)."""
    assert not [step["run"] for step in steps(name) if "${{" in step.get("run", "")]


@every
def test_newer_run_cancels_the_older_one_and_jobs_time_out(name: str) -> None:
    doc = load(name)
    assert doc["concurrency"]["cancel-in-progress"] is True
    assert "github.ref" in doc["concurrency"]["group"]
    assert 0 < job(name)["timeout-minutes"] <= LONGEST.get(name, 120)


@pytest.mark.parametrize("name", [*LABS, "nightly"])
def test_cache_key_depends_on_sources_and_architecture(name: str) -> None:
    restored = steps(name)[at(name, "actions/cache/restore@v5")]
    saved = steps(name)[at(name, "actions/cache/save@v5")]
    assert restored["id"] == "cache"
    assert saved["with"] == {"path": "~/.cache/kailab", "key": "${{ steps.cache.outputs.cache-primary-key }}"}
    cache = restored["with"]
    assert cache["path"] == "~/.cache/kailab"
    assert "hashFiles('lab/supply/catalogue.toml', 'kind/**')" in cache["key"]
    assert "runner.arch" in cache["key"]
    assert cache["key"].startswith(cache["restore-keys"])
    assert (ROOT / "lab" / "supply" / "catalogue.toml").is_file()


@with_lab
def test_lab_is_removed_and_results_are_uploaded_after_failures(name: str) -> None:
    up, suites = at(name, "nox -s lab-up"), at(name, "nox -s e2e")
    logs, down, upload = at(name, "kailab logs"), at(name, "nox -s lab-down"), at(name, "actions/upload-artifact")
    assert up < suites < logs < down < upload
    found = steps(name)
    assert found[down]["if"] == found[upload]["if"] == "always()"
    assert "success()" in found[logs]["if"]  # an if without a status function is skipped after a cancel
    assert "label=kailab" in found[down]["run"]
    assert found[down]["timeout-minutes"] < 5  # the time GitHub gives a cancelled job
    assert found[upload]["with"]["path"] == "${{ env.KAILAB_ARTIFACTS }}"
    assert job(name)["env"]["KAILAB_ARTIFACTS"]
    assert "continue-on-error" not in WORKFLOWS[name].read_text()


@every
def test_sessions_exist(name: str) -> None:
    noxfile = (ROOT / "noxfile.py").read_text()
    found = set(re.findall(r"nox -s ([\w-]+)", WORKFLOWS[name].read_text()))
    for row in job(name).get("strategy", {}).get("matrix", {}).get("sessions", ()):
        found |= set(row.split())
    assert found
    for session in found:
        assert re.search(rf'name="{session}"|^def {session}\(', noxfile, re.MULTILINE), session


def test_all_that_needs_no_lab_is_checked() -> None:
    rows = job("checks")["strategy"]["matrix"]["sessions"]
    assert {"lint", "types", "unit", "newest", "lowest", "package", "docs"} == set(" ".join(rows).split())


@with_lab
def test_profiles_and_needs_exist(name: str) -> None:
    text = WORKFLOWS[name].read_text()
    rows = job(name).get("strategy", {}).get("matrix", {}).get("include", [])
    required = {word for row in rows for word in row["require"].split(",")}
    required |= {word for words in re.findall(r"e2e -- --require ([a-z,]+)", text) for word in words.split(",")}
    assert required
    assert required <= set(NEEDS)
    profiles = {row["profile"] for row in rows} | set(re.findall(r"inputs.profile \|\| '(\w+)'", text))
    assert profiles
    assert profiles <= set(profile_names())


def test_only_the_gpu_workflow_requires_nvidia() -> None:
    assert "nvidia" in steps("gpu")[at("gpu", "nox -s e2e")]["run"].split()[-1].split(",")
    assert "nvidia" not in WORKFLOWS["simulated"].read_text()


def test_doctor_runs_before_the_lab_on_a_gpu_runner() -> None:
    clear, doctor, up = at("gpu", "a killed job"), at("gpu", "kailab doctor --profile"), at("gpu", "nox -s lab-up")
    assert clear < doctor < up
    assert "if" not in steps("gpu")[doctor]


@pytest.mark.processes("bash")
@pytest.mark.parametrize("script", list(scripts()))
def test_scripts_are_valid_bash(script: str) -> None:
    done = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.fixture
def machine(tmp_path: Path) -> dict[str, str]:
    """An environment whose nox, docker and lab record their calls."""
    folder = tmp_path / "bin"
    folder.mkdir()
    programs = {
        "nox": "exit ${NOX_CODE:-0}",
        "docker": '[ "$1" != ps ] || printf "%b" "${CONTAINERS:-}"',
        "kailab": "exit 1",
    }
    for program, line in programs.items():
        path = folder / program
        path.write_text(f'#!/bin/sh\necho "{program} $*" >>"$CALLS"\n{line}\n')
        path.chmod(0o755)
    search_path = f"{folder}:{os.environ['PATH']}"
    return {"PATH": search_path, "CALLS": str(tmp_path / "calls"), "HOME": str(tmp_path), "KAILAB_LAB": "gpu-1-1"}


def called(script: str, env: dict[str, str], code: int = 0) -> list[str]:
    """Run a script as GitHub does and return its calls in order."""
    argv = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    assert subprocess.run(argv, env=env, check=False, capture_output=True).returncode == code
    calls = Path(env["CALLS"])
    return calls.read_text().splitlines() if calls.exists() else []


@pytest.mark.processes("bash")
@with_lab
def test_containers_are_removed_when_lab_down_fails(name: str, machine: dict[str, str]) -> None:
    assert load(name)["defaults"]["run"]["shell"] == "bash"
    script = steps(name)[at(name, DOWN)]["run"]
    calls = called(script, {**machine, "NOX_CODE": "7", "CONTAINERS": "c1\\nc2\\n"}, code=7)
    assert calls == [
        "nox -s lab-down -- --name gpu-1-1",
        "docker ps -aq --filter label=kailab",
        "docker rm -f -v c1 c2",
    ]


@pytest.mark.processes("bash")
@with_lab
def test_cleanup_without_leftovers_removes_nothing(name: str, machine: dict[str, str]) -> None:
    calls = called(steps(name)[at(name, DOWN)]["run"], machine)
    assert not [call for call in calls if call.startswith("docker rm")]


@pytest.mark.processes("bash")
def test_labs_of_killed_jobs_are_removed_first(machine: dict[str, str]) -> None:
    script = steps("gpu")[at("gpu", "a killed job")]["run"]
    assert called(script, machine) == ["docker ps -aq --filter label=kailab"]
    for lab_ in ("gpu-0-1", "gpu-0-2"):
        (Path(machine["HOME"]) / ".local/state/kailab/labs" / lab_).mkdir(parents=True)
    calls = called(script, {**machine, "CONTAINERS": "c1\\n"})[1:]
    assert calls == [
        "kailab down --name gpu-0-1",
        "kailab down --name gpu-0-2",
        "docker ps -aq --filter label=kailab",
        "docker rm -f -v c1",
    ]


@pytest.mark.processes("bash")
@pytest.mark.parametrize(
    ("commit", "code"), [("a" * 40, 0), ("main", 2), ("a" * 39, 2), ("a" * 41, 2), ("A" * 40, 2), ("$(id)", 2)]
)
def test_commit_must_be_a_full_sha(machine: dict[str, str], commit: str, code: int) -> None:
    called(steps("gpu")[at("gpu", "full SHA")]["run"], {**machine, "COMMIT": commit}, code)


def test_page_lists_each_doctor_check_once() -> None:
    named = re.findall(r"\| `([\w-]+)` \|$", PAGE.read_text(), re.MULTILINE)
    assert sorted(named) == sorted(CHECKS)
    assert "kailab doctor --profile gpu" in PAGE.read_text()


def test_inference_server_on_the_page_is_valid() -> None:
    (block,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    spec = LabSpec.model_validate(yaml.safe_load(block)).inference
    assert isinstance(spec, InferenceSpec)
    assert InferenceServer.of(spec, "nvidia").arguments("0.7") == [
        f"--model={spec.model}",
        "--gpu-memory-utilization=0.7",
    ]

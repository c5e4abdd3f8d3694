"""The action of this repository in a simulated job: its own steps bring a real lab up, and take it down again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lab.tools.process import HostRunner
from tests.integration.conftest import Cli, containers_of, lacking
from tests.support.github_actions import Job, Json

ROOT = Path(__file__).parents[2]
NAME = "it-action"
MINE = [{"name": "my tests", "run": "kailab can-run mine.yaml >answer.txt; kubectl get nodes || kailab status"}]
POD = """apiVersion: v1
kind: Pod
metadata: {name: mine, labels: {kai.scheduler/queue: test}, annotations: {gpu-fraction: "0.5"}}
spec: {schedulerName: kai-scheduler, containers: [{name: main, image: "registry.kailab.dev/probe:2"}]}
"""


@pytest.mark.timeout(1200)
def test_lab_comes_and_goes_with_the_job(cli: Cli, engine: HostRunner, tmp_path: Path) -> None:
    cli.labs.append(NAME)
    cli._clear(["up"])
    uploaded: list[Json] = []
    job = Job(
        tmp_path / "work",
        tmp_path / "temp",
        {
            "actions/setup-python@v6": lambda _, given: None,
            "actions/cache/restore@v5": lambda _, given: {"cache-hit": "false"},
            "actions/cache/save@v5": lambda _, given: None,
            "actions/upload-artifact@v6": lambda _, given: uploaded.append(given),
        },
        env={**os.environ, **cli.env, "PYTHONPATH": ""},
    )
    outputs = job.action(ROOT, name=NAME)
    if job.failed and "KAI" in job.log and "not available" in job.log:
        lacking("kai", job.log[-400:])
    assert not job.failed, job.log[-4000:]
    assert Path(outputs["kubeconfig"]).is_file()
    (job.workspace / "mine.yaml").write_text(POD)
    job.steps(MINE)
    assert not job.failed, job.log[-4000:]
    assert "mine" in (job.workspace / "answer.txt").read_text()
    job.action(ROOT / ".github" / "actions" / "collect")
    assert not job.failed, job.log[-4000:]
    assert {"lab.html", "lab"} <= {path.name for path in (job.workspace / uploaded[0]["path"]).iterdir()}
    assert f"Lab {NAME}" in job.summary
    assert containers_of(engine, NAME) == []

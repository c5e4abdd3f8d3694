"""``lab lint``: text, JSON and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from lab.cli.lint import app
from lab.errors import SpecError

POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: a
spec:
  schedulerName: kai-scheduler
  containers:
    - name: main
      image: x
      resources:
        limits: {nvidia.com/gpu: "0.5"}
"""


@pytest.fixture
def result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Result:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pod.yaml").write_text(POD)
    return CliRunner().invoke(app, ["pod.yaml", "--anywhere", *request.param])


@pytest.mark.parametrize("result", [["--json"]], indirect=True)
def test_json_has_rule_object_file_and_line(result: Result) -> None:
    assert result.exit_code == 12
    data = json.loads(result.stdout)
    assert data["schemaVersion"] == 1
    found = next(one for one in data["findings"] if one["rule"] == "gpu-not-whole")
    assert (found["severity"], found["subject"], found["file"], found["line"]) == ("error", "Pod a", "pod.yaml", 11)
    assert found["field"] == "spec.containers.0.resources.limits.nvidia.com/gpu"
    assert found["next"].startswith("remove it")
    assert found["source"].startswith("Kubernetes")


@pytest.mark.parametrize("result", [[]], indirect=True)
def test_text_is_grouped_by_file_and_line(result: Result) -> None:
    assert result.exit_code == 12
    lines = result.stdout.splitlines()
    assert lines[1] == "pod.yaml"
    assert "   11  error   Pod a  [gpu-not-whole]" in lines
    assert lines[-1].startswith("KAI ")


def test_files_without_a_manifest_prove_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty.yaml").write_text("# nothing yet\n")
    for where in (tmp_path, tmp_path / "empty.yaml"):
        done = CliRunner().invoke(app, [str(where), "--anywhere"])
        assert isinstance(done.exception, SpecError)
        assert "no manifest to lint" in str(done.exception)

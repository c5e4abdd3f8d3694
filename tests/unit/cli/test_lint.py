"""``kailab lint``: text, JSON and exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner, Result

from lab.cli.lint import app
from lab.config import resolve_spec
from lab.errors import SpecError
from lab.session.session import Session

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


@pytest.mark.parametrize("result", [["--format", "sarif"]], indirect=True)
def test_sarif_has_what_its_schema_requires(result: Result) -> None:
    """OASIS, SARIF 2.1.0: sarifLog (§3.13), run (§3.14), result (§3.27), location (§3.28)."""
    assert result.exit_code == 12
    log = json.loads(result.stdout)
    assert (log["version"], log["$schema"]) == ("2.1.0", "https://json.schemastore.org/sarif-2.1.0.json")
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] == "kailab"
    ids = [rule["id"] for rule in driver["rules"]]
    assert len(set(ids)) == len(ids)
    for one in run["results"]:
        assert one["level"] in ("none", "note", "warning", "error")
        assert ids[one["ruleIndex"]] == one["ruleId"]
        assert one["message"]["text"]
        (place,) = one["locations"]
        assert place["physicalLocation"]["artifactLocation"]["uri"] == "pod.yaml"
        assert place["physicalLocation"]["region"]["startLine"] >= 1
    assert "gpu-not-whole" in [one["ruleId"] for one in run["results"]]


@pytest.mark.parametrize("result", [["--format", "github"]], indirect=True)
def test_github_annotations_are_one_line_each(result: Result) -> None:
    lines = result.stdout.splitlines()
    assert any(line.startswith("::error file=pod.yaml,line=11,title=gpu-not-whole::Pod a: ") for line in lines)
    assert all(line.startswith(("::error ", "::warning ", "::notice ")) for line in lines)


@pytest.mark.parametrize("result", [["--kai", "0.9.8, 0.16.8"]], indirect=True)
def test_several_versions_are_a_table(result: Result) -> None:
    assert result.exit_code == 12
    heading, *rows = result.stdout.splitlines()
    assert heading.split() == ["where", "object", "rule", "KAI", "0.9.8", "KAI", "0.16.8"]
    missing = next(row for row in rows if "queue-missing" in row)
    assert missing.split()[-2:] == ["error", "note"]


@pytest.mark.parametrize("result", [["--kai", "0.9.8,0.16.8", "--json"]], indirect=True)
def test_json_of_several_versions(result: Result) -> None:
    versions = json.loads(result.stdout)["versions"]
    assert [one["kai"] for one in versions] == ["0.9.8", "0.16.8"]
    assert all(one["findings"] for one in versions)


def test_another_version_keeps_the_queues_of_the_running_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = resolve_spec(None, "minimal", ["queues=[{name: mine}]"])
    asked: list[str] = []

    def attached(name: str) -> SimpleNamespace:
        asked.append(name)
        return SimpleNamespace(spec=spec)

    monkeypatch.setattr(Session, "attached", attached)
    (tmp_path / "pod.yaml").write_text(POD.replace("  name: a", "  name: a\n  labels: {kai.scheduler/queue: mine}"))
    done = CliRunner().invoke(app, [str(tmp_path / "pod.yaml"), "--name", "demo", "--kai", "0.14.7", "--json"])
    assert asked == ["demo"]
    assert {found["rule"] for found in json.loads(done.stdout)["findings"]} == {"gpu-not-whole"}


def test_an_unknown_format(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, [str(tmp_path), "--anywhere", "--format", "xml"])
    assert "unknown format 'xml'" in str(done.exception)


def test_hooks_may_give_files_without_a_manifest(tmp_path: Path) -> None:
    (tmp_path / "readme.md").write_text("# Nothing\n")
    assert CliRunner().invoke(app, [str(tmp_path / "readme.md"), "--anywhere", "--allow-empty"]).exit_code == 0


def test_values_of_the_chart_are_named(tmp_path: Path) -> None:
    file = tmp_path / "kai.yaml"
    file.write_text("global:\n  registyr: example.com\n  gpuSharing: true\n")
    args = ["--values", str(file), "--anywhere", "--kai", "0.16.8", "--json"]
    found = json.loads(CliRunner().invoke(app, args).stdout)["findings"]
    assert [(one["rule"], one["line"], one["next"]) for one in found] == [
        ("kai-value-unknown", 2, "perhaps you meant global.registry")
    ]


@pytest.mark.parametrize("result", [["--kai", "0.99.0", "--json"]], indirect=True)
def test_a_version_that_is_unknown_is_named_once(result: Result) -> None:
    assert json.loads(result.stdout)["findings"]
    assert result.stderr.count("0.99.0") == 1

"""``kailab doctor``: choice of lab file and lab, exit codes, text and JSON."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner, Result

from lab.cli.doctor import doctor as command
from lab.config import LabSpec
from lab.errors import NoLab, SpecError
from lab.findings import Finding, Severity
from lab.gpu.diagnosis.diagnose import Diagnosis
from lab.gpu.diagnosis.host import Examined, needs_of
from lab.gpu.diagnosis.symptoms import Evidence, match, symptoms
from lab.session.lab import Lab
from lab.ui.findings import render_diagnosis, render_machine, render_symptoms
from tests.support.nvidia_world import PRIVATE_HOST, PRIVATE_NVIDIA, PRIVATE_UUID
from tests.support.portable_facts import facts_from


def check(rule: str, title: str, severity: Severity, what: str, fix: str = "", fix_id: str = "") -> Finding:
    return Finding(what, fix, rule=rule, title=title, severity=severity, fix_id=fix_id)


GOOD = check("memory", "memory", "ok", "16 GiB")
BAD = check("nvidia", "NVIDIA GPU", "error", "Docker's default runtime is runc", "kailab up --yes", "nvidia-runtime")
PATH = (
    check("gpu-path.devices", "worker: device nodes", "ok", "/dev/nvidia0"),
    check("gpu-path.handler", "worker: containerd handler", "error", "containerd has no handler nvidia", "kailab down"),
)
FOUND = match([Evidence("node", "kailab-demo-worker", "containerd has no handler nvidia")])


class Stage:
    """The command's fake environment: running labs, findings on the machine, and a diagnosis."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.labs: dict[str, LabSpec] = {}
        self.findings: tuple[Finding, ...] = (GOOD,)
        self.diagnosis = Diagnosis("demo", PATH[:1], ())
        self.examined: list[LabSpec] = []
        self.diagnosed: list[str] = []
        monkeypatch.setattr("lab.cli.doctor.examine", self._examine)
        monkeypatch.setattr("lab.cli.doctor.diagnose", self._diagnose)
        monkeypatch.setattr("lab.cli.doctor.with_ways", lambda spec, findings: findings)
        monkeypatch.setattr(Lab, "attach", self._attach)

    def _examine(self, run: object, spec: LabSpec) -> Examined:
        self.examined.append(spec)
        return Examined(PRIVATE_HOST, PRIVATE_NVIDIA, self.findings)

    def _diagnose(self, ctx: str) -> Diagnosis:
        self.diagnosed.append(ctx)
        return self.diagnosis

    def _attach(self, name: str | None = None) -> Any:
        if name is None and len(self.labs) == 1:
            name = next(iter(self.labs))
        if name not in self.labs:
            raise NoLab(f"no lab named {name} exists")
        return SimpleNamespace(spec=self.labs[name], context=lambda _: f"ctx of {name}")

    def up(self, name: str, **gpu: object) -> None:
        self.labs[name] = LabSpec.model_validate({"name": name, "gpu": gpu or {"mode": "simulated"}})


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Stage:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KAILAB_LAB", raising=False)
    return Stage(monkeypatch)


def run(*words: str, stdin: str = "") -> Result:
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, list(words), input=stdin)


def test_machine_is_checked_for_the_profile_without_a_lab(stage: Stage) -> None:
    done = run("--profile", "gpu")
    assert done.exit_code == 0
    assert [spec.gpu.mode for spec in stage.examined] == ["nvidia"]
    assert stage.diagnosed == []
    assert "16 GiB" in done.output
    assert "GPUs of lab" not in done.output


def test_running_lab_is_diagnosed_with_its_lab_file(stage: Stage) -> None:
    stage.up("mine", mode="none")
    assert run().exit_code == 0
    assert stage.diagnosed == ["ctx of mine"]
    assert stage.examined[0].gpu.mode == "none"


def test_profile_selects_lab_file_and_lab(stage: Stage) -> None:
    stage.up("minimal")
    stage.up("other")
    assert run("--profile", "minimal", "--set", "gpu.perNode=4").exit_code == 0
    assert stage.diagnosed == ["ctx of minimal"]
    assert stage.examined[0].gpu.per_node == 4


def test_name_is_needed_to_diagnose_one_of_several_labs(stage: Stage) -> None:
    stage.up("one")
    stage.up("two")
    assert run().exit_code == 0
    assert stage.diagnosed == []
    assert run("--name", "two").exit_code == 0
    assert stage.diagnosed == ["ctx of two"]
    assert isinstance(run("--name", "three").exception, NoLab)


def test_missing_requirement_is_exit_code_4(stage: Stage) -> None:
    stage.findings = (GOOD, BAD)
    done = run("--profile", "gpu")
    assert done.exit_code == 4
    assert "kailab up --yes" in done.output
    assert "docker-default-runtime" in done.output


def test_broken_gpu_path_is_exit_code_4(stage: Stage) -> None:
    stage.up("demo")
    stage.diagnosis = Diagnosis("demo", PATH, FOUND, ("Event objects",))
    done = run()
    assert done.exit_code == 4
    for text in ("GPUs of lab demo", "worker: containerd handler", "not read: Event objects", "handler-missing"):
        assert text in done.output
    warned = Diagnosis("demo", (check("gpu-path.handler", "w", "warning", "w", "f"),), ())
    stage.diagnosis = warned
    assert run().exit_code == 0


def test_json_has_facts_without_private_data(stage: Stage) -> None:
    stage.up("demo")
    stage.findings = (GOOD, BAD)
    stage.diagnosis = Diagnosis("demo", PATH, FOUND, ("Job objects",))
    done = run("--json")
    assert done.exit_code == 4
    data = json.loads(done.output)
    assert [one["rule"] for one in data["findings"]] == ["memory", "nvidia", "gpu-path.devices", "gpu-path.handler"]
    assert [one["rule"] for one in data["symptoms"]] == ["docker-default-runtime", "handler-missing"]
    assert data["symptoms"][1]["subject"] == "kailab-demo-worker"
    assert (data["schemaVersion"], data["lab"], data["unread"]) == (1, "demo", ["Job objects"])
    assert PRIVATE_UUID not in done.output
    assert facts_from(data["facts"])[0].cores == PRIVATE_HOST.cores


def test_json_without_a_lab_has_no_diagnosis(stage: Stage) -> None:
    data = json.loads(run("--json").output)
    assert (data["lab"], data["unread"], data["symptoms"]) == (None, [], [])


def test_log_is_read_from_a_file_or_stdin(stage: Stage, tmp_path: Path) -> None:
    text = 'level=error error="no runtime for \\"nvidia\\" is configured"\n'
    (tmp_path / "kubelet.log").write_text(text)
    done = run("--log", "kubelet.log")
    assert done.exit_code == 0
    assert 'kubelet.log: level=error error="no runtime for "nvidia" is configured"' in done.output
    data = json.loads(run("--log", "-", "--json", stdin=text).output)
    assert [one["rule"] for one in data["symptoms"]] == ["handler-missing"]
    assert stage.examined == []


def test_log_without_a_known_failure_is_exit_code_1(stage: Stage) -> None:
    done = run("--log", "-", stdin="all is well")
    assert done.exit_code == 1
    assert "no known failure" in done.output
    assert isinstance(run("--log", "nowhere").exception, SpecError)


def test_symptoms_option_lists_all_symptoms(stage: Stage) -> None:
    assert len(json.loads(run("--symptoms", "--json").output)["rules"]) == len(symptoms())
    assert "fake-gpu-label" in run("--symptoms").output
    assert stage.examined == []


def test_failed_checks_are_evidence_of_symptoms() -> None:
    skipped = check("x", "x", "skipped", "no NVIDIA GPU (NVML Shared Library Not Found)")
    (symptom,) = Examined(PRIVATE_HOST, PRIVATE_NVIDIA, (GOOD, BAD, skipped)).symptoms
    assert symptom.evidence == ("this machine (doctor): Docker's default runtime is runc",)
    assert needs_of(LabSpec()).gpu == LabSpec().gpu.mode


def console() -> tuple[Console, io.StringIO]:
    stream = io.StringIO()
    return Console(file=stream, width=100, highlight=False, emoji=False, markup=False), stream


def test_symptom_text_has_meaning_fix_and_source() -> None:
    out, stream = console()
    render_symptoms(FOUND, out)
    text = stream.getvalue()
    (found,) = FOUND
    for part in (found.title, found.rule, "containerd has no handler nvidia", found.what, "next: ", found.source):
        assert part in text


def test_empty_symptoms_print_nothing() -> None:
    out, stream = console()
    render_symptoms((), out)
    assert stream.getvalue() == ""
    render_diagnosis(Diagnosis("demo", PATH[:1], ()), out)
    assert "worker: device nodes" in stream.getvalue()


def test_machine_checks_have_a_line_each_and_counts() -> None:
    out, stream = console()
    render_machine((GOOD, BAD), out)
    assert [line.rstrip() for line in stream.getvalue().splitlines()] == [
        " ✓  memory      16 GiB",
        " ✗  NVIDIA GPU  Docker's default runtime is runc",
        "               → kailab up --yes",
        "",
        "1 passed, 1 failed",
        "→ kailab up --yes applies the known fixes",
    ]

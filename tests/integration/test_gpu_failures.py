"""Known failures on a lab: each is produced for real, the doctor reports it and nothing else, and the lab recovers.

All cases use one lab with one node and two simulated GPUs. Failures without a cluster are in
test_gpu_failure_texts.py.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest

from lab.gpu.diagnosis.symptoms import in_text
from lab.session.lab import Lab
from lab.tools.process import HostRunner
from tests.integration.broken_lab import NAME, SPACE, BrokenLab
from tests.integration.conftest import Cli, lacking
from tests.integration.gpu_failure_cases import CASES

UP = ("up", "--profile", "minimal", "--name", NAME, "--set", "gpu.perNode=2", "--yes", "--json")


@pytest.fixture(scope="module")
def ground(engine: HostRunner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokenLab]:
    """The lab; removed at the end."""
    command = Cli(tmp_path_factory.mktemp("broken"))
    try:
        up = json.loads(command(*UP).out)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("KAILAB_STATE", command.env["KAILAB_STATE"])
            lab = Lab.attach(NAME)
            ground = BrokenLab(lab.context("failures"), up["facts"]["scheduler"] == "kai")
            ground.cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}})
            yield ground
            lab.session.close()
    finally:
        command("down", "--name", NAME, code=None)
    assert command.kubeconfig.read_bytes() == command.before


def test_a_healthy_lab_shows_nothing(ground: BrokenLab) -> None:
    seen = ground.well()
    assert seen.symptoms == ()
    assert [verdict for verdict in seen.path if verdict.severity != "ok"] == []
    assert seen.unread == ()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("symptom", CASES)
def test_failure(ground: BrokenLab, symptom: str) -> None:
    case = CASES[symptom]
    if case.kai and not ground.kai:
        lacking("kai", "needs KAI")
    if case.unsteady and not os.environ.get("KAILAB_LONG"):
        pytest.skip(f"{case.unsteady}: KAILAB_LONG=1 runs it")
    try:
        output = case.produce(ground)
        seen = ground.diagnosed()
        found = {one.rule for one in (in_text(output) if isinstance(output, str) and output else seen.symptoms)}
        assert found - case.may == {symptom} | case.also, [one.evidence for one in seen.symptoms]
    finally:
        try:
            ground.clear()
        finally:
            case.restore(ground)
    after = ground.well()
    assert after.symptoms == ()
    assert [verdict for verdict in after.path if verdict.severity != "ok"] == []


def test_the_command_says_the_same(ground: BrokenLab, tmp_path_factory: pytest.TempPathFactory) -> None:
    command = Cli(tmp_path_factory.mktemp("command"))
    command.env["KAILAB_STATE"] = str(ground.ctx.paths.root.parents[1])
    report = command("doctor", "--name", NAME, "--json", code=None).json()
    assert {one["severity"] for one in report["findings"] if one["rule"].startswith("gpu-path")} == {"ok"}
    assert report["lab"] == NAME
    assert report["facts"]["host"]["cores"] > 0

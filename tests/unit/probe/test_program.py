"""The compiled probe: its facts from the simulated NVML and nvidia-smi, and its command line."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from lab.config import GpuSpec
from lab.gpu.simulated.devices import DRIVER_VERSION, gpus_of
from lab.gpu.simulated.node_files import nvml_config
from lab.workloads.probe import ProbedDevice, ProbeFacts
from tests.support.probe_world import run, simulated_nvml

pytestmark = pytest.mark.processes("probe")

GPUS = gpus_of("demo", "worker", GpuSpec.model_validate({"perNode": 3, "model": "H100"}))
MEMORY = GPUS[0].memory


@pytest.fixture(scope="module")
def library(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return simulated_nvml(tmp_path_factory.mktemp("nvml"))


class Container:
    """A container as NVML sees it: device nodes, and the node's config."""

    def __init__(self, program: Path, library: Path, root: Path) -> None:
        self.program, self.root = program, root
        (root / "dev").mkdir()
        self.env = {
            "PATH": str(library),
            "LD_LIBRARY_PATH": str(library),
            "KAILAB_NVML_CONFIG": str(root / "nvml.conf"),
            "KAILAB_NVML_DEVROOT": str(root),
            "KAILAB_USAGE": str(root / "usage"),
        }
        (root / "nvml.conf").write_text(nvml_config("worker", GPUS))

    def facts(self, **env: str) -> ProbeFacts:
        return ProbeFacts.of(json.loads(run(self.program, "facts", env={**self.env, **env}).stdout))


@pytest.fixture
def container(program: Path, library: Path, tmp_path: Path) -> Container:
    return Container(program, library, tmp_path)


def test_facts_list_the_devices_of_the_container(container: Container) -> None:
    for minor in (0, 2):
        (container.root / "dev" / f"nvidia{minor}").touch()
    (container.root / "usage").write_text(
        f"usage 1 pidns=1\nprocess gpu={GPUS[2].uuid} pid=9 pidns=2 inner=1 memory=2048\nend 1\n"
    )
    facts = container.facts()
    assert (facts.driver, facts.error) == (DRIVER_VERSION, "")
    assert facts.devices == (
        ProbedDevice(0, GPUS[0].uuid, "NVIDIA H100 80GB HBM3", MEMORY, 0, ""),
        ProbedDevice(1, GPUS[2].uuid, "NVIDIA H100 80GB HBM3", MEMORY, 2048, ""),
    )
    assert facts.uuids == (GPUS[0].uuid, GPUS[2].uuid)


def test_lost_device_does_not_hide_the_others(container: Container) -> None:
    (container.root / "nvml.conf").write_text(nvml_config("worker", [replace(GPUS[0], lost=True), GPUS[1]]))
    for minor in (0, 1):
        (container.root / "dev" / f"nvidia{minor}").touch()
    lost, well = container.facts().devices
    assert (lost.index, lost.error, lost.memory, lost.used) == (0, "GPU is lost", 0, 0)
    assert (well.uuid, well.error) == (GPUS[1].uuid, "")


def test_container_without_a_device_reports_an_nvml_error(container: Container) -> None:
    facts = container.facts()
    assert (facts.devices, facts.driver) == ((), "")
    assert "couldn't communicate with the NVIDIA driver" in facts.error


def test_container_without_a_driver_reports_missing_nvidia_smi(program: Path, tmp_path: Path) -> None:
    facts = ProbeFacts.of(json.loads(run(program, "facts", env={"PATH": str(tmp_path)}).stdout))
    assert (facts.devices, facts.driver) == ((), "")
    assert 'exec: "nvidia-smi"' in facts.error


def test_values_that_nvidia_smi_lacks_are_zero(program: Path, tmp_path: Path) -> None:
    """A GPU without its own memory reports [N/A]; lines that are not rows are skipped."""
    script, row = tmp_path / "nvidia-smi", "0, GPU-1, NVIDIA GB10, [N/A], [N/A], 580.95.05"
    script.write_text(f"#!/bin/sh\necho 'a warning, with commas'\necho '{row}'\n")
    script.chmod(0o755)
    facts = ProbeFacts.of(json.loads(run(program, "facts", env={"PATH": str(tmp_path)}).stdout))
    assert facts.devices == (ProbedDevice(0, "GPU-1", "NVIDIA GB10", 0, 0, ""),)
    assert (facts.driver, facts.error) == ("580.95.05", "")


def test_only_gpu_environment_variables_are_reported(container: Container) -> None:
    facts = container.facts(
        NVIDIA_VISIBLE_DEVICES='GPU-1,"GPU-2"', RUNAI_NUM_OF_GPUS="0.50", GPU_PORTION="0.50", PASSWORD="secret"
    )
    assert facts.env["NVIDIA_VISIBLE_DEVICES"] == 'GPU-1,"GPU-2"'
    assert facts.env["RUNAI_NUM_OF_GPUS"] == facts.env["GPU_PORTION"] == "0.50"
    assert "PASSWORD" not in facts.env
    assert "secret" not in run(container.program, "facts", env={"PASSWORD": "secret"}).stdout


def test_facts_name_host_and_device_files(container: Container) -> None:
    facts = container.facts()
    assert facts.hostname == socket.gethostname()
    assert facts.pid > 0
    there = sorted(entry for entry in os.listdir("/dev") if entry.startswith("nvidia"))  # noqa: PTH208
    assert [Path(path).name for path in facts.device_files] == there


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("nonsense",), 2, "usage: probe"),
        (("facts", "more"), 2, "usage: probe"),
        (("serve", "--port"), 2, "--port needs a value"),
        (("serve", "--port", "65536"), 2, 'invalid port "65536"'),
        (("--port=http",), 2, 'invalid port "http"'),
        (("serve", "--host", "192.0.2.1"), 1, "cannot listen"),  # a documentation address (RFC 5737)
        (("--help",), 0, "usage: probe"),
    ],
)
def test_command_line_reports_usage_errors(program: Path, words: tuple[str, ...], code: int, message: str) -> None:
    done = run(program, *words, code=code)
    assert message in (done.stderr if code else done.stdout)


@pytest.mark.loopback
def test_port_in_use_is_an_error(program: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run(program, "serve", "--host", "127.0.0.1", "--port", port, code=1)
    assert f"127.0.0.1:{port}: bind: address already in use" in done.stderr

"""GPU path in a node: facts from diagnose.sh, and problems whose texts the symptoms match."""

from __future__ import annotations

import pytest

from lab.gpu.diagnosis.node_facts import NodeFacts, parse, script
from lab.gpu.diagnosis.node_stages import Expected, GpuPathStage, node_stages
from lab.gpu.diagnosis.symptoms import match
from tests.support.diagnose_world import LIBRARY, NODE, SPEC, UUIDS, printed

MINORS = {uuid: minor for minor, uuid in enumerate(UUIDS)}
EXPECTED = Expected(MINORS, real=True)
MODE = "[nvidia-container-runtime]\nmode = "
NEW_KEY = 'plugins."io.containerd.cri.v1.runtime".containerd'


def node(**changes: str) -> NodeFacts:
    return parse(NODE, printed(**changes))


def stages(**changes: str) -> tuple[GpuPathStage, ...]:
    return node_stages(node(**changes), EXPECTED)


def problems(**changes: str) -> list[str]:
    return [problem.what for stage in stages(**changes) for problem in stage.problems]


def test_healthy_node_has_only_ok_findings() -> None:
    assert problems() == []
    found = [stage.finding("worker") for stage in stages()]
    assert {finding.severity for finding in found} == {"ok"}
    assert [finding.rule.partition(".")[2] for finding in found] == [
        "devices",
        "driver",
        "toolkit",
        "handler",
        "cdi",
        "health",
    ]
    assert found[0].title == "worker: device nodes"
    assert found[0].what == "/dev/nvidia0, /dev/nvidia1"
    assert found[3].what == "nvidia runs /usr/bin/nvidia-container-runtime"
    assert found[4].what == "/etc/cdi/kailab.json: 5 devices"


def test_containerd_2_configuration_is_read() -> None:
    text = f'version = 3\n[{NEW_KEY}.runtimes.nvidia.options]\nBinaryName = "x"\nSystemdCgroup = true\n'
    assert node(containerd=text).containerd.handlers["nvidia"]["options"]["BinaryName"] == "x"
    assert problems(containerd=text) == []


CONTROL = "/dev/nvidiactl 195:255\n/dev/nvidia-uvm 195:253"
GPUS = "/dev/nvidia0 195:0\n/dev/nvidia1 195:1"
REFUSED = "accept-nvidia-visible-devices-envvar-when-unprivileged = false"
MODULE = "NVRM version: NVIDIA UNIX x86_64  580.65.06  Release"
OLD = "library /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.570.86.15"
RUNTIME = f'[{NEW_KEY}.runtimes.nvidia.options]\nBinaryName = "x"\n'
RUNC = f"[{NEW_KEY}.runtimes.runc.options]\n"

BROKEN: list[tuple[str, dict[str, str], str]] = [
    ("device-missing", {"devices": f"/dev/nvidia0 195:0\n{CONTROL}"}, "device /dev/nvidia1 is missing"),
    (
        "device-missing",
        {"devices": f"{GPUS.replace('195:0', '1:3')}\n{CONTROL}"},
        "device /dev/nvidia0 is 1:3, should be",
    ),
    (
        "device-missing",
        {"devices": f"{GPUS}\n{CONTROL.replace('195:253', 'regular-file')}"},
        "device /dev/nvidia-uvm is",
    ),
    ("device-foreign", {"devices": f"{GPUS}\n/dev/nvidia7 195:7\n{CONTROL}"}, "device /dev/nvidia7 belongs to another"),
    ("params-open", {"driver": "ModifyDeviceFiles: 1"}, "ModifyDeviceFiles is 1: NVML may create the device nodes"),
    (
        "driver-replaced",
        {"driver": f"{MODULE}\n{OLD}"},
        "driver 580.65.06 is loaded, but the node has the library of 570.86",
    ),
    ("driver-file-missing", {"files": f"missing {LIBRARY}"}, f"driver file {LIBRARY} is missing"),
    ("driver-file-directory", {"files": f"directory {LIBRARY}"}, f"driver file {LIBRARY} is a directory"),
    ("runtime-missing", {"programs": "/usr/bin/nvidia-ctk"}, "/usr/bin/nvidia-container-runtime is missing in the"),
    ("toolkit-config-broken", {"toolkit": "mode = ["}, "the toolkit's configuration cannot be read: "),
    ("toolkit-mode-legacy", {"toolkit": f'{MODE}"legacy"'}, "the toolkit's mode is legacy, should be cdi"),
    ("toolkit-mode-auto", {"toolkit": ""}, "the toolkit's mode is auto, should be cdi"),
    ("toolkit-mode-unknown", {"toolkit": f'{MODE}"csv"'}, "the toolkit's mode is csv, should be cdi"),
    ("envvar-refused", {"toolkit": f'{REFUSED}\n{MODE}"cdi"'}, "the toolkit ignores NVIDIA_VISIBLE_DEVICES"),
    ("containerd-down", {"units": "containerd failed\nkubelet active"}, "containerd is failed"),
    ("kubelet-down", {"units": "containerd active\nkubelet inactive"}, "the kubelet is inactive"),
    (
        "containerd-config-broken",
        {"containerd": "containerd: failed to load TOML: x"},
        "containerd's configuration cannot",
    ),
    ("handler-missing", {"containerd": "version = 2"}, "containerd has no handler nvidia"),
    ("handler-cgroups", {"containerd": RUNTIME}, "containerd's handler nvidia has no SystemdCgroup = true"),
    (
        "handler-cgroups",
        {"containerd": f"{RUNC}SystemdCgroup = false\n{RUNTIME}SystemdCgroup = true"},
        "containerd's handler nvidia has no SystemdCgroup = false",
    ),
    (
        "containerd-not-restarted",
        {"changed": "/etc/containerd/config.toml"},
        "containerd has not been restarted since /etc",
    ),
    (
        "default-runtime-nvidia",
        {"containerd": f'[{NEW_KEY}]\ndefault_runtime_name = "nvidia"\n{RUNTIME}SystemdCgroup = true'},
        "containerd's default runtime is nvidia",
    ),
    ("cdi-spec-missing", {"cdi": ""}, "the node has no CDI spec for nvidia.com/gpu"),
    ("cdi-spec-missing", {"cdi": "@@ /etc/cdi/kailab.json\n{"}, "CDI spec /etc/cdi/kailab.json cannot be read: "),
    (
        "cdi-spec-missing",
        {"cdi": "@@ /etc/cdi/nic.yaml\nkind: example.com/nic"},
        "the node has no CDI spec for nvidia.com",
    ),
    (
        "cdi-device-unnamed",
        {"cdi": f"@@ /etc/cdi/kailab.json\n{str(SPEC).replace(UUIDS[1], 'GPU-other')}"},
        f"no CDI spec names {UUIDS[1]}",
    ),
    (
        "gpu-failed",
        {"nvml": f"gpu index=1 minor=1 uuid={UUIDS[1]} xid=79 health=lost name=A"},
        f"GPU {UUIDS[1]} has failed",
    ),
]
WARNINGS = ("containerd-not-restarted", "default-runtime-nvidia")


@pytest.mark.parametrize(("symptom", "changes", "line"), BROKEN, ids=[line[:40] for _, _, line in BROKEN])
def test_each_fault_is_reported_and_matches_its_symptom(symptom: str, changes: dict[str, str], line: str) -> None:
    found = stages(**changes)
    assert any(text.startswith(line) for text in problems(**changes)), problems(**changes)
    assert [result.rule for result in match(line for stage in found for line in stage.evidence())] == [symptom]
    (finding,) = [f for f in (stage.finding("worker") for stage in found) if f.severity != "ok"]
    assert finding.severity == ("warning" if symptom in WARNINGS else "error")
    assert finding.next


@pytest.mark.parametrize("systemd", ["true", "false"])
def test_handler_must_use_the_cgroup_driver_of_runc(systemd: str) -> None:
    """Labs on cgroup v1 do not use systemd."""
    assert problems(containerd=f"{RUNC}SystemdCgroup = {systemd}\n{RUNTIME}SystemdCgroup = {systemd}") == []


def test_problems_of_one_stage_are_one_finding() -> None:
    (finding,) = [f for f in (stage.finding("worker") for stage in stages(devices="")) if f.severity != "ok"]
    assert finding.what.count(" is missing") == 4
    assert finding.next == "kailab up (it runs the node's unit again)"


def test_driver_of_the_machine_does_not_affect_simulated_gpus() -> None:
    seen = node(driver=f"{MODULE}\n{OLD}\nModifyDeviceFiles: 1")
    assert [problem.what for stage in node_stages(seen, Expected(MINORS)) for problem in stage.problems] == []


def test_only_failed_nvidia_smi_output_is_kept() -> None:
    assert node().smi == ()
    assert node(smi="").smi == ()
    failed = node(smi="Failed to initialize NVML: Driver/library version mismatch\nrc 18")
    assert failed.smi == ("Failed to initialize NVML: Driver/library version mismatch",)


def test_real_gpus_need_every_program_and_accept_any_uvm_number() -> None:
    programs = tuple(f"/usr/bin/{name}" for name in ("nvidia-container-runtime", "nvidia-ctk", "nvidia-cdi-hook"))
    real = Expected({UUIDS[0]: 1}, programs, real=True)
    devices = "/dev/nvidia1 195:1\n/dev/nvidiactl 195:255\n/dev/nvidia-uvm 511:0"
    found = node_stages(node(devices=devices), real)
    assert [problem.what for stage in found for problem in stage.problems] == [
        "/usr/bin/nvidia-cdi-hook is missing in the node"
    ]


def test_empty_output_has_no_facts() -> None:
    silent = parse(NODE, "")
    assert (silent.units, silent.changed, silent.smi, silent.journal("containerd")) == ({}, (), (), ())
    assert silent.containerd.broken == ""
    assert silent.loaded == silent.library == ""


def test_script_prints_every_section_that_is_read() -> None:
    sections = {line.split()[1] for line in script().splitlines() if line.startswith("section ")}
    assert sections == set(parse(NODE, printed()).sections)

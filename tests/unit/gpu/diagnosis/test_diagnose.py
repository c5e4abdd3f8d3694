"""Diagnosis of a running lab: its sources, nodes and API servers that do not answer, and its content."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.config import LabSpec
from lab.errors import ApiFailed, CommandFailed, Interrupted
from lab.gpu.diagnosis import diagnose as module
from lab.gpu.diagnosis.diagnose import Diagnosis, diagnose, expected
from lab.gpu.nvidia.claims import record
from lab.gpu.simulated.devices import gpus_of
from lab.snapshot.cluster_snapshot import UNREAD, ClusterSnapshot
from tests.support.diagnose_world import NODE, event, printed, world
from tests.support.explain_world import pod
from tests.support.gpu_world import GpuWorld

SPEC = LabSpec.model_validate({"name": "demo", "cluster": {"workers": 1}, "gpu": {"mode": "simulated", "perNode": 2}})


class Scene:
    """A lab of one worker, with the output of its node and the objects of its cluster."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spec: LabSpec = SPEC) -> None:
        self.lab = GpuWorld(tmp_path, spec)
        self.seen: ClusterSnapshot | Exception = world()
        monkeypatch.setattr(module, "take", self._take)
        monkeypatch.setattr(module, "read_logs", lambda *_: ())

    def _take(self, *_: object, **__: object) -> ClusterSnapshot:
        if isinstance(self.seen, Exception):
            raise self.seen
        return self.seen

    def prints(self, text: str | Exception) -> None:
        """Let the worker print ``text``, or raise it."""
        raises = text if isinstance(text, Exception) else None
        command = ["docker", "exec", "-i", NODE, "sh", "-s"]
        self.lab.runner.handle(command, out="" if raises else str(text), raises=raises, exact=True)

    def diagnosed(self) -> Diagnosis:
        return diagnose(self.lab.ctx)


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(tmp_path, monkeypatch)


def healthy_node(**changes: str) -> str:
    """Output of a healthy node with the GPUs of the lab."""
    uuids = [gpu.uuid for gpu in gpus_of("demo", NODE, SPEC.gpu)]
    text = printed(**changes)
    for number, uuid in enumerate(uuids):
        text = text.replace(f"GPU-00000000-0000-4000-8000-{number:012d}", uuid)
    return text


def test_healthy_lab_has_only_ok_findings(scene: Scene) -> None:
    scene.prints(healthy_node())
    seen = scene.diagnosed()
    assert [finding for finding in seen.path if finding.severity != "ok"] == []
    assert (seen.symptoms, seen.unread, seen.broken) == ((), (), False)
    titles = [finding.title for finding in seen.path]
    assert titles[:2] == ["worker: device nodes", "worker: driver"]
    assert {"RuntimeClass", "worker: device plugin", "reservation pods"} <= set(titles)


def test_symptoms_of_node_and_cluster_are_combined(scene: Scene) -> None:
    stuck = pod("stuck", gpus=1, node=NODE, waiting="ContainerCreating")
    scene.seen = world(stuck, event(stuck, "FailedCreatePodSandBox", "unresolvable CDI devices nvidia.com/gpu=GPU-9"))
    scene.prints(healthy_node(cdi=""))
    seen = scene.diagnosed()
    assert [found.rule for found in seen.symptoms] == ["cdi-spec-missing", "cdi-unresolvable"]
    assert seen.broken


def test_only_log_lines_about_current_failures_count(scene: Scene) -> None:
    stuck = pod("stuck", gpus=1, node=NODE, waiting="ContainerCreating")
    scene.seen = world(stuck)
    lines = [
        'level=error msg="RunPodSandbox for stuck failed" error="no runtime for \\"nvidia\\" is configured"',
        'level=error msg="RunPodSandbox for gone failed" error="error loading config: (2, 1)"',
    ]
    scene.prints(healthy_node(containerd_log="\n".join(lines), kubelet_log="E1121 too many open files"))
    assert [found.rule for found in scene.diagnosed().symptoms] == ["handler-missing"]


def test_log_lines_about_failed_starts_always_count(scene: Scene) -> None:
    plugin = (
        'msg="failed to load plugin io.containerd.grpc.v1.cri" error="`mirrors` cannot be set when `config_path` is"'
    )
    kubelet = "E1121 kubelet is configured to not run on a host using cgroup v1"
    scene.prints(healthy_node(containerd_log=plugin, units="containerd active\nkubelet failed", kubelet_log=kubelet))
    assert [found.rule for found in scene.diagnosed().symptoms] == ["cgroup-v1", "kubelet-down", "containerd-mirrors"]


def test_failed_nvidia_smi_of_the_node_is_a_symptom(scene: Scene) -> None:
    scene.prints(healthy_node(smi="Failed to initialize NVML: Driver/library version mismatch\nrc 18"))
    assert [found.rule for found in scene.diagnosed().symptoms] == ["driver-mismatch"]


def test_stopped_node_is_the_only_finding_if_the_api_is_down(scene: Scene) -> None:
    scene.lab.nodes[NODE].state = "exited"
    scene.seen = ApiFailed("connection refused")
    seen = scene.diagnosed()
    assert [(finding.title, finding.what, finding.next) for finding in seen.path] == [
        ("worker", "the node container is exited", "kailab up")
    ]
    assert seen.unread == ("the cluster",)


def test_silent_node_is_a_finding_beside_those_of_the_cluster(scene: Scene) -> None:
    scene.prints(CommandFailed(["docker"], 124, why="docker did not end within 20 s"))
    seen = scene.diagnosed()
    assert seen.path[0].what == "docker did not end within 20 s"
    assert seen.path[0].next == f"docker logs --tail 30 {NODE}"
    assert seen.path[1].title == "RuntimeClass"


def test_unreachable_api_is_a_finding(scene: Scene) -> None:
    scene.prints(healthy_node())
    scene.seen = ApiFailed("connection refused", fix="see whether it runs")
    seen = scene.diagnosed()
    assert (seen.path[0].title, seen.path[0].next) == ("Kubernetes API", "see whether it runs")
    assert seen.broken


def test_interrupt_is_raised(scene: Scene) -> None:
    scene.prints(Interrupted("stopped"))
    with pytest.raises(Interrupted):
        scene.diagnosed()


def test_kinds_that_were_not_read_in_time_are_named(scene: Scene) -> None:
    scene.prints(healthy_node())
    seen = world()
    scene.seen = ClusterSnapshot(seen.at, seen.objects, facts={UNREAD: "Event, Job"})
    assert scene.diagnosed().unread == ("Event objects", "Job objects")


def spec_of(**gpu: Any) -> LabSpec:
    return LabSpec.model_validate({"name": "demo", "cluster": {"workers": 1}, "gpu": gpu})


def test_gpu_path_is_skipped_without_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Scene(tmp_path, monkeypatch, spec_of(mode="none")).diagnosed()
    assert [(finding.severity, finding.what) for finding in seen.path] == [("skipped", "the lab file requests none")]


def test_expected_real_gpus_come_from_the_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.support.nvidia_world import gpu, uuid

    scene = Scene(tmp_path, monkeypatch, spec_of(mode="nvidia"))
    record(scene.lab.ctx.journal, "cluster", {NODE: (gpu(0, 2),)}, "volume-mount")
    wanted = expected(scene.lab.ctx)[NODE]
    assert wanted.gpus == {uuid(0): 2}
    assert "/usr/bin/nvidia-cdi-hook" in wanted.programs

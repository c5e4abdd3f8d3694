"""Parts of GPUs: reservation pods, BindRequests, ConfigMaps."""

from __future__ import annotations

import pytest

from tests.support.explain_world import GROUP, Scene, ids, pod, request, reservation

TIMEOUT = "failed to reserve GPUs: failed waiting for GPU reservation pod to allocate: kai-resource-reservation/g"


def binding(says: str = "", **more: str) -> Scene:
    """A fraction that the scheduler has placed on worker-1; the binder says something."""
    scene = Scene()
    scene.pending(fraction=0.5)
    return scene.add(request(phase="Failed" if says else "Pending", reason=says, selectedGPUGroups=[GROUP], **more))


def test_bind_under_way() -> None:
    explanation = binding().explain()
    assert ids(explanation) == ["bind.in-progress"]
    assert explanation.findings[0].evidence == (f"BindRequest p: Pending, Regular, GPU group {GROUP}",)


@pytest.mark.parametrize(
    ("rule", "waiting", "message"),
    [
        ("shared.reservation-image", "ImagePullBackOff", "Back-off pulling image"),
        ("shared.reservation-class", "CreateContainerError", 'no runtime for "nvidia" is configured'),
    ],
)
def test_reservation_pod_that_does_not_start(rule: str, waiting: str, message: str) -> None:
    scene = binding().add(reservation(uuid="", waiting=waiting, message=message))
    explanation = scene.explain()
    assert ids(explanation) == [rule]
    assert any(waiting in line for line in explanation.findings[0].evidence)


def test_class_of_the_reservation_pod_does_not_exist() -> None:
    explanation = binding(
        'pods "gpu-reservation-1" is forbidden: pod rejected: RuntimeClass "nvidia" not found'
    ).explain()
    assert ids(explanation) == ["shared.reservation-class"]
    assert "binder.runtimeClassName" in explanation.findings[0].next


def test_reservation_pod_that_finds_no_gpu() -> None:
    scene = binding().add(reservation(uuid="", waiting="CrashLoopBackOff"))
    name = "kai-resource-reservation/gpu-reservation-1"
    scene.logs = {name: ("unable to initialize NVML: ERROR_LIBRARY_NOT_FOUND",)}
    assert ids(scene.explain()) == ["shared.reservation-nvml"]


def test_reservation_pod_that_is_gone_again_has_left_its_events() -> None:
    scene = binding(TIMEOUT)
    gone = reservation(uuid="")
    scene.event(gone, "Failed", 'Failed to pull image "resourcereservation:v0.16.8": not found', by="kubelet", ago=15)
    assert ids(scene.explain()) == ["shared.reservation-image"]


@pytest.mark.parametrize("ago", [60, 3600])
def test_events_from_before_the_pod_are_no_reason(ago: int) -> None:
    scene = binding(TIMEOUT)
    scene.event(reservation(uuid=""), "Failed", "Failed to pull image", by="kubelet", ago=ago)
    assert ids(scene.explain()) == ["shared.reservation-stuck"]


def test_reservation_pod_without_its_annotation() -> None:
    scene = binding().add(reservation(uuid=""))
    explanation = scene.explain()
    assert ids(explanation)[0] == "shared.reservation-stuck"
    assert explanation.findings[0].certainty == "likely"


def test_reservation_pod_that_may_not_read_itself_was_created_all_the_same() -> None:
    scene = binding(TIMEOUT).add(reservation(uuid=""))
    says = 'could not find pod. pods "gpu-reservation-1" is forbidden: User "x" cannot get resource "pods"'
    scene.logs = {"kai-resource-reservation/gpu-reservation-1": (says,)}
    explanation = scene.explain()
    assert ids(explanation) == ["shared.reservation-stuck"]
    assert any(says in line for line in explanation.findings[0].evidence)


def test_reservation_pod_that_may_not_be_created() -> None:
    explanation = binding('pods "gpu-reservation-1" is forbidden: exceeded quota: q, requested: pods=1').explain()
    assert ids(explanation) == ["shared.reservation-refused"]


def test_failed_reservation_pod() -> None:
    scene = binding().add(reservation(uuid="", status={"phase": "Failed", "reason": "UnexpectedAdmissionError"}))
    explanation = scene.explain()
    assert ids(explanation) == ["shared.reservation-no-gpu"]
    assert explanation.findings[0].next.endswith("delete pod gpu-reservation-1 -n kai-resource-reservation")


@pytest.mark.parametrize("ready", [True, False])
def test_shared_gpu_without_a_reservation_pod(ready: bool) -> None:
    scene = Scene().add(pod(node="worker-1", ready=ready, fraction=0.5, labels={"runai-gpu-group": GROUP}))
    assert ids(scene.explain())[0] == "shared.reservation-missing"


def test_configmaps_of_the_binder_are_missing() -> None:
    scene = Scene().add(reservation())
    scene.add(
        pod(
            node="worker-1",
            fraction=0.5,
            labels={"runai-gpu-group": GROUP},
            waiting="CreateContainerConfigError",
            message='configmap "p-abc-shared-gpu-evar" not found',
        )
    )
    assert ids(scene.explain()) == ["shared.configmaps"]

"""A lab without KAI: pods and GPUs work with the default scheduler, and the lab reports what is missing."""

from __future__ import annotations

import pytest

from lab.session.lab import Lab
from lab.workloads.namespace import WorkloadNamespace
from lab.workloads.pods import cpu_pod, gpu_pod

from .checks import on_gpus

DEFAULT_SCHEDULER = "default-scheduler"


@pytest.fixture(autouse=True)
def _without_kai(lab: Lab) -> None:
    if lab.has_kai:
        pytest.skip(f"lab {lab.spec.name} has KAI {lab.kai_version}")


def test_lab_says_why_there_is_no_kai(lab: Lab) -> None:
    facts = lab.facts()
    assert lab.kai_reason
    assert lab.kai_reason in facts.values()
    assert facts["scheduler"] == "default"
    assert not facts["kai_version"]


def test_pod_runs_on_the_default_scheduler(workloads: WorkloadNamespace) -> None:
    workloads.submit(cpu_pod("plain", scheduler=None))
    (pod,) = workloads.running("plain")
    assert workloads.event(pod, "Scheduled").reporter == DEFAULT_SCHEDULER


@pytest.mark.devices
@on_gpus()
def test_gpu_pod_runs_on_the_default_scheduler(workloads: WorkloadNamespace) -> None:
    workloads.submit(gpu_pod("whole", scheduler=None))
    (pod,) = workloads.running("whole")
    assert workloads.event(pod, "Scheduled").reporter == DEFAULT_SCHEDULER
    inside = workloads.look(pod)
    assert len(inside.gpus) == len(inside.visible) == 1

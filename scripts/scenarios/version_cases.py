"""Scenarios of certain versions of KAI, on a lab with one of them, and beside a tenant with its own KAI."""

from __future__ import annotations

from lab.workloads.modifiers import of_priority
from lab.workloads.pods import cpu_pod, gpu_pod
from scripts.scenarios.manifests import cpu, half, job, notes, one, over, queue
from scripts.scenarios.model import NO_KAI, Scenario

VERSIONS = (
    Scenario("queue-unknown-old", "queue.unknown", one(lambda s: cpu_pod("p", queue="s-nowhere")), kai="<0.13"),
    Scenario(
        "queue-levels",
        "queue.levels",
        one(lambda s: cpu_pod("p", queue="s-flat")),
        first=one(lambda s: over(queue("s-flat", s), {"spec": {"parentQueue": ""}})),
        kai="<0.13",
    ),
    Scenario("default-queue-old", "queue.no-default", one(lambda s: cpu_pod("p", queue=None)), kai="<0.10"),
    Scenario(
        "dotted-name",
        "admission.dotted-name",
        one(lambda s: over(job(half(s)), {"metadata": {"name": "p.q"}})),
        subject="p.q",
        kai="<0.16.5",
    ),
    Scenario(
        "preemption-delay",
        "queue.preemption-delay",
        one(
            lambda s: of_priority(
                notes(gpu_pod("p", gpus=s.gpus, queue=s.queue), **{"kai.scheduler/preemption-delay": "10m"}), "build"
            )
        ),
        first=lambda s: [gpu_pod(f"holder-{number}", gpus=s.gpus, queue=s.queue) for number in range(s.workers)],
        all_gpus=True,
        kai=">=0.17",
    ),
    Scenario("no-kai", "spec.kai-not-here", one(cpu), kai=NO_KAI),
    Scenario("not-opted-in", "tenant.not-opted-in", one(cpu), beside="own-kai"),
)

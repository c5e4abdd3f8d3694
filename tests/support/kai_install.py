"""KAI's installation over fakes: a chart, the manifests that Helm renders from it, and components that become ready."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lab.steps.kai.step import NAMESPACE, RELEASE
from lab.steps.kai.values import kai_deployments, release_values
from tests.support.api_requests import Call
from tests.support.builders import chart_file, ready_deployment, release_secret, running_pod
from tests.support.fakes import FakeRunner
from tests.support.lab_world import LabWorld
from tests.support.specs import lab_spec

CRD = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: {}\n"
RENDERED = """
apiVersion: v1
kind: ConfigMap
metadata: {name: kai-config-manifest}
data:
  kai-config.yaml: |
    apiVersion: kai.scheduler/v1
    kind: Config
    metadata: {name: kai-config}
    spec: {namespace: kai-scheduler}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: default-parent-queue}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: default-queue}
"""
POLICIES = "clusterpolicies.nvidia.com"
DENIED = (
    403,
    (
        'admission webhook "admission.kai-scheduler.svc" denied the'
        " request: gpu-fraction annotation value must be a positive number smaller than 1.0"
    ),
)


def kai_world(runner: FakeRunner, tmp_path: Path, **spec: Any) -> LabWorld:
    crds = {f"crds/{name}.yaml": CRD.format(name) for name in ("configs.kai.scheduler", "queues.scheduling.run.ai")}
    chart = chart_file(tmp_path / "kai.tgz", "kai-scheduler", {"Chart.yaml": "version: v0.16.8\n", **crds})
    return LabWorld(lab_spec(**spec), runner, tmp_path, kai_scheduler=chart)


def come_up(world: LabWorld) -> None:
    """Make all components run as soon as the code waits for them."""

    def start(_: Call) -> None:
        for name in kai_deployments(world.spec):
            world.api.add(running_pod(name, NAMESPACE, labels={"app": name}), ready_deployment(name, NAMESPACE))

    world.api.after("watch", "Pod", start)


def install(world: LabWorld) -> None:
    """Install KAI according to the lab file."""
    world.api.add(release_secret(RELEASE, NAMESPACE, release_values(world.spec), version=f"v{world.spec.kai.version}"))
    for name in kai_deployments(world.spec):
        world.api.add(ready_deployment(name, NAMESPACE))

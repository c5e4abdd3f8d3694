"""KAI's installation over fakes: a chart, the manifests that Helm renders from it, and components that become ready."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from lab.config import LabSpec
from lab.kai import line_of
from lab.steps.kai.step import NAMESPACE, RELEASE
from lab.steps.kai.values import kai_deployments, release_values
from tests.support.api_requests import Call
from tests.support.builders import chart_file, ready_deployment, release_secret, running_pod
from tests.support.explain_world import deployment
from tests.support.fake_api_server import FakeApiServer
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
BY_HELM = {"app.kubernetes.io/managed-by": "Helm"}
MANIFEST = """
apiVersion: v1
kind: ServiceAccount
metadata: {name: kai-operator, namespace: kai-scheduler}
---
# an empty document, as templates render them
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: kai-operator}
"""
"""Objects of the release, as Helm records them."""
NO_ARGS: Mapping[str, tuple[str, ...]] = MappingProxyType({})
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
    add_kai(world.api, world.spec)


def add_kai_of_others(
    api: FakeApiServer, version: str, *, down: tuple[str, ...] = (), args: Mapping[str, tuple[str, ...]] = NO_ARGS
) -> None:
    """Add the Deployments of a KAI that another Helm release installed.

    Those in ``down`` are not available; ``args`` are the options of Deployments by name.
    """
    notes = {"meta.helm.sh/release-name": "theirs", "meta.helm.sh/release-namespace": NAMESPACE}
    api.put("Namespace", NAMESPACE, metadata={"annotations": notes})
    for name in line_of(version).deployments:
        image = f"registry.kailab.dev/{name}:v{version}"
        doc = deployment(name, NAMESPACE, image, have=0 if name in down else 1, args=args.get(name, ()))
        doc["metadata"]["annotations"] = notes
        api.add(doc)


def add_kai(api: FakeApiServer, spec: LabSpec) -> None:
    """Add the objects of an installed KAI."""
    line, mine = line_of(spec.kai.version), {"labels": {"kailab": spec.name}}
    values = release_values(spec)
    api.add(release_secret(RELEASE, NAMESPACE, values, version=f"v{spec.kai.version}", manifest=MANIFEST))
    api.put("Namespace", NAMESPACE, metadata=mine)
    api.put("ServiceAccount", "kai-operator", NAMESPACE, metadata={"labels": BY_HELM})
    api.put("ClusterRole", "kai-operator", metadata={"labels": BY_HELM})
    for name in line.crds:
        api.put("CustomResourceDefinition", name, metadata=mine)
    for name in line.default_queues:
        api.put("Queue", name)
    if line.has_operator:
        api.put("Config", "kai-config", metadata=mine)
    for name in kai_deployments(spec):
        api.add(running_pod(name, NAMESPACE, labels={"app": name}), ready_deployment(name, NAMESPACE))

"""A tenant's virtual cluster over fakes: its release, and a control plane that becomes ready."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from lab.tenants.vcluster.values import release_values
from lab.tenants.virtual_cluster import VirtualCluster
from tests.support.api_requests import Call
from tests.support.builders import ready_deployment, release_secret, running_pod
from tests.support.fake_api_server import FakeApiServer
from tests.support.fakes import FakeRunner
from tests.support.lab_world import LabWorld
from tests.support.specs import EXISTING, PORT, lab_spec, tenant_spec

SPACE = "vcluster-team-a"
CONTROL = {"app": "vcluster", "release": "team-a"}
DNS = {"k8s-app": "vcluster-kube-dns"}


def tenant_world(runner: FakeRunner, tmp_path: Path, values: Mapping[str, Any] | None = None, **spec: Any) -> LabWorld:
    quota = {"gpus": 1} if spec.get("cluster") == EXISTING else {}
    tenants = [tenant_spec(values=values or {}, quota=quota).model_dump()]
    world = LabWorld(lab_spec(tenants=tenants, **spec), runner, tmp_path, vcluster=Path("/cache/vcluster.tgz"))
    world.ctx.journal.owns("port", "team-a", "cluster", host="41000", node="30440")
    world.api.put("Namespace", "kube-system", metadata={"uid": "host"})
    inside = world.tenants["team-a"] = FakeApiServer(log=world.log)
    inside.put("Namespace", "kube-system", metadata={"uid": "tenant"})
    inside.put("ServiceAccount", "default", "default")
    inside.add(running_pod("coredns", "kube-system", labels=DNS))
    return world


def step_of(world: LabWorld) -> VirtualCluster:
    return VirtualCluster(world.spec, world.spec.tenants[0])


def kubeconfig_secret(server: str) -> dict[str, Any]:
    text = yaml.safe_dump({"clusters": [{"cluster": {"server": server}}]})
    return {
        "kind": "Secret",
        "metadata": {"name": "vc-team-a", "namespace": SPACE},
        "data": {"config": base64.b64encode(text.encode()).decode()},
    }


def run_control_plane(world: LabWorld, server: str = "https://127.0.0.1:41000") -> None:
    """Make the control plane run and write its kubeconfig as soon as the code waits for it."""

    def start(_: Call) -> None:
        control_plane = running_pod("team-a-1", SPACE, labels=CONTROL)
        rolled_out = {**ready_deployment("team-a", SPACE), "kind": "StatefulSet", "apiVersion": "apps/v1"}
        world.api.add(control_plane, rolled_out, kubeconfig_secret(server))

    world.api.after("watch", "*", start)


def tenant_release(world: LabWorld, manifest: str = "") -> dict[str, Any]:
    values = release_values(world.spec, world.spec.tenants[0], PORT)
    return release_secret("team-a", SPACE, values, version="0.36.1", chart="vcluster", manifest=manifest)

"""A cluster with KAI on the host and in a tenant, with all isolation measures in place."""

from __future__ import annotations

from typing import Any

from lab.config import ClusterSpec, GpuSpec, LabSpec, TenantSpec
from lab.objects.isolation_labels import HOST_KAI, NODE_LABEL, OWN_KAI_LABEL
from lab.steps import admission_policy
from tests.support.explain_world import Scene, deployment, meta, node
from tests.support.fake_api_server import FakeApiServer
from tests.support.lab_world import LabWorld

SPACE = "vcluster-ml"
SPEC = LabSpec(
    scheduler="kai",
    cluster=ClusterSpec(workers=2),
    gpu=GpuSpec(mode="simulated"),
    tenants=(TenantSpec(name="ml", mode="own-kai", kai_version="0.16.8"),),
)
MINE = "kailab-demo-worker2"
SELECTING = ("--namespace-label-selector", "kailab.dev/kai=host")
DIVIDING = (f"--nodepool-label-key={NODE_LABEL}",)
IMAGE = "r/x:v0.16.8"

Json = dict[str, Any]


def webhook(name: str, resources: tuple[str, ...] = ("pods",), labels: Json | None = None) -> Json:
    chosen = {"matchLabels": HOST_KAI if labels is None else labels}
    hooks = [{"name": "h", "namespaceSelector": chosen, "rules": [{"resources": list(resources)}]}]
    kind = "MutatingWebhookConfiguration" if name.startswith("mut") else "ValidatingWebhookConfiguration"
    return {"kind": kind, "metadata": meta(name), "webhooks": hooks}


def space(name: str, **labels: str) -> Json:
    """A namespace of the lab."""
    return {"kind": "Namespace", "metadata": meta(name, labels={"kailab": "demo", **labels})}


def scene() -> Scene:
    """A cluster in which all three measures are in place."""
    made = Scene()
    made.add(deployment("pod-grouper", "kai-scheduler", IMAGE, args=SELECTING))
    made.add(deployment("kai-scheduler-default", "kai-scheduler", IMAGE, args=DIVIDING))
    made.add(webhook("mutating-kai-admission"), webhook("validating-kai-admission"))
    made.add(webhook("kai-queue-validation-v2", ("queues",), {}))
    made.add(space("default", **HOST_KAI), space(SPACE, **{OWN_KAI_LABEL: "true"}))
    made.add(node("kailab-demo-worker"))
    made.add(node(MINE, labels={NODE_LABEL: "ml"}, taints=(f"{NODE_LABEL}=ml:NoSchedule",)))
    return made.add(*admission_policy.documents("demo"))


def put(world: LabWorld, made: Scene) -> FakeApiServer:
    """Use this cluster as the lab's cluster."""
    world.api = FakeApiServer(*(obj for objs in made.objects.values() for obj in objs), log=world.log)
    return world.api

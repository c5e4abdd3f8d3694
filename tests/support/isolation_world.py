"""A cluster with KAI on the host and in a tenant, in which all measures between them are in place."""

from __future__ import annotations

from typing import Any

from lab.config import ClusterSpec, GpuSpec, LabSpec, TenantSpec
from lab.config.labels import HOST_KAI, NODE_LABEL, OWN_KAI_LABEL
from lab.errors import ApiFailed
from lab.kube.rest_mapper import RestMapper
from lab.tenants.isolation import admission_policy
from tests.support.cluster_fake import FakeCluster, World
from tests.support.explain_world import Scene, deployment, meta, node

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
    return {"kind": "Namespace", "metadata": meta(name, labels=labels)}


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


class Api(FakeCluster):
    """A cluster that can be read as a World, and that answers dry runs."""

    def __init__(self, made: Scene, log: list[str]) -> None:
        super().__init__(log)
        self.kinds = RestMapper(lambda path: None)
        self.dry_runs: list[ApiFailed | None] = []
        for kind, objs in made.objects.items():
            for obj in objs:
                self.objects[kind, obj["metadata"].get("namespace", ""), obj["metadata"]["name"]] = obj

    def collection(self, resource: Any, namespace: str | None, query: Json) -> tuple[list[Json], str]:
        return self.list(resource.kind), "1"

    def json(self, method: str, path: str, *, title: str, query: Json, body: Json) -> Json:
        assert (method, query) == ("POST", {"dryRun": "All"})
        self.log.append(f"dry run {path}")
        if self.dry_runs and (error := self.dry_runs.pop(0)) is not None:
            raise error
        return body

    def wait(self, *args: Any, hold: float = 0.0, **more: Any) -> list[Json]:  # type: ignore[override]
        return super().wait(*args, **more)


def put(world: World, made: Scene) -> Api:
    api = world.cluster = Api(made, world.log)
    return api

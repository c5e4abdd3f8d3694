"""A host with a tenant to be removed."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from lab.config import TenantSpec
from lab.tenants.removal.remove import remove_tenant
from lab.tenants.removal.timeline import Removal
from tests.support import builders
from tests.support.builders import ready_deployment, release_secret, running_pod
from tests.support.fakes import FakeRunner
from tests.support.lab_world import LabWorld
from tests.support.specs import lab_spec, tenant_spec

SPACE = "vcluster-team-a"
RESERVATIONS = "kai-resource-reservation"
BY_HELM = {"meta.helm.sh/release-name": "team-a", "meta.helm.sh/release-namespace": SPACE}
SINCE = "2026-01-01T00:00:00Z"

MANIFEST = f"""
apiVersion: v1
kind: Service
metadata:
  name: team-a
  namespace: {SPACE}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata:
  name: team-a-extra
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: vc-team-a-v-{SPACE}
---
apiVersion: example.com/v1
kind: Unknown
metadata:
  name: unknown
"""
"""Objects of the tenant's release, one of a kind that the server no longer has."""

Json = dict[str, Any]


def pod(
    name: str,
    namespace: str = SPACE,
    *,
    virtual: str = "",
    labels: dict[str, str] | None = None,
    grace: int | None = None,
    gpus: int = 0,
    node: str = "worker",
) -> Json:
    """A pod that is Ready; ``virtual`` is its ``namespace/name`` inside the tenant."""
    synced = {"vcluster.loft.sh/managed-by": SPACE.removeprefix("vcluster-")} if virtual else {}
    doc = running_pod(name, namespace, labels={**(labels or {}), **synced})
    space, _, inner = virtual.partition("/")
    notes = {"vcluster.loft.sh/object-name": inner, "vcluster.loft.sh/object-namespace": space} if virtual else {}
    doc["metadata"] |= {"uid": f"uid-{name}", "annotations": notes}
    doc["spec"] |= {"nodeName": node}
    doc["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": gpus}} if gpus else {}
    if grace is not None:
        doc["spec"]["terminationGracePeriodSeconds"] = grace
    doc["status"]["conditions"][0]["lastTransitionTime"] = SINCE
    return doc


def reservation(name: str, group: str, node: str = "worker") -> Json:
    """A reservation pod of the host's KAI."""
    labels = {"app": RESERVATIONS, "runai-gpu-group": group}
    return pod(name, RESERVATIONS, labels=labels, gpus=1, node=node)


def node(name: str, gpus: int = 2, tenant: str = "") -> Json:
    """A node, dedicated to ``tenant`` if one is given."""
    taints = [{"key": "kailab.dev/tenant", "value": tenant, "effect": "NoSchedule"}] if tenant else []
    labels = {"kubernetes.io/hostname": name}
    return builders.node(name, gpus=gpus, tenant=tenant, labels=labels, spec={"taints": taints})


class RemovalWorld(LabWorld):
    """A lab with the tenant ``team-a``, whose pods end only when they are deleted themselves."""

    def __init__(self, runner: FakeRunner, tmp: Path, tenant: TenantSpec, **spec: Any) -> None:
        super().__init__(lab_spec(tenants=[tenant.model_dump()], **spec), runner, tmp)
        self.tenant = tenant
        self.tenants[tenant.name] = self.api
        self.api.namespaces_end_pods = False
        self.ctx.journal.owns("port", "team-a", "tenant:team-a", host="41000", node="30440")

    def inhabit(self, *pods: Json) -> None:
        """Add the tenant with its control plane and these pods."""
        control = {"app": "vcluster", "release": "team-a"}
        self.api.put("Namespace", SPACE, metadata={"uid": "space", "labels": {"kailab": "demo"}})
        self.api.add(
            ready_deployment("team-a", SPACE), release_secret("team-a", SPACE, {}, version="0.36.1", manifest=MANIFEST)
        )
        for doc in (pod("team-a-0", labels=control, grace=15), *pods):
            self.api.add(doc)
        self.api.put("PriorityClass", "team-a-extra", metadata={"annotations": BY_HELM})
        for kind in ("ClusterRole", "ClusterRoleBinding"):
            self.api.put(kind, f"vc-team-a-v-{SPACE}", metadata={"annotations": BY_HELM})


WEB = "default/web"


def inhabited(runner: FakeRunner, folder: Path) -> RemovalWorld:
    """A tenant with one pod."""
    world = RemovalWorld(runner, folder, tenant_spec())
    world.inhabit(pod("web-x-default-x-team-a", virtual=WEB))
    return world


def remove(world: RemovalWorld, **options: Any) -> Removal:
    """Remove the tenant, with a clock that advances 0.5 s per call."""
    ticks = itertools.count(100.0, 0.5)
    return remove_tenant(world.ctx, world.tenant, clock=lambda: next(ticks), **options)

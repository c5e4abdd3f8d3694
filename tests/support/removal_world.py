"""A host on which a tenant lives and goes: pods end when they are deleted, a namespace when it is empty."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lab.config import TenantSpec
from lab.errors import WaitTimeout
from lab.kube.rest_mapper import RestMapper
from lab.tenants.removal.remove import remove_tenant
from lab.tenants.removal.timeline import Removal
from tests.support.cluster_fake import FakeCluster, World, ready_deployment, running_pod
from tests.support.fakes import FakeRunner
from tests.unit.steps.kai.test_values import lab
from tests.unit.tenants.vcluster.test_values import one

SPACE = "vcluster-team-a"
RESERVATIONS = "kai-resource-reservation"
SINCE = "2026-01-01T00:00:00Z"

Json = dict[str, Any]


class LivingCluster(FakeCluster):
    """A FakeCluster whose objects go by themselves, and whose waits wait. Thread-safe.

    ``stubborn`` names pods that only go by a deletion of their own; ``on_gone`` is called with the name of each pod
    that went, ``on_delete_all`` when a collection of pods was deleted, ``on_create`` for what was made. Waits give up
    after ``patience`` seconds, whatever their timeout.
    """

    def __init__(self, log: list[str]) -> None:
        super().__init__(log)
        self.changed = threading.Condition(threading.RLock())
        self.stubborn: set[str] = set()
        self.on_gone: Callable[[str], None] = lambda name: None
        self.on_delete_all: Callable[[], None] = lambda: None
        self.on_create: Callable[[Json], None] = lambda doc: None
        self.kinds = RestMapper(lambda path: None)
        self.timeouts: dict[str, float] = {}
        self.patience = 20.0

    def list(self, *args: Any, **options: Any) -> list[Json]:
        with self.changed:
            return super().list(*args, **options)

    def get(self, *args: Any, **options: Any) -> Json | None:
        with self.changed:
            return super().get(*args, **options)

    def have(self, doc: Json) -> None:
        """Have an object from now on."""
        meta = doc["metadata"]
        with self.changed:
            self.objects[doc["kind"], meta.get("namespace", ""), meta["name"]] = doc
            self.changed.notify_all()

    def create(self, doc: Json) -> None:
        super().create(doc)
        self.have({**doc, "status": {"phase": "Pending"}})
        self.on_create(doc)

    def delete(
        self, kind: str, name: str, namespace: str | None = None, grace: int | None = None, wait: float | None = None
    ) -> None:
        with self.changed:
            self.log.append(f"delete {kind} {name}" + ("" if grace is None else f" grace {grace}"))
            doc = self.get(kind, name, namespace)
            if doc is None:
                return
            self.stubborn.discard(name)
            doc["metadata"]["deletionTimestamp"] = "now"
            if kind == "Pod":
                doc["metadata"]["deletionGracePeriodSeconds"] = 30 if grace is None else grace
            self._reap()

    def delete_all(self, kind: str, namespace: str | None, labels: str | None = None, grace: int | None = None) -> None:
        with self.changed:
            where = f" in {namespace}" if namespace else f" with {labels}"
            self.log.append(f"delete all {kind}{where} grace {grace}")
            for doc in self.list(kind, namespace, labels):
                doc["metadata"]["deletionTimestamp"] = "now"
                doc["metadata"].setdefault("deletionGracePeriodSeconds", 30 if grace is None else grace)
            if kind == "Pod":
                self.on_delete_all()
            self._reap()

    def patch(self, kind: str, name: str, patch: Json, namespace: str | None = None) -> None:
        with self.changed:
            self.log.append(f"patch {kind} {name} {json.dumps(patch)}")
            doc = self.get(kind, name, namespace)
            if doc is not None:
                merge(doc, patch)

    def wait(
        self,
        kind: str,
        predicate: Callable[[list[Json]], bool],
        *,
        namespace: str | None = None,
        labels: str | None = None,
        fields: str | None = None,
        timeout: float,
        fail: Callable[[list[Json]], str | None] | None = None,
        what: str,
    ) -> list[Json]:
        end = time.monotonic() + self.patience
        with self.changed:
            self.waits.append(what)
            self.timeouts[what] = timeout
            while not predicate(seen := self.list(kind, namespace, labels, fields)):
                left = end - time.monotonic()
                if left <= 0:
                    raise WaitTimeout(f"{what}: not within {timeout:g} s")
                self.changed.wait(left)
            return seen

    def _reap(self) -> None:
        """Let go what is deleted and held by nothing."""

        def deleted(doc: Json) -> bool:
            return "deletionTimestamp" in doc["metadata"] and not doc["metadata"].get("finalizers")

        for (kind, space, name), doc in list(self.objects.items()):
            if kind != "Namespace" and deleted(doc) and name not in self.stubborn:
                self.objects.pop((kind, space, name), None)
                if kind == "Pod":
                    self.on_gone(name)
        for (kind, _, name), doc in list(self.objects.items()):
            if kind == "Namespace" and deleted(doc) and not self.list("Pod", name):
                for key in [key for key in self.objects if key[1] == name]:
                    del self.objects[key]
                del self.objects[kind, "", name]
        self.changed.notify_all()


def merge(doc: Json, patch: Json) -> None:
    """A JSON merge patch, in place."""
    for key, value in patch.items():
        if value is None:
            doc.pop(key, None)
        elif isinstance(value, dict):
            merge(doc.setdefault(key, {}), value)
        else:
            doc[key] = value


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
    """A node; ``tenant``: whose alone it is."""
    labels = {"kubernetes.io/hostname": name, **({"kailab.dev/tenant": tenant} if tenant else {})}
    taints = [{"key": "kailab.dev/tenant", "value": tenant, "effect": "NoSchedule"}] if tenant else []
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": taints},
        "status": {"allocatable": {"nvidia.com/gpu": str(gpus)}, "conditions": [{"type": "Ready", "status": "True"}]},
    }


class RemovalWorld(World):
    """A lab with the tenant ``team-a``, whose cluster is a LivingCluster."""

    def __init__(self, runner: FakeRunner, tmp: Path, tenant: TenantSpec, **spec: Any) -> None:
        super().__init__(lab(tenants=[tenant.model_dump()], **spec), runner, tmp)
        self.tenant = tenant
        self.host = LivingCluster(self.log)
        object.__setattr__(self.ctx, "open_cluster", lambda name: self.host)
        self.ctx.journal.owns("port", "team-a", "tenant:team-a", host="41000", node="30440")

    def inhabit(self, *pods: Json) -> None:
        """Have the tenant with its control plane and these pods."""
        control = {"app": "vcluster", "release": "team-a"}
        self.host.put("Namespace", SPACE, metadata={"uid": "space", "labels": {"kailab": "demo"}})
        self.host.have(ready_deployment("team-a", SPACE))
        for doc in (pod("team-a-0", labels=control, grace=15), *pods):
            self.host.have(doc)
        for kind in ("ClusterRole", "ClusterRoleBinding"):
            self.host.put(kind, f"vc-team-a-v-{SPACE}")


WEB = "default/web"


def inhabited(runner: FakeRunner, folder: Path) -> RemovalWorld:
    """A tenant with one pod."""
    world = RemovalWorld(runner, folder, one())
    world.inhabit(pod("web-x-default-x-team-a", virtual=WEB))
    return world


def helm(world: RemovalWorld) -> None:
    """Helm will be asked to uninstall the tenant."""
    world.helm("uninstall", "team-a", "--namespace", SPACE)


def remove(world: RemovalWorld, **options: Any) -> Removal:
    """Remove the tenant, by a clock that goes half a second a look."""
    ticks = itertools.count(100.0, 0.5)
    return remove_tenant(world.ctx, world.tenant, clock=lambda: next(ticks), **options)

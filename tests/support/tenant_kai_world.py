"""A lab with a tenant of its own KAI over fakes: Helm "installs" a version, and its components come up."""

from __future__ import annotations

import itertools
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from lab.config import LabSpec, TenantSpec
from lab.errors import ApiFailed
from lab.kai import line_of
from lab.steps.kai.step import NAMESPACE, RELEASE, RESERVATIONS
from lab.steps.kai.values import kai_deployments, release_values
from lab.steps.queues import queue_documents
from lab.tenants.upgrade.downtime_probe import NAME
from lab.tenants.upgrade.upgrade import Change, change_kai
from lab.tenants.vcluster.inner_lab import inside
from tests.support.cluster_fake import (
    FakeCluster,
    World,
    add_release,
    chart_file,
    ready_deployment,
    release_secret,
    running_pod,
)
from tests.support.fakes import FakeRunner
from tests.unit.steps.kai.test_step import CRD, DENIED
from tests.unit.steps.kai.test_values import lab

Json = dict[str, Any]


class _Objects(dict[tuple[str, str, str], Json]):
    """May be changed by one thread while another one goes through it."""

    def items(self) -> Any:
        return list(super().items())


class TenantFake(FakeCluster):
    """A tenant whose KAI comes up once Helm has installed it."""

    def __init__(self, log: list[str]) -> None:
        super().__init__(log)
        self.objects = _Objects()
        self.installed = threading.Event()
        self.spec: LabSpec | None = None
        self.first_refusals: list[ApiFailed] = []
        self.kinds = SimpleNamespace(named=lambda kind: SimpleNamespace(path=lambda space: f"/{kind}"))

    def json(self, verb: str, path: str, **_: Any) -> Json:
        """A dry run (``calls`` is this fake itself)."""
        if self.get("ValidatingAdmissionPolicyBinding", "kailab-kai-is-changed") is None:
            return {}
        raise ApiFailed("ValidatingAdmissionPolicy 'kailab-kai-is-changed' denied request", status=422)

    def list(self, kind: str, *args: Any, **kwargs: Any) -> list[Json]:
        return [doc for doc in super().list(kind, *args, **kwargs) if doc]

    def delete_all(self, kind: str, namespace: str, labels: str | None = None, grace: int | None = None) -> None:
        super().delete_all(kind, namespace, labels, grace)
        for doc in self.list(kind, namespace, labels):
            del self.objects[kind, namespace, doc["metadata"]["name"]]

    def create(self, doc: Json) -> None:
        if doc["metadata"]["name"] == NAME:
            if self.first_refusals:
                raise self.first_refusals.pop(0)
            self.objects["Pod", "default", NAME] = {"kind": "Pod", "metadata": dict(doc["metadata"]), "spec": {}}
            return
        raise DENIED

    def wait(self, kind: str, predicate: Any, **more: Any) -> list[Json]:
        hold = more.pop("hold", 0.0)
        if more["what"].startswith("the first pod"):
            assert self.installed.wait(10)
            first = running_pod(NAME, "default", labels={})
            self.objects["Pod", "default", NAME] = {**first, "spec": {"nodeName": "worker3"}}
        self.held = max(hold, getattr(self, "held", 0.0))
        return super().wait(kind, predicate, **more)

    def come_up(self, kind: str) -> None:
        if self.installed.is_set() and self.spec is not None:
            for name in kai_deployments(self.spec):
                self.objects["Pod", NAMESPACE, name] = running_pod(name, NAMESPACE, labels={"app": name})
                self.objects["Deployment", NAMESPACE, name] = ready_deployment(name, NAMESPACE)


def tenant_of(version: str, **more: Any) -> TenantSpec:
    return TenantSpec(name="ml", mode="own-kai", kubernetes="1.33.4", kai_version=version, **more)


class Bench:
    """A lab with a tenant in which a version of KAI and two pods run."""

    def __init__(self, runner: FakeRunner, tmp: Path, version: str) -> None:
        crds = {f"crds/{name}.yaml": CRD.format(name) for name in ("configs.kai.scheduler",)}
        chart = chart_file(tmp / "kai.tgz", "kai-scheduler", {"Chart.yaml": "version: v1\n", **crds})
        self.world = World(lab(scheduler="default", queues=[]), runner, tmp, kai_scheduler=chart)
        self.tenant = tenant_of(version)
        self.saved: list[TenantSpec] = []
        self.fake = self.world.tenants["ml"] = TenantFake(self.world.log)
        self.fake.before_wait = self.fake.come_up
        self.supply: Any = self.world.ctx.supply
        self.supply.choose = lambda items: {i: SimpleNamespace(item=i, available=True, why=(), fix="") for i in items}
        self.world.paths.tenant_kubeconfig("ml").write_text("")
        self.install(version)
        self.fake.put("Namespace", RESERVATIONS)
        meta = {"uid": "u-1", "labels": {}}
        self.fake.put("Pod", "work", "team", metadata=meta, spec={"nodeName": "worker3"}, status={"phase": "Running"})

    def install(self, version: str) -> None:
        """Have a version in the tenant, as it wants to be."""
        spec = inside(self.world.ctx, tenant_of(version)).spec
        add_release(self.fake, release_secret(RELEASE, NAMESPACE, release_values(spec), version=f"v{version}"))
        for name in kai_deployments(spec):
            self.fake.objects["Deployment", NAMESPACE, name] = ready_deployment(name, NAMESPACE)
            self.fake.objects["Pod", NAMESPACE, name] = running_pod(name, NAMESPACE, labels={"app": name})
        for crd in line_of(version).needs_crds:
            self.fake.put("CustomResourceDefinition", crd)
        self.fake.apply(queue_documents(spec))
        self.fake.log.clear()

    def helm_installs(self, version: str) -> None:
        def answer(call: Any) -> str:
            self.world.log.append("helm upgrade")
            for key in [key for key in self.fake.objects if key[0] == "Secret"]:
                del self.fake.objects[key]
            spec = inside(self.world.ctx, tenant_of(version)).spec
            add_release(self.fake, release_secret(RELEASE, NAMESPACE, release_values(spec), version=f"v{version}"))
            self.fake.spec = spec
            self.fake.put("SchedulingShard", "default")
            self.fake.installed.set()
            return ""

        self.world.runner.handle(["/cache/helm", "upgrade"], out=answer)

    def change(self, version: str, **more: Any) -> Change:
        return change_kai(self.world.ctx, self.tenant, version, save=self.saved.append, clock=_seconds(), **more)


def _seconds() -> Any:
    return itertools.count().__next__

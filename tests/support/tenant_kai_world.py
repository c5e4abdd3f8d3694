"""A lab with an own-kai tenant over fakes: Helm "installs" a version, and its components become ready."""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from lab.config import TenantSpec
from lab.kai import line_of
from lab.steps.kai.step import NAMESPACE, RESERVATIONS
from lab.steps.kai.upgrade.change import Change, change_kai
from lab.steps.kai.upgrade.downtime_probe import NAME
from lab.steps.kai.values import kai_deployments
from lab.steps.queues import queue_documents
from lab.tenants.kai_version import with_kai_version
from lab.tenants.vcluster.inner_lab import tenant_context
from lab.workloads.namespace import WorkloadNamespace
from tests.support.api_requests import Call
from tests.support.builders import chart_file, running_pod
from tests.support.fake_api_server import FakeApiServer
from tests.support.fakes import FakeRunner
from tests.support.kai_install import CRD, DENIED, add_kai
from tests.support.lab_world import LabWorld
from tests.support.specs import lab_spec

Json = dict[str, Any]

POLICY_DENIED = (
    403,
    "ValidatingAdmissionPolicy 'kailab-kai-is-changed' with binding 'kailab-kai-is-changed' denied request: changes",
)


TRIALS = "t-trial-1"
"""Namespace of the pods that measure the downtime."""


class Killed(Exception):
    """The process is dead."""


def tenant_of(version: str, **more: Any) -> TenantSpec:
    return TenantSpec(name="ml", mode="own-kai", kubernetes="1.33.4", kai_version=version, **more)


class Bench:
    """A lab with a tenant in which a version of KAI and two pods run."""

    def __init__(self, runner: FakeRunner, tmp: Path, version: str) -> None:
        crds = {f"crds/{name}.yaml": CRD.format(name) for name in ("configs.kai.scheduler",)}
        chart = chart_file(tmp / "kai.tgz", "kai-scheduler", {"Chart.yaml": "version: v1\n", **crds})
        self.world = LabWorld(lab_spec(scheduler="default", queues=[]), runner, tmp, kai_scheduler=chart)
        self.tenant = tenant_of(version)
        self.saved: list[TenantSpec] = []
        self.installed = False
        self.revived = True
        self.on_install: Callable[[], None] = lambda: None
        self.api = self.world.tenants["ml"] = FakeApiServer(log=self.world.log)
        self.api.react("create", "Pod", self._admit)
        self.api.after("create", "Pod", lambda _: self._run_probe())
        self.supply: Any = self.world.ctx.supply
        self.supply.choose = lambda items: {i: SimpleNamespace(item=i, available=True, why=(), fix="") for i in items}
        self.world.paths.tenant_kubeconfig("ml").write_text("")
        self.install(version)
        self.api.put("Namespace", RESERVATIONS)
        meta = {"uid": "u-1", "labels": {}}
        self.api.put("Pod", "work", "team", metadata=meta, spec={"nodeName": "worker3"}, status={"phase": "Running"})

    def _admit(self, call: Call) -> tuple[int, str] | None:
        """The policy that denies pods while KAI is changed, and KAI's webhooks."""
        if "dryRun" in call.query:
            return POLICY_DENIED if self._is_guarded() else None
        if call.name == NAME or "gpu-fraction" not in call.body["metadata"].get("annotations", {}):
            return None
        return POLICY_DENIED if self._is_guarded() else DENIED

    def _is_guarded(self) -> bool:
        return self.api.get("ValidatingAdmissionPolicyBinding", "kailab-kai-is-changed") is not None

    def kill_at(self, write: int) -> None:
        """Kill the process at this write of its own to the tenant's API; what it then still does has no effect."""
        writes = itertools.count(1)
        killed = threading.Event()

        def die(call: Call) -> None:
            if call.verb in ("get", "list", "watch") or "dryRun" in call.query:
                return
            if next(writes) == write:
                killed.set()
            if killed.is_set() and not self.revived:
                raise Killed(call.line)

        self.api.react("*", "*", die)
        self.revived = False

    def _run_probe(self) -> None:
        if self.installed and self.api.get("Pod", NAME, TRIALS):
            self.api.add(placed(running_pod(NAME, TRIALS, labels={})))

    def install(self, version: str) -> None:
        """Put a version into the tenant, fully installed."""
        spec = tenant_context(self.world.ctx, tenant_of(version)).spec
        add_kai(self.api, spec)
        for name in kai_deployments(spec):
            self.api.add(running_pod(name, NAMESPACE, labels={"app": name}))
        for crd in line_of(version).needs_crds:
            self.api.put("CustomResourceDefinition", crd)
        self.api.add(*queue_documents(spec))

    def helm_installs(self, version: str) -> None:
        """Declare Helm's installations: of this version, or of a later ``helm_version``; components become ready."""
        self.helm_version = version

        def answer(call: Any) -> str:
            self.world.log.append("helm upgrade")
            self.api.remove("Secret")
            self.install(self.helm_version)
            self.api.put("SchedulingShard", "default")
            self.installed = True
            self._run_probe()
            self.on_install()
            return ""

        self.world.runner.handle(["/cache/helm", "upgrade"], out=answer)

    def change(self, version: str, **more: Any) -> Change:
        tenant = with_kai_version(self.tenant, version)
        ctx = tenant_context(self.world.ctx, tenant)
        save = functools.partial(self.saved.append, tenant)
        self.api.remove("Pod", NAME, TRIALS)  # of a killed change: the caller removes such namespaces first
        space = WorkloadNamespace("demo", self.world.api.cluster, self.api.cluster, TRIALS, "ml")
        return change_kai(ctx, tenant="ml", save=save, space=space, clock=_seconds(), **more)


def placed(pod: Json) -> Json:
    """Return the pod, bound to the node."""
    return {**pod, "spec": {**pod["spec"], "nodeName": "worker3"}}


def _seconds() -> Any:
    return itertools.count().__next__

"""The measured tenant: how it is created and filled, and the commands of both sides."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.config import TenantSpec
from lab.config.added_tenants import tenant_request
from lab.operations.tenant.add import add
from lab.operations.tenant.remove import remove
from lab.operations.tenant.status import find
from lab.session.lab import Lab
from lab.steps.kai.upgrade.change import change_kai
from lab.steps.kai.values import kai_values
from lab.steps.loaded_images import LoadedImages
from lab.tenants.kai_version import with_kai_version
from lab.tenants.vcluster.inner_lab import inner_spec, tenant_context
from lab.workloads.namespace import WorkloadNamespace
from lab.workloads.pods import cpu_pod, fraction_pod, gpu_pod
from scripts.bench.commands import ROOT, timed
from scripts.bench.sides import hook_images
from scripts.bench.up import plain_env

PLAIN = ROOT / "scripts" / "bench" / "tenants_plain.sh"
PODS = 12
"""Pods in the tenant when it is removed."""

_SLEEP = ["sleep", "infinity"]
"""As PID 1 it ignores SIGTERM and uses its whole grace period."""

Json = dict[str, Any]


@dataclass
class Subject:
    """The tenant under test in a running lab."""

    lab: Lab
    work: Path
    mode: str
    kai: str = ""
    """KAI in the tenant, with own-kai."""
    name: str = "bench"
    _tenant: TenantSpec | None = field(default=None)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def tenant(self) -> TenantSpec:
        """The current settings of the tenant."""
        assert self._tenant is not None, "call add first"
        return self._tenant

    def add(self) -> float:
        """Add the tenant and approve its effects on others; returns seconds until it was Ready.

        Uses new connections: earlier ones have the CA of the removed tenant.
        """
        self.lab.session.close()
        self.lab = Lab.attach(self.lab.spec.name)
        asked = {"mode": self.mode, "kaiVersion": self.kai}
        began = time.monotonic()
        self._tenant = add(
            self.lab, tenant_request(self.name, {k: v for k, v in asked.items() if v}), lambda _: True
        ).tenant
        return time.monotonic() - began

    def remove(self) -> None:
        """Side A of the removal; also cleans up after side B."""
        remove(self.lab, self.name, ask=lambda _: True)

    def remove_plain(self) -> None:
        """Side B of the removal."""
        self._typed(["removal", self.name], self.lab.paths.kubeconfig)

    def change(self, version: str) -> None:
        """Side A of a change of version; its own checks afterwards count only for the time of the command."""
        tenant = with_kai_version(self.tenant, version)
        change_kai(tenant_context(self.lab.context(f"kai:{self.name}"), tenant), tenant=self.name)
        self._tenant = tenant

    def change_plain(self, version: str) -> None:
        """Side B of a rollback, with the chart's own hooks and the same values."""
        tenant = with_kai_version(self.tenant, version)
        values = self.work / "kai.json"
        values.write_text(json.dumps(kai_values(inner_spec(self.lab.spec, tenant))))
        chart = self.lab.session.supply.chart("kai-scheduler", version)
        self._typed(["rollback", str(chart), str(values)], self.lab.paths.tenant_kubeconfig(self.name))
        self._tenant = tenant

    def load_hook_images(self, *versions: str) -> None:
        """Load the images of the charts' hook Jobs, which only side B runs, into the nodes; not measured."""
        for version in versions:
            spec = inner_spec(self.lab.spec, with_kai_version(self.tenant, version))
            LoadedImages(self.name, hook_images(spec)).apply(self.lab.context(f"images:{self.name}"))

    def fill(self, pods: Sequence[Json]) -> WorkloadNamespace:
        """Run pods in a namespace inside the tenant."""
        find(self.lab.spec, self.name)
        host, inside = self.lab.cluster, self.lab.session.cluster(self.name)
        place = WorkloadNamespace.open(self.lab.spec.name, host, "bench", tenant=self.name, cluster=inside)
        place.submit(*pods)
        place.running(*(pod["metadata"]["name"] for pod in pods), timeout=300)
        return place

    def ordinary_pods(self) -> list[Json]:
        """Twelve pods with the default grace period; every second one ignores SIGTERM, and three have GPUs."""
        pods = self.gpu_pods()
        pods += [self._cpu(f"cpu-{number}") for number in range(PODS - len(pods))]
        for number, pod in enumerate(pods):
            del pod["spec"]["terminationGracePeriodSeconds"]
            if number % 2:
                pod["spec"]["containers"][0]["command"] = _SLEEP
        return pods

    def gpu_pods(self) -> list[Json]:
        """Two fractions and a whole GPU with KAI, a whole GPU without, none in a lab without GPUs."""
        if self.lab.gpu_mode == "none":
            return []
        if not self._by_kai:
            return [gpu_pod("whole", scheduler=None)]
        halves = [fraction_pod(name, fraction=0.5, queue=self._queue) for name in ("half-a", "half-b")]
        return [*halves, gpu_pod("whole", queue=self._queue)]

    def running_pods(self) -> list[Json]:
        """Pods that run through a rollback: a CPU pod and two fractions, which leave GPUs for the test pods."""
        shares = [fraction_pod(f"stays-{n}", fraction=0.25, queue=self._queue) for n in range(2)]
        return [self._cpu("stays-cpu"), *(shares if self.lab.gpu_mode != "none" else [])]

    def test_pods(self) -> list[Json]:
        """Pods created after a change of KAI: four pods of all kinds.

        Their names are new: KAI schedules no pod while the BindRequest of an earlier pod of that name exists, and the
        garbage collector may need half a minute to delete it when the CRDs have changed (seen with 0.16.8).
        """
        number = next(self._numbers)
        if self.lab.gpu_mode == "none":
            return [self._cpu(f"new-{number}-cpu-{n}") for n in range(4)]
        shares = [fraction_pod(f"new-{number}-share-{n}", fraction=0.25, queue=self._queue) for n in range(2)]
        return [self._cpu(f"new-{number}-cpu"), *shares, gpu_pod(f"new-{number}-whole", queue=self._queue)]

    def _cpu(self, name: str) -> Json:
        return cpu_pod(name, queue=self._queue) if self._by_kai else cpu_pod(name, scheduler=None)

    @property
    def _by_kai(self) -> bool:
        return self.tenant.mode == "own-kai" or (self.tenant.mode == "host-kai" and self.lab.has_kai)

    @property
    def _queue(self) -> str:
        spec = inner_spec(self.lab.spec, self.tenant) if self.tenant.mode == "own-kai" else self.lab.spec
        return next(iter(spec.leaf_queues), "test")

    def _typed(self, words: list[str], kubeconfig: Path) -> None:
        tools = {"HELM": str(self.lab.tool("helm")), "KUBECTL": str(self.lab.tool("kubectl"))}
        env = {**plain_env(self.work), **tools, "KUBECONFIG": str(kubeconfig)}
        timed(["bash", PLAIN, *words], self.work / "plain.log", env)

"""A tenant's own KAI, for tests: ``kai_components`` works on it as on a lab's KAI, and tests repair it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lab.config import LabSpec, TenantSpec
from lab.engine.step import State
from lab.gpu.pools import RUNTIME_CLASS
from lab.kai import line_of
from lab.objects.isolation_labels import tenant_namespace
from lab.session.context import LabContext
from lab.session.lab import Lab
from lab.steps.kai import Kai
from lab.steps.queues import Queues
from lab.tenants.vcluster.inner_lab import inner_spec, tenant_context
from lab.tenants.virtual_cluster import VirtualCluster
from lab.workloads.namespace import WorkloadNamespace
from lab.workloads.pods import cpu_pod

from ..scheduling_decisions import WAIT


class OwnKai:
    """The KAI of an own-kai tenant.

    It has the attributes of a lab that ``kai_components`` uses, for the inside of the tenant: ``cluster``, ``spec``,
    ``kai_version`` and ``context``.
    """

    def __init__(self, lab: Lab, tenant: TenantSpec) -> None:
        self.lab = lab
        self.tenant = tenant
        self.cluster = lab.tenant(tenant.name)
        self.spec: LabSpec = inner_spec(lab.spec, tenant)
        self.kai_version = self.spec.kai.version

    @property
    def namespace(self) -> str:
        """The tenant's namespace on the host."""
        return tenant_namespace(self.tenant.name)

    @property
    def control_plane(self) -> str:
        """Label selector of the tenant's control-plane pod on the host."""
        return f"app=vcluster,release={self.tenant.name}"

    @property
    def queue(self) -> str:
        """A leaf queue of the tenant."""
        return self.spec.leaf_queues[0]

    def context(self, step: str) -> LabContext:
        """Return the context of a step that works inside the tenant."""
        return tenant_context(self.lab.context(step), self.tenant)

    def repair(self, new_workloads: Callable[[str], WorkloadNamespace]) -> None:
        """Repair the tenant with its steps of ``kailab up``, and verify that its KAI schedules a pod.

        A control plane without a volume starts empty after its pod was deleted: then KAI and queues are created again
        too. Raises LabError.

        Args:
            new_workloads: creates a workload namespace in the tenant; called when its API answers again.
        """
        vcluster = VirtualCluster(self.lab.spec, self.tenant)
        ctx = self.lab.context(vcluster.id)
        vcluster.apply(ctx)
        vcluster.verify(ctx)
        for step in (Kai(self.spec), Queues(self.spec)):
            within = self.context(step.id)
            if step.observe(within).state is not State.READY:
                step.apply(within)
            step.verify(within)
        workloads = new_workloads(self.tenant.name)
        workloads.submit(cpu_pod("proof", queue=self.queue))
        workloads.running("proof", timeout=WAIT)


def with_class(pod: dict[str, Any], version: str) -> dict[str, Any]:
    """Return a fraction pod with the RuntimeClass, if this version of KAI does not set it.

    Before 0.9.7 KAI's admission sets none: ``workload_class_pods`` of the version line.
    """
    if line_of(version).workload_class_pods != "none":
        return pod
    return {**pod, "spec": {**pod["spec"], "runtimeClassName": RUNTIME_CLASS}}

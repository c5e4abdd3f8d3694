"""A tenant's own KAI in the hands of a test: seen as ``kai_components`` sees a lab's KAI, and mended after a fire."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lab.config import LabSpec, TenantSpec
from lab.config.labels import tenant_namespace
from lab.engine.step import State
from lab.gpu.pools import RUNTIME_CLASS
from lab.kai import line_of
from lab.session.context import LabContext
from lab.session.lab import Lab
from lab.steps.kai import Kai
from lab.steps.queues import Queues
from lab.tenants.vcluster.inner_lab import inner_spec, tenant_context
from lab.tenants.virtual_cluster import VirtualCluster
from lab.workloads.namespace import WorkloadNamespace
from lab.workloads.pods import cpu_pod
from tests.e2e.scheduling_decisions import WAIT


class OwnKai:
    """The KAI of an own-kai tenant.

    It has what ``kai_components`` asks of a lab, as it is inside the tenant: ``cluster``, ``spec``, ``kai_version`` and
    ``context``.
    """

    def __init__(self, lab: Lab, tenant: TenantSpec) -> None:
        self.lab = lab
        self.tenant = tenant
        self.cluster = lab.tenant(tenant.name)
        self.spec: LabSpec = inner_spec(lab.spec, tenant)
        self.kai_version = self.spec.kai.version

    @property
    def namespace(self) -> str:
        """Where all of the tenant lives on the host."""
        return tenant_namespace(self.tenant.name)

    @property
    def control_plane(self) -> str:
        """Label selector of the tenant's control-plane pod on the host."""
        return f"app=vcluster,release={self.tenant.name}"

    @property
    def queue(self) -> str:
        """A queue of the tenant that takes workloads."""
        return self.spec.leaf_queues[0]

    def context(self, step: str) -> LabContext:
        """What a step gets that works inside the tenant."""
        return tenant_context(self.lab.context(step), self.tenant)

    def mend(self, new_place: Callable[[str], WorkloadNamespace]) -> None:
        """Make the tenant whole by its own steps, those of ``lab up``, and prove that its KAI schedules again.

        A control plane whose pod was deleted begins anew without a volume of its own: then KAI and queues are made
        again too. Raises LabError.

        Args:
            new_place: creates a workload namespace in the tenant; called once its API answers again.
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
        workloads = new_place(self.tenant.name)
        workloads.submit(cpu_pod("proof", queue=self.queue))
        workloads.running("proof", timeout=WAIT)


def with_class(pod: dict[str, Any], version: str) -> dict[str, Any]:
    """A pod with a part of a GPU, in the RuntimeClass that KAI of this version does not put on it by itself.

    (Before 0.9.7 its admission sets none: ``workload_class_pods`` of the line.)
    """
    if line_of(version).workload_class_pods != "none":
        return pod
    return {**pod, "spec": {**pod["spec"], "runtimeClassName": RUNTIME_CLASS}}

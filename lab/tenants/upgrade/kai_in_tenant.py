"""Step ``kai:NAME``: the KAI of a tenant, also after a change of its version that was killed."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from lab.engine.step import Observed
from lab.kube import Cluster
from lab.session.context import LabContext
from lab.steps import helm_release
from lab.steps.kai.step import NAMESPACE, RELEASE, Kai
from lab.tenants.upgrade import admission_gate, downtime_probe
from lab.tenants.upgrade.admission_bridge import BRIDGE
from lab.tenants.upgrade.uninstall import REINSTALL, installed_line, stop_kai, strategy
from lab.tenants.vcluster.inner_lab import StepInTenant, tenant_context

_HELPERS = ((BRIDGE, NAMESPACE), (downtime_probe.NAME, downtime_probe.NAMESPACE))
"""Pods of a change, which deletes them at its end."""


def helpers(cluster: Cluster) -> list[tuple[str, str]]:
    """Names and namespaces of the pods of a change that exist; without one running, a killed one has left them."""
    return [key for key in _HELPERS if cluster.get("Pod", *key) is not None]


def delete_helpers(cluster: Cluster) -> None:
    """Delete these pods."""
    for name, namespace in helpers(cluster):
        cluster.delete("Pod", name, namespace, grace=1)


@dataclass(frozen=True)
class KaiInTenant(StepInTenant):
    """KAI in a tenant. ``lab up`` also finishes what a killed upgrade or rollback began."""

    def observe(self, ctx: LabContext) -> Observed:
        seen = super().observe(ctx)
        if not ctx.paths.tenant_kubeconfig(self.tenant.name).exists():
            return seen
        cluster = tenant_context(ctx, self.tenant).cluster()
        left = [f"pod {namespace}/{name}" for name, namespace in helpers(cluster)]
        left += [f"admission policy {admission_gate.NAME}"] if admission_gate.is_left(cluster) else []
        return Observed.drifted("a change of its KAI has not finished", (*left, *seen.diff)) if left else seen

    def apply(self, ctx: LabContext) -> None:
        """Install KAI; one that Helm cannot upgrade, or that a killed change has left, is stopped first."""
        inner = tenant_context(ctx, self.tenant)
        cluster, kai = inner.cluster(), Kai(inner.spec)
        release, how = helm_release.installed(cluster, RELEASE, NAMESPACE), strategy(installed_line(cluster), kai.line)
        other = release is not None and release.chart_version.removeprefix("v") != kai.line.version
        with contextlib.ExitStack() as gate:
            if admission_gate.is_left(cluster) or (other and how == REINSTALL):
                gate.enter_context(admission_gate.fail_closed(cluster, ctx.spec.name))
                stop_kai(inner, how)
            kai.apply(inner)
        delete_helpers(cluster)

"""The scheduler of a tenant, read from the cluster: its KAI may have been upgraded since the lab file."""

from __future__ import annotations

from dataclasses import dataclass

from lab.compare.model import Letter, Side
from lab.errors import LabError
from lab.kai import VersionLine, line_of
from lab.lint import LintContext
from lab.lint.context import lint_context
from lab.objects.isolation_labels import NODE_LABEL
from lab.objects.views import NodeView
from lab.operations.tenant.status import find
from lab.session.lab import Lab
from lab.snapshot.cluster_snapshot import take
from lab.snapshot.kai_installation import installation
from lab.tenants.vcluster.inner_lab import inner_spec

DEFAULT_SCHEDULER = "default-scheduler"

_READ_SECONDS = 30.0


@dataclass(frozen=True)
class Target:
    """A tenant in which a workload runs."""

    side: Side
    line: VersionLine | None
    """Version line of its KAI; None with the default scheduler."""
    scheduler_name: str
    """spec.schedulerName of its pods."""
    setting: LintContext
    queues: tuple[str, ...]
    """Its leaf queues; empty without KAI."""

    @property
    def tenant(self) -> str:
        return self.side.tenant

    @property
    def by_host(self) -> bool:
        """Whether the host's KAI schedules its pods, and writes on the synced pods."""
        return self.side.mode == "host-kai"


def target_of(lab: Lab, letter: Letter, name: str) -> Target:
    """The tenant of that name with its current scheduler.

    Raises NoLab for an unknown tenant, LabError if its KAI is not found, and ApiFailed.
    """
    tenant = find(lab.spec, name)
    nodes = tuple(
        sorted(node.name for node in map(NodeView.of, lab.cluster.list("Node")) if node.labels.get(NODE_LABEL) == name)
    )
    if tenant.mode == "default" or (tenant.mode == "host-kai" and lab.spec.scheduler != "kai"):
        side = Side(letter, name, tenant.mode, "the default scheduler", "", tenant.kubernetes, nodes)
        return Target(side, None, DEFAULT_SCHEDULER, LintContext(line_of(lab.spec.kai.version)), ())
    inside = tenant.mode == "own-kai"
    spec = inner_spec(lab.spec, tenant) if inside else lab.spec
    where = "in the tenant" if inside else "of the host"
    cluster = lab.tenant(name) if inside else lab.cluster
    found = installation(take(cluster, kinds=("Deployment", "Pod"), timeout=_READ_SECONDS))
    if found is None:
        raise LabError(f"tenant {name} ({tenant.mode}): no KAI found {where}", fix="kailab status")
    version = found.version or spec.kai.version
    line = line_of(version)
    side = Side(letter, name, tenant.mode, f"KAI {version} {where}", version, tenant.kubernetes, nodes)
    queues = spec.leaf_queues or line.default_queues[-1:]
    return Target(side, line, found.scheduler_name, lint_context(lab.spec, name, version), queues)

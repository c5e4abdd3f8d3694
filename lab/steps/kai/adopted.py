"""Step ``kai`` for ``kai.manage: adopt``: the KAI of an existing cluster runs, and nothing of it is changed."""

from __future__ import annotations

from dataclasses import dataclass

from lab.config import LabSpec
from lab.engine.step import Observed
from lab.errors import LabError
from lab.kube import Cluster
from lab.kube.ownership import owner_of
from lab.session.context import LabContext
from lab.session.step import LabStep
from lab.snapshot.cluster_snapshot import take
from lab.snapshot.kai_installation import BINDER, GROUPER, SCHEDULER, KaiInstallation, installation

_KINDS = ("Deployment", "Pod")
_NEEDED = (SCHEDULER, BINDER, GROUPER)


def find_kai(cluster: Cluster) -> KaiInstallation | None:
    """The KAI that a cluster has. Raises ApiFailed."""
    return installation(take(cluster, kinds=_KINDS))


@dataclass(frozen=True)
class AdoptedKai(LabStep):
    """The KAI that somebody else installed."""

    spec: LabSpec
    needs: tuple[str, ...] = ("network",)
    id: str = "kai"

    @property
    def title(self) -> str:
        return f"KAI Scheduler {self.spec.kai.version}, adopted"

    def wanted(self) -> object:
        return self.spec.kai.version

    def observe(self, ctx: LabContext) -> Observed:
        cluster = ctx.cluster()
        if problem := self._problem(found := find_kai(cluster)):
            return Observed.drifted(problem)
        space = cluster.get("Namespace", found.namespace) if found else None
        return Observed.ready(f"namespace {found.namespace} {owner_of(space)}" if found and space else "")

    def apply(self, ctx: LabContext) -> None:
        """Wait a while for its components; raise LabError: it is its owner's to repair."""
        cluster = ctx.cluster()
        if problem := cluster.poll(lambda: self._problem(find_kai(cluster)), until=lambda found: not found, timeout=60):
            raise LabError(
                f"the cluster's KAI cannot be used: {problem}",
                fix="ask who installed it to restore it, or install one with the lab: set kai.manage to install",
            )

    def _problem(self, found: KaiInstallation | None) -> str:
        """Why the KAI cannot be used; empty if it can."""
        if found is None:
            return "it is gone"
        if found.version != self.spec.kai.version:
            return f"version {found.version or 'unknown'} runs, and the lab was made for {self.spec.kai.version}"
        parts = found.components.items()
        down = [
            one.state()[0]
            for role, one in parts
            # its owner may have switched other components off
            if not one.up and (role in _NEEDED or (one.want and not one.missing))
        ]
        return "; ".join(down)

"""Step ``host-kai``: beside tenants with their own KAI, the host has no KAI that the lab did not install.

In a lab without KAI on the host a user can still install one, and the lab file does not show it. The lab cannot isolate
tenants from a KAI that it does not own: it would have to change its values. So it looks at the cluster, and refuses.
"""

from __future__ import annotations

from dataclasses import dataclass

from lab.config import LabSpec
from lab.engine.step import Observed
from lab.errors import StepFailed
from lab.session.context import LabContext
from lab.session.step import LabStep
from lab.snapshot.cluster_snapshot import take
from lab.snapshot.kai_installation import installation
from lab.tenants.isolation.checks import KINDS, missing_measures


@dataclass(frozen=True)
class NoForeignKai(LabStep):
    """No KAI of others runs on the host, or one that its owner has isolated from tenants with the same measures."""

    spec: LabSpec
    needs: tuple[str, ...] = ("network",)
    id: str = "host-kai"
    title: str = "No KAI of others on the host"

    def observe(self, ctx: LabContext) -> Observed:
        found, missing = self._found(ctx)
        if missing:
            return Observed.drifted(f"{found} is not the lab's, and tenants are not isolated from it", missing)
        return Observed.ready(f"{found}, isolated from tenants" if found else "none")

    def apply(self, ctx: LabContext) -> None:
        """Raise StepFailed for a KAI that the lab cannot isolate tenants from."""
        found, missing = self._found(ctx)
        if missing:
            names = ", ".join(tenant.name for tenant in self.spec.tenants if tenant.mode == "own-kai")
            namespace = found.rpartition(" ")[2]
            raise StepFailed(
                f"{found} is not the lab's: the lab cannot isolate tenants with a KAI of their own from it ({names})",
                evidence=missing,
                fix=f"uninstall that KAI (helm list -n {namespace}); for KAI on the host set scheduler: kai in the lab"
                " file, so that the lab installs and isolates it",
            )

    def _found(self, ctx: LabContext) -> tuple[str, tuple[str, ...]]:
        """The KAI on the host, and what isolation lacks; both empty without a KAI."""
        snapshot = take(ctx.cluster(), kinds=KINDS)
        kai = installation(snapshot)
        if kai is None:
            return "", ()
        title = f"KAI {kai.version or 'of unknown version'} in namespace {kai.namespace}"
        return title, tuple(str(missing) for missing in missing_measures(self.spec, snapshot))

"""The KAI of one cluster, which a rehearsal changes: the lab's own, or a tenant's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from lab.config import KaiSpec, TenantSpec
from lab.config.added_tenants import with_added
from lab.config.loader import check_rules
from lab.errors import LabError, SpecError
from lab.invariants import Scope
from lab.kai import release
from lab.kube import Cluster
from lab.kube.ownership import is_own, owner_of
from lab.operations.prepare import lint_warnings
from lab.operations.tenant.status import find
from lab.operations.verify import scopes_of_lab
from lab.session.context import LabContext
from lab.session.kai_changes import WantedKai
from lab.session.lab import Lab
from lab.steps.kai.release import NAMESPACE
from lab.steps.kai.upgrade.preflight import check_crds, check_kai_version
from lab.tenants.kai_version import with_kai_version
from lab.tenants.vcluster.inner_lab import tenant_context
from lab.workloads.namespace import WorkloadNamespace


@dataclass(frozen=True)
class ClusterKai(ABC):
    """The KAI of one cluster of a running lab."""

    lab: Lab
    tenant: str = ""
    """Empty: the lab's own cluster."""

    @property
    @abstractmethod
    def cluster(self) -> Cluster:
        """The cluster."""

    @property
    @abstractmethod
    def where(self) -> str:
        """The cluster in messages."""

    @property
    @abstractmethod
    def rollback(self) -> str:
        """The command that returns to the version before."""

    @abstractmethod
    def wanted(self) -> WantedKai:
        """The KAI that the lab wants there. Raises NoLab: there is no such tenant."""

    @abstractmethod
    def context(self, wanted: WantedKai) -> LabContext:
        """The context of the steps of this KAI."""

    @abstractmethod
    def check(self, wanted: WantedKai) -> None:
        """Check before any change whether the cluster can have this KAI. Raises SpecError, Unavailable."""

    @abstractmethod
    def save(self, wanted: WantedKai) -> None:
        """Save the wanted KAI in the lab's state. The caller holds the lab's lock."""

    def with_version(self, version: str) -> WantedKai:
        """The wanted KAI with another version. Raises NoLab; SpecError: invalid version."""
        now, number = self.wanted(), version.removeprefix("v")
        release(number)
        return replace(now, kai=now.kai.model_copy(update={"version": number}))

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """What the invariants watch."""
        return tuple(scope for scope in scopes_of_lab(self.lab) if scope.name == self.tenant)

    @contextmanager
    def namespace(self, slug: str) -> Iterator[WorkloadNamespace]:
        """A namespace that this KAI serves, for the block; 'kailab up' removes what is left of it."""
        space = WorkloadNamespace.open(
            self.lab.spec.name,
            self.lab.cluster,
            slug,
            tenant=self.tenant,
            cluster=self.cluster,
            labels={} if self.tenant else self.lab.kai_serves,
        ).on(self.lab.spec)
        try:
            yield space
        finally:
            with suppress(LabError):
                space.empty("Job")
            with suppress(LabError):
                space.cluster.delete("Namespace", space.namespace)


class HostKai(ClusterKai):
    """The lab's own KAI."""

    @property
    def cluster(self) -> Cluster:
        return self.lab.cluster

    @property
    def where(self) -> str:
        return f"lab {self.lab.spec.name}"

    @property
    def rollback(self) -> str:
        return "kailab kai rollback"

    def wanted(self) -> WantedKai:
        return WantedKai(self.lab.spec.kai)

    def context(self, wanted: WantedKai) -> LabContext:
        ctx = self.lab.context("kai")
        return replace(ctx, spec=ctx.spec.model_copy(update={"kai": wanted.kai}))

    def check(self, wanted: WantedKai) -> None:
        """As above. Raises also ManifestsRefused: the version refuses queues or values of the lab file."""
        name = self.lab.spec.name
        if not self.lab.has_kai:
            raise SpecError(f"lab {name} has no KAI: {self.lab.kai_reason}", fix="kailab up with scheduler: kai")
        space = self.cluster.get("Namespace", NAMESPACE)
        if space is not None and not is_own(space, name):
            raise SpecError(
                f"lab {name} did not install its KAI: namespace {NAMESPACE} {owner_of(space)}",
                fix="ask its owner for the upgrade; the lab changes only a KAI that it has installed",
            )
        session, ctx = self.lab.session, self.context(wanted)
        changed = with_added(session.asked.model_copy(update={"kai": wanted.kai}), session.added or ())
        check_rules(changed, f"lab {name} cannot have KAI {wanted.version}")
        check_kai_version(ctx, self.where)
        lint_warnings(ctx.spec)
        check_crds(ctx, self.where)

    def save(self, wanted: WantedKai) -> None:
        session = self.lab.session
        session.refresh()
        session.change_kai(wanted.kai)
        session.save()


class TenantKai(ClusterKai):
    """The KAI of a tenant of mode own-kai."""

    @property
    def cluster(self) -> Cluster:
        return self.lab.tenant(self.tenant)

    @property
    def where(self) -> str:
        return f"tenant {self.tenant}"

    @property
    def rollback(self) -> str:
        return f"kailab tenant rollback {self.tenant}"

    def wanted(self) -> WantedKai:
        tenant = find(self.lab.spec, self.tenant)
        version = str(tenant.kai_version or self.lab.spec.kai.version)
        kai = KaiSpec(version=version, gpu_sharing=tenant.gpu_sharing, values=tenant.kai_values)
        return WantedKai(kai, tenant.queues)

    def context(self, wanted: WantedKai) -> LabContext:
        return tenant_context(self.lab.context(f"kai:{self.tenant}"), self._tenant(wanted))

    def check(self, wanted: WantedKai) -> None:
        check_kai_version(self.context(wanted), self.where)

    def save(self, wanted: WantedKai) -> None:
        self.lab.session.refresh()
        self.lab.session.replace_tenant(self._tenant(wanted))
        self.lab.session.save()

    def _tenant(self, wanted: WantedKai) -> TenantSpec:
        """The tenant with this KAI. Raises SpecError: it has no KAI of its own."""
        settings = {"gpu_sharing": wanted.kai.gpu_sharing, "kai_values": wanted.kai.values, "queues": wanted.queues}
        return with_kai_version(find(self.lab.spec, self.tenant).model_copy(update=settings), wanted.version)

"""Step ``isolation``: what keeps the host's KAI and the KAIs of tenants apart is in place; see ``measures``."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

from lab.config import LabSpec
from lab.config.labels import HOST_KAI, HOST_KAI_LABEL
from lab.config.node_assignment import beside_host_kai
from lab.engine.step import Effect, Observed
from lab.errors import LabError, StepFailed
from lab.kai import VersionLine, line_of
from lab.kube import OWNER_LABEL, Cluster
from lab.session.context import LabContext
from lab.session.step import LabStep
from lab.snapshot.cluster_snapshot import ClusterSnapshot, take
from lab.steps.kai import binder_placeholders
from lab.tenants.isolation import admission_policy
from lab.tenants.isolation.checks import (
    KEEPS_OFF,
    KINDS,
    MEASURES,
    OPT_IN,
    OWN_KAI,
    MissingMeasure,
    missing_measures,
    tenant_spaces,
)

_DEFAULT = "default"
_SETTLE_SECONDS = 120.0
"""KAI's operator writes webhooks and Deployments anew after its Config has changed, and these start anew."""
_CLAIM = "namespace-label"


def isolation_steps(spec: LabSpec) -> list[Isolation]:
    """The step; none where only one KAI is in the cluster."""
    return [Isolation(spec)] if beside_host_kai(spec) else []


def look(cluster: Cluster) -> ClusterSnapshot:
    """What the measures are judged by, as it is now. Raises ApiFailed."""
    return take(cluster, kinds=KINDS)


@dataclass(frozen=True)
class Isolation(LabStep):
    """The measures between the KAI of the host and those of tenants."""

    spec: LabSpec
    needs: tuple[str, ...] = ("kai", "tenant-nodes")
    id: str = "isolation"
    title: str = "Host KAI apart from tenants' KAI"

    def wanted(self) -> object:
        return {tenant.name: tenant.mode for tenant in self.spec.tenants}

    @property
    def line(self) -> VersionLine:
        """The host's KAI."""
        return line_of(self.spec.kai.version)

    def effects(self) -> tuple[Effect, ...]:
        return (
            *(Effect("cluster", measure.how, "lab down") for measure in MEASURES),
            Effect(
                "cluster", f"label namespace {_DEFAULT} {HOST_KAI_LABEL}=host; label yours where KAI is to schedule"
            ),
        )

    def observe(self, ctx: LabContext) -> Observed:
        world = look(ctx.cluster())
        if (
            world.get(admission_policy.BINDING, admission_policy.NAME) is None
            and world.get(admission_policy.POLICY, admission_policy.NAME) is None
        ):
            return Observed.absent()
        found = [str(lack) for lack in missing_measures(self.spec, world)]
        if binder_placeholders.binder_is_stuck(world):
            found.append("the host's binder cannot start: tenants share GPUs, and it is kept from deleting their pods")
        if found:
            return Observed.drifted("the host's KAI and those of tenants are not kept apart", found)
        return Observed.ready(", ".join(measure.id for measure in MEASURES))

    def apply(self, ctx: LabContext) -> None:
        """See Step. What is in KAI's own values is the step ``kai``'s, what is on nodes ``tenant-nodes``'.

        Raises:
            LabError: the host's KAI is somebody else's.
            ApiFailed: the server refused.
            WaitTimeout: the host's binder does not start.
        """
        cluster = ctx.cluster()
        self._claim(ctx)
        cluster.apply(admission_policy.documents(self.spec.name))
        cluster.patch("Namespace", _DEFAULT, {"metadata": {"labels": dict(HOST_KAI)}})
        world = look(cluster)
        for name, labels in tenant_spaces(self.spec, world).items():
            if HOST_KAI_LABEL in labels or not OWN_KAI.items() <= labels.items():
                cluster.patch("Namespace", name, {"metadata": {"labels": {**OWN_KAI, HOST_KAI_LABEL: None}}})
        if binder_placeholders.binder_is_stuck(world):
            ctx.progress("starting the host's binder")
            binder_placeholders.start_binder(cluster, self.spec.name, self.line)

    def verify(self, ctx: LabContext) -> None:
        """Wait until all measures are seen on the cluster, and the policy is in force.

        Raises:
            StepFailed: one is missing; the evidence says which, and what happens without it.
        """
        cluster = ctx.cluster()
        missing = cluster.poll(
            lambda: self._missing(cluster), until=operator.not_, timeout=_SETTLE_SECONDS, interval=0.5
        )
        if missing:
            raise StepFailed(
                f"the host's KAI and those of tenants are not kept apart: {missing[0].what}",
                evidence=[str(lack) for lack in missing],
                fix=self._fix(cluster, missing[0]),
            )

    def undo(self, ctx: LabContext) -> None:
        cluster = ctx.cluster()
        admission_policy.take_away(cluster, self.spec.name)
        for owned in ctx.journal.owned(_CLAIM):
            if owned.step == self.id:
                cluster.patch("Namespace", owned.name, {"metadata": {"labels": {HOST_KAI_LABEL: None}}})
                ctx.journal.released(_CLAIM, owned.name)

    def _missing(self, cluster: Cluster) -> tuple[MissingMeasure, ...]:
        world = look(cluster)
        return missing_measures(self.spec, world) or tuple(
            MissingMeasure(KEEPS_OFF, f"{admission_policy.NAME} is not in force in namespace {name} yet")
            for name in tenant_spaces(self.spec, world)
            if not admission_policy.in_force(cluster, name)
        )

    def _fix(self, cluster: Cluster, lack: MissingMeasure) -> str:
        if lack.measure is OPT_IN:
            log = cluster.kubectl("logs", "-n", self.line.namespace, "deployment/kai-operator")
            return f"'lab up' again; if it stays so, see why KAI's operator does not follow its Config: {log}"
        return "'lab up' again"

    def _claim(self, ctx: LabContext) -> None:
        """In somebody else's cluster: refuse a KAI that is not the lab's, and write down what will be the lab's."""
        if self.spec.cluster.provider == "kind":
            return
        cluster = ctx.cluster()
        if _owner(cluster.get("Namespace", self.line.namespace)) != self.spec.name:
            raise LabError(
                "the KAI of this cluster is not the lab's: the lab cannot keep it off tenants with a KAI of their own",
                fix="use tenants of mode host-kai, or take scheduler: default in a cluster without KAI",
            )
        if HOST_KAI_LABEL not in _labels(cluster.get("Namespace", _DEFAULT)):
            ctx.journal.owns(_CLAIM, _DEFAULT, self.id)


def _labels(obj: dict[str, Any] | None) -> dict[str, str]:
    return dict((obj or {}).get("metadata", {}).get("labels") or {})


def _owner(obj: dict[str, Any] | None) -> str | None:
    return _labels(obj).get(OWNER_LABEL)

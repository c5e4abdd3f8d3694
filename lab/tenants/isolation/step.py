"""Step ``isolation``: the measures in ``checks`` are in place."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

from lab.config import LabSpec
from lab.engine.step import Effect, Observed
from lab.errors import LabError, StepFailed
from lab.kai import VersionLine, line_of
from lab.kube import OWNER_LABEL, Cluster
from lab.kube.access_review import Permission
from lab.kube.ownership import has_set_label, refuse_foreign
from lab.objects.fields import labels_of
from lab.objects.isolation_labels import HOST_KAI, HOST_KAI_LABEL
from lab.session.context import LabContext
from lab.session.step import LabStep
from lab.snapshot.cluster_snapshot import take
from lab.steps import admission_policy
from lab.steps.kai import binder_placeholders
from lab.tenants.isolation.checks import (
    DENY_HOST_KAI,
    KINDS,
    MEASURES,
    NAMESPACE_OPT_IN,
    OWN_KAI,
    MissingMeasure,
    missing_measures,
    own_kai_namespaces,
)

_DEFAULT = "default"
_SETTLE_SECONDS = 120.0
"""After a change of its Config, KAI's operator rewrites webhooks and Deployments, and their pods restart."""
_INCOMPLETE = "Isolation between the host's KAI and tenant KAIs is incomplete"


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
        """The version line of the host's KAI."""
        return line_of(self.spec.kai.version)

    def effects(self) -> tuple[Effect, ...]:
        label = f"label namespace {_DEFAULT} {HOST_KAI_LABEL}=host; label yours where KAI is to schedule"
        return (*(Effect("cluster", measure.how, "kailab down") for measure in MEASURES), Effect("cluster", label))

    def creates(self, ctx: LabContext) -> tuple[dict[str, Any], ...]:
        return tuple(admission_policy.documents(self.spec.name))

    def permissions(self) -> tuple[Permission, ...]:
        return (Permission("patch", "", "namespaces", name=_DEFAULT),)

    def observe(self, ctx: LabContext) -> Observed:
        snapshot = take(ctx.cluster(), kinds=KINDS)
        kinds = (admission_policy.BINDING, admission_policy.POLICY)
        if not any(snapshot.get(kind, admission_policy.NAME) for kind in kinds):
            return Observed.absent()
        found = [str(missing) for missing in missing_measures(self.spec, snapshot)]
        if binder_placeholders.binder_is_stuck(snapshot):
            found.append("the host's binder cannot start: the policy denies the deletion of tenants' fractional pods")
        if found:
            return Observed.drifted(_INCOMPLETE, found)
        return Observed.ready(", ".join(measure.id for measure in MEASURES))

    def apply(self, ctx: LabContext) -> None:
        """Apply policy and namespace labels; steps ``kai`` and ``tenant-nodes`` do the rest of the measures.

        Raises:
            LabError: the host's KAI, or a policy of that name, is not the lab's.
            ApiFailed: the server refused.
            WaitTimeout: the host's binder does not start.
        """
        cluster = ctx.cluster()
        self._refuse_kai_of_others(ctx)
        refuse_foreign(cluster, self.spec.name, documents := admission_policy.documents(self.spec.name))
        cluster.apply(documents)
        cluster.patch("Namespace", _DEFAULT, {"metadata": {"labels": dict(HOST_KAI)}})
        snapshot = take(cluster, kinds=KINDS)
        for name, labels in own_kai_namespaces(self.spec, snapshot).items():
            if HOST_KAI_LABEL in labels or not OWN_KAI.items() <= labels.items():
                cluster.patch("Namespace", name, {"metadata": {"labels": {**OWN_KAI, HOST_KAI_LABEL: None}}})
        if binder_placeholders.binder_is_stuck(snapshot):
            ctx.progress("starting the host's binder")
            binder_placeholders.start_binder(cluster, self.spec.name, self.line)

    def verify(self, ctx: LabContext) -> None:
        """Wait until all measures are in place and the policy is in force. Raises StepFailed with what is missing."""
        cluster = ctx.cluster()
        missing = cluster.poll(
            lambda: self._missing(cluster), until=operator.not_, timeout=_SETTLE_SECONDS, interval=0.5
        )
        if missing:
            fix = "run 'kailab up' again"
            if missing[0].measure is NAMESPACE_OPT_IN:
                log = cluster.kubectl("logs", "-n", self.line.namespace, "deployment/kai-operator")
                fix = f"{fix}; if it fails again, read why KAI's operator does not apply its Config: {log}"
            evidence = [str(one) for one in missing]
            raise StepFailed(f"{_INCOMPLETE}: {missing[0].what}", evidence=evidence, fix=fix)

    def undo(self, ctx: LabContext) -> None:
        cluster = ctx.cluster()
        admission_policy.delete(cluster, self.spec.name)
        space = cluster.get("Namespace", _DEFAULT)
        if space is not None and has_set_label(space, HOST_KAI_LABEL):
            cluster.patch("Namespace", _DEFAULT, {"metadata": {"labels": {HOST_KAI_LABEL: None}}})

    def _missing(self, cluster: Cluster) -> tuple[MissingMeasure, ...]:
        snapshot = take(cluster, kinds=KINDS)
        return missing_measures(self.spec, snapshot) or tuple(
            MissingMeasure(DENY_HOST_KAI, f"{admission_policy.NAME} is not in force in namespace {name} yet")
            for name in own_kai_namespaces(self.spec, snapshot)
            if not admission_policy.in_force(cluster, name)
        )

    def _refuse_kai_of_others(self, ctx: LabContext) -> None:
        """In an existing cluster, require that KAI is the lab's. Raises LabError."""
        if not self.spec.cluster.own and _labels(ctx.cluster(), self.line.namespace).get(OWNER_LABEL) != self.spec.name:
            raise LabError(
                "KAI in this cluster is not the lab's: the lab cannot isolate tenants with a KAI of their own from it",
                fix="use tenants of mode host-kai, or set scheduler: default in a cluster without KAI",
            )


def _labels(cluster: Cluster, namespace: str) -> dict[str, Any]:
    return labels_of((cluster.get("Namespace", namespace) or {}).get("metadata") or {})

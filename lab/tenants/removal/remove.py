"""Takes a tenant out of a cluster that stays: quickly, with nobody else disturbed, and with proof.

What eats the time of the usual commands is grace: a PID 1 without a handler ignores SIGTERM for its 30 s, and the
namespace controller, which looks 5 s after a deletion for the first time, then looks again only after half of the
longest grace (kubernetes 1.34, pkg/controller/namespace/namespace_controller.go). So the pods get a short grace, and
go while the namespace controller still waits; Helm runs beside both. The order that matters:

1. the syncer to 0, so that it makes no pod anew, and its pods with a short grace;
2. the namespace deleted: from here on nothing new can be born in it, and its 5 s count;
3. its pods once more: whatever was born in between or wants to stay longer.

Nothing that runs is forced, and no finalizer is stripped.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from lab.config import TenantSpec
from lab.config.labels import NODE_LABEL, tenant_namespace
from lab.errors import ApiFailed, CommandFailed, Interrupted, LabError, SpecError, WaitTimeout
from lab.kai.names import RESERVATION_APP
from lab.kube import OWNER_LABEL, Cluster
from lab.objects.synced import MANAGED_BY_LABEL
from lab.objects.views import PodView
from lab.session.context import LabContext
from lab.steps import helm_release
from lab.tenants.isolation.dedicated_nodes import unmark_nodes
from lab.tenants.removal import timeline as moment
from lab.tenants.removal.footprint import Footprint, disturbed, reserved
from lab.tenants.removal.gpu_release_check import GpuReleaseCheck
from lab.tenants.removal.leftovers import (
    MARKED,
    SYNCED_CLUSTER_WIDE,
    cluster_scope,
    in_cluster,
    journalled,
    marker,
    on_machine,
    role_names,
)
from lab.tenants.removal.stuck_namespace import hangs
from lab.tenants.removal.terminated_pods import let_go
from lab.tenants.removal.timeline import Removal, Stopwatch
from lab.tenants.upgrade import rollback_record
from lab.tenants.vcluster import access

DEADLINE = 60.0
"""Seconds after which a namespace that is still there counts as hanging."""

_HELM_SECONDS = 120.0
_QUICK = 3.0
"""Up to this grace pods are gone before the namespace controller looks for the first time."""

Json = dict[str, Any]


def remove_tenant(
    ctx: LabContext,
    tenant: TenantSpec,
    *,
    grace: float | None = 1.0,
    canary: bool = False,
    deadline: float = DEADLINE,
    clock: Callable[[], float] = time.monotonic,
) -> Removal:
    """Remove a tenant with everything it has on the host, and prove it. One that is gone already is success.

    Args:
        ctx: the lab.
        tenant: which.
        grace: seconds that its pods get to stop, at least 1; ``Removal.cut_grace`` names those that wanted more.
            None: each its own, and Services stay until the pods are gone.
        canary: prove by pods of the host that the tenant's GPUs are free.
        deadline: seconds until what does not go counts as hanging; each pod's own grace comes on top.
        clock: seconds, for the moments.

    Raises:
        SpecError: a grace below 1, which would be a forced deletion.
        LabError: the tenant's namespace is not this lab's.
        NamespaceHangs: the namespace does not go; the evidence says what holds it.
        WaitTimeout: a pod, or a reservation pod of the host's KAI, does not go.
        Interrupted: the run was cancelled.
    """
    if grace is not None and grace < 1:
        raise SpecError(
            f"tenant {tenant.name}: {grace:g} s of grace would be a forced deletion", fix="give 1 s or more"
        )
    if foreign(ctx, tenant.name):
        raise LabError(
            f"namespace {tenant_namespace(tenant.name)} was not made by lab {ctx.spec.name}",
            fix="name a tenant of this lab; 'lab tenant list' shows them",
        )
    return _Removing(ctx, tenant, None if grace is None else round(grace), canary, deadline, Stopwatch(clock)).run()


def foreign(ctx: LabContext, name: str) -> bool:
    """Whether the tenant's namespace is there and is not this lab's."""
    space = ctx.cluster().get("Namespace", tenant_namespace(name))
    labels = ((space or {}).get("metadata") or {}).get("labels") or {}
    return space is not None and labels.get(OWNER_LABEL) != ctx.spec.name


def forget(ctx: LabContext, name: str) -> None:
    """Take what this machine has of a tenant: its kubeconfig, its port, its entries in the journal."""
    access.give_back_port(ctx, name)
    ctx.tenant(name).close()
    ctx.paths.tenant_kubeconfig(name).unlink(missing_ok=True)
    rollback_record.forget(ctx.paths, name)
    for kind, thing in journalled(ctx, name):
        ctx.journal.released(kind, thing)


@dataclass
class _Removing:
    """One removal."""

    ctx: LabContext
    tenant: TenantSpec
    grace: int | None
    canary: bool
    deadline: float
    watch: Stopwatch
    cluster: Cluster = field(init=False)
    holding: Footprint = field(init=False)
    _asked: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.cluster = self.ctx.cluster()

    @property
    def space(self) -> str:
        return tenant_namespace(self.tenant.name)

    def run(self) -> Removal:
        name = self.tenant.name
        self.holding = Footprint.of(self.cluster.list("Pod"), self.space)
        there = self.cluster.get("Namespace", self.space)
        if there is not None:
            self._stop_syncer()
            uid = (there.get("metadata") or {}).get("uid")
            quick = self.grace is not None and self.grace <= _QUICK
            if quick:
                # Before anybody else deletes them with their own grace: the kubelet does not always take a shorter one.
                self.cluster.delete_all("Pod", self.space, grace=self.grace)
            else:
                self._pods()
            self.cluster.delete("Namespace", self.space)
            _at_once(lambda: self._namespace_gone(uid), *((self._pods,) if quick else ()), self._release)
        else:
            self._cluster_wide()
            unmark_nodes(self.cluster, self.tenant.name)
        forget(self.ctx, name)
        left = in_cluster(self.cluster, name, self.holding.groups)
        if not left or not cluster_scope(self.cluster, name):
            self.watch.note(moment.CLUSTER_CLEAN)
        harm = disturbed(self.holding.others, self.cluster.list("Pod"))
        if not harm:
            count = len(self.holding.others)
            self.watch.note(moment.HOST_UNDISTURBED, f"{count} other pods: same UIDs and restarts, Ready throughout")
        return Removal(
            tenant=name,
            moments=self.watch.moments,
            grace=self.grace,
            cut_grace=self.holding.cut(self.grace),
            left=(*left, *on_machine(self.ctx, name)),
            disturbed=harm,
        )

    def _stop_syncer(self) -> None:
        self.ctx.progress("stopping the syncer")
        for kind in ("Deployment", "StatefulSet"):
            if self.cluster.get(kind, self.tenant.name, self.space) is not None:
                self.cluster.patch(kind, self.tenant.name, {"spec": {"replicas": 0}}, self.space)

    def _namespace_gone(self, uid: str | None) -> None:
        try:
            self.cluster.wait(
                "Namespace",
                # one of the same name and another uid is a tenant that was made anew
                lambda found: all(doc["metadata"].get("uid") != uid for doc in found),
                fields=f"metadata.name={self.space}",
                timeout=self.deadline,
                what=f"namespace {self.space} is gone",
            )
        except WaitTimeout as error:
            raise hangs(self.cluster, self.space, self.deadline) from error
        self.watch.note(moment.NAMESPACE_GONE)

    def _pods(self) -> None:
        self.ctx.progress(f"deleting {self.holding.pods} pods")
        self.cluster.delete_all("Pod", self.space, grace=self.grace)
        longest = max(self.holding.graces.values(), default=0) if self.grace is None else self.grace
        with let_go(self.cluster, self.space):
            self.cluster.wait(
                "Pod",
                self._look_at_pods,
                namespace=self.space,
                timeout=self.deadline + longest,
                what=f"the pods of tenant {self.tenant.name} are gone",
            )
        self.watch.note(moment.PODS_GONE, f"{self.holding.pods} pods")
        unmark_nodes(self.cluster, self.tenant.name)
        self._gpus()

    def _look_at_pods(self, pods: list[Json]) -> bool:
        """Whether all are gone; those that came late, or would stay longer, are deleted as the others were."""
        if not any(self._is_control_plane(pod) and PodView.of(pod).ready for pod in pods):
            self.watch.note(moment.SCHEDULER_STOPPED)
        for pod in pods:
            meta = pod["metadata"]
            key = f"{meta.get('uid')} {meta.get('deletionGracePeriodSeconds')}"
            if self._stays(meta) and key not in self._asked:
                self._asked.add(key)
                self.cluster.delete("Pod", meta["name"], self.space, grace=self.grace)
        return not pods

    def _stays(self, meta: Json) -> bool:
        if "deletionTimestamp" not in meta:
            return True
        return self.grace is not None and (meta.get("deletionGracePeriodSeconds") or 0) > self.grace

    def _is_control_plane(self, pod: Json) -> bool:
        labels = pod["metadata"].get("labels") or {}
        return (labels.get("app"), labels.get("release")) == ("vcluster", self.tenant.name)

    def _gpus(self) -> None:
        """Wait until the host's KAI has taken its reservation pods away; then the proof, where it was asked for."""
        groups = self.holding.groups
        if groups:
            self.cluster.wait(
                "Pod",
                lambda pods: not reserved(pods, groups),
                namespace=RESERVATION_APP,
                timeout=self.deadline,
                what=f"KAI's reservation pods for tenant {self.tenant.name} are gone",
            )
        if not self.canary:
            return
        if not self.holding.gpus:
            self.watch.note(moment.GPUS_FREE, "the tenant held none")
            return
        proof = GpuReleaseCheck(self.cluster, self.ctx.spec, self.tenant, self.holding.gpus)
        try:
            self.watch.note(moment.GPUS_FREE, proof.prove(self.deadline))
        except (WaitTimeout, ApiFailed) as error:
            self.watch.note(moment.GPUS_FREE, error.what, reached=False)
        finally:
            proof.clear()

    def _release(self) -> None:
        """Helm for what the chart made cluster-wide, and after it what Helm does not know or did not get at.

        Helm's records are in the namespace that goes. Whatever its own words are, what counts is what is left.
        """
        try:
            helm_release.helm_for(self.ctx).uninstall(self.tenant.name, self.space, timeout=_HELM_SECONDS)
        except CommandFailed as error:
            self.ctx.notice(f"helm uninstall {self.tenant.name}: {(error.evidence or (error.what,))[-1]}", "info")
        self._cluster_wide()

    def _cluster_wide(self) -> None:
        name = self.tenant.name
        for kind in ("ClusterRoleBinding", "ClusterRole"):
            for role in role_names(name):
                self.cluster.delete(kind, role)
        for kind in SYNCED_CLUSTER_WIDE:
            self.cluster.delete_all(kind, None, labels=f"{MANAGED_BY_LABEL}={marker(name)}")
        for kind in MARKED:
            self.cluster.delete_all(kind, None, labels=f"{NODE_LABEL}={name}")


def _at_once(*parts: Callable[[], None]) -> None:
    """Do independent parts at the same time. All come to their end; the first part's error is the one told."""
    with ThreadPoolExecutor(len(parts)) as pool:
        running = [pool.submit(part) for part in parts]
    errors = [error for part in running if (error := part.exception()) is not None]
    if errors:
        raise next((error for error in errors if isinstance(error, Interrupted)), errors[0])

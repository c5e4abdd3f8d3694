"""Removes a tenant from a running cluster: quickly, without disturbing others, and with proof.

Most of the time of the usual commands is grace: a PID 1 without a handler ignores SIGTERM for its 30 s, and the
namespace controller, which first checks 5 s after a deletion, checks again only after half of the longest grace period
(kubernetes 1.34, pkg/controller/namespace/namespace_controller.go). So the pods get a short grace period and end while
the namespace controller still waits. Meanwhile the objects of the release are deleted, one request each: vCluster's
chart has no hooks, and a Helm process would take processor time from the pods that end. The order matters:

1. scale the syncer to 0, so that it recreates no pod, and delete its pods with a short grace period;
2. delete the namespace, with many pods 1 s later: from here on no object can be created in it, and its 5 s count;
3. delete its pods once more: those that were created in between or have a longer grace period;
4. when they are gone, change the namespace: if the first check came too early, the next one is 5 s later instead of 16.

No running pod is deleted by force, and no finalizer is stripped.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from lab.config import TenantSpec
from lab.engine.milestones import Stopwatch
from lab.errors import ApiFailed, Interrupted, LabError, SpecError, WaitTimeout
from lab.kai.names import RESERVATION_APP
from lab.kube import Cluster, ownership
from lab.kube.ownership import is_own, owner_of
from lab.objects.fields import labels_of
from lab.objects.isolation_labels import NODE_LABEL, tenant_namespace
from lab.objects.synced import MANAGED_BY_LABEL
from lab.objects.views import PodView
from lab.serialization import yaml_documents
from lab.session import kai_changes
from lab.session.context import LabContext
from lab.steps import helm_release
from lab.tenants.isolation.dedicated_nodes import unmark_nodes
from lab.tenants.removal import timeline
from lab.tenants.removal.footprint import Footprint, claimed_from, disturbed, reservation_pods
from lab.tenants.removal.gpu_release_check import GpuReleaseCheck
from lab.tenants.removal.leftovers import (
    MARKED,
    SYNCED_CLUSTER_WIDE,
    cluster_scope,
    in_cluster,
    journal_entries,
    marker,
    on_machine,
    own_roles,
)
from lab.tenants.removal.stuck_namespace import stuck_namespace
from lab.tenants.removal.terminated_pods import delete_terminated
from lab.tenants.removal.timeline import Removal
from lab.tenants.vcluster import access, existing_access
from lab.tools.helm import Release

DEADLINE = 60.0
"""Seconds after which a namespace that still exists counts as stuck."""

_QUICK = 3.0
"""With at most these seconds of grace, pods are gone before the namespace controller checks for the first time."""

_MANY = 8
_START_SECONDS = 1.0
"""Lead of more than ``_MANY`` pods over the namespace. On 2 cores, 22 of them took 5.4 s: a first check 5 s after the
namespace's deletion would come too early."""

_ENDED = "kailab.dev/pods-gone"
"""Annotation of a tenant's namespace whose pods have ended."""

Json = dict[str, Any]


def remove_tenant(
    ctx: LabContext,
    tenant: TenantSpec,
    *,
    grace: float | None = 1.0,
    check_gpus: bool = False,
    deadline: float = DEADLINE,
    clock: Callable[[], float] = time.monotonic,
) -> Removal:
    """Remove a tenant with everything it has on the host, and verify it. A tenant that is gone already is success.

    ``grace`` is the termination grace period of its pods in seconds, at least 1; None: each pod's own, and Services
    stay until the pods are gone. ``check_gpus`` verifies with host pods that the tenant's GPUs are free. After
    ``deadline`` seconds, with a pod's own grace period on top, a deletion counts as stuck.

    Raises:
        SpecError: a grace below 1 s, which would be a forced deletion.
        LabError: the tenant's namespace is not this lab's.
        StuckNamespace: the namespace stays in Terminating; the evidence says why.
        WaitTimeout: a pod, or a reservation pod of the host's KAI, stays.
        Interrupted: the run was cancelled.
    """
    if grace is not None and grace < 1:
        raise SpecError(
            f"tenant {tenant.name}: a grace period of {grace:g} s is a forced deletion",
            fix="set a grace period of at least 1 s",
        )
    if (space := foreign(ctx, tenant.name)) is not None:
        raise LabError(
            f"namespace {tenant_namespace(tenant.name)} is not of lab {ctx.spec.name}: it {owner_of(space)}",
            fix="name a tenant of this lab; 'kailab tenant list' shows them",
        )
    seconds = None if grace is None else round(grace)
    return _TenantRemoval(ctx, tenant, seconds, check_gpus, deadline, Stopwatch(clock, timeline.MEANING)).run()


def foreign(ctx: LabContext, name: str) -> Json | None:
    """The tenant's namespace, if it exists and is not this lab's."""
    space = ctx.cluster().get("Namespace", tenant_namespace(name))
    return space if space is not None and not is_own(space, ctx.spec.name) else None


def forget(ctx: LabContext, name: str) -> None:
    """Remove a tenant's kubeconfig, port or port-forward, rollback record and journal entries from this machine."""
    access.release_port(ctx, name)
    existing_access.end_port_forward(ctx, name)
    ctx.tenant(name).close()
    ctx.paths.tenant_kubeconfig(name).unlink(missing_ok=True)
    kai_changes.forget(ctx.paths, name)
    for kind, thing in journal_entries(ctx, name):
        ctx.journal.released(kind, thing)


@dataclass
class _TenantRemoval:
    """One removal."""

    ctx: LabContext
    tenant: TenantSpec
    grace: int | None
    check_gpus: bool
    deadline: float
    watch: Stopwatch
    footprint: Footprint = field(init=False)
    _deleted_again: set[str] = field(default_factory=set)

    @property
    def cluster(self) -> Cluster:
        return self.ctx.cluster()

    @property
    def space(self) -> str:
        return tenant_namespace(self.tenant.name)

    def run(self) -> Removal:
        name = self.tenant.name
        self.footprint = Footprint.of(self.cluster.list("Pod"), self.space, self.cluster.list("PersistentVolume"))
        release = self._release()
        space = self.cluster.get("Namespace", self.space)
        if space is not None:
            self._stop_syncer()
            uid = space["metadata"].get("uid")
            quick = self.grace is not None and self.grace <= _QUICK
            if quick:
                # before others delete them with a longer grace period, which the kubelet does not always shorten later
                self.cluster.delete_all("Pod", self.space, grace=self.grace)
                if self.footprint.pods > _MANY:
                    self.cluster.poll(self._few_pods, timeout=_START_SECONDS)
            else:
                self._pods()
            self.cluster.delete("Namespace", self.space)
            pods = (self._pods,) if quick else ()
            _in_parallel(lambda: self._namespace_gone(uid), *pods, lambda: self._delete(release))
        else:
            self._cluster_wide()
            unmark_nodes(self.ctx, self.tenant.name)
        forget(self.ctx, name)
        left = in_cluster(self.cluster, name, self.footprint.groups)
        if not left or not cluster_scope(self.cluster, name):
            self.watch.note(timeline.CLUSTER_CLEAN)
        harm = disturbed(self.footprint.others, self.cluster.list("Pod"))
        if not harm:
            count = len(self.footprint.others)
            self.watch.note(timeline.HOST_UNDISTURBED, f"{count} other pods: same UIDs and restarts, Ready throughout")
        return Removal(
            tenant=name,
            milestones=self.watch.milestones,
            grace=self.grace,
            cut_grace=self.footprint.cut(self.grace),
            left=(*left, *on_machine(self.ctx, name, self.footprint.folders)),
            disturbed=harm,
        )

    def _few_pods(self) -> bool:
        return len(self.cluster.list("Pod", self.space)) <= _MANY

    def _stop_syncer(self) -> None:
        self.ctx.progress("stopping the syncer")
        for kind in ("Deployment", "StatefulSet"):
            if self.cluster.get(kind, self.tenant.name, self.space) is not None:
                self.cluster.patch(kind, self.tenant.name, {"spec": {"replicas": 0}}, self.space)

    def _namespace_gone(self, uid: str | None) -> None:
        try:
            self.cluster.wait(
                "Namespace",
                # another UID is a recreated tenant of the same name
                lambda found: all(doc["metadata"].get("uid") != uid for doc in found),
                fields=f"metadata.name={self.space}",
                timeout=self.deadline,
                what=f"namespace {self.space} is gone",
            )
        except WaitTimeout as error:
            raise stuck_namespace(self.cluster, self.space, self.deadline) from error
        self.watch.note(timeline.NAMESPACE_GONE)
        with suppress(WaitTimeout):  # a volume that stays is a leftover
            self.cluster.wait(
                "PersistentVolume",
                lambda found: not any(map(self._will_go, found)),
                timeout=self.deadline,
                what=f"the volumes of tenant {self.tenant.name} are gone",
            )

    def _will_go(self, volume: Json) -> bool:
        """Whether a volume was the tenant's, and its provisioner deletes it."""
        deletes = volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete"
        return claimed_from(volume) == self.space and deletes and volume.get("status", {}).get("phase") != "Failed"

    def _pods(self) -> None:
        self.ctx.progress(f"deleting {self.footprint.pods} pods")
        self.cluster.delete_all("Pod", self.space, grace=self.grace)
        longest = max(self.footprint.graces.values(), default=0) if self.grace is None else self.grace
        with delete_terminated(self.cluster, self.space):
            self.cluster.wait(
                "Pod",
                self._pods_gone,
                namespace=self.space,
                timeout=self.deadline + longest,
                what=f"the pods of tenant {self.tenant.name} are gone",
            )
        self.watch.note(timeline.PODS_GONE, f"{self.footprint.pods} pods")
        with suppress(ApiFailed):  # it may be gone
            self.cluster.patch("Namespace", self.space, {"metadata": {"annotations": {_ENDED: "true"}}})
        unmark_nodes(self.ctx, self.tenant.name)
        self._gpus()

    def _pods_gone(self, pods: list[Json]) -> bool:
        """Whether all are gone; pods that were created late, or with a longer grace period, are deleted once more."""
        if not any(self._is_control_plane(pod) and PodView.of(pod).ready for pod in pods):
            self.watch.note(timeline.SCHEDULER_STOPPED)
        for pod in pods:
            meta = pod["metadata"]
            key = f"{meta.get('uid')} {meta.get('deletionGracePeriodSeconds')}"
            if self._must_delete(meta) and key not in self._deleted_again:
                self._deleted_again.add(key)
                self.cluster.delete("Pod", meta["name"], self.space, grace=self.grace)
        return not pods

    def _must_delete(self, meta: Json) -> bool:
        slow = self.grace is not None and (meta.get("deletionGracePeriodSeconds") or 0) > self.grace
        return slow or "deletionTimestamp" not in meta

    def _is_control_plane(self, pod: Json) -> bool:
        labels = labels_of(pod["metadata"])
        return (labels.get("app"), labels.get("release")) == ("vcluster", self.tenant.name)

    def _gpus(self) -> None:
        """Wait until the host's KAI has deleted its reservation pods; then check the GPUs, if requested."""
        groups = self.footprint.groups
        if groups:
            self.cluster.wait(
                "Pod",
                lambda pods: not reservation_pods(pods, groups),
                namespace=RESERVATION_APP,
                timeout=self.deadline,
                what=f"KAI's reservation pods for tenant {self.tenant.name} are gone",
            )
        if not self.check_gpus:
            return
        if not (self.footprint.gpus or self.footprint.shares):
            self.watch.note(timeline.GPUS_FREE, "the tenant held no GPU")
            return
        held = self.footprint
        check = GpuReleaseCheck(self.cluster, self.ctx.spec, self.tenant, held.gpus, held.shares)
        try:
            self.watch.note(timeline.GPUS_FREE, check.run(self.deadline))
        except (WaitTimeout, ApiFailed) as error:
            self.watch.note(timeline.GPUS_FREE, error.what, reached=False)
        finally:
            check.delete_pods()

    def _release(self) -> Release | None:
        """The tenant's release; None without one, and with a notice where it cannot be read."""
        try:
            return helm_release.installed(self.cluster, self.tenant.name, self.space)
        except Interrupted:
            raise
        except LabError as error:
            self.ctx.notice(f"release {self.tenant.name} is not read: {error.what}", "info")
            return None

    def _delete(self, release: Release | None) -> None:
        """Delete the objects of the release, then cluster-wide ones that Helm does not know."""
        for doc in yaml_documents(release.manifest) if release else ():
            with suppress(ApiFailed):  # what remains is reported as a leftover
                resource, name = self.cluster.kinds.of(doc), doc["metadata"]["name"]
                place = doc["metadata"].get("namespace", self.space) if resource.namespaced else None
                # one of the same name may be of others
                found = self.cluster.get(resource.qualified_kind, name, place)
                if found and ownership.helm_release(found) == (self.space, self.tenant.name):
                    self.cluster.delete(resource.qualified_kind, name, place)
        self._cluster_wide()

    def _cluster_wide(self) -> None:
        name = self.tenant.name
        for kind in ("ClusterRoleBinding", "ClusterRole"):
            for role in own_roles(self.cluster, kind, name):
                self.cluster.delete(kind, role["metadata"]["name"])
        synced = dict.fromkeys(SYNCED_CLUSTER_WIDE, f"{MANAGED_BY_LABEL}={marker(name)}")
        # one by one: few users may delete all at once
        for kind, labels in {**synced, **dict.fromkeys(MARKED, f"{NODE_LABEL}={name}")}.items():
            for left in self.cluster.list(kind, labels=labels):
                self.cluster.delete(kind, left["metadata"]["name"])


def _in_parallel(*parts: Callable[[], None]) -> None:
    """Run parts in parallel to their end; raise Interrupted, or the first error in their order."""
    with ThreadPoolExecutor(len(parts)) as pool:
        running = [pool.submit(part) for part in parts]
    errors = [error for part in running if (error := part.exception()) is not None]
    if errors:
        raise next((error for error in errors if isinstance(error, Interrupted)), errors[0])

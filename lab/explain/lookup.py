"""From a name to the case: the pod, or the workload whose pods are missing; or near names."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from lab.errors import SpecError
from lab.explain.diagnosis import explain
from lab.explain.explanation import Explanation
from lab.explain.pod_context import PodContext, SyncedCounterpart
from lab.objects.fields import Obj, parts
from lab.objects.synced import SyncedObject
from lab.objects.workload import WORKLOADS, WorkloadView
from lab.snapshot.cluster_snapshot import ClusterSnapshot

_NEAR = 6


class NoSuchPod(SpecError):
    """The pod, workload or tenant that was asked about does not exist."""

    title = "explain"


@dataclass(frozen=True)
class TenantSnapshot:
    """A tenant, read."""

    name: str
    world: ClusterSnapshot
    own_scheduler: bool
    """Whether the tenant's own scheduler places its pods (own-kai, or the virtual scheduler)."""
    command: tuple[str, ...] = ("kubectl",)


@dataclass(frozen=True)
class LabSnapshot:
    """The clusters in which a pod can be: the host, and its tenants."""

    host: ClusterSnapshot
    tenants: tuple[TenantSnapshot, ...] = ()
    command: tuple[str, ...] = ("kubectl",)
    """The kubectl command line for the host."""

    def cases(self, name: str, namespace: str, tenant: str = "") -> tuple[PodContext, ...]:
        """The case as asked for, and the same pod on the other side of a vCluster.

        Raises:
            NoSuchPod: there is no such pod, workload or tenant; the evidence has near names.
        """
        if not tenant:
            obj = find(self.host, name, namespace)
            owner = SyncedObject.of(obj).tenant if obj.get("kind", "Pod") == "Pod" else ""
            of = next((t for t in self.tenants if t.name == owner), None)
            return self._of_host(obj, of) if of else (PodContext(self.host, obj, self._side, command=self.command),)
        of = next((t for t in self.tenants if t.name == tenant), None)
        if of is None:
            known = ", ".join(t.name for t in self.tenants) or "none"
            raise NoSuchPod(f"there is no tenant {tenant!r} (tenants: {known})", fix="lab status")
        obj = find(of.world, name, namespace)
        synced = self._synced(of, obj)
        host = SyncedCounterpart(self.host, synced, "host", tenant)
        virtual = PodContext(of.world, obj, f"tenant {tenant}", host, of.own_scheduler, of.command)
        return (virtual,) if synced is None else (virtual, self._host_case(synced, of, obj))

    @property
    def _side(self) -> str:
        return "host" if self.tenants else ""

    def _of_host(self, obj: Obj, tenant: TenantSnapshot) -> tuple[PodContext, ...]:
        synced = SyncedObject.of(obj)
        virtual = tenant.world.get("Pod", synced.name, synced.namespace)
        return (self._host_case(obj, tenant, virtual),)

    def _host_case(self, obj: Obj, tenant: TenantSnapshot, virtual: Obj | None) -> PodContext:
        twin = SyncedCounterpart(tenant.world, virtual, f"tenant {tenant.name}", tenant.name)
        return PodContext(self.host, obj, "host", twin, not tenant.own_scheduler, self.command)

    def _synced(self, tenant: TenantSnapshot, obj: Obj) -> Obj | None:
        """The pod that the syncer made of a tenant's pod."""
        meta = parts(obj)[0]
        wanted = tenant.name, meta.get("namespace"), meta.get("name")
        synced = ((pod, SyncedObject.of(pod)) for pod in self.host.of("Pod"))
        return next((pod for pod, of in synced if (of.tenant, of.namespace, of.name) == wanted), None)


def find(world: ClusterSnapshot, name: str, namespace: str) -> Obj:
    """A pod by name, else a workload of that name: the pod of it that is worst off, unless pods are missing.

    Raises:
        NoSuchPod: neither exists; says which names are near, and in which namespaces the name does exist.
    """
    for kind in ("Pod", *WORKLOADS):
        if (obj := world.get(kind, name, namespace)) is not None:
            return _pod_of(world, {**obj, "kind": kind}) or {**obj, "kind": kind}
    pods = [pod for pod in world.pods if pod.namespace == namespace]
    near = difflib.get_close_matches(name, [pod.name for pod in pods], _NEAR, 0.5)
    near += [pod.name for pod in pods if pod.name.startswith(name) and pod.name not in near]
    elsewhere = sorted({pod.namespace for pod in world.pods if pod.name == name})
    evidence = [f"{namespace}/{one}" for one in near[:_NEAR]]
    evidence += [f"there is a pod {other}/{name}" for other in elsewhere]
    if not evidence and pods:
        evidence = [f"{len(pods)} pods in {namespace}: {', '.join(sorted(pod.name for pod in pods)[:_NEAR])}"]
    if elsewhere:
        fix = f"name the namespace: {elsewhere[0]}/{name}"
    elif near:
        fix = f"take one of these: {namespace}/{near[0]}"
    else:
        spaces = sorted({pod.namespace for pod in world.pods})
        fix = f"check name and namespace; namespaces with pods: {', '.join(spaces) or 'none'}"
    raise NoSuchPod(f"there is no pod or workload {namespace}/{name}", evidence=evidence, fix=fix)


def _pod_of(world: ClusterSnapshot, obj: Obj) -> Obj | None:
    """The pod to look at for a workload that has all of its pods: one that is not Ready, if there is any."""
    if obj["kind"] == "Pod":
        return None
    view = WorkloadView.of(obj)
    if view.paused or view.have < view.want:
        return None
    title = f"{view.kind}/{view.name}"
    titles = {title} | {
        f"ReplicaSet/{made.name}"
        for made in (WorkloadView.of({**raw, "kind": "ReplicaSet"}) for raw in world.of("ReplicaSet"))
        if (made.namespace, made.owner) == (view.namespace, title)
    }
    mine = [
        (pod.ready, pod.name, raw)
        for raw, pod in zip(world.of("Pod"), world.pods, strict=True)
        if pod.namespace == view.namespace and pod.owner in titles
    ]
    return {**min(mine, key=lambda one: one[:2])[2], "kind": "Pod"} if mine else None


def explain_pod(
    world: ClusterSnapshot,
    namespace: str,
    name: str,
    *,
    tenants: tuple[TenantSnapshot, ...] = (),
    tenant: str = "",
    command: tuple[str, ...] = ("kubectl",),
) -> list[str]:
    """Short text for the evidence of a failed wait; empty when the pod is well, or is not there. Never raises LabError.

    Args:
        world: the lab's own cluster.
        namespace: the pod's namespace.
        name: the pod's name.
        tenants: the tenants that were read.
        tenant: the tenant in which ``namespace`` and ``name`` are; empty for the host.
        command: the kubectl command line for the host.
    """
    try:
        told = explained(LabSnapshot(world, tenants, command), name, namespace, tenant)
    except NoSuchPod:
        return []
    return told.lines() if told.findings else []


def explained(worlds: LabSnapshot, name: str, namespace: str, tenant: str = "") -> Explanation:
    """The explanation of one pod by name. Raises NoSuchPod where there is none of that name."""
    return explain(*worlds.cases(name, namespace, tenant))

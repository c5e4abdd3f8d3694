"""Finds the pod for a name, or the workload whose pods are missing; otherwise suggests similar names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from lab.errors import SpecError
from lab.explain.diagnosis import explain
from lab.explain.explanation import Explanation
from lab.explain.pod_context import PodContext, SyncedCounterpart
from lab.objects.fields import Obj, parts
from lab.objects.synced import SyncedObject
from lab.objects.workload import WORKLOADS, WorkloadView
from lab.snapshot.cluster_snapshot import ClusterSnapshot

_SUGGESTIONS = 6


class NoSuchPod(SpecError):
    """The requested pod, workload or tenant does not exist."""

    title = "explain"


@dataclass(frozen=True)
class TenantSnapshot:
    """A snapshot of a tenant's cluster."""

    name: str
    snapshot: ClusterSnapshot
    own_scheduler: bool
    """Whether the tenant's own scheduler places its pods (own-kai, or the virtual scheduler)."""
    command: tuple[str, ...] = ("kubectl",)


@dataclass(frozen=True)
class LabSnapshot:
    """Snapshots of the host and its tenants."""

    host: ClusterSnapshot
    tenants: tuple[TenantSnapshot, ...] = ()
    command: tuple[str, ...] = ("kubectl",)
    """The kubectl command line for the host."""

    def cases(self, name: str, namespace: str, tenant: str = "") -> tuple[PodContext, ...]:
        """Return the context of a pod, and of the same pod on the host for a tenant's pod.

        Raises:
            NoSuchPod: the pod, workload or tenant does not exist; the evidence has similar names.
        """
        return self.cases_of(find(self.snapshot(tenant), name, namespace), tenant)

    def snapshot(self, tenant: str = "") -> ClusterSnapshot:
        """Return the snapshot of a tenant, or of the host. Raises NoSuchPod if the lab has no such tenant."""
        return self._tenant(tenant).snapshot if tenant else self.host

    def synced_from(self, tenant: str) -> str:
        """Return the tenant if the host schedules its pods, else nothing. Raises NoSuchPod as ``snapshot``."""
        return "" if not tenant or self._tenant(tenant).own_scheduler else tenant

    def scheduled(self, tenant: str) -> ClusterSnapshot:
        """Return the snapshot of the cluster that schedules a tenant's pods. Raises NoSuchPod as ``snapshot``."""
        return self.host if self.synced_from(tenant) else self.snapshot(tenant)

    def cases_of(self, obj: Obj, tenant: str = "") -> tuple[PodContext, ...]:
        """Return the contexts of a Pod or workload object, which has its kind. Raises NoSuchPod as ``cases``."""
        if not tenant:
            synced = SyncedObject.of(obj)
            by_name = {one.name: one for one in self.tenants}
            owner = by_name.get(synced.tenant) if obj.get("kind", "Pod") == "Pod" else None
            if owner is not None:
                return (self._on_host(obj, owner, owner.snapshot.get("Pod", synced.name, synced.namespace)),)
            return (PodContext(self.host, obj, "host" if self.tenants else "", command=self.command),)
        owner = self._tenant(tenant)
        on_host = self._synced(tenant, obj)
        counterpart = SyncedCounterpart(self.host, on_host, "host", tenant)
        virtual = PodContext(owner.snapshot, obj, f"tenant {tenant}", counterpart, owner.own_scheduler, owner.command)
        return (virtual,) if on_host is None else (virtual, self._on_host(on_host, owner, obj))

    def _tenant(self, name: str) -> TenantSnapshot:
        names = [one.name for one in self.tenants]
        if name not in names:
            known = ", ".join(names) or "none"
            raise NoSuchPod(f"the lab has no tenant {name!r} (tenants: {known})", fix="kailab status")
        return self.tenants[names.index(name)]

    def _on_host(self, obj: Obj, tenant: TenantSnapshot, virtual: Obj | None) -> PodContext:
        counterpart = SyncedCounterpart(tenant.snapshot, virtual, f"tenant {tenant.name}", tenant.name)
        return PodContext(self.host, obj, "host", counterpart, not tenant.own_scheduler, self.command)

    def _synced(self, tenant: str, obj: Obj) -> Obj | None:
        """Return the host's pod for a tenant's pod."""
        meta = parts(obj)[0]
        return self._synced_pods.get((tenant, meta.get("namespace", ""), meta.get("name", "")))

    @cached_property
    def _synced_pods(self) -> dict[tuple[str, str, str], Obj]:
        synced = ((pod, SyncedObject.of(pod)) for pod in reversed(self.host.of("Pod")))
        return {(of.tenant, of.namespace, of.name): pod for pod, of in synced}


def find(snapshot: ClusterSnapshot, name: str, namespace: str) -> Obj:
    """Return the pod of that name, or the workload of that name: its pod in the worst state, unless pods are missing.

    Raises:
        NoSuchPod: neither exists; it has similar names, and other namespaces with that name.
    """
    for kind in ("Pod", *WORKLOADS):
        if (obj := snapshot.get(kind, name, namespace)) is not None:
            found = obj if obj.get("kind") else {**obj, "kind": kind}
            return _pod_of(snapshot, found) or found
    raise no_such(snapshot.pod_names, f"pod or workload {namespace}/{name}", name, namespace)


def no_such(pods: Iterable[tuple[str, str]], what: str, name: str, namespace: str) -> NoSuchPod:
    """Return the error for an object that does not exist; ``pods`` are namespaces and names of those that do."""
    there = tuple(pods)
    names = [pod for space, pod in there if space == namespace]
    similar = difflib.get_close_matches(name, names, _SUGGESTIONS, 0.5)
    similar += [one for one in names if one.startswith(name) and one not in similar]
    elsewhere = sorted({space for space, pod in there if pod == name})
    evidence = [f"{namespace}/{one}" for one in similar[:_SUGGESTIONS]]
    evidence += [f"pod {other}/{name} exists" for other in elsewhere]
    if not evidence and names:
        evidence = [f"{len(names)} pods in {namespace}: {', '.join(sorted(names)[:_SUGGESTIONS])}"]
    if elsewhere:
        fix = f"name the namespace: {elsewhere[0]}/{name}"
    elif similar:
        fix = f"use a name such as {namespace}/{similar[0]}"
    else:
        namespaces = sorted({space for space, _ in there})
        fix = f"check name and namespace; namespaces with pods: {', '.join(namespaces) or 'none'}"
    return NoSuchPod(f"no {what} exists", evidence=evidence, fix=fix)


def _pod_of(snapshot: ClusterSnapshot, obj: Obj) -> Obj | None:
    """Return a pod of a workload that has all of its pods; one that is not Ready, if any."""
    if obj["kind"] == "Pod":
        return None
    view = WorkloadView.of(obj)
    if view.paused or view.have < view.want:
        return None
    title = f"{view.kind}/{view.name}"
    sets = (WorkloadView.of({**raw, "kind": "ReplicaSet"}) for raw in snapshot.of("ReplicaSet"))
    owners = {title}
    owners |= {f"ReplicaSet/{s.name}" for s in sets if (s.namespace, s.owner) == (view.namespace, title)}
    pods = [
        (pod.ready, pod.name, raw)
        for raw, pod in zip(snapshot.of("Pod"), snapshot.pods, strict=True)
        if pod.namespace == view.namespace and pod.owner in owners
    ]
    return {**min(pods, key=lambda one: one[:2])[2], "kind": "Pod"} if pods else None


def explain_pod(
    host: ClusterSnapshot,
    namespace: str,
    name: str,
    *,
    tenants: tuple[TenantSnapshot, ...] = (),
    tenant: str = "",
    command: tuple[str, ...] = ("kubectl",),
) -> list[str]:
    """Explain a pod in short text for the evidence of a failed wait; empty if it runs or does not exist.

    ``namespace`` and ``name`` are those in ``tenant``, if one is named; ``command`` is the host's kubectl command line.
    """
    try:
        explanation = explained(LabSnapshot(host, tenants, command), name, namespace, tenant)
    except NoSuchPod:
        return []
    return explanation.lines() if explanation.findings else []


def explained(lab: LabSnapshot, name: str, namespace: str, tenant: str = "") -> Explanation:
    """Explain a pod by name. Raises NoSuchPod."""
    return explain(*lab.cases(name, namespace, tenant))

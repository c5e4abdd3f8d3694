"""How KAI changes from one version to another, and how it is stopped without touching what it has scheduled.

Deployments, webhooks, ServiceAccounts and the operator's own objects are deleted; pods of others, reservation pods,
PodGroups, BindRequests, queues, PriorityClasses in use and all CRDs stay. Every CRD of KAI has one version, the same in
0.7.11 to 0.17.0 (deployments/kai-scheduler/crds), so an upgrade or downgrade converts nothing.

To be quick, all components stop in parallel, and no hook Job runs at the end (KAI's post-delete-cleanup only deletes
what is deleted here anyway). The lease of a stopped leader, for which the next one would wait 15 s
(cmd/scheduler/app/server.go), is deleted with its holder.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lab.errors import SpecError
from lab.kai import VersionLine, line_of, lines, release
from lab.kube import Cluster
from lab.session.context import LabContext
from lab.steps import helm_release
from lab.steps.kai.release import NAMESPACE, RELEASE, RESERVATIONS

IN_PLACE = "in place"
"""helm upgrade: Config, shards and webhooks stay, so every pod is admitted by webhooks."""

REINSTALL = "anew"
"""Uninstalled and installed: one version cannot upgrade the other."""

UNCHANGED = "nothing to do"

_GONE_SECONDS = 60.0
_GRACE = 1
"""Seconds for KAI's own pods, which keep all state in the API."""

_OPERATOR = "kai-operator"
_WEBHOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
_OWNED = ("Deployment", "DaemonSet", "Service", "EndpointSlice", "ServiceAccount", "ConfigMap", "Secret", *_WEBHOOKS)
"""Kinds that KAI's operator creates and owns (pkg/operator/operands/known_types, 0.9 to 0.16)."""

_KEEP = {"metadata": {"annotations": {"helm.sh/resource-policy": "keep"}}}


def installed_line(cluster: Cluster) -> VersionLine | None:
    """The line of the KAI in Helm's record; None without one, or for a version older than all known."""
    found = helm_release.installed(cluster, RELEASE, NAMESPACE)
    try:
        return line_of(found.chart_version.removeprefix("v")) if found else None
    except SpecError:
        return None


def strategy(before: VersionLine | None, after: VersionLine, *, stop_first: bool) -> str:
    """``IN_PLACE`` or ``REINSTALL``.

    With ``stop_first``, all of the old KAI is stopped first: in place only between lines whose operator deploys
    everything and whose hook Jobs the lab replaces (0.12 and newer). Otherwise Helm would fail on objects that the
    operator of one version created and the chart of the other contains (Deployment binder: operator in 0.9.3, chart in
    0.9.8, operator in 0.12), delete the Config that the chart of 0.9.3 has and later ones do not, or leave the
    scheduler of a SchedulingShard running, which 0.9 does not know.

    Without it, as KAI's migration guides say (docs/migrationguides, KAI 0.17): ``helm upgrade`` to a newer version,
    uninstalling and installing for an older one, since ``helm rollback`` fails. Up from before 0.9.7, Helm would fail
    as above.
    """
    if before is None:
        return REINSTALL
    if stop_first:
        in_place = all(line.has_shards and line.config_template for line in (before, after))
    else:
        upgraded = release(before.version) <= release(after.version)
        in_place = upgraded and all(line.has_shards or line.config_template for line in (before, after))
    return IN_PLACE if in_place else REINSTALL


def stop_kai(ctx: LabContext, how: str) -> None:
    """Stop KAI in the cluster of a context; components that are gone already are no error.

    Raises:
        WaitTimeout: a component still exists after a minute.
        CommandFailed: Helm could not uninstall it.
    """
    cluster = ctx.cluster()
    if how == IN_PLACE:
        # a running operator would recreate what is deleted below
        cluster.delete("Deployment", _OPERATOR, NAMESPACE)
        _delete_pods(cluster, f"app={_OPERATOR}")
    else:
        _uninstall(ctx, cluster)
    cluster.delete_all("Deployment", NAMESPACE)
    _delete_pods(cluster)
    cluster.delete_all("Lease", NAMESPACE)


def made_by_operator(obj: Mapping[str, Any]) -> bool:
    """Whether the object is owned by KAI's Config or a SchedulingShard."""
    owners = obj.get("metadata", {}).get("ownerReferences") or []
    return any(str(owner.get("apiVersion", "")).startswith("kai.scheduler/") for owner in owners)


def _uninstall(ctx: LabContext, cluster: Cluster) -> None:
    # all charts set this; a user's values must not delete the reservation pods
    if cluster.get("Namespace", RESERVATIONS) is not None:
        cluster.patch("Namespace", RESERVATIONS, _KEEP)
    # first, since a running operator recreates nothing without them
    for kind in ("Config.kai.scheduler", "SchedulingShard"):
        for obj in cluster.list(kind):
            cluster.delete(kind, obj["metadata"]["name"], wait=_GONE_SECONDS)
    helm_release.helm_for(ctx).uninstall(RELEASE, NAMESPACE, hooks=False)
    names = {name for line in lines().values() for name in line.webhooks}
    for kind in _OWNED:
        for obj in cluster.list(kind):
            meta = obj["metadata"]
            # the garbage collector may need half a minute to notice a new kind of owner
            if made_by_operator(obj) or (kind in _WEBHOOKS and meta["name"] in names):
                cluster.delete(kind, meta["name"], meta.get("namespace"))
    cluster.delete_all("Job", NAMESPACE)


def _delete_pods(cluster: Cluster, labels: str | None = None) -> None:
    """Delete ReplicaSets and pods in KAI's namespace, all or those with these labels; wait until the pods are gone."""
    for kind, grace in (("ReplicaSet", None), ("Pod", _GRACE)):
        cluster.delete_all(kind, NAMESPACE, labels, grace=grace)
    cluster.wait(
        "Pod",
        lambda pods: not pods,
        namespace=NAMESPACE,
        labels=labels,
        timeout=_GONE_SECONDS,
        what="KAI's old components have stopped",
    )

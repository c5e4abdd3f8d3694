"""Stopping a tenant's KAI so that another version can take over at once, without touching what it has scheduled.

Deployments, webhooks, ServiceAccounts and the operator's own objects go; pods of others, reservation pods, PodGroups,
BindRequests, queues, PriorityClasses' users and all CRDs stay. Every CRD of KAI has one version, the same in 0.7.11 to
0.17.0 (deployments/kai-scheduler/crds), so there is nothing to convert on the way up or down.

What makes it quick: nothing is waited for in turn. All components stop together, no hook Job runs at the end (KAI's
post-delete-cleanup only deletes what goes here anyway), and the lease of a dead leader, which the next one would sit
out for 15 s (cmd/scheduler/app/server.go), is deleted with its holder.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lab.errors import SpecError
from lab.kai import VersionLine, line_of, lines
from lab.kube import Cluster
from lab.session.context import LabContext
from lab.steps import helm_release

IN_PLACE = "in place"
"""helm upgrade: Config, shards and webhooks stay, so that no pod passes unjudged meanwhile."""

ANEW = "anew"
"""Uninstalled and installed: the versions do not build on each other."""

UNCHANGED = "nothing to do"

_ANY = next(iter(lines().values()))
_GONE_SECONDS = 60.0
_GRACE = 1
"""Seconds for KAI's own pods, which keep nothing in memory that is not in the API."""

_OPERATOR = "kai-operator"
_OWNED = (
    "Deployment",
    "DaemonSet",
    "Service",
    "EndpointSlice",
    "ServiceAccount",
    "ConfigMap",
    "Secret",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
)
"""What KAI's operator makes and owns (pkg/operator/operands/known_types, 0.9 to 0.16)."""

_WEBHOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
_KEEP = {"metadata": {"annotations": {"helm.sh/resource-policy": "keep"}}}


def installed_line(cluster: Cluster) -> VersionLine | None:
    """The line of the KAI that Helm says is installed; None without one, or of a version older than all known."""
    release = helm_release.installed(cluster, _ANY.release, _ANY.namespace)
    if release is None:
        return None
    try:
        return line_of(release.chart_version.removeprefix("v"))
    except SpecError:
        return None


def way(before: VersionLine | None, after: VersionLine) -> str:
    """How one version takes over from another.

    In place only between lines whose operator deploys everything and whose hook Jobs the lab knows (0.12.22, 0.14.6,
    0.16 and newer). Otherwise Helm would trip over what the operator of one version made and the chart of the other
    brings (Deployment binder: operator in 0.9.3, chart in 0.9.8, operator in 0.12), delete the Config that the chart
    of 0.9.3 has and later ones do not, or leave the scheduler of a SchedulingShard running that 0.9 knows nothing of.
    """
    if before is None:
        return ANEW
    easy = all(line.has_shards and line.hooks == "lab" for line in (before, after))
    return IN_PLACE if easy else ANEW


def stop(ctx: LabContext, how: str) -> None:
    """Stop the KAI of the cluster that ``ctx`` is about; whatever of it is gone already is fine.

    Args:
        ctx: a tenant's, by ``inside``.
        how: ``IN_PLACE`` or ``ANEW``.

    Raises:
        WaitTimeout: something of it is still there after a minute.
        CommandFailed: Helm could not uninstall it.
    """
    cluster, space = ctx.cluster(), _ANY.namespace
    if how == IN_PLACE:
        # While it lives, the operator makes anew what is deleted here.
        _end(cluster, [_OPERATOR], f"app={_OPERATOR}")
    else:
        _uninstall(ctx, cluster)
    _end(cluster, [obj["metadata"]["name"] for obj in cluster.list("Deployment", space)])
    cluster.delete_all("Lease", space)


def made_by_operator(obj: Mapping[str, Any]) -> bool:
    """Whether the object belongs to KAI's Config or a SchedulingShard."""
    owners = obj.get("metadata", {}).get("ownerReferences") or []
    return any(str(owner.get("apiVersion", "")).startswith("kai.scheduler/") for owner in owners)


def _uninstall(ctx: LabContext, cluster: Cluster) -> None:
    # All charts say so themselves; a user's values must not be able to take the reservation pods along.
    if cluster.get("Namespace", _ANY.reservation_namespace) is not None:
        cluster.patch("Namespace", _ANY.reservation_namespace, _KEEP)
    # First, for without them an operator that still runs makes nothing again.
    for kind in ("Config.kai.scheduler", "SchedulingShard"):
        for obj in cluster.list(kind):
            cluster.delete(kind, obj["metadata"]["name"], wait=_GONE_SECONDS)
    helm_release.helm_for(ctx).uninstall(_ANY.release, _ANY.namespace, hooks=False)
    names = {name for line in lines().values() for name in line.webhooks}
    for kind in _OWNED:
        for obj in cluster.list(kind):
            meta = obj["metadata"]
            # Not left to the garbage collector, which may take half a minute to notice a new kind of owner.
            if made_by_operator(obj) or (kind in _WEBHOOKS and meta["name"] in names):
                cluster.delete(kind, meta["name"], meta.get("namespace"))
    cluster.delete_all("Job", _ANY.namespace)


def _end(cluster: Cluster, deployments: Iterable[str], labels: str | None = None) -> None:
    """Delete Deployments and the pods in KAI's namespace, or those with these labels, and wait until they are gone."""
    space = _ANY.namespace
    for name in deployments:
        cluster.delete("Deployment", name, space)
    for kind, grace in (("ReplicaSet", None), ("Pod", _GRACE)):
        cluster.delete_all(kind, space, labels, grace=grace)
    cluster.wait(
        "Pod",
        lambda pods: not pods,
        namespace=space,
        labels=labels,
        timeout=_GONE_SECONDS,
        what="KAI's old components have stopped",
    )

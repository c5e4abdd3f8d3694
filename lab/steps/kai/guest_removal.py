"""Removal of the lab's KAI from an existing cluster, or its hand-over to others.

A kind cluster of the lab goes as a whole. In the cluster of somebody else, the journal and the lab's labels say what
the lab created.
"""

from __future__ import annotations

from lab.errors import StepFailed
from lab.kai import VersionLine
from lab.kube import OWNER_LABEL, Cluster
from lab.kube.ownership import helm_namespace, is_own, owner_of
from lab.objects.fields import labels_of
from lab.session.context import LabContext
from lab.steps import helm_release
from lab.steps.kai import required_crds
from lab.steps.kai.release import NAMESPACE, RELEASE, RESERVATIONS
from lab.steps.queues import KIND as QUEUE

_CRD = "CustomResourceDefinition"


def remove(ctx: LabContext, lab: str, line: VersionLine, step: str) -> None:
    """Remove KAI as far as the lab installed it.

    KAI stays where its namespace no longer has the lab's label: then others have taken it over.
    Raises StepFailed: others have queues in it, which would go with its CRDs, and their pods would wait forever.
    """
    cluster = ctx.cluster()
    mine = {(owned.kind, owned.name) for owned in ctx.journal.owned() if owned.step == step}
    mine |= _labelled(cluster, lab)
    if not mine:
        return
    space = cluster.get("Namespace", NAMESPACE)
    if space is not None and not is_own(space, lab):
        _hand_over(ctx, cluster, lab, mine)
        return
    if theirs := _queues_of_others(cluster, lab, line):
        raise StepFailed(
            f"KAI is not removed: {len(theirs)} of its queues are not of lab {lab}",
            evidence=theirs,
            fix="delete these queues, or keep KAI: remove the label kailab from namespace "
            f"{NAMESPACE} ({cluster.kubectl('label', 'namespace', NAMESPACE, f'{OWNER_LABEL}-')}), then run"
            " 'kailab down' again",
        )
    if ("release", RELEASE) in mine:
        # their owner references delete the operator's Deployments and webhooks
        cluster.delete("Config.kai.scheduler", "kai-config", wait=60)
        cluster.delete("SchedulingShard", "default", wait=60)
        helm_release.helm_for(ctx).uninstall(RELEASE, NAMESPACE, hooks=False)
        ctx.journal.released("release", RELEASE)
    kept = required_crds.in_use(cluster, line, [name for kind, name in mine if kind == "crd"], lab)
    for kind, what in (("crd", _CRD), ("namespace", "Namespace")):
        for name in sorted(name for one, name in mine if one == kind):
            if name not in kept:
                cluster.delete(what, name, wait=120)
            ctx.journal.released(kind, name)


def _hand_over(ctx: LabContext, cluster: Cluster, lab: str, mine: set[tuple[str, str]]) -> None:
    """Leave KAI to others: its CRDs lose the lab's label as well."""
    for kind, name in sorted(mine):
        crd = cluster.get(_CRD, name) if kind == "crd" else None
        if crd is not None and is_own(crd, lab):
            cluster.patch(_CRD, name, {"metadata": {"labels": {OWNER_LABEL: None}}})
        ctx.journal.released(kind, name)
    ctx.notice(f"KAI stays: namespace {NAMESPACE} no longer has the label {OWNER_LABEL}={lab}", "info")


def _labelled(cluster: Cluster, lab: str) -> set[tuple[str, str]]:
    """Kind and name, as in the journal, of what has the lab's label; the journal may be lost."""
    own = f"{OWNER_LABEL}={lab}"
    found = {("crd", crd["metadata"]["name"]) for crd in cluster.list(_CRD, labels=own)}
    space = cluster.get("Namespace", NAMESPACE)
    if space is None or labels_of(space["metadata"]).get(OWNER_LABEL) != lab:
        return found
    found |= {("namespace", NAMESPACE), ("release", RELEASE)}
    reservations = cluster.get("Namespace", RESERVATIONS)
    if reservations is not None and helm_namespace(reservations) == NAMESPACE:
        found.add(("namespace", RESERVATIONS))
    return found


def _queues_of_others(cluster: Cluster, lab: str, line: VersionLine) -> list[str]:
    """Queues that neither the lab nor the chart created."""
    return [
        f"Queue {queue['metadata']['name']} {owner_of(queue)}"
        for queue in cluster.list(QUEUE)
        if queue["metadata"]["name"] not in line.default_queues and not is_own(queue, lab)
    ]

"""Rules about tenants' pods: objects and states that vCluster's syncer did not copy, in either direction."""

from __future__ import annotations

from datetime import timedelta

from lab.explain.explanation import PodStage
from lab.explain.pod_context import PodContext, SyncedCounterpart
from lab.explain.rule import ALIVE, BOUND, UNBOUND, WAITING, rule
from lab.findings import Certainty, Finding
from lab.objects.fields import labels_of, parts
from lab.objects.isolation_labels import HOST_KAI
from lab.objects.views import PodView

_PATIENCE = timedelta(seconds=15)
_SYNCER = "vCluster 0.36.1, pkg/controllers/resources/pods/syncer.go"
_LABEL = ",".join(f"{key}={value}" for key, value in HOST_KAI.items())


def _host_pod(ctx: PodContext) -> PodView | None:
    """Return the host's pod for a tenant's pod."""
    return ctx.counterpart.pod if ctx.counterpart is not None and ctx.counterpart.side == "host" else None


def _unsynced(ctx: PodContext) -> SyncedCounterpart | None:
    """Return the host's side for a tenant's pod that the host does not have."""
    counterpart = ctx.counterpart
    return counterpart if counterpart and counterpart.side == "host" and counterpart.obj is None else None


@rule("tenant.not-synced", UNBOUND, _SYNCER)
def not_synced(ctx: PodContext) -> Finding | None:
    """The host does not have the pod, and nothing refused it."""
    host = _unsynced(ctx)
    if host is None or ctx.schedules or ctx.refusals or ctx.age < _PATIENCE:
        return None
    return Finding(
        f"the host has no pod for {ctx.title} after {ctx.age.total_seconds():.0f} s, and no event explains it",
        f"read the syncer's log on the host: kubectl logs -A -l app=vcluster,release={host.tenant} --tail=50",
        certainty=Certainty.LIKELY,
    )


def _queue_elsewhere(ctx: PodContext) -> SyncedCounterpart | None:
    """Return the other side of the vCluster if the queue exists only there."""
    counterpart = ctx.counterpart
    if counterpart is None or not ctx.by_kai or ctx.queue is not None or not ctx.snapshot.has("Queue"):
        return None
    return counterpart if counterpart.snapshot.get("Queue", ctx.queue_name) is not None else None


def _wrong_side(ctx: PodContext, what: str, where: str) -> Finding:
    names = ", ".join(queue.name for queue in ctx.snapshot.queues) or "none exist"
    return Finding(
        f"queue {ctx.queue_name} exists {what}",
        f"create the queue {where}, or label the pod with one of: {names}",
        tuple(message.line for message in ctx.verdicts[:1]),
    )


@rule("tenant.queue-only-inside", UNBOUND, "host-kai: the host's KAI schedules, so the host's queues count")
def queue_only_inside(ctx: PodContext) -> Finding | None:
    """The queue exists in the tenant, not on the host: the host's KAI schedules the pod."""
    tenant = _queue_elsewhere(ctx)
    if tenant is None or ctx.side != "host":
        return None
    return _wrong_side(ctx, f"in tenant {tenant.tenant} only, and the host's KAI schedules its pods", "on the host")


@rule("tenant.queue-only-on-host", UNBOUND, "own-kai: the tenant's KAI schedules, so the tenant's queues count")
def queue_only_on_host(ctx: PodContext) -> Finding | None:
    """The queue exists on the host, not in the tenant: the tenant's own KAI schedules the pod."""
    host = _queue_elsewhere(ctx)
    if host is None or ctx.side == "host":
        return None
    return _wrong_side(ctx, f"on the host only, and tenant {host.tenant} has its own KAI", "in the tenant")


@rule("tenant.node-not-synced", UNBOUND, f"{_SYNCER}, ensureNode: the syncer waits until the node is in the tenant")
def node_not_synced(ctx: PodContext) -> Finding | None:
    """The tenant does not have the node to which the host bound the pod."""
    host = _host_pod(ctx)
    if host is None or not host.node or not ctx.snapshot.has("Node"):
        return None
    if any(node.name == host.node for node in ctx.snapshot.nodes):
        return None
    return Finding(
        f"the host runs {ctx.title} on node {host.node}, which the tenant does not have",
        "sync the node to the tenant: sync.fromHost.nodes and its selector",
        (f"host pod {host.namespace}/{host.name} on {host.node}: {host.phase}",),
    )


@rule(
    "tenant.class-blanked",
    UNBOUND,
    "vCluster 0.36.1, pods/translate/translator.go: blanked without sync.fromHost.priorityClasses",
)
def class_blanked(ctx: PodContext) -> Finding | None:
    """The priority class did not reach the host; KAI then chooses the class by the pod's kind."""
    tenant = ctx.counterpart
    if tenant is None or ctx.side != "host" or tenant.obj is None:
        return None
    wanted = parts(tenant.obj)[1].get("priorityClassName")
    if not wanted or ctx.spec.get("priorityClassName"):
        return None
    return Finding(
        f"priority class {wanted} of the tenant's pod did not reach the host: KAI uses its own default",
        "set sync.fromHost.priorityClasses.enabled, or use the label priorityClassName, which is synced",
        (f"PodGroup's class: {ctx.group.priority_class}",) if ctx.group else (),
        Certainty.POSSIBLE,
    )


@rule(
    "tenant.two-kais",
    WAITING,
    "measured: the host's webhook mutates the synced pod again; pod-group-name comes back from the host",
)
def two_kais(ctx: PodContext) -> Finding | None:
    """The host's KAI interferes with a tenant that has its own: fractions never start, or its binder deletes them."""
    host, pod = ctx.counterpart, _host_pod(ctx)
    if host is None or pod is None or not ctx.by_kai:
        return None
    foreign = bool(pod.pod_group) and host.snapshot.get("PodGroup", pod.pod_group, pod.namespace) is not None
    waiting = [w for w in pod.waiting if "shared-gpu" in w.message and "not found" in w.message]
    if not foreign and not waiting:
        return None
    evidence = [f"host pod {pod.namespace}/{pod.name}: {w.reason}: {w.message}" for w in waiting]
    evidence += [f"PodGroup {pod.namespace}/{pod.pod_group} exists on the host for it"] if foreign else []
    return Finding(
        f"the host's KAI handles the synced pod of {ctx.title} as well as the tenant's KAI does",
        "keep the host's KAI off the tenant's namespace: chart value global.namespaceLabelSelector, and node pools",
        tuple(evidence),
    )


@rule(
    "tenant.not-opted-in",
    UNBOUND,
    "measured: beside tenants with their own KAI, the lab lets the host's KAI watch labelled namespaces only",
)
def not_opted_in(ctx: PodContext) -> Finding | None:
    """The host's KAI ignores the namespace: its webhooks change no pod there, its pod-grouper creates no PodGroup."""
    namespace = ctx.snapshot.get("Namespace", ctx.pod.namespace)
    if ctx.side.startswith("tenant") or not ctx.by_kai or namespace is None:
        return None
    selectors = _selectors(ctx)
    if not selectors or HOST_KAI.items() <= labels_of(parts(namespace)[0]).items():
        return None
    return Finding(
        f"the host's KAI watches only namespaces labelled {_LABEL}, since tenants have their own KAI,"
        f" and {ctx.pod.namespace} is not",
        ctx.kubectl("label", "namespace", ctx.pod.namespace, _LABEL),
        selectors,
    )


def _selectors(ctx: PodContext) -> tuple[str, ...]:
    """Return where the host's KAI selects namespaces by the lab's label, as evidence."""
    if ctx.kai is None:
        return ()
    found = []
    if HOST_KAI.items() <= ctx.kai.namespace_selector.items():
        found.append(f"pod-grouper: --namespace-label-selector {_LABEL}")
    for obj in ctx.snapshot.of("MutatingWebhookConfiguration"):
        name = parts(obj)[0].get("name", "")
        labels = [(w.get("namespaceSelector") or {}).get("matchLabels") or {} for w in obj.get("webhooks") or []]
        if name in ctx.kai.line.webhooks and any(HOST_KAI.items() <= one.items() for one in labels):
            found.append(f"webhook configuration {name}: namespaceSelector {_LABEL}")
    return tuple(found)


@rule("tenant.host-deleting", (*ALIVE, PodStage.DELETING), f"{_SYNCER}: physical pod is being deleted")
def host_deleting(ctx: PodContext) -> Finding | None:
    """The host is deleting the pod; the tenant's pod follows."""
    host, pod = ctx.counterpart, _host_pod(ctx)
    if host is None or pod is None or not pod.deleting:
        return None
    group = host.snapshot.get("PodGroup", pod.pod_group, pod.namespace) if pod.pod_group else None
    events = host.snapshot.events_about(parts(group)[0].get("uid", "")) if group else ()
    return Finding(
        f"the host is deleting the pod of {ctx.title}, and the tenant's pod follows",
        "find out on the host who deleted it: KAI's evictions are events on the PodGroup",
        tuple(f"event {e.reason}: {e.message}" for e in events if e.reason == "Evict")[-2:],
    )


@rule("tenant.status-behind", BOUND, "vCluster copies the status from the host", general=True)
def status_behind(ctx: PodContext) -> Finding | None:
    """The pod is Ready on the host, and not yet in the tenant."""
    pod = _host_pod(ctx)
    if pod is None or not pod.ready:
        return None
    return Finding(
        f"the host's pod of {ctx.title} is Ready, and its status has not reached the tenant yet",
        "wait some seconds; if it stays, read the syncer's log",
        certainty=Certainty.POSSIBLE,
    )

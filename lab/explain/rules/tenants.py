"""A vCluster between the person and the pod: what the syncer did not carry over, in either direction."""

from __future__ import annotations

from datetime import timedelta

from lab.config.labels import HOST_KAI
from lab.explain.explanation import PodStage
from lab.explain.pod_context import PodContext
from lab.explain.rule import BOUND, UNBOUND, WAITING, rule
from lab.findings import Certainty, Finding
from lab.objects.fields import labels_of, parts

_PATIENCE = timedelta(seconds=15)
_SYNCER = "vCluster 0.36.1, pkg/controllers/resources/pods/syncer.go"


@rule(
    "tenant.class-not-synced",
    "The host does not have, or does not lend, its class",
    UNBOUND,
    f"{_SYNCER}, applyLimitByClass",
)
def class_not_synced(case: PodContext) -> Finding | None:
    """RuntimeClasses and PriorityClasses come from the host, by selector."""
    told = [s for s in case.refusals if "did not sync pod" in s.text]
    if not told:
        return None
    sort = "runtime" if "runtime class" in told[0].text else "priority"
    return Finding(
        f"the vCluster does not pass {case.title} on: the host lacks its {sort} class, or does not lend it",
        f"take a class of the host, or widen sync.fromHost.{sort}Classes.selector",
        (told[0].line,),
    )


@rule(
    "tenant.sync-error",
    "The host did not take the pod",
    UNBOUND,
    "vCluster 0.36.1, pkg/patcher/apply.go: event SyncError",
    general=True,
)
def sync_error(case: PodContext) -> Finding | None:
    """Admission happens on the host: in the tenant, creating the pod succeeds."""
    told = [s for s in case.refusals if s.text.startswith("Error")]
    if not told:
        return None
    return Finding(
        f"the tenant has {case.title}, and the host refused it: {' '.join(told[0].text.split())[:300]}",
        "change the pod as the message says; it is the host that refuses",
        (told[0].line,),
    )


@rule(
    "tenant.syncer-down",
    "The vCluster's control plane is down",
    UNBOUND,
    "vCluster: pod app=vcluster,release=NAME holds API server and syncer",
)
def syncer_down(case: PodContext) -> Finding | None:
    """Nobody carries the pod to the host."""
    twin = case.twin
    if twin is None or twin.side != "host" or twin.obj is not None:
        return None
    mine = [
        pod
        for pod in twin.world.pods
        if pod.labels.get("app") == "vcluster" and pod.labels.get("release") == twin.tenant
    ]
    if any(pod.ready for pod in mine) or not twin.world.has("Pod"):
        return None
    told = [f"pod {p.namespace}/{p.name}: {p.phase}, {', '.join(p.waiting_reasons) or 'not ready'}" for p in mine]
    return Finding(
        f"the control plane of vCluster {twin.tenant} does not run, so nobody carries {case.title} to the host",
        "see why on the host: kubectl get pods -A -l app=vcluster",
        tuple(told) or ("no pod with app=vcluster of that release on the host",),
    )


@rule("tenant.not-synced", "The host does not have the pod", UNBOUND, _SYNCER)
def not_synced(case: PodContext) -> Finding | None:
    """Neither carried over nor refused."""
    twin = case.twin
    if twin is None or twin.side != "host" or twin.obj is not None or case.schedules or case.refusals:
        return None
    if case.age < _PATIENCE or syncer_down(case) is not None:
        return None
    return Finding(
        f"the host has no pod for {case.title} after {case.age.total_seconds():.0f} s, and nobody says why",
        f"see the syncer's log on the host: kubectl logs -A -l app=vcluster,release={twin.tenant} --tail=50",
        certainty=Certainty.LIKELY,
    )


@rule(
    "tenant.queue-only-inside",
    "The queue exists in the tenant, not on the host",
    UNBOUND,
    "host-kai: the host's KAI schedules, so the host's queues count",
)
def queue_only_inside(case: PodContext) -> Finding | None:
    """Queue objects of a vCluster mean nothing to the host's KAI."""
    if not _unknown_here(case) or case.side != "host" or case.twin is None:
        return None
    return Finding(
        f"queue {case.queue_name} exists in tenant {case.twin.tenant} only, and the host's KAI schedules its pods",
        f"make the queue on the host, or label the pod with one of: {_names(case)}",
        tuple(saying.line for saying in case.verdicts[:1]),
    )


@rule(
    "tenant.queue-only-on-host",
    "The queue exists on the host, not in the tenant",
    UNBOUND,
    "own-kai: the tenant's KAI schedules, so the tenant's queues count",
)
def queue_only_on_host(case: PodContext) -> Finding | None:
    """A tenant with its own KAI has its own queue tree."""
    if not _unknown_here(case) or case.side == "host" or case.twin is None:
        return None
    return Finding(
        f"queue {case.queue_name} exists on the host only, and tenant {case.twin.tenant} has a KAI of its own",
        f"make the queue in the tenant, or label the pod with one of: {_names(case)}",
        tuple(saying.line for saying in case.verdicts[:1]),
    )


def _unknown_here(case: PodContext) -> bool:
    twin = case.twin
    if twin is None or not case.by_kai or case.queue is not None or not case.world.has("Queue"):
        return False
    return twin.world.get("Queue", case.queue_name) is not None


def _names(case: PodContext) -> str:
    return ", ".join(queue.name for queue in case.world.queues) or "none exist"


@rule(
    "tenant.node-not-synced",
    "The tenant does not know the node",
    UNBOUND,
    f"{_SYNCER}, ensureNode: the syncer waits until the node is in the tenant",
)
def node_not_synced(case: PodContext) -> Finding | None:
    """The host has bound the pod, and the tenant cannot be told where."""
    twin = case.twin
    host = twin.pod if twin is not None and twin.side == "host" else None
    if host is None or not host.node or not case.world.has("Node"):
        return None
    if any(node.name == host.node for node in case.world.nodes):
        return None
    return Finding(
        f"the host runs {case.title} on node {host.node}, which the tenant does not know",
        "let the tenant see the node: sync.fromHost.nodes and its selector",
        (f"host pod {host.namespace}/{host.name} on {host.node}: {host.phase}",),
    )


@rule(
    "tenant.class-blanked",
    "The priority class did not reach the host",
    UNBOUND,
    "vCluster 0.36.1, pods/translate/translator.go: blanked without sync.fromHost.priorityClasses",
)
def class_blanked(case: PodContext) -> Finding | None:
    """KAI then takes the class by the pod's kind."""
    twin = case.twin
    if twin is None or case.side != "host" or twin.obj is None:
        return None
    wanted = parts(twin.obj)[1].get("priorityClassName")
    if not wanted or parts(case.pod_obj)[1].get("priorityClassName"):
        return None
    return Finding(
        f"priority class {wanted} of the tenant's pod did not reach the host: KAI goes by its own default",
        "set sync.fromHost.priorityClasses.enabled, or use the label priorityClassName, which passes",
        (f"PodGroup's class: {case.group.priority_class}",) if case.group else (),
        Certainty.POSSIBLE,
    )


@rule(
    "tenant.two-kais",
    "The host's KAI meddles with a tenant that has its own",
    WAITING,
    "measured: the host's webhook mutates the synced pod again; pod-group-name comes back from the host",
)
def two_kais(case: PodContext) -> Finding | None:
    """Fractions of such a tenant never start, or are deleted by the host's binder."""
    twin = case.twin
    if twin is None or case.side == "host" or not case.by_kai or twin.obj is None or twin.pod is None:
        return None
    group = twin.pod.pod_group
    foreign = bool(group) and twin.world.get("PodGroup", group, twin.pod.namespace) is not None
    waiting = [w for w in twin.pod.waiting if "shared-gpu" in w.message and "not found" in w.message]
    if not foreign and not waiting:
        return None
    told = [f"host pod {twin.pod.namespace}/{twin.pod.name}: {w.reason}: {w.message}" for w in waiting]
    told += [f"PodGroup {twin.pod.namespace}/{group} exists on the host for it"] if foreign else []
    return Finding(
        f"the host's KAI handles the synced pod of {case.title} as well as the tenant's KAI does",
        "keep the host's KAI off the tenant's namespace: chart value global.namespaceLabelSelector, and node pools",
        tuple(told),
    )


@rule(
    "tenant.not-opted-in",
    "The host's KAI leaves the namespace to others",
    UNBOUND,
    "measured: beside tenants with a KAI of their own, the lab lets the host's KAI look at labelled namespaces only",
)
def not_opted_in(case: PodContext) -> Finding | None:
    """Its webhooks change no pod there, and its pod-grouper gives none a PodGroup."""
    space = case.world.get("Namespace", case.pod.namespace)
    if case.side.startswith("tenant") or not case.by_kai or case.kai is None or space is None:
        return None
    told = _selecting(case)
    if not told or HOST_KAI.items() <= labels_of(parts(space)[0]).items():
        return None
    label = _label()
    return Finding(
        f"the host's KAI looks only at namespaces labelled {label}, as tenants have a KAI of their own beside it,"
        f" and {case.pod.namespace} is not",
        case.kubectl("label", "namespace", case.pod.namespace, label),
        told,
    )


def _selecting(case: PodContext) -> tuple[str, ...]:
    """What of the host's KAI selects namespaces by the lab's label, as evidence."""
    kai = case.kai
    if kai is None:
        return ()
    told = []
    if HOST_KAI.items() <= kai.namespace_selector.items():
        told.append(f"pod-grouper: --namespace-label-selector {_label()}")
    for obj in case.world.of("MutatingWebhookConfiguration"):
        name = parts(obj)[0].get("name", "")
        chosen = [(w.get("namespaceSelector") or {}).get("matchLabels") or {} for w in obj.get("webhooks") or []]
        if name in kai.line.webhooks and any(HOST_KAI.items() <= labels.items() for labels in chosen):
            told.append(f"webhook configuration {name}: namespaceSelector {_label()}")
    return tuple(told)


def _label() -> str:
    return ",".join(f"{key}={value}" for key, value in HOST_KAI.items())


@rule(
    "tenant.host-deleting",
    "The host is deleting the pod",
    (PodStage.UNBOUND, PodStage.BOUND, PodStage.RUNNING),
    f"{_SYNCER}: physical pod is being deleted",
)
def host_deleting(case: PodContext) -> Finding | None:
    """Evicted or deleted on the host; the tenant's pod follows."""
    twin = case.twin
    if twin is None or twin.side != "host" or twin.pod is None or not twin.pod.deleting:
        return None
    group = twin.world.get("PodGroup", twin.pod.pod_group, twin.pod.namespace) if twin.pod.pod_group else None
    events = twin.world.events_about(parts(group)[0].get("uid", "")) if group else ()
    return Finding(
        f"the host is deleting the pod of {case.title}, and the tenant's pod goes with it",
        "see on the host who deleted it: KAI's evictions are events on the PodGroup",
        tuple(f"event {e.reason}: {e.message}" for e in events if e.reason == "Evict")[-2:],
    )


@rule(
    "tenant.status-behind",
    "The tenant has not heard yet",
    BOUND,
    "vCluster copies the status from the host",
    general=True,
)
def status_behind(case: PodContext) -> Finding | None:
    """Ready on the host, not yet in the tenant."""
    twin = case.twin
    if twin is None or twin.side != "host" or twin.pod is None or not twin.pod.ready:
        return None
    return Finding(
        f"the host's pod of {case.title} is Ready, and the tenant has not been told yet",
        "wait some seconds; if it stays, see the syncer's log",
        certainty=Certainty.POSSIBLE,
    )

"""CoreDNS of a tenant, and its repair when vCluster has lost its configuration.

vCluster writes the configuration when it starts. When a control plane with an emptyDir comes back empty, the copy on
the host is still that of the old one: the syncer deletes it as an orphan, and then the new one in the tenant, because
the host has none (measured with vCluster 0.36.1). CoreDNS waits for it until vCluster starts again.
"""

from __future__ import annotations

from contextlib import suppress

from lab.errors import ApiFailed, WaitTimeout
from lab.kube import Cluster
from lab.kube.readiness import StuckPods
from lab.objects.fields import parts
from lab.objects.isolation_labels import control_plane, tenant_namespace
from lab.objects.synced import SyncedObject, selector
from lab.objects.views import ContainerView, PodView
from lab.session.context import LabContext

NAMESPACE, NAME = "kube-system", "coredns"
"""Of its Deployment and its ConfigMap, in the tenant."""

SELECTOR = "k8s-app=vcluster-kube-dns"

SECONDS, ATTEMPTS = 20.0, 15
"""Length and number of the waits for CoreDNS; after each, its configuration is checked."""

_CONTAINER = "syncer"
_TERMINATE = ("sh", "-c", "kill -TERM 1")


def is_lost(inside: Cluster) -> bool:
    """Whether CoreDNS exists without its configuration. Raises ApiFailed."""
    exists = inside.get("Deployment", NAME, NAMESPACE) is not None
    return exists and inside.get("ConfigMap", NAME, NAMESPACE) is None


def wait_for_dns(ctx: LabContext, name: str) -> None:
    """Wait until CoreDNS of a tenant is Ready; if its configuration is lost, restart vCluster, which writes it.

    Raises:
        WaitTimeout, ApiFailed: it does not become Ready.
    """
    inside, starts = ctx.tenant(name), ctx.node_starts()
    if ctx.spec.cluster.own:
        _restart_early(ctx, name)
    for left in reversed(range(ATTEMPTS)):
        try:
            inside.wait(
                "Pod",
                lambda pods: any(PodView.of(pod).ready_since(starts) for pod in pods),
                namespace=NAMESPACE,
                labels=SELECTOR,
                timeout=SECONDS,
                what=f"CoreDNS of tenant {name} is Ready",
                fail=StuckPods(images_present=ctx.images_in_nodes),
            )
        except WaitTimeout:
            if not left:
                raise
            if is_lost(inside):
                _restart_vcluster(ctx, inside, name)
        else:
            return


def _restart_early(ctx: LabContext, name: str) -> None:
    """Restart a CoreDNS that started before its API server: it asks again at longer and longer intervals, up to 30 s.

    So it is in a lab whose nodes have just started, or that was restored from a checkpoint: 5 to 12 s (seen). If one of
    its containers has ended before, as in a stopped lab, the kubelet waits for 10 s; a new pod starts at once.
    """
    cluster, namespace = ctx.cluster(), tenant_namespace(name)
    vcluster = map(PodView.of, cluster.list("Pod", namespace, labels=control_plane(name)))
    conditions = (one for pod in vcluster for one in pod.conditions)
    answers = max((one.since for one in conditions if one.type == "Ready" and one.since), default=None)
    for pod in cluster.list("Pod", namespace, labels=f"{SELECTOR},{selector(name, NAMESPACE)}"):
        _, spec, status = parts(pod)
        for container in status.get("containerStatuses") or ():
            view = ContainerView.of(container)
            early = answers and view.started and view.started < answers and not view.ready
            if early and view.restarts:
                ctx.tenant(name).delete("Pod", SyncedObject.of(pod).name, NAMESPACE)
            elif early:
                task = str(container.get("containerID")).rpartition("/")[2]
                kill = ["ctr", "--namespace", "k8s.io", "task", "kill", "--signal", "SIGKILL", task]
                # it may have ended, or be of the node's life before
                ctx.engine.exec(str(spec.get("nodeName")), kill, check=False, timeout=30)


def _restart_vcluster(ctx: LabContext, inside: Cluster, name: str) -> None:
    """Restart vCluster in its container, which keeps the tenant's data: a new pod would start without any."""
    ctx.progress("CoreDNS has lost its configuration: restarting vCluster")
    cluster, namespace = ctx.cluster(), tenant_namespace(name)
    for pod in map(PodView.of, cluster.list("Pod", namespace, labels=control_plane(name))):
        with suppress(ApiFailed):  # the connection may end with the container
            cluster.exec(pod.name, namespace, _TERMINATE, container=_CONTAINER)
    inside.wait(
        "ConfigMap",
        bool,
        namespace=NAMESPACE,
        fields=f"metadata.name={NAME}",
        timeout=SECONDS * ATTEMPTS,
        what=f"vCluster writes the configuration of CoreDNS in tenant {name}",
    )
    inside.delete_all("Pod", NAMESPACE, labels=SELECTOR)  # the kubelet retries a mount only after 2 minutes

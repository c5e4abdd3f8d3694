"""CoreDNS of a tenant: that it runs, and what brings it back when vCluster has lost its configuration.

vCluster writes that configuration at its start. In a control plane that comes back empty, the copy on the host is still
the old one's: the syncer deletes it as nobody's, and then the new one in the tenant, because the host has none (seen
with vCluster 0.36.1). CoreDNS waits for it until vCluster starts again.
"""

from __future__ import annotations

from contextlib import suppress

from lab.config.labels import tenant_namespace
from lab.errors import ApiFailed, WaitTimeout
from lab.kube import Cluster
from lab.objects.views import PodView
from lab.session.context import LabContext
from lab.steps import helm_release

NAMESPACE, NAME = "kube-system", "coredns"
"""Of its Deployment and its ConfigMap, in the tenant."""

SELECTOR = "k8s-app=vcluster-kube-dns"

SECONDS, LOOKS = 20.0, 15
"""How long CoreDNS is waited for until it is looked whether that is in vain, and how often."""

_CONTAINER = "syncer"
_END = ("sh", "-c", "kill -TERM 1")


def lost(inside: Cluster) -> bool:
    """Whether CoreDNS is there without its configuration. Raises ApiFailed."""
    there = inside.get("Deployment", NAME, NAMESPACE) is not None
    return there and inside.get("ConfigMap", NAME, NAMESPACE) is None


def wait_for_dns(ctx: LabContext, name: str) -> None:
    """Wait until CoreDNS is Ready; where its configuration is lost, vCluster starts again and writes it anew.

    Args:
        ctx: of the step.
        name: of the tenant.

    Raises:
        WaitTimeout, ApiFailed: it does not become Ready.
    """
    inside = ctx.tenant(name)
    images_present = ctx.spec.cluster.provider == "kind"
    for left in reversed(range(LOOKS)):
        try:
            inside.wait(
                "Pod",
                lambda pods: any(helm_release.pods_ready([pod]) for pod in pods),
                namespace=NAMESPACE,
                labels=SELECTOR,
                timeout=SECONDS,
                what=f"CoreDNS of tenant {name} is Ready",
                fail=lambda pods: helm_release.pods_stuck(pods, images_present=images_present),
            )
        except WaitTimeout:
            if not left:
                raise
            if lost(inside):
                _start_again(ctx, inside, name)
        else:
            return


def _start_again(ctx: LabContext, inside: Cluster, name: str) -> None:
    """End vCluster in its container, which keeps the tenant's data: a new pod would begin without any."""
    ctx.progress("CoreDNS has lost its configuration: starting vCluster again")
    cluster, namespace = ctx.cluster(), tenant_namespace(name)
    for pod in map(PodView.of, cluster.list("Pod", namespace, labels=f"app=vcluster,release={name}")):
        with suppress(ApiFailed):  # the connection may end with the container
            cluster.exec(pod.name, namespace, _END, container=_CONTAINER)
    inside.wait(
        "ConfigMap",
        bool,
        namespace=NAMESPACE,
        fields=f"metadata.name={NAME}",
        timeout=SECONDS * LOOKS,
        what=f"vCluster writes the configuration of CoreDNS in tenant {name}",
    )
    inside.delete_all("Pod", NAMESPACE, labels=SELECTOR)  # the kubelet tries a mount again after 2 minutes only

"""Steps ``tenant:NAME``: a vCluster runs, its DNS works, and its API is reachable from this machine."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from lab.config import LabSpec, TenantSpec
from lab.config.labels import namespace_labels, tenant_namespace
from lab.config.node_assignment import beside_host_kai, tenant_nodes
from lab.engine.step import Effect, Observed
from lab.errors import ApiFailed, StepFailed
from lab.kube import OWNER_LABEL, Cluster
from lab.objects.fields import labels_of, parts
from lab.session.context import LabContext
from lab.session.step import LabStep
from lab.steps import helm_release
from lab.tenants.removal.remove import foreign, forget, remove_tenant
from lab.tenants.removal.timeline import Removal
from lab.tenants.vcluster import access, coredns
from lab.tenants.vcluster.validation import validate_tenants
from lab.tenants.vcluster.values import CHART, release_values, tenant_values

_HELM_SECONDS = 120.0
_START_SECONDS = 300.0
_SECRET_SECONDS = 60.0
_REACH_SECONDS = 30.0


@dataclass(frozen=True)
class VirtualCluster(LabStep):
    """One vCluster."""

    spec: LabSpec
    tenant: TenantSpec
    images_loaded: bool = False
    """A step of the same run loads its images into the nodes."""
    grace: float | None = 1.0
    """Termination grace period of its pods at its removal in seconds; None: each pod's own."""
    check_gpus: bool = False
    """After its removal, verify with host pods that its GPUs are free."""
    removals: list[Removal] = field(default_factory=list, compare=False)

    def wanted(self) -> object:
        return self.tenant, self.labels

    @property
    def id(self) -> str:
        return f"tenant:{self.tenant.name}"

    @property
    def title(self) -> str:
        return f"vCluster {self.tenant.name} ({self.tenant.mode})"

    @property
    def needs(self) -> tuple[str, ...]:
        """Not KAI: a host-kai tenant starts in parallel, since kube-scheduler schedules its control plane."""
        nodes = ("tenant-nodes",) if tenant_nodes(self.spec) else ()
        images = (f"images:{self.tenant.name}",) if self.images_loaded else ()
        return images if self.spec.cluster.provider == "existing" else ("network", *nodes, *images)

    @property
    def namespace(self) -> str:
        """The tenant's namespace on the host."""
        return tenant_namespace(self.tenant.name)

    @property
    def labels(self) -> dict[str, str]:
        """Labels of that namespace."""
        beside = beside_host_kai(self.spec)
        return {OWNER_LABEL: self.spec.name, **namespace_labels(self.tenant.mode, beside_host_kai=beside)}

    def effects(self) -> tuple[Effect, ...]:
        name = self.tenant.name
        install = f"helm install {name} (vCluster {self.tenant.vcluster}) in {self.namespace}"
        kubeconfig = f"kubeconfig tenant-{name}.kubeconfig, for https://127.0.0.1; 'lab kubeconfig {name}'"
        return Effect("cluster", install, "lab down"), Effect("lab", kubeconfig, "lab down")

    def observe(self, ctx: LabContext) -> Observed:
        port = access.find_port(ctx, self.tenant.name)
        release = helm_release.installed(ctx.cluster(), self.tenant.name, self.namespace) if port else None
        if port is None or release is None:
            return Observed.absent()
        values = release_values(self.spec, self.tenant, port)
        if diff := helm_release.differences(release, self.tenant.vcluster, values):
            return Observed.drifted("differs from the lab file", diff)
        labels = labels_of(parts(ctx.cluster().get("Namespace", self.namespace) or {})[0])
        if missing := [f"{key}={value}" for key, value in self.labels.items() if labels.get(key) != value]:
            return Observed.drifted(f"its namespace lacks {', '.join(missing)}")
        if not ctx.paths.tenant_kubeconfig(self.tenant.name).exists():
            return Observed.drifted("its kubeconfig is missing")
        if not access.answers(ctx, self.tenant.name):
            return Observed.drifted("its API does not answer")
        if coredns.is_lost(ctx.tenant(self.tenant.name)):
            return Observed.drifted("its CoreDNS has lost its configuration")
        return Observed.ready(access.server_of(port))

    def apply(self, ctx: LabContext) -> None:
        cluster, name = ctx.cluster(), self.tenant.name
        # a first run has no chart yet when the plan is made
        alone = self.spec.model_copy(update={"tenants": (self.tenant,)})
        validate_tenants(alone, ctx.supply.chart(CHART, self.tenant.vcluster))
        port = access.claim_port(ctx, name)
        values = release_values(self.spec, self.tenant, port)
        if self.spec.cluster.provider == "existing" and cluster.get("Namespace", self.namespace) is None:
            ctx.journal.owns("namespace", self.namespace, self.id)
        cluster.apply([helm_release.namespace_doc(self.namespace, self.labels)])
        helm_release.forget_unfinished(cluster, name, self.namespace)
        release = helm_release.installed(cluster, name, self.namespace)
        if release is None or helm_release.differences(release, self.tenant.vcluster, values):
            ctx.progress("helm install")
            helm_release.helm_for(ctx).upgrade_install(
                name, ctx.supply.chart(CHART, self.tenant.vcluster), self.namespace, values, timeout=_HELM_SECONDS
            )
        ctx.progress("waiting for the control plane")
        self._wait_for_control_plane(cluster)
        self._write_kubeconfig(ctx, cluster, port)
        ctx.progress("waiting for DNS")
        self._wait_inside(ctx)

    def verify(self, ctx: LabContext) -> None:
        """Raise unless the kubeconfig leads to the tenant; on a port that was in use, another cluster has answered."""
        inside = ctx.tenant(self.tenant.name)
        if not inside.healthy():
            raise ApiFailed(
                f"tenant {self.tenant.name} does not answer /readyz at {inside.server}",
                fix=ctx.cluster().kubectl("get", "pods,svc", "-n", self.namespace),
            )
        if _system_uid(inside) == _system_uid(ctx.cluster()):
            raise StepFailed(
                f"the kubeconfig of tenant {self.tenant.name} points to the lab's own cluster",
                fix=f"remove {ctx.paths.tenant_kubeconfig(self.tenant.name)} and run 'lab up' again",
            )

    def undo(self, ctx: LabContext) -> None:
        """Remove the tenant with everything it synced, unless its namespace is not the lab's.

        Raises:
            Leftovers: something of it remains.
            LabError: see ``remove_tenant``.
        """
        if foreign(ctx, self.tenant.name):
            forget(ctx, self.tenant.name)
        else:
            removal = remove_tenant(ctx, self.tenant, grace=self.grace, check_gpus=self.check_gpus)
            self.removals.append(removal)
            removal.raise_left()

    def remains(self, ctx: LabContext) -> tuple[str, ...]:
        return tuple(line for removal in self.removals for line in removal.left)

    def _wait_for_control_plane(self, cluster: Cluster) -> None:
        name = self.tenant.name
        in_nodes = self.spec.cluster.provider == "kind"
        cluster.wait(
            "Pod",
            helm_release.pods_ready,
            namespace=self.namespace,
            labels=f"app=vcluster,release={name}",
            timeout=_START_SECONDS,
            what=f"the control plane of tenant {name} is Ready",
            fail=lambda pods: helm_release.pods_stuck(pods, images_present=in_nodes),
        )
        for kind in ("Deployment", "StatefulSet"):
            # after an upgrade the old pod is Ready too, until the new one has replaced it
            if cluster.get(kind, name, self.namespace) is not None:
                cluster.wait_ready(kind, name, self.namespace, timeout=_START_SECONDS)

    def _write_kubeconfig(self, ctx: LabContext, cluster: Cluster, port: access.Port) -> None:
        name = self.tenant.name
        path = ctx.paths.tenant_kubeconfig(name)
        secrets = cluster.wait(
            "Secret",
            lambda found: any(access.kubeconfig_in(secret, port) for secret in found),
            namespace=self.namespace,
            fields=f"metadata.name=vc-{name}",
            timeout=_SECRET_SECONDS,
            what=f"tenant {name} has written its kubeconfig for {access.server_of(port)}",
        )
        text = next(text for secret in secrets if (text := access.kubeconfig_in(secret, port)))
        ctx.journal.owns("file", str(path), self.id)
        access.write_private(path, text)

    def _wait_inside(self, ctx: LabContext) -> None:
        name = self.tenant.name
        inside = ctx.tenant(name)
        # kube-proxy writes the rules of the NodePort after the pod is Ready
        if not inside.poll(inside.healthy, timeout=_REACH_SECONDS, interval=0.2):
            raise ApiFailed(
                f"tenant {name} does not answer at {inside.server} although its control plane is Ready",
                fix=f"check the port mappings: {ctx.engine.name} port {ctx.kind_name}-control-plane",
            )
        inside.wait(
            "ServiceAccount",
            bool,
            namespace="default",
            fields="metadata.name=default",
            timeout=_REACH_SECONDS,
            what=f"tenant {name} has its default service account",
        )
        if helm_release.value_at(tenant_values(self.tenant), "controlPlane.coredns.enabled") is not False:
            coredns.wait_for_dns(ctx, name)


def _system_uid(cluster: Cluster) -> Any:
    return parts(cluster.get("Namespace", "kube-system") or {})[0].get("uid")

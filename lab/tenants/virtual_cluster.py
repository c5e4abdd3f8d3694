"""Steps ``tenant:NAME``: a vCluster runs, its DNS works, and its API is reachable from this machine."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from lab.config import LabSpec, TenantSpec
from lab.config.node_assignment import beside_host_kai, tenant_nodes
from lab.engine.step import Effect, Observed, State
from lab.errors import ApiFailed, LabError, StepFailed
from lab.kube import OWNER_LABEL, Cluster
from lab.kube.access_review import Permission
from lab.kube.ownership import owner_of, refuse_foreign
from lab.kube.readiness import StuckPods
from lab.objects.fields import labels_of, parts
from lab.objects.isolation_labels import control_plane, namespace_labels, tenant_namespace
from lab.objects.views import PodView
from lab.session.context import LabContext
from lab.session.private_file import write_private
from lab.session.step import LabStep
from lab.steps import helm_release
from lab.steps.helm_release import value_at
from lab.supply.pull_secrets import copy_pull_secrets
from lab.tenants.isolation.foreign_kai import NoForeignKai
from lab.tenants.removal.leftovers import on_machine
from lab.tenants.removal.remove import foreign, forget, remove_tenant
from lab.tenants.removal.timeline import Removal
from lab.tenants.vcluster import access, coredns, existing_access
from lab.tenants.vcluster.validation import validate_tenants
from lab.tenants.vcluster.values import CHART, CLAIM, first_claim, release_values, tenant_values
from lab.tools.helm import Release

_CLUSTER_WIDE = {
    "persistentVolumes": "",
    "priorityClasses": "scheduling.k8s.io",
    "storageClasses": "storage.k8s.io",
    "ingressClasses": "networking.k8s.io",
}
"""Values below sync.toHost with which vCluster makes objects that are not in the tenant's namespace; their groups."""
_HELM_SECONDS = 120.0
_START_SECONDS = 300.0
_SECRET_SECONDS = 60.0
_REACH_SECONDS = 120.0  # kube-proxy of nodes that just started writes its rules late on a busy machine


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
        return f"vCluster {self.tenant.name} ({self.spec.mode_of(self.tenant)})"

    @property
    def needs(self) -> tuple[str, ...]:
        """Not KAI: a host-kai tenant starts in parallel, since kube-scheduler schedules its control plane."""
        nodes = ("tenant-nodes",) if tenant_nodes(self.spec) else ()
        images = (f"images:{self.tenant.name}",) if self.images_loaded else ()
        if self.tenant.mode == "own-kai" and not beside_host_kai(self.spec):
            images = (NoForeignKai.id, *images)
        return ("network", *nodes, *images)

    @property
    def namespace(self) -> str:
        """The tenant's namespace on the host."""
        return tenant_namespace(self.tenant.name)

    @property
    def labels(self) -> dict[str, str]:
        """Labels of that namespace."""
        beside = beside_host_kai(self.spec)
        return {OWNER_LABEL: self.spec.name, **namespace_labels(self.tenant.mode, beside_host_kai=beside)}

    @property
    def _labelled(self) -> dict[str, Any]:
        """The namespace with its labels."""
        return helm_release.namespace_doc(self.namespace, self.labels)

    def effects(self) -> tuple[Effect, ...]:
        name = self.tenant.name
        install = f"helm install {name} (vCluster {self.tenant.vcluster}) in {self.namespace}"
        where = "https://127.0.0.1" if self.spec.cluster.own else "its NodePort, LoadBalancer or a port-forward"
        kubeconfig = f"kubeconfig tenant-{name}.kubeconfig, for {where}; 'kailab kubeconfig {name}'"
        return Effect("cluster", install, "kailab down"), Effect("lab", kubeconfig, "kailab down")

    def permissions(self) -> tuple[Permission, ...]:
        """Helm's, to read copied Secrets, to find a way to the API, and to delete what the tenant makes."""
        secrets = (Permission("get", "", "secrets", "default", name) for name in self.spec.supply.pull_secrets)
        access = (Permission("list", "", "services"), Permission("create", "", "pods/portforward", self.namespace))
        synced = (key for key in _CLUSTER_WIDE if value_at(self.tenant.values, f"sync.toHost.{key}.enabled"))
        removal = (Permission("delete", _CLUSTER_WIDE[key], key.lower()) for key in synced)
        return (*helm_release.permissions(self.namespace), *secrets, *access, *removal)

    def charts(self) -> tuple[tuple[str, str], ...]:
        return ((CHART, self.tenant.vcluster),)

    def creates(self, ctx: LabContext) -> tuple[dict[str, Any], ...]:
        """Its namespace and what the chart renders; without a chart at hand the namespace."""
        space = self._labelled
        if not ctx.supply.at_hand("chart", CHART, self.tenant.vcluster):
            return (space,)
        chart, endpoint = ctx.supply.chart(CHART, self.tenant.vcluster), access.find_endpoint(ctx, self.tenant.name)
        values = release_values(self.spec, self.tenant, endpoint)
        rendered = helm_release.helm_for(ctx).template(self.tenant.name, chart, self.namespace, values)
        return (space, *rendered)

    def observe(self, ctx: LabContext) -> Observed:
        endpoint = access.find_endpoint(ctx, self.tenant.name)
        known = endpoint is not None or not self.spec.cluster.own
        release = helm_release.installed(ctx.cluster(), self.tenant.name, self.namespace) if known else None
        if release is None:
            return Observed.absent()
        found = self._installed(ctx.cluster(), release, endpoint)
        if found.state is not State.READY:
            return found
        labels = labels_of(parts(ctx.cluster().get("Namespace", self.namespace) or {})[0])
        if missing := [f"{key}={value}" for key, value in self.labels.items() if labels.get(key) != value]:
            return Observed.drifted(f"its namespace lacks {', '.join(missing)}")
        if endpoint is None or not ctx.paths.tenant_kubeconfig(self.tenant.name).exists():
            return Observed.drifted("its kubeconfig is missing")
        if not access.answers(ctx, self.tenant.name):
            return Observed.drifted("its API does not answer" + (f": {endpoint}" if endpoint.how else ""))
        if coredns.is_lost(ctx.tenant(self.tenant.name)):
            return Observed.drifted("its CoreDNS has lost its configuration")
        return Observed.ready(str(endpoint))

    def _installed(self, cluster: Cluster, release: Release, endpoint: access.Endpoint | None) -> Observed:
        """Whether everything that the installation makes is there, whatever its pods do."""
        values = release_values(self.spec, self.tenant, endpoint)
        if diff := helm_release.differences(release, self.tenant.vcluster, values):
            return Observed.drifted("differs from the lab file", diff)
        if gone := self._missing(cluster, release):
            return Observed.drifted("objects are missing", gone)
        return Observed.ready()

    def apply(self, ctx: LabContext) -> None:
        cluster, name = ctx.cluster(), self.tenant.name
        self.refuse_foreign(cluster)
        port = access.claim_port(ctx, name) if self.spec.cluster.own else None
        release = helm_release.installed(cluster, name, self.namespace)
        as_wanted = release is not None and self._installed(cluster, release, port).state is State.READY
        if as_wanted and (ctx.nodes_just_started() or access.answers(ctx, name)):
            cluster.apply([self._labelled])
        else:
            self._install(ctx, port)
        ctx.progress("waiting for the control plane")
        self._wait_for_control_plane(ctx, cluster)
        self._write_kubeconfig(ctx, cluster, port)
        ctx.progress("waiting for DNS")
        self._wait_inside(ctx)

    def _install(self, ctx: LabContext, port: access.Endpoint | None) -> None:
        """Install vCluster, or let Helm upgrade the installed one."""
        cluster, name = ctx.cluster(), self.tenant.name
        # a first run has no chart yet when the plan is made
        alone = self.spec.model_copy(update={"tenants": (self.tenant,)})
        validate_tenants(alone, ctx.supply.chart(CHART, self.tenant.vcluster))
        values = release_values(self.spec, self.tenant, port)
        if not self.spec.cluster.own and cluster.get("Namespace", self.namespace) is None:
            ctx.journal.owns("namespace", self.namespace, self.id)
        self._refuse_data_loss(cluster)
        cluster.apply([*self._storage, self._labelled])
        copy_pull_secrets(cluster, self.spec, self.namespace)
        helm_release.forget_unfinished(cluster, name, self.namespace)
        release = helm_release.installed(cluster, name, self.namespace)
        gone = self._missing(cluster, release) if release else ()
        claim = first_claim(name, values) if release is None and self.spec.cluster.own else None
        if claim and cluster.get("PersistentVolumeClaim", claim["metadata"]["name"], self.namespace) is None:
            cluster.create(claim)
        ctx.progress("helm install")
        # also of an unchanged release: it restores objects and replicas, and restarts nothing
        helm_release.helm_for(ctx).upgrade_install(
            name,
            ctx.supply.chart(CHART, self.tenant.vcluster),
            self.namespace,
            values,
            validate=bool(self.tenant.values),
            timeout=_HELM_SECONDS,
        )
        if gone and self._persistent:
            # vCluster writes its Secret only at its start, and its objects are owned by a Service that is gone
            cluster.delete_all("Pod", self.namespace, labels=self._control_plane)

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
                fix=f"remove {ctx.paths.tenant_kubeconfig(self.tenant.name)} and run 'kailab up' again",
            )

    def undo(self, ctx: LabContext) -> None:
        """Remove the tenant with everything it synced; a namespace that is not the lab's stays, with a notice.

        Raises:
            Leftovers: something of it remains.
            LabError: see ``remove_tenant``.
        """
        if (space := foreign(ctx, self.tenant.name)) is not None:
            ctx.notice(f"namespace {self.namespace} stays: it {owner_of(space)}")
            forget(ctx, self.tenant.name)
            removal = Removal(self.tenant.name, (), grace=None, left=on_machine(ctx, self.tenant.name))
        else:
            removal = remove_tenant(ctx, self.tenant, grace=self.grace, check_gpus=self.check_gpus)
        self.removals.append(removal)
        removal.raise_left()

    def remains(self, ctx: LabContext) -> tuple[str, ...]:
        return tuple(line for removal in self.removals for line in removal.left)

    def _missing(self, cluster: Cluster, release: Release) -> tuple[str, ...]:
        """The objects of the release, and the Secret with the tenant's kubeconfig, that are missing."""
        secret = f"vc-{self.tenant.name}"
        there = cluster.get("Secret", secret, self.namespace) is not None
        lost = () if there else (f"Secret {self.namespace}/{secret} is missing",)
        return (*helm_release.missing_objects(cluster, release), *lost)

    @property
    def _control_plane(self) -> str:
        """Labels of the control plane's pods."""
        return control_plane(self.tenant.name)

    @property
    def _persistent(self) -> bool:
        """Whether the tenant's data outlives its control-plane pod."""
        return value_at(tenant_values(self.tenant), CLAIM) is not False

    def refuse_foreign(self, cluster: Cluster) -> None:
        """Raise StepFailed if the tenant's namespace, or the lab's StorageClass, is of somebody else."""
        records = cluster.list("Secret", self.namespace, labels="owner=helm")
        names = sorted({labels_of(one["metadata"]).get("name", "") for one in records})
        evidence = [f"it has the Helm release {self.namespace}/{name}" for name in names]
        space = helm_release.namespace_doc(self.namespace, {})
        refuse_foreign(cluster, self.spec.name, [space], evidence=evidence, fix="rename the tenant")
        refuse_foreign(cluster, self.spec.name, self._storage)

    @property
    def _storage(self) -> list[dict[str, Any]]:
        """The StorageClass of tenants' volumes, on the lab's own cluster."""
        if not self.spec.cluster.own:
            return []
        doc = helm_release.base_values("vcluster", "storage")
        return [{**doc, "metadata": {**doc["metadata"], "labels": {OWNER_LABEL: self.spec.name}}}]

    def _refuse_data_loss(self, cluster: Cluster) -> None:
        """Refuse a change between emptyDir and claim: another control plane would start, without the objects inside."""
        claim = self._persistent
        if cluster.get("Deployment" if claim else "StatefulSet", self.tenant.name, self.namespace) is not None:
            raise LabError(
                f"Tenant {self.tenant.name} keeps its objects in {'an emptyDir' if claim else 'a volume'}, and a change"
                f" of values.{CLAIM} would lose them",
                fix=f"set values.{CLAIM}: {'false' if claim else 'true'}, or recreate the tenant:"
                f" kailab tenant remove {self.tenant.name}",
            )

    def _wait_for_control_plane(self, ctx: LabContext, cluster: Cluster) -> None:
        name, starts = self.tenant.name, ctx.node_starts()

        def ready(pods: list[dict[str, Any]]) -> bool:
            living = [pod for pod in map(PodView.of, pods) if not pod.deleting]
            return bool(living) and all(pod.ready_since(starts) for pod in living)

        in_nodes = self.spec.cluster.own
        helm_release.restart_crashed(cluster, self.namespace, self._control_plane)
        cluster.wait(
            "Pod",
            ready,
            namespace=self.namespace,
            labels=self._control_plane,
            timeout=_START_SECONDS,
            what=f"the control plane of tenant {name} is Ready",
            fail=StuckPods(images_present=in_nodes),
        )
        for kind in ("Deployment", "StatefulSet"):
            # after an upgrade the old pod is Ready too, until the new one has replaced it
            if cluster.get(kind, name, self.namespace) is not None:
                cluster.wait_ready(kind, name, self.namespace, timeout=_START_SECONDS)

    def _write_kubeconfig(self, ctx: LabContext, cluster: Cluster, port: access.Endpoint | None) -> None:
        name = self.tenant.name
        path = ctx.paths.tenant_kubeconfig(name)
        secrets = cluster.wait(
            "Secret",
            lambda found: any(access.kubeconfig_in(secret, port) for secret in found),
            namespace=self.namespace,
            fields=f"metadata.name=vc-{name}",
            timeout=_SECRET_SECONDS,
            what=f"tenant {name} has written its kubeconfig" + (f" for {port}" if port else ""),
        )
        text = next(text for secret in secrets if (text := access.kubeconfig_in(secret, port)))
        if port is None:
            existing_access.connect(ctx, name, text)
            return
        ctx.journal.owns("file", str(path), self.id)
        write_private(path, text)

    def _wait_inside(self, ctx: LabContext) -> None:
        name = self.tenant.name
        inside = ctx.tenant(name)
        # kube-proxy writes the rules of the NodePort after the pod is Ready
        if not inside.poll(inside.healthy, timeout=_REACH_SECONDS, interval=0.2):
            raise ApiFailed(
                f"tenant {name} does not answer at {inside.server} although its control plane is Ready",
                fix=f"check the port mappings: {ctx.engine.name} port {ctx.kind_name}-control-plane"
                if self.spec.cluster.own
                else "kailab up",
            )
        inside.wait(
            "ServiceAccount",
            bool,
            namespace="default",
            fields="metadata.name=default",
            timeout=_REACH_SECONDS,
            what=f"tenant {name} has its default service account",
        )
        if value_at(tenant_values(self.tenant), "controlPlane.coredns.enabled") is not False:
            coredns.wait_for_dns(ctx, name)


def _system_uid(cluster: Cluster) -> Any:
    return parts(cluster.get("Namespace", "kube-system") or {})[0].get("uid")

"""Step ``kai``: NVIDIA KAI Scheduler is installed by Helm and its webhooks answer."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.config import LabSpec
from lab.config.labels import namespace_labels, tenant_namespace
from lab.config.node_assignment import beside_host_kai
from lab.engine.step import Effect, Observed
from lab.errors import LabError, StepFailed
from lab.kai import VersionLine, line_of, lines
from lab.kai.chart import differences
from lab.kai.names import KAI_CHART
from lab.kube import OWNER_LABEL, Cluster
from lab.kube.readiness import is_ready
from lab.session.context import LabContext
from lab.session.step import LabStep
from lab.steps import helm_release
from lab.steps.cluster.config import has_gpus
from lab.steps.kai import required_crds
from lab.steps.kai.binder_placeholders import sheltered  # that part has this one inside tenants
from lab.steps.kai.chart import chart_seen, config_documents
from lab.steps.kai.values import kai_deployments, kai_values, makes_default_queues, own_hooks, release_values
from lab.steps.kai.webhooks import wait_for_webhooks, webhooks_answer
from lab.tools.helm import Helm

_ANY = next(iter(lines().values()))
NAMESPACE, RESERVATIONS, RELEASE = _ANY.namespace, _ANY.reservation_namespace, _ANY.release
"""KAI's namespace, that of its reservation pods and its Helm release: the same in all lines."""

_HELM_SECONDS = 600.0
_READY_SECONDS = 300.0
_WEBHOOK_SECONDS = 60.0
_SURPRISES = 5
"""How many of the differences between an unknown chart and its line are told."""
_SHARD = ("SchedulingShard", "default")
_CONFIG = ("Config.kai.scheduler", "kai-config")


@dataclass(frozen=True)
class Kai(LabStep):
    """KAI on the lab's own cluster."""

    spec: LabSpec
    id: str = "kai"

    def wanted(self) -> object:
        return self.spec.kai.version, release_values(self.spec)

    @property
    def line(self) -> VersionLine:
        """What holds for the lab file's KAI version."""
        return line_of(self.spec.kai.version)

    @property
    def title(self) -> str:
        return f"KAI Scheduler {self.spec.kai.version}"

    @property
    def needs(self) -> tuple[str, ...]:
        """Preparing GPU nodes restarts containerd, which the start of KAI's pods must not meet."""
        if self.spec.cluster.provider == "existing":
            return ()
        return ("network", "gpu-nodes") if has_gpus(self.spec) else ("network",)

    def effects(self) -> tuple[Effect, ...]:
        what = f"{RELEASE} {self.spec.kai.version}, gpuSharing {'on' if self.spec.kai.gpu_sharing else 'off'}"
        crds = " and ".join(["KAI's CRDs", *self.line.needs_crds])
        return (
            Effect("cluster", f"helm install {what}", "lab down"),
            Effect("cluster", f"namespaces {NAMESPACE}, {RESERVATIONS}; {crds}; webhooks", "lab down"),
        )

    def observe(self, ctx: LabContext) -> Observed:
        cluster = ctx.cluster()
        release = helm_release.installed(cluster, RELEASE, NAMESPACE)
        if release is None:
            return Observed.absent()
        if self._foreign(cluster):
            return Observed.ready(f"{release.chart_version}, not the lab's own: left as it is")
        if diff := helm_release.differences(release, self.spec.kai.version, release_values(self.spec)):
            return Observed.drifted("differs from the lab file", diff)
        if lacking := required_crds.missing(cluster, self.line):
            return Observed.drifted(f"its operator needs CRDs that are missing: {', '.join(lacking)}")
        if down := self._unavailable(cluster):
            return Observed.drifted(f"not Available: {', '.join(down)}")
        if not webhooks_answer(cluster, self.spec.name, self.line, kai_values(self.spec)):
            return Observed.drifted("its webhooks do not answer")
        return Observed.ready(release.chart_version)

    def apply(self, ctx: LabContext) -> None:
        cluster = ctx.cluster()
        helm = helm_release.helm_for(ctx)
        chart = ctx.supply.chart(KAI_CHART, self.line.tag)
        by_lab = own_hooks(self.spec)
        if not self.line.exact:
            self._say_surprises(ctx, helm, chart)
        self._claim(ctx, cluster, chart)
        cluster.apply([helm_release.namespace_doc(NAMESPACE, {OWNER_LABEL: self.spec.name})])
        if helm_release.forget_unfinished(cluster, RELEASE, NAMESPACE):
            ctx.progress("an earlier installation was cut off: starting it again")
        if self.line.stale_hook_job:
            cluster.delete("Job", "crd-upgrader", NAMESPACE, wait=60)
        required_crds.give(cluster, self.line, self.spec.name)
        if by_lab:
            ctx.progress("CRDs and configuration")
            self._do_hooks(cluster, helm, chart)
        self._label_served_namespaces(cluster)
        ctx.progress("helm install")
        with self._tenants_sheltered(cluster):
            helm.upgrade_install(
                RELEASE,
                chart,
                NAMESPACE,
                release_values(self.spec),
                hooks=not by_lab,
                crds=not by_lab,
                timeout=_HELM_SECONDS,
            )
            self._wait(ctx, cluster)

    def _label_served_namespaces(self, cluster: Cluster) -> None:
        """Label the tenants it serves before it is told to look at labelled namespaces only: it never loses them."""
        for tenant in self.spec.tenants:
            labels = namespace_labels(tenant.mode, beside_host_kai=beside_host_kai(self.spec))
            namespace = tenant_namespace(tenant.name)
            if tenant.mode == "host-kai" and labels and cluster.get("Namespace", namespace) is not None:
                cluster.patch("Namespace", namespace, {"metadata": {"labels": labels}})

    def _tenants_sheltered(self, cluster: Cluster) -> AbstractContextManager[object]:
        """Beside tenants with a KAI of their own, the binder must find their GPU groups in order when it starts."""
        if not beside_host_kai(self.spec):
            return nullcontext()

        return sheltered(cluster, self.spec.name, self.line)

    def verify(self, ctx: LabContext) -> None:
        cluster = ctx.cluster()
        if down := self._unavailable(cluster):
            raise StepFailed(
                f"KAI's deployments are not Available: {', '.join(down)}",
                fix=f"{cluster.kubectl('describe', 'pods', '-n', NAMESPACE)}",
            )
        sharded = self.line.has_shards and self.line.scheduler_app in kai_deployments(self.spec)
        if sharded and cluster.get(*_SHARD) is None:
            raise StepFailed(
                "SchedulingShard default is missing, so KAI has no scheduler",
                fix="'helm uninstall kai-scheduler -n kai-scheduler', then 'lab up' again",
            )
        ctx.progress("waiting for the webhooks")
        wait_for_webhooks(cluster, self.spec.name, self.line, kai_values(self.spec), _WEBHOOK_SECONDS)

    def undo(self, ctx: LabContext) -> None:
        """Remove what the lab made of KAI, from a cluster that stays."""
        cluster = ctx.cluster()
        mine = [owned for owned in ctx.journal.owned() if owned.step == self.id]
        if any(owned.kind == "release" for owned in mine):
            # Their owner references take the operator's Deployments and webhooks along.
            cluster.delete(*_CONFIG, wait=60)
            cluster.delete(*_SHARD, wait=60)
            helm_release.helm_for(ctx).uninstall(RELEASE, NAMESPACE, hooks=False)
            ctx.journal.released("release", RELEASE)
        crds = [owned.name for owned in mine if owned.kind == "crd"]
        kept = required_crds.kept(cluster, self.line, crds, self.spec.name)
        for kind, what in (("crd", "CustomResourceDefinition"), ("namespace", "Namespace")):
            for owned in mine:
                if owned.kind == kind:
                    if owned.name not in kept:
                        cluster.delete(what, owned.name, wait=120)
                    ctx.journal.released(kind, owned.name)

    def _foreign(self, cluster: Cluster) -> bool:
        """Whether somebody else installed the KAI of this cluster."""
        if self.spec.cluster.provider == "kind":
            return False
        space = cluster.get("Namespace", NAMESPACE) or {}
        labels = space.get("metadata", {}).get("labels") or {}
        return bool(labels.get(OWNER_LABEL) != self.spec.name)

    def _claim(self, ctx: LabContext, cluster: Cluster, chart: Path) -> None:
        """Write down what will be the lab's own in somebody else's cluster: only what is not there yet.

        Raises:
            LabError: another KAI, or another lab's, is there.
        """
        if self.spec.cluster.provider == "kind":
            return
        if cluster.get("Namespace", NAMESPACE) is not None and self._foreign(cluster):
            raise LabError(
                f"the cluster has a namespace {NAMESPACE} that this lab did not make",
                fix="take scheduler: default, or a cluster without KAI",
            )
        crds = [doc["metadata"]["name"] for doc in helm_release.chart_documents(chart, "crds")]
        crds += self.line.needs_crds
        things = [("namespace", "Namespace", name) for name in (NAMESPACE, RESERVATIONS)]
        things += [("crd", "CustomResourceDefinition", name) for name in crds]
        for kind, what, name in things:
            if cluster.get(what, name) is None:
                ctx.journal.owns(kind, name, self.id)
        ctx.journal.owns("release", RELEASE, self.id, namespace=NAMESPACE)

    def _say_surprises(self, ctx: LabContext, helm: Helm, chart: Path) -> None:
        """Say how the chart of a version that the lab does not know differs from what is taken for granted."""
        found = differences(self.line, chart_seen(chart, self.line, helm.template))
        for told in found[:_SURPRISES]:
            ctx.notice(f"KAI {self.spec.kai.version} is not like line {self.line.name}: {told}")
        if len(found) > _SURPRISES:
            ctx.notice(f"KAI {self.spec.kai.version}: {len(found) - _SURPRISES} more differences")

    def _do_hooks(self, cluster: Cluster, helm: Helm, chart: Path) -> None:
        """What crd-upgrader and kai-config-deployer do, without their pods; see ``own_hooks``.

        The Config comes before the operator, which then deploys everything in its first round (9 s less with
        0.16.8). The operator registers the queue webhook at once, so the chart's default queues come before
        the Config: as part of the release they would be refused until that webhook answers.
        """
        templates = [self.line.config_template]
        templates += [self.line.queue_template] if makes_default_queues(self.spec) else []
        rendered = helm.template(RELEASE, chart, NAMESPACE, kai_values(self.spec), only=templates)
        crds = helm_release.chart_documents(chart, "crds")
        mine = {OWNER_LABEL: self.spec.name}
        cluster.apply([_labelled(doc, mine) for doc in crds])
        names = {doc["metadata"]["name"] for doc in crds}
        cluster.wait_ready("CustomResourceDefinition", names, timeout=60, what="KAI's CRDs are served")
        queues = [doc for doc in rendered if doc["kind"] == "Queue"]
        # as with helm, made once: what somebody changed in them stays
        new = [doc for doc in queues if cluster.get("Queue", doc["metadata"]["name"]) is None]
        cluster.apply(new, retry=30)
        config = config_documents(rendered)
        cluster.apply([_labelled(doc, mine) for doc in config], retry=30)

    def _wait(self, ctx: LabContext, cluster: Cluster) -> None:
        expected = set(kai_deployments(self.spec))
        in_nodes = self.spec.cluster.provider == "kind"

        def up(pods: list[dict[str, Any]]) -> bool:
            there = {(pod["metadata"].get("labels") or {}).get("app", "") for pod in pods if is_ready(pod)}
            ctx.progress("waiting for components", len(expected & there), len(expected))
            return expected <= there

        cluster.wait(
            "Pod",
            up,
            namespace=NAMESPACE,
            timeout=_READY_SECONDS,
            fail=lambda pods: helm_release.pods_stuck(pods, images_present=in_nodes),
            what=f"KAI's components run: {', '.join(sorted(expected))}",
        )
        cluster.wait_ready("Deployment", expected, NAMESPACE, timeout=_READY_SECONDS)

    def _unavailable(self, cluster: Cluster) -> list[str]:
        ready = {d["metadata"]["name"] for d in cluster.list("Deployment", NAMESPACE) if is_ready(d)}
        return [name for name in kai_deployments(self.spec) if name not in ready]


def _labelled(doc: dict[str, Any], labels: dict[str, str]) -> dict[str, Any]:
    metadata = doc.get("metadata", {})
    return {**doc, "metadata": {**metadata, "labels": {**(metadata.get("labels") or {}), **labels}}}

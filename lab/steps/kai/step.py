"""Step ``kai``: Helm has installed NVIDIA KAI Scheduler, and its webhooks answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from lab.config import LabSpec
from lab.config.node_assignment import beside_host_kai
from lab.engine.step import Effect, Observed, State
from lab.errors import StepFailed
from lab.kai import VersionLine, line_of
from lab.kai.chart import differences
from lab.kai.names import KAI_CHART
from lab.kube import OWNER_LABEL, Cluster
from lab.kube.access_review import Permission
from lab.kube.leftovers import of_release
from lab.kube.ownership import is_own, owner_of, refuse_foreign
from lab.kube.readiness import StuckPods, is_ready
from lab.objects.fields import labels_of, parts
from lab.objects.isolation_labels import HOST_KAI, HOST_KAI_LABEL, namespace_labels, tenant_namespace
from lab.objects.views import PodView
from lab.session.context import LabContext
from lab.session.step import LabStep
from lab.steps import helm_release
from lab.steps.early_probes import early_probes
from lab.steps.kai import guest_removal, required_crds
from lab.steps.kai.binder_placeholders import are_left, delete_placeholders, placeholders
from lab.steps.kai.chart import chart_seen, config_documents
from lab.steps.kai.release import NAMESPACE, RELEASE, RESERVATIONS
from lab.steps.kai.upgrade import admission_gate, leftovers
from lab.steps.kai.upgrade.uninstall import REINSTALL, installed_line, stop_kai, strategy
from lab.steps.kai.values import (
    kai_deployments,
    kai_images,
    kai_values,
    makes_default_queues,
    own_hooks,
    release_values,
)
from lab.steps.kai.webhooks import wait_for_webhooks, webhooks_answer
from lab.steps.queues import KIND as QUEUE
from lab.supply.pull_secrets import copy_pull_secrets
from lab.tools.helm import Helm

__all__ = ["NAMESPACE", "RELEASE", "RESERVATIONS", "Kai"]

_HELM_SECONDS = 600.0
_READY_SECONDS = 300.0
_WEBHOOK_SECONDS = 60.0
_SHOWN = 5  # maximum number of reported differences between an unknown chart and its line
_SHARD = ("SchedulingShard", "default")
_CRD = "CustomResourceDefinition"
_CRD_DOC = {"apiVersion": "apiextensions.k8s.io/v1", "kind": _CRD}
_CONFIG = ("Config.kai.scheduler", "kai-config")


@dataclass(frozen=True)
class Kai(LabStep):
    """KAI on the lab's own cluster. ``kailab up`` also finishes a change of its version that was killed."""

    spec: LabSpec
    needs: tuple[str, ...] = ("network",)
    id: str = "kai"
    stop_first: bool = False
    """Stop all of the old version before a change to another one, which is quicker than Helm's upgrade."""

    def wanted(self) -> object:
        return self.spec.kai.version, release_values(self.spec)

    @property
    def line(self) -> VersionLine:
        return line_of(self.spec.kai.version)

    @property
    def title(self) -> str:
        return f"KAI Scheduler {self.spec.kai.version}"

    def permissions(self) -> tuple[Permission, ...]:
        read = (("", "namespaces"), ("apiextensions.k8s.io", "customresourcedefinitions"))
        return (*helm_release.permissions(NAMESPACE), *(Permission("list", group, plural) for group, plural in read))

    def effects(self) -> tuple[Effect, ...]:
        what = f"{RELEASE} {self.spec.kai.version}, gpuSharing {'on' if self.spec.kai.gpu_sharing else 'off'}"
        crds = " and ".join(["KAI's CRDs", *self.line.needs_crds])
        return (
            Effect("cluster", f"helm install {what}", "kailab down"),
            Effect("cluster", f"namespaces {NAMESPACE}, {RESERVATIONS}; {crds}; webhooks", "kailab down"),
        )

    def charts(self) -> tuple[tuple[str, str], ...]:
        return ((KAI_CHART, self.line.tag),)

    def creates(self, ctx: LabContext) -> tuple[dict[str, Any], ...]:
        """Namespace, CRDs and what the chart renders with its hooks; only the namespace without a chart at hand."""
        space = helm_release.namespace_doc(NAMESPACE, {OWNER_LABEL: self.spec.name})
        if not ctx.supply.at_hand("chart", KAI_CHART, self.line.tag):
            return (space,)
        chart = ctx.supply.chart(KAI_CHART, self.line.tag)
        rendered = helm_release.helm_for(ctx).template(RELEASE, chart, NAMESPACE, release_values(self.spec))
        return (space, *helm_release.chart_documents(chart, "crds"), *rendered)

    def observe(self, ctx: LabContext) -> Observed:
        cluster = ctx.cluster()
        found = self._installed(cluster)
        if found.state is not State.READY:
            return found
        if down := self._unavailable(ctx, cluster):
            return Observed.drifted(f"not Available: {', '.join(down)}")
        if not webhooks_answer(cluster, self.spec.name, self.line, kai_values(self.spec)):
            return Observed.drifted("its webhooks do not answer")
        return found

    def _installed(self, cluster: Cluster) -> Observed:
        """Whether everything that the installation makes is there, whatever its pods do."""
        left = leftovers.leftovers(cluster)
        release = helm_release.installed(cluster, RELEASE, NAMESPACE)
        if release is None:
            return Observed.drifted("a change of its version has not finished", left) if left else Observed.absent()
        if (space := self._foreign(cluster)) is not None:
            return Observed.drifted(f"not the lab's: namespace {NAMESPACE} {owner_of(space)}")
        diff = helm_release.differences(release, self.spec.kai.version, release_values(self.spec))
        if left:
            return Observed.drifted("a change of its version has not finished", (*left, *diff))
        if diff:
            return Observed.drifted("differs from the lab file", diff)
        if missing := required_crds.missing(cluster, self.line):
            return Observed.drifted(f"CRDs that its operator needs are missing: {', '.join(missing)}")
        if gone := (*helm_release.missing_objects(cluster, release), *self._missing(cluster)):
            return Observed.drifted("objects are missing", gone)
        if are_left(cluster, self.line):
            return Observed.drifted("a start of its binder was killed and has left placeholders of GPU groups")
        return Observed.ready(release.chart_version)

    def apply(self, ctx: LabContext) -> None:
        """Install KAI; one that Helm cannot upgrade, or that a killed change has left, is stopped first."""
        cluster = ctx.cluster()
        if ctx.nodes_just_started() and self._installed(cluster).state is State.READY:
            self._wait(ctx, cluster, frozenset())
            return
        release, how = helm_release.installed(cluster, RELEASE, NAMESPACE), self.strategy(cluster)
        other = release is not None and release.chart_version.removeprefix("v") != self.line.version
        with ExitStack() as gate:
            if self._foreign(cluster) is None and (admission_gate.is_left(cluster) or (other and how == REINSTALL)):
                gate.enter_context(admission_gate.fail_closed(cluster, self.spec.name))
                stop_kai(ctx, how)
            self.install(ctx)
        leftovers.delete_bridge(cluster)

    def strategy(self, cluster: Cluster) -> str:
        """How the installed version becomes this one: ``IN_PLACE`` or ``REINSTALL``."""
        return strategy(installed_line(cluster), self.line, stop_first=self.stop_first)

    def install(self, ctx: LabContext) -> None:
        """Install KAI, or let Helm upgrade the installed one."""
        cluster = ctx.cluster()
        helm, before = helm_release.helm_for(ctx), installed_line(cluster)
        chart, by_lab = ctx.supply.chart(KAI_CHART, self.line.tag), own_hooks(self.spec)
        if not self.line.exact:
            self._report_differences(ctx, helm, chart)
        self._claim(ctx, cluster, chart)
        cluster.apply([helm_release.namespace_doc(NAMESPACE, {OWNER_LABEL: self.spec.name})])
        copy_pull_secrets(cluster, self.spec, NAMESPACE)
        if helm_release.forget_unfinished(cluster, RELEASE, NAMESPACE):
            ctx.progress("restarting an interrupted installation")
        if self.line.stale_hook_job:
            cluster.delete("Job", "crd-upgrader", NAMESPACE, wait=60)
        required_crds.create(cluster, self.line, self.spec.name)
        if by_lab:
            ctx.progress("CRDs and configuration")
            self._replace_hooks(cluster, helm, chart)
        self._label_served_namespaces(cluster)
        ctx.progress("helm install")
        # beside own-kai tenants, the binder must find placeholders for their GPU groups when it starts
        beside = beside_host_kai(self.spec)
        with placeholders(cluster, self.spec.name, self.line) if beside else nullcontext():
            helm.upgrade_install(
                RELEASE,
                chart,
                NAMESPACE,
                release_values(self.spec),
                hooks=not by_lab,
                crds=not by_lab,
                validate=bool(self.spec.kai.values) or not (self.line.exact and self.spec.cluster.own),
                # 0.16.8 drops a ServiceAccount that exists from its release, and older charts contain it
                take_ownership=self.stop_first,
                timeout=_HELM_SECONDS,
            )
            copy_pull_secrets(cluster, self.spec, RESERVATIONS)
            self._wait(ctx, cluster, self._outdated(before))
        if are_left(cluster, self.line):
            delete_placeholders(cluster, self.line)
        if not beside:
            self._unlabel_namespaces(cluster)
        if not by_lab:
            # crd-upgrader does not label them, and the release has no default queues, or in its first revision only
            claimed = {owned.name for owned in ctx.journal.owned("crd")}  # the others were there before
            for name in self.line.crds:
                if (self.spec.cluster.own or name in claimed) and _exists(cluster, _CRD, name):
                    cluster.patch(_CRD, name, {"metadata": {"labels": {OWNER_LABEL: self.spec.name}}})
            if makes_default_queues(self.spec) and self._missing_queues(cluster):
                only = [self.line.queue_template]
                self._create_queues(cluster, helm.template(RELEASE, chart, NAMESPACE, kai_values(self.spec), only=only))

    def _label_served_namespaces(self, cluster: Cluster) -> None:
        """Label host-kai tenants' namespaces before KAI is limited to labelled ones, so that it always serves them."""
        for tenant in self.spec.tenants:
            labels = namespace_labels(tenant.mode, beside_host_kai=beside_host_kai(self.spec))
            namespace = tenant_namespace(tenant.name)
            space = cluster.get("Namespace", namespace) if tenant.mode == "host-kai" and labels else None
            if space is not None and is_own(space, self.spec.name):
                cluster.patch("Namespace", namespace, {"metadata": {"labels": labels}})

    def _unlabel_namespaces(self, cluster: Cluster) -> None:
        """Remove the labels that the lab set beside own-kai tenants, now that KAI serves every namespace."""
        for space in cluster.list("Namespace", labels=f"{HOST_KAI_LABEL}={HOST_KAI[HOST_KAI_LABEL]}"):
            name = space["metadata"]["name"]
            of_lab = name == "default" and self.spec.cluster.own  # elsewhere step isolation removes its label
            if of_lab or is_own(space, self.spec.name):
                cluster.patch("Namespace", name, {"metadata": {"labels": {HOST_KAI_LABEL: None}}})

    def verify(self, ctx: LabContext) -> None:
        cluster = ctx.cluster()
        if down := self._unavailable(ctx, cluster):
            raise StepFailed(
                f"KAI's deployments are not Available: {', '.join(down)}",
                fix=cluster.kubectl("describe", "pods", "-n", NAMESPACE),
            )
        sharded = self.line.has_shards and self.line.scheduler_app in kai_deployments(self.spec)
        if sharded and cluster.get(*_SHARD) is None:
            raise StepFailed(
                "SchedulingShard default is missing, so KAI has no scheduler",
                fix="run 'helm uninstall kai-scheduler -n kai-scheduler', then re-run 'kailab up'",
            )
        ctx.progress("waiting for the webhooks")
        wait_for_webhooks(cluster, self.spec.name, self.line, kai_values(self.spec), _WEBHOOK_SECONDS)

    def undo(self, ctx: LabContext) -> None:
        """Remove the lab's KAI from an existing cluster; see ``guest_removal.remove``."""
        guest_removal.remove(ctx, self.spec.name, self.line, self.id)

    def remains(self, ctx: LabContext) -> tuple[str, ...]:
        """In an existing cluster, objects of the release, which lack the lab's label; not of a KAI that is others'."""
        if self.spec.cluster.own or self._foreign(ctx.cluster()) is not None:
            return ()
        return of_release(ctx.cluster(), NAMESPACE, RELEASE).titles

    def _foreign(self, cluster: Cluster) -> dict[str, Any] | None:
        """KAI's namespace, if it exists and is not the lab's: then this lab did not install KAI."""
        space = cluster.get("Namespace", NAMESPACE)
        return space if space is not None and not is_own(space, self.spec.name) else None

    def _missing(self, cluster: Cluster) -> list[str]:
        """Objects of KAI that its release does not contain and that are missing: CRDs, Config, default queues."""
        crds = {crd["metadata"]["name"] for crd in cluster.list(_CRD)}
        lines = [f"{_CRD} {name} is missing" for name in self.line.crds if name not in crds]
        if self.line.has_operator and not _exists(cluster, *_CONFIG):
            lines.append(f"Config {_CONFIG[1]} is missing")
        return lines + [f"Queue {name} is missing" for name in self._missing_queues(cluster)]

    def _missing_queues(self, cluster: Cluster) -> list[str]:
        """The chart's default queues that do not exist; empty if its values disable them."""
        names = self.line.default_queues if makes_default_queues(self.spec) else ()
        there = {queue["metadata"]["name"] for queue in cluster.list(QUEUE)} if names else set()
        return [name for name in names if name not in there]

    def _claim(self, ctx: LabContext, cluster: Cluster, chart: Path) -> None:
        """Refuse a KAI of others; in an existing cluster, record the objects that the lab will create.

        Raises StepFailed: the namespace, or without one a CRD, is not the lab's.
        """
        space = helm_release.namespace_doc(NAMESPACE, {})
        fix = "uninstall that KAI, or set scheduler: default"
        if not self.spec.cluster.own:
            fix = "set kai.manage: adopt to use that KAI as it is"
        records = cluster.list("Secret", NAMESPACE, labels="owner=helm")
        charts = sorted({f"it has the Helm release {labels_of(one['metadata']).get('name')}" for one in records})
        refuse_foreign(cluster, self.spec.name, [space], evidence=charts, fix=fix)
        if self.spec.cluster.own and cluster.get("Namespace", NAMESPACE) is None:
            named = [{**_CRD_DOC, "metadata": {"name": name}} for name in self.line.crds]
            refuse_foreign(cluster, self.spec.name, named, fix=fix)
        if self.spec.cluster.own:
            return
        crds = [doc["metadata"]["name"] for doc in helm_release.chart_documents(chart, "crds")]
        crds += self.line.needs_crds
        objects = [("namespace", "Namespace", name) for name in (NAMESPACE, RESERVATIONS)]
        objects += [("crd", "CustomResourceDefinition", name) for name in crds]
        for kind, what, name in objects:
            if cluster.get(what, name) is None:
                ctx.journal.owns(kind, name, self.id)
        ctx.journal.owns("release", RELEASE, self.id, namespace=NAMESPACE)

    def _report_differences(self, ctx: LabContext, helm: Helm, chart: Path) -> None:
        """Report how the chart of an unknown version differs from the assumed line."""
        found = differences(self.line, chart_seen(chart, self.line, helm.template))
        for difference in found[:_SHOWN]:
            ctx.notice(f"KAI {self.spec.kai.version} differs from line {self.line.name}: {difference}")
        if len(found) > _SHOWN:
            ctx.notice(f"KAI {self.spec.kai.version}: {len(found) - _SHOWN} more differences")

    def _replace_hooks(self, cluster: Cluster, helm: Helm, chart: Path) -> None:
        """Create the objects of crd-upgrader and kai-config-deployer without their pods; see ``own_hooks``.

        The Config precedes the operator, which then deploys everything in its first reconcile (9 s less with 0.16.8).
        The operator registers the queue webhook at once, so the chart's default queues precede the Config: as part of
        the release they would be refused until that webhook answers.
        """
        templates = [self.line.config_template]
        templates += [self.line.queue_template] if makes_default_queues(self.spec) else []
        rendered = helm.template(RELEASE, chart, NAMESPACE, kai_values(self.spec), only=templates)
        crds = helm_release.chart_documents(chart, "crds")
        mine = {OWNER_LABEL: self.spec.name}
        cluster.apply([_labelled(doc, mine) for doc in crds])
        names = {doc["metadata"]["name"] for doc in crds}
        cluster.wait_ready("CustomResourceDefinition", names, timeout=60, what="KAI's CRDs are served")
        self._create_queues(cluster, rendered)
        cluster.apply([_labelled(doc, mine) for doc in config_documents(rendered)], retry=30)

    def _create_queues(self, cluster: Cluster, rendered: Iterable[dict[str, Any]]) -> None:
        """Create the chart's queues that do not exist; changes of users stay."""
        queues = [doc for doc in rendered if doc["kind"] == "Queue"]
        cluster.apply([doc for doc in queues if not _exists(cluster, QUEUE, doc["metadata"]["name"])], retry=30)

    def _outdated(self, before: VersionLine | None) -> frozenset[str]:
        """Images of the version before: until the operator has replaced them, its Deployments are ready as well."""
        if before is None:
            return frozenset()
        kai = self.spec.kai.model_copy(update={"version": before.version})
        return frozenset(kai_images(self.spec.model_copy(update={"kai": kai}))) - {*kai_images(self.spec)}

    def _wait(self, ctx: LabContext, cluster: Cluster, outdated: frozenset[str]) -> None:
        expected, starts = set(kai_deployments(self.spec)), ctx.node_starts()
        helm_release.restart_crashed(cluster, NAMESPACE)

        def up(pods: list[dict[str, Any]]) -> bool:
            probes.see(pods)
            ready = _ready_apps(pods, starts)
            ctx.progress("waiting for components", len(expected & ready), len(expected))
            return expected <= ready

        with early_probes(cluster, NAMESPACE) as probes:
            cluster.wait(
                "Pod",
                up,
                namespace=NAMESPACE,
                timeout=_READY_SECONDS,
                fail=StuckPods(images_present=ctx.images_in_nodes),
                what=f"KAI's components run: {', '.join(sorted(expected))}",
            )
        cluster.wait_ready("Deployment", expected, NAMESPACE, timeout=_READY_SECONDS)
        cluster.wait(
            "Deployment",
            lambda found: expected <= {_name(one) for one in found if is_ready(one) and not outdated & _images(one)},
            namespace=NAMESPACE,
            timeout=_READY_SECONDS,
            what=f"KAI's components run version {self.spec.kai.version}",
        )

    def _unavailable(self, ctx: LabContext, cluster: Cluster) -> list[str]:
        """Deployments that are not Available, or whose pods have not become Ready since their node's last start."""
        found = [d for d in cluster.list("Deployment", NAMESPACE) if parts(d)[1].get("replicas") != 0]
        ready = {d["metadata"]["name"] for d in found if is_ready(d)}
        ready &= _ready_apps(cluster.list("Pod", NAMESPACE), ctx.node_starts())
        return [name for name in kai_deployments(self.spec) if name not in ready]


def _ready_apps(pods: Iterable[dict[str, Any]], starts: Mapping[str, datetime]) -> set[str]:
    """Label ``app`` of the pods that are Ready since their node's last start: KAI's Deployments have those names."""
    return {pod.labels.get("app", "") for pod in map(PodView.of, pods) if pod.ready_since(starts)}


def _exists(cluster: Cluster, kind: str, name: str) -> bool:
    return any(obj["metadata"]["name"] == name for obj in cluster.list(kind, fields=f"metadata.name={name}"))


def _name(obj: dict[str, Any]) -> str:
    return str(obj["metadata"]["name"])


def _images(deployment: dict[str, Any]) -> frozenset[str]:
    return frozenset(pod["image"] for pod in parts(deployment)[1]["template"]["spec"]["containers"])


def _labelled(doc: dict[str, Any], labels: dict[str, str]) -> dict[str, Any]:
    metadata = doc.get("metadata", {})
    return {**doc, "metadata": {**metadata, "labels": {**labels_of(metadata), **labels}}}

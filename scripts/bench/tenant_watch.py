"""Observes a tenant from outside while it is removed, or its KAI rolled back; the same for both sides."""

from __future__ import annotations

import functools
import operator
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from lab.config import LabSpec, TenantSpec
from lab.engine.milestones import Stopwatch
from lab.errors import ApiFailed, LabError, WaitTimeout
from lab.kai import line_of
from lab.kai.names import CONFIGMAP_ANNOTATION, FRACTION_ANNOTATION, RESERVATION_APP
from lab.kube import Cluster
from lab.kube.readiness import is_ready
from lab.objects.isolation_labels import tenant_namespace
from lab.objects.views import PodView
from lab.tenants.removal import timeline
from lab.tenants.removal.footprint import Footprint, disturbed, reservation_pods
from lab.tenants.removal.gpu_release_check import GpuReleaseCheck
from lab.tenants.removal.leftovers import cluster_scope, in_cluster
from lab.tenants.removal.timeline import MEANING, Removal
from lab.workloads.namespace import WorkloadNamespace

LIMIT = 300.0
SCHEDULER_READY, FIRST_SCHEDULED, ALL_READY = "scheduler Ready", "first pod scheduled", "all test pods Ready"
COMMAND_ENDED = "command ended"
ROLLBACK = (SCHEDULER_READY, FIRST_SCHEDULED, ALL_READY, COMMAND_ENDED)

Json = dict[str, Any]
Command = Callable[[], object]


class RemovalSeen:
    """Observes the milestones of one removal, except the last, whoever removes the tenant.

    Args:
        host: the lab's own cluster.
        spec: the lab.
        tenant: the tenant to remove.
    """

    def __init__(self, host: Cluster, spec: LabSpec, tenant: TenantSpec) -> None:
        self.host, self.spec, self.tenant = host, spec, tenant
        self.space = tenant_namespace(tenant.name)
        self.footprint = Footprint.of(host.list("Pod"), self.space)

    def during(self, command: Command) -> Removal:
        """Run the command and wait for all milestones. Raises LabError: the command failed, or an object remains."""
        watch = Stopwatch(time.monotonic, MEANING)
        with ThreadPoolExecutor(3) as pool:
            looks: list[Future[object]] = [pool.submit(command)]
            looks += [pool.submit(look, watch) for look in (self._pods, self._namespace)]
        for ended in looks:
            ended.result()
        harm = disturbed(self.footprint.others, self.host.list("Pod"))
        if not harm:
            watch.note(timeline.HOST_UNDISTURBED, f"{len(self.footprint.others)} other pods")
        # the labels and taints of nodes are the lab's; no command of vCluster's removes them
        left = [line for line in in_cluster(self.host, self.tenant.name, self.footprint.groups) if line[:5] != "Node "]
        return Removal(self.tenant.name, watch.milestones, None, left=tuple(left), disturbed=harm)

    def _pods(self, watch: Stopwatch) -> None:
        def gone(pods: list[Json]) -> bool:
            if not any(self._controls(pod) and PodView.of(pod).ready for pod in pods):
                watch.note(timeline.SCHEDULER_STOPPED)
            return not pods

        what = f"pods of tenant {self.tenant.name} are gone"
        self.host.wait("Pod", gone, namespace=self.space, timeout=LIMIT, what=what)
        watch.note(timeline.PODS_GONE)
        groups = self.footprint.groups
        if groups:
            self.host.wait(
                "Pod",
                lambda pods: not reservation_pods(pods, groups),
                namespace=RESERVATION_APP,
                timeout=LIMIT,
                what="reservation pods are gone",
            )
        if self.footprint.gpus:
            check = GpuReleaseCheck(self.host, self.spec, self.tenant, self.footprint.gpus)
            try:
                watch.note(timeline.GPUS_FREE, check.run(LIMIT))
            finally:
                check.delete_pods()

    def _controls(self, pod: Json) -> bool:
        labels = pod["metadata"].get("labels") or {}
        return (labels.get("app"), labels.get("release")) == ("vcluster", self.tenant.name)

    def _namespace(self, watch: Stopwatch) -> None:
        fields, what = f"metadata.name={self.space}", f"namespace {self.space} is gone"
        self.host.wait("Namespace", lambda found: not found, fields=fields, timeout=LIMIT, what=what)
        watch.note(timeline.NAMESPACE_GONE)

        def leftovers() -> list[str]:
            return [line for line in cluster_scope(self.host, self.tenant.name) if line[:5] != "Node "]

        left = self.host.poll(leftovers, until=operator.not_, timeout=LIMIT, interval=0.2)
        watch.note(timeline.CLUSTER_CLEAN, "; ".join(left), reached=not left)


class RollbackSeen:
    """Observes a rollback of the KAI in a tenant, whoever rolls it back.

    Args:
        place: namespace of the test pods, inside the tenant.
        version: the KAI version after the rollback.
        pods: the test pods.
    """

    def __init__(self, place: WorkloadNamespace, version: str, pods: Sequence[Json]) -> None:
        self.place, self.pods = place, pods
        self.line, self.tag = line_of(version), f":v{version}"
        self.names = [pod["metadata"]["name"] for pod in pods]
        self.before = Footprint.of(place.cluster.list("Pod"), self.line.namespace).others

    def during(self, command: Command) -> tuple[dict[str, float], tuple[str, ...]]:
        """Run the command; returns seconds by milestone, and the earlier pods that were disturbed.

        Raises:
            LabError: the command failed, or the version did not start.
        """
        start = time.monotonic()
        seen: dict[str, float] = {}

        def ended() -> None:
            command()
            seen[COMMAND_ENDED] = time.monotonic() - start

        inside = self.place.cluster
        with ThreadPoolExecutor(2) as pool:
            running = pool.submit(ended)
            inside.wait("Pod", self._scheduler, namespace=self.line.namespace, timeout=LIMIT, what=SCHEDULER_READY)
            seen[SCHEDULER_READY] = time.monotonic() - start
            sent = pool.submit(self._submit)  # in parallel: webhooks may delay all but the first
            inside.wait(
                "Pod",
                lambda pods: any(pod.node for pod in map(PodView.of, pods) if pod.name in self.names),
                namespace=self.place.namespace,
                timeout=LIMIT,
                what=FIRST_SCHEDULED,
            )
            seen[FIRST_SCHEDULED] = time.monotonic() - start
            sent.result()
            self.place.running(*self.names, timeout=LIMIT)
            seen[ALL_READY] = time.monotonic() - start
            running.result()
        lost = disturbed(self.before, inside.list("Pod"))
        self.place.remove(*self.names)
        return seen, lost

    def _scheduler(self, pods: list[Json]) -> bool:
        return any(
            (pod["metadata"].get("labels") or {}).get("app") == self.line.scheduler_app
            and any(str(container.get("image", "")).endswith(self.tag) for container in pod["spec"]["containers"])
            and is_ready(pod)
            for pod in pods
        )

    def _submit(self) -> None:
        """Create the test pods; a webhook that does not answer yet refuses them."""
        for pod in self.pods:
            refused = functools.partial(self._refused, pod)
            if reason := self.place.cluster.poll(refused, until=operator.not_, timeout=LIMIT):
                raise WaitTimeout("KAI's webhooks refuse the test pods", evidence=[reason])

    def _refused(self, pod: Json) -> str:
        """Create a pod; returns why it must be created again, or nothing."""
        try:
            self.place.submit(pod)
        except ApiFailed as error:
            return error.what
        if self._admitted(pod):
            return ""
        # it would never run: a user would have to notice and recreate it
        self.place.remove(pod["metadata"]["name"], timeout=LIMIT)
        return "no webhook processed it"

    def _admitted(self, pod: Json) -> bool:
        """Whether KAI's webhook processed the pod: it adds the name of a ConfigMap to pods with a GPU fraction."""
        name, notes = pod["metadata"]["name"], pod["metadata"].get("annotations") or {}
        if FRACTION_ANNOTATION not in notes:
            return True
        made = self.place.cluster.get("Pod", name, self.place.namespace) or {"metadata": {}}
        return CONFIGMAP_ANNOTATION in (made["metadata"].get("annotations") or {})


def tried(look: Callable[[], object], what: str) -> None:
    """Call something whose failure must not hide an earlier one."""
    try:
        look()
    except LabError as error:
        print(f"{what}: {error.what}", *error.evidence, sep="\n  ")

"""Looks at a tenant from outside while it is removed, or its KAI is brought back: the same looks at both sides."""

from __future__ import annotations

import functools
import operator
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from lab.config import LabSpec, TenantSpec
from lab.config.labels import tenant_namespace
from lab.errors import ApiFailed, LabError, WaitTimeout
from lab.kai import line_of
from lab.kai.names import CONFIGMAP_ANNOTATION, FRACTION_ANNOTATION, RESERVATION_APP
from lab.kube import Cluster
from lab.kube.readiness import is_ready
from lab.objects.views import PodView
from lab.tenants.removal import timeline
from lab.tenants.removal.footprint import Footprint, disturbed, reservation_pods
from lab.tenants.removal.gpu_release_check import GpuReleaseCheck
from lab.tenants.removal.leftovers import cluster_scope, in_cluster
from lab.tenants.removal.timeline import Removal, Stopwatch
from lab.workloads.namespace import WorkloadNamespace

LIMIT = 300.0
SCHEDULER_READY, FIRST_SCHEDULED, ALL_READY = "old scheduler Ready", "first pod scheduled", "all test pods Ready"
COMMAND_ENDED = "command ended"
ROLLBACK = (SCHEDULER_READY, FIRST_SCHEDULED, ALL_READY, COMMAND_ENDED)

Json = dict[str, Any]
Command = Callable[[], object]


class RemovalSeen:
    """The seven milestones of one removal but the last, whoever removes.

    Args:
        host: the lab's own cluster.
        spec: the lab.
        tenant: which goes.
    """

    def __init__(self, host: Cluster, spec: LabSpec, tenant: TenantSpec) -> None:
        self.host, self.spec, self.tenant = host, spec, tenant
        self.space = tenant_namespace(tenant.name)
        self.footprint = Footprint.of(host.list("Pod"), self.space)

    def during(self, command: Command) -> Removal:
        """Run the command and look until all is seen. Raises LabError: the command failed, or something stays."""
        watch = Stopwatch(time.monotonic)
        with ThreadPoolExecutor(3) as pool:
            looks: list[Future[object]] = [pool.submit(command)]
            looks += [pool.submit(look, watch) for look in (self._pods, self._namespace)]
        for ended in looks:
            ended.result()
        harm = disturbed(self.footprint.others, self.host.list("Pod"))
        if not harm:
            watch.note(timeline.HOST_UNDISTURBED, f"{len(self.footprint.others)} other pods")
        # the marks on nodes are the lab's, and no command of vCluster's takes them away
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
    """How the KAI in a tenant comes back, whoever brings it.

    Args:
        place: where the test pods go, inside the tenant.
        version: the KAI that is to come.
        pods: the test pods.
    """

    def __init__(self, place: WorkloadNamespace, version: str, pods: Sequence[Json]) -> None:
        self.place, self.pods = place, pods
        self.line, self.tag = line_of(version), f":v{version}"
        self.names = [pod["metadata"]["name"] for pod in pods]
        self.before = Footprint.of(place.cluster.list("Pod"), self.line.namespace).others

    def during(self, command: Command) -> tuple[dict[str, float], tuple[str, ...]]:
        """Seconds of the moments, and what became of pods that ran before; nothing when all is well.

        Raises:
            LabError: the command failed, or the version does not come.
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
            sent = pool.submit(self._submit)  # beside the wait: webhooks may keep all but the first waiting
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
        """Send the test pods; a webhook that does not answer yet refuses them."""
        for pod in self.pods:
            refused = functools.partial(self._refused, pod)
            if reason := self.place.cluster.poll(refused, until=operator.not_, timeout=LIMIT):
                raise WaitTimeout("KAI's webhooks refuse the test pods", evidence=[reason])

    def _refused(self, pod: Json) -> str:
        """Create a pod; why it has to be created again, empty when not."""
        try:
            self.place.submit(pod)
        except ApiFailed as error:
            return error.what
        if self._judged(pod):
            return ""
        # It would never run: whoever types the commands has to find out, and to make it again.
        self.place.remove(pod["metadata"]["name"], timeout=LIMIT)
        return "no webhook has seen it"

    def _judged(self, pod: Json) -> bool:
        """Whether KAI's webhook saw the pod; those with a part of a GPU get the name of a ConfigMap from it."""
        name, notes = pod["metadata"]["name"], pod["metadata"].get("annotations") or {}
        if FRACTION_ANNOTATION not in notes:
            return True
        made = self.place.cluster.get("Pod", name, self.place.namespace) or {"metadata": {}}
        return CONFIGMAP_ANNOTATION in (made["metadata"].get("annotations") or {})


def tried(look: Callable[[], object], what: str) -> None:
    """Do something whose failure must not hide the first one."""
    try:
        look()
    except LabError as error:
        print(f"{what}: {error.what}", *error.evidence, sep="\n  ")

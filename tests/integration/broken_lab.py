"""A lab that is broken on purpose: changes of its node, its cluster and KAI for the cases of test_gpu_failures.py."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from lab.errors import ApiFailed
from lab.gpu import GpuPlugin
from lab.gpu.device_plugin import NAMESPACE, SELECTOR
from lab.gpu.diagnosis.diagnose import Diagnosis, diagnose
from lab.gpu.nodes import gpu_nodes
from lab.gpu.simulated.devices import gpus_of
from lab.kube import Cluster
from lab.kube.errors import Unreachable
from lab.objects.views import NodeView, PodView
from lab.session.context import LabContext
from lab.steps.kai.values import kai_images

Json = dict[str, Any]
Answer = TypeVar("Answer", str, Json)

NAME = "it-broken"
SPACE = "failures"
RESERVATIONS = "kai-resource-reservation"
PLUGIN = "nvidia-device-plugin-daemonset"
SECONDS = 90.0
NO_RIGHTS = 'User "kubernetes-admin" cannot'
NOT_PULLED = frozenset({"ErrImagePull", "ImagePullBackOff"})


def is_unwell(seen: Diagnosis) -> bool:
    """Whether the doctor reports symptoms."""
    return bool(seen.symptoms or seen.unread) or any(verdict.severity != "ok" for verdict in seen.path)


@dataclass
class BrokenLab:
    """The lab, its one node, and the objects that a case created."""

    ctx: LabContext
    kai: bool
    made: list[tuple[str, str, str]] = field(default_factory=list)

    @property
    def cluster(self) -> Cluster:
        """The lab's cluster."""
        return self.ctx.cluster()

    @property
    def node(self) -> str:
        """Its node."""
        return gpu_nodes(self.ctx)[0].name

    @property
    def uuids(self) -> tuple[str, ...]:
        """UUIDs of its GPUs."""
        return tuple(gpu.uuid for gpu in gpus_of(NAME, self.node, self.ctx.spec.gpu))

    def sh(self, script: str) -> str:
        """Run a shell script in the node."""
        return self.ctx.engine.exec(self.node, ["sh", "-ec", script], timeout=60).out

    def diagnosed(self) -> Diagnosis:
        """Return the doctor's current diagnosis."""
        return diagnose(self.ctx)

    def well(self) -> Diagnosis:
        """Return the first diagnosis without symptoms, or the last one: objects show a repair one after another."""
        return self.cluster.poll(self.diagnosed, until=lambda found: not is_unwell(found), timeout=SECONDS, interval=1)

    def make(self, doc: Json) -> Json:
        """Create an object; it is deleted after the case."""
        meta = doc["metadata"]
        meta.setdefault("namespace", SPACE)
        key = (doc["kind"], meta["name"], meta["namespace"])
        self.made.append(key)

        def attempt() -> Json:
            try:
                return self.cluster.create(doc)
            except ApiFailed as error:
                # the API server may restart with containerd, even after it has answered
                if not (isinstance(error, Unreachable) or error.status == 409 or NO_RIGHTS in str(error)):
                    raise
                return self._there(*key)

        return self._until(attempt)

    def _there(self, kind: str, name: str, space: str) -> Json:
        """Return the object if a request without an answer created it after all."""
        try:
            return self.cluster.get(kind, name, space) or {}
        except ApiFailed:
            return {}

    def clear(self) -> None:
        """Delete the objects of the case."""
        while self.made:
            kind, name, space = self.made[-1]
            self._answered(partial(self.cluster.delete, kind, name, space, grace=0, wait=SECONDS))
            self.made.pop()

    def fails(self, pod: Json, *words: str) -> None:
        """Create a pod and wait until a warning about it contains one of the words."""
        made = self.make(pod)
        name, uid = made["metadata"]["name"], made["metadata"]["uid"]

        def warned(objects: Iterable[Json]) -> bool:
            events = [one for one in objects if one["involvedObject"].get("uid") == uid and one["type"] == "Warning"]
            return any(word in one.get("message", "") for one in events for word in words)

        self._answered(
            lambda: self.cluster.wait(
                "Event",
                warned,
                namespace=pod["metadata"]["namespace"],
                timeout=SECONDS,
                what=f"a warning about {name}: {words}",
            )
        )

    def ends(self, pod: Json) -> None:
        """Create a pod and wait until it has failed."""
        self._wait_for(pod, lambda view: view.phase == "Failed", "has failed")

    def runs(self, pod: Json) -> None:
        """Create a pod and wait until its container runs, ready or not."""
        self._wait_for(pod, lambda view: view.phase == "Running", "runs")

    def not_pulled(self, pod: Json) -> None:
        """Create a pod and wait until its status says that its image cannot be pulled; the event comes first."""
        self._wait_for(pod, lambda view: bool(NOT_PULLED & {*view.waiting_reasons}), "cannot pull its image")

    def unscheduled(self, pod: Json, word: str) -> Json:
        """Create a pod, wait until a condition says why it fits no node, and return the pod."""

        def matches(view: PodView) -> bool:
            return any(word in one.message for one in view.conditions)

        self._wait_for(pod, matches, f"is not scheduled: {word}")
        return self.cluster.get("Pod", pod["metadata"]["name"], pod["metadata"]["namespace"]) or {}

    def _wait_for(self, pod: Json, until: Callable[[PodView], bool], what: str) -> None:
        name = self.make(pod)["metadata"]["name"]
        self.cluster.wait(
            "Pod",
            lambda pods: any(until(PodView.of(one)) for one in pods),
            namespace=pod["metadata"]["namespace"],
            fields=f"metadata.name={name}",
            timeout=SECONDS,
            what=f"pod {name} {what}",
        )

    def offers(self, gpus: int, hold: float = 0.0) -> None:
        """Wait until the node is Ready and offers this number of GPUs."""

        def offered(nodes: Iterable[Json]) -> bool:
            return all(view.ready and view.gpus == gpus for view in map(NodeView.of, nodes))

        what = f"{self.node} offers {gpus} GPUs"
        self._answered(lambda: self.cluster.wait("Node", offered, timeout=SECONDS, hold=hold, what=what))

    def served(self, gpus: int) -> None:
        """Wait until a Ready plugin offers this number of GPUs; the kubelet reports the GPUs first."""
        self.offers(gpus)
        self.cluster.wait_ready("Pod", namespace=NAMESPACE, labels=SELECTOR, timeout=SECONDS)

    def label(self, **labels: str | None) -> None:
        """Set or remove labels of the node, by short names."""
        names = {"present": "nvidia.com/gpu.present", "memory": "nvidia.com/gpu.memory", "fake": "run.ai/fake.gpu"}
        self.cluster.patch("Node", self.node, {"metadata": {"labels": {names[key]: to for key, to in labels.items()}}})

    def runtime_class(self, handler: str) -> None:
        """Recreate RuntimeClass nvidia with a handler: the handler of a RuntimeClass is immutable."""
        self.cluster.delete("RuntimeClass", "nvidia", wait=SECONDS)
        doc = GpuPlugin(self.ctx.spec).documents()[0]
        self.cluster.create({**doc, "handler": handler})

    def no_plugin(self) -> None:
        """Remove the device plugin, and wait until the kubelet offers no GPU."""
        self.cluster.delete("DaemonSet", PLUGIN, "kube-system", wait=SECONDS)
        self.cluster.wait(
            "Pod",
            lambda pods: not pods,
            namespace=NAMESPACE,
            labels=SELECTOR,
            timeout=SECONDS,
            what="the device plugin is gone",
        )
        self.offers(0)

    def new_plugin(self, gpus: int, change: Callable[[Json], None] = lambda _: None) -> None:
        """Reinstall the device plugin, changed or as in the lab, and wait until it offers this number of GPUs."""
        self.no_plugin()
        doc = GpuPlugin(self.ctx.spec).documents()[1]
        change(doc)
        self.cluster.apply([doc])
        self.served(gpus)

    def gone(self, kind: str, namespace: str) -> None:
        """Wait until a namespace has no objects of a kind."""
        self.cluster.wait(
            kind, lambda objects: not objects, namespace=namespace, timeout=SECONDS, what=f"no {kind} in {namespace}"
        )

    def empty(self, kind: str, namespace: str) -> None:
        """Delete all objects of a kind in a namespace."""
        self.cluster.delete_all(kind, namespace, grace=0)
        self.gone(kind, namespace)

    def kai_config(self, patch: Json) -> None:
        """Patch KAI's Config; its operator applies it."""
        self.cluster.patch("Config", "kai-config", {"spec": patch})

    def binder_waits(self, seconds: int | None) -> None:
        """Set how long KAI's binder waits for reservation pods (None: KAI's default), and wait until it does so."""
        self.kai_config({"binder": {"resourceReservation": {"allocationTimeout": seconds}}})

        def follows(pods: Iterable[Json]) -> bool:
            specs = [json.dumps(one["spec"]) for one in pods if PodView.of(one).ready]
            return bool(specs) and all(("allocation-timeout=10" in text) == (seconds == 10) for text in specs)

        self.cluster.wait(
            "Pod",
            follows,
            namespace="kai-scheduler",
            labels="app=binder",
            timeout=SECONDS,
            what=f"the binder waits {seconds} s for reservation pods",
        )

    def refused(self, pod: Json) -> str:
        """Create a pod until the server refuses it; return the error."""

        def attempt() -> str:
            try:
                self.cluster.create(pod)
            except ApiFailed as error:
                # the webhook's pods are being replaced, and a busy server may not have answered
                return str(error) if "denied the request" in str(error) else ""
            self.cluster.delete("Pod", pod["metadata"]["name"], pod["metadata"]["namespace"], grace=0, wait=SECONDS)
            return ""

        return self._until(attempt)

    def accepted(self, pod: Json) -> None:
        """Create a pod until the server accepts it."""

        def ask() -> None:
            try:
                self.make(pod)
            except ApiFailed:
                self.made.pop()
                raise

        self._answered(ask)

    def _answered(self, ask: Callable[[], object]) -> None:
        """Repeat until the API server answers: after containerd's restart it is down, then has no RBAC rules yet."""

        def attempt() -> str:
            try:
                ask()
            except ApiFailed:
                return ""
            return "answered"

        self._until(attempt)

    def _until(self, attempt: Callable[[], Answer]) -> Answer:
        answer = self.cluster.poll(attempt, timeout=SECONDS, interval=1)
        assert answer, f"not within {SECONDS:g} s"
        return answer

    def reservation_account(self) -> str:
        """The ServiceAccount of reservation pods."""
        found = [one["metadata"]["name"] for one in self.cluster.list("ServiceAccount", RESERVATIONS)]
        return str(next(name for name in found if name != "default"))

    def reservation_image(self) -> str:
        """The image of reservation pods."""
        return next(image for image in kai_images(self.ctx.spec) if "reservation" in image.rpartition("/")[2])

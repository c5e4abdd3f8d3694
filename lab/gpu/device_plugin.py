"""Step ``gpu-plugin``: RuntimeClass ``nvidia``, NVIDIA's device plugin, and kubelets that offer the GPUs."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lab.config import LabSpec
from lab.engine.step import Effect, Observed
from lab.errors import ApiFailed, StepFailed, WaitTimeout
from lab.gpu.pools import pools_by_node, said
from lab.gpu.simulated.devices import CUDA_VERSION, DRIVER_VERSION
from lab.gpu.simulated.health import Health
from lab.gpu.simulated.nodes import failures, gpu_nodes
from lab.gpu.simulated.nvml_build import node_arch, source_digest
from lab.kai.names import GPU_PRESENT_LABEL
from lab.kube import OWNER_LABEL, Cluster
from lab.objects.views import NodeView, PodView
from lab.paths import assets
from lab.session.context import LabContext
from lab.session.step import LabStep

NAMESPACE = "kube-system"
CONFIG_ANNOTATION = "kailab/gpu-config"
"""On the plugin's pods: a hash of all that makes them start again when it changes."""

SELECTOR = "name=nvidia-device-plugin-ds"
_NAME = "nvidia-device-plugin-daemonset"
_PODS_SECONDS = 120.0
# The kubelet reports a change of its devices with its next status, at most 10 s later.
_ALLOCATABLE_SECONDS = 90.0
_HOPELESS = ("ErrImageNeverPull", "InvalidImageName", "CreateContainerConfigError")

Json = dict[str, Any]


@dataclass(frozen=True)
class Offer:
    """What a kubelet should offer: ``gpus`` of its node, of which ``failed`` have failed.

    The device plugin takes a failed GPU away when it sees the XID error. One that was started later saw none, and
    offers the GPU again, as it does after a reboot of a real machine. A ``lost`` GPU can take the others of its node
    along: whenever NVML fails, the plugin calls all of them unhealthy (v0.18.0, internal/rm/health.go).
    """

    gpus: int
    failed: int = 0
    lost: bool = False

    def __contains__(self, seen: int) -> bool:
        return (0 if self.lost else self.gpus - self.failed) <= seen <= self.gpus

    def __str__(self) -> str:
        return f"{self.gpus - self.failed} (of {self.gpus}, as {self.failed} failed)" if self.failed else f"{self.gpus}"


Offers = Mapping[str, Offer]
"""Name of a GPU node → what it should offer."""


@dataclass(frozen=True)
class GpuPlugin(LabStep):
    """RuntimeClass and device plugin; what is particular to simulated GPUs is in ``offers`` and ``config_hash``."""

    spec: LabSpec
    needs: tuple[str, ...] = ("gpu-nodes", "network")
    id: str = "gpu-plugin"
    title: str = "NVIDIA device plugin"

    def effects(self) -> tuple[Effect, ...]:
        return (
            Effect("cluster", "RuntimeClass nvidia (pods that name it go to GPU nodes)"),
            Effect(
                "cluster", f"DaemonSet {NAMESPACE}/{_NAME}; wait until each GPU node offers its GPUs: {said(self.spec)}"
            ),
        )

    def observe(self, ctx: LabContext) -> Observed:
        cluster = ctx.cluster()
        if cluster.get("DaemonSet", _NAME, NAMESPACE) is None:
            return Observed.absent()
        runtime_class = cluster.get("RuntimeClass", "nvidia")
        starts = node_starts(ctx)
        diff = []
        if runtime_class is None or runtime_class.get("handler") != "nvidia":
            diff.append(
                "RuntimeClass nvidia is missing" if runtime_class is None else "RuntimeClass nvidia is another's"
            )
        pods = cluster.list("Pod", NAMESPACE, labels=SELECTOR)
        running = {PodView.of(pod).node for pod in pods if self._serves(pod, starts)}
        diff += [
            f"{name}: the device plugin does not run, or not for these GPUs" for name in starts if name not in running
        ]
        offers = self.offers(ctx)
        nodes = cluster.list("Node", labels=f"{GPU_PRESENT_LABEL}=true")
        diff += short_of(offers, nodes)
        if diff:
            return Observed.drifted("GPUs are not offered as planned", diff)
        failed = sum(offer.failed for offer in offers.values())
        total = sum(offer.gpus for offer in offers.values())
        return Observed.ready(f"{total} GPUs, {failed} of them failed" if failed else f"{total} GPUs")

    def apply(self, ctx: LabContext) -> None:
        """See Step.

        Raises:
            ApiFailed: the server refused an object.
            WaitTimeout: the plugin does not run, or a kubelet does not offer the GPUs.
        """
        cluster = ctx.cluster()
        starts = node_starts(ctx)
        offers = self.offers(ctx)
        cluster.apply(self.documents())
        self._restart_where_short(cluster, starts, offers)
        ctx.progress("waiting for the device plugin")
        cluster.wait(
            "Pod",
            lambda pods: {PodView.of(pod).node for pod in pods if self._serves(pod, starts)} >= set(starts),
            namespace=NAMESPACE,
            labels=SELECTOR,
            timeout=_PODS_SECONDS,
            fail=_hopeless,
            what=f"the device plugin runs on {', '.join(starts)}",
        )
        ctx.progress("waiting for the kubelets to offer the GPUs")
        try:
            cluster.wait(
                "Node",
                lambda nodes: not short_of(offers, nodes),
                labels=f"{GPU_PRESENT_LABEL}=true",
                timeout=_ALLOCATABLE_SECONDS,
                what=f"the GPU nodes offer {', '.join(f'{name}: {offer}' for name, offer in offers.items())}",
            )
        except WaitTimeout as error:
            logs = _last_words(cluster)
            raise WaitTimeout(error.what, evidence=[*error.evidence, *logs], fix=error.fix) from error

    def verify(self, ctx: LabContext) -> None:
        """Raise StepFailed unless pods, class and allocatable GPUs are as planned at one time."""
        seen = self.observe(ctx)
        if seen.diff:
            raise StepFailed(
                "the GPUs are not offered as planned",
                evidence=seen.diff,
                fix=f"kubectl -n {NAMESPACE} logs -l {SELECTOR}",
            )

    def documents(self) -> list[Json]:
        """The objects to apply: the shipped manifests with the lab's label and the hash of the GPUs."""
        import yaml

        folder = assets("manifests") / "gpu"
        runtime_class = yaml.safe_load((folder / "runtimeclass.yaml").read_text())
        plugin = yaml.safe_load((folder / "device-plugin.yaml").read_text())
        template = plugin["spec"]["template"]["metadata"]
        for meta in (runtime_class["metadata"], plugin["metadata"], template):
            meta.setdefault("labels", {})[OWNER_LABEL] = self.spec.name
        template["annotations"] = {CONFIG_ANNOTATION: self.config_hash()}
        return [runtime_class, plugin]

    def offers(self, ctx: LabContext) -> Offers:
        """How many GPUs each node should offer. Raises CommandFailed."""
        pools = pools_by_node(self.spec)
        return {name: offer_of(pools[name].per_node, sick.values()) for name, sick in failures(ctx).items()}

    def config_hash(self) -> str:
        """Changes when the plugin has to look at its GPUs anew."""
        pools = [(name, pool.per_node, pool.model, pool.memory) for name, pool in pools_by_node(self.spec).items()]
        manifest = (assets("manifests") / "gpu" / "device-plugin.yaml").read_text()
        parts = [pools, DRIVER_VERSION, CUDA_VERSION, source_digest(node_arch()), manifest]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]

    def _restart_where_short(self, cluster: Cluster, starts: Mapping[str, datetime], offers: Offers) -> None:
        """Restart the plugin where it runs and yet too few GPUs are offered.

        It never takes back that a GPU is unhealthy (k8s-device-plugin v0.18.0, internal/plugin/server.go).
        """
        nodes = cluster.list("Node", labels=f"{GPU_PRESENT_LABEL}=true")
        for pod in cluster.list("Pod", NAMESPACE, labels=SELECTOR):
            view = PodView.of(pod)
            mine = {name: offer for name, offer in offers.items() if name == view.node}
            if self._serves(pod, starts) and short_of(mine, nodes):
                cluster.delete("Pod", view.name, NAMESPACE, wait=30)

    def _serves(self, pod: Json, starts: Mapping[str, datetime]) -> bool:
        """Whether the pod runs for the GPUs of now, and was started by the node of now."""
        view = PodView.of(pod)
        # After a restart of its node a pod still shows its old status, until the kubelet writes a new one.
        states = [
            state.get("state", {}).get("running") or {}
            for state in pod.get("status", {}).get("containerStatuses") or []
        ]
        began = [datetime.fromisoformat(running["startedAt"]) for running in states if running.get("startedAt")]
        return (
            view.ready
            and not view.deleting
            and view.annotations.get(CONFIG_ANNOTATION) == self.config_hash()
            and view.node in starts
            and bool(began)
            # The kubelet writes whole seconds.
            and min(began) >= starts[view.node].replace(microsecond=0)
        )


def offer_of(gpus: int, sick: Iterable[Health]) -> Offer:
    """What a node of so many GPUs should offer when these are how its GPUs that are not well are."""
    seen = list(sick)
    return Offer(gpus, sum(health.failed for health in seen), any(health.lost for health in seen))


def short_of(offers: Offers, nodes: Sequence[Json]) -> list[str]:
    """Where Node objects do not offer what they should, a line each."""
    seen = {view.name: view.gpus for view in map(NodeView.of, nodes)}
    return [
        f"{name}: {seen.get(name, 0)} GPUs allocatable, should be {offer}"
        for name, offer in offers.items()
        if seen.get(name, 0) not in offer
    ]


def node_starts(ctx: LabContext) -> dict[str, datetime]:
    """When each GPU node's container was started last, by the node's name. Raises CommandFailed."""
    names = [node.name for node in gpu_nodes(ctx)]
    if not names:
        return {}
    # As JSON, because podman's own rendering of a time is not a standard one.
    lines = ctx.engine.call("inspect", "--format", "{{json .State.StartedAt}}", *names, timeout=30).out.split()
    return {name: datetime.fromisoformat(json.loads(line)) for name, line in zip(names, lines, strict=True)}


def _last_words(cluster: Cluster) -> list[str]:
    """The end of the plugin's logs, as evidence; what cannot be read is left out."""
    lines = []
    for pod in cluster.list("Pod", NAMESPACE, labels=SELECTOR):
        name = pod["metadata"]["name"]
        with contextlib.suppress(ApiFailed):
            lines += [f"{name}: {line}" for line in cluster.logs(name, NAMESPACE, tail=6).splitlines()]
    return lines


def _hopeless(pods: Sequence[Json]) -> str | None:
    for view in map(PodView.of, pods):
        for waiting in view.waiting:
            crashed = waiting.reason == "CrashLoopBackOff" and view.restarts >= 3
            if crashed or waiting.reason in _HOPELESS:
                return f"{view.name} on {view.node}: {waiting.reason}: {waiting.message}"
    return None

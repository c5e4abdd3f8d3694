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
from lab.errors import ApiFailed, LabError, StepFailed, WaitTimeout
from lab.gpu.nodes import gpu_node_names, gpu_node_starts, on_nodes, require_planned
from lab.gpu.pools import describe_gpus, pools_by_node
from lab.gpu.simulated.devices import CUDA_VERSION, DRIVER_VERSION
from lab.gpu.simulated.health import Health, failures_on
from lab.gpu.simulated.nvml_build import node_arch, source_digest
from lab.kai.names import GPU_PRESENT_LABEL
from lab.kube import OWNER_LABEL, Cluster
from lab.kube.ownership import refuse_foreign
from lab.kube.readiness import StuckPods
from lab.objects.fields import Obj
from lab.objects.views import NodeView, PodView
from lab.paths import assets
from lab.session.context import LabContext
from lab.session.step import LabStep
from lab.text import count

NAMESPACE = "kube-system"
CONFIG_ANNOTATION = "kailab/gpu-config"
"""On the plugin's pods: a hash of everything that restarts them when it changes."""

SELECTOR = "name=nvidia-device-plugin-ds"
_NAME = "nvidia-device-plugin-daemonset"
_PODS_SECONDS = 120.0
_CRASHES = 3  # after back-offs of 30 s
# The kubelet reports a change of its devices with its next status, at most 10 s later.
_ALLOCATABLE_SECONDS = 90.0


@dataclass(frozen=True)
class Offer:
    """GPUs that a kubelet should offer: ``gpus`` of its node, of which ``failed`` have failed.

    The device plugin marks a failed GPU unhealthy when it sees the XID error. A plugin that started later did not
    see it and offers the GPU again, as after a reboot of a real machine. With a ``lost`` GPU, the node may offer
    none: whenever NVML fails, the plugin marks all GPUs unhealthy (v0.18.0, internal/rm/health.go).
    """

    gpus: int
    failed: int = 0
    lost: bool = False

    @classmethod
    def of(cls, gpus: int, failures: Iterable[Health]) -> Offer:
        """The offer of a node with so many GPUs, from the health of those that are not healthy."""
        found = list(failures)
        return cls(gpus, sum(health.failed for health in found), any(health.lost for health in found))

    def __contains__(self, seen: int) -> bool:
        return (0 if self.lost else self.gpus - self.failed) <= seen <= self.gpus

    def __str__(self) -> str:
        return f"{self.gpus - self.failed} (of {self.gpus}, {self.failed} failed)" if self.failed else f"{self.gpus}"


Offers = Mapping[str, Offer]
"""Name of a GPU node → its offer."""


@dataclass(frozen=True)
class GpuPlugin(LabStep):
    """RuntimeClass and device plugin; only ``offers`` and ``config`` depend on simulated or real GPUs."""

    spec: LabSpec
    needs: tuple[str, ...] = ("gpu-nodes", "network")
    id: str = "gpu-plugin"
    title: str = "NVIDIA device plugin"

    def effects(self) -> tuple[Effect, ...]:
        gpus = describe_gpus(self.spec)
        return (
            Effect("cluster", "RuntimeClass nvidia (pods that name it run on GPU nodes)"),
            Effect("cluster", f"DaemonSet {NAMESPACE}/{_NAME}; wait until each GPU node offers its GPUs: {gpus}"),
        )

    def observe(self, ctx: LabContext) -> Observed:
        cluster = ctx.cluster()
        if cluster.get("DaemonSet", _NAME, NAMESPACE) is None:
            return Observed.absent()
        runtime_class = cluster.get("RuntimeClass", "nvidia")
        starts = gpu_node_starts(ctx)
        diff = []
        if runtime_class is None:
            diff.append("RuntimeClass nvidia is missing")
        elif (handler := runtime_class.get("handler")) != "nvidia":
            diff.append(f"RuntimeClass nvidia has handler {handler}, should be nvidia")
        serving = self._serving(cluster.list("Pod", NAMESPACE, labels=SELECTOR), starts)
        diff += [
            f"{name}: the device plugin does not run with the planned GPUs" for name in starts if name not in serving
        ]
        offers = self.offers(ctx)
        diff += offer_differences(offers, cluster.list("Node", labels=f"{GPU_PRESENT_LABEL}=true"))
        if diff:
            return Observed.drifted("GPUs are not offered as planned", diff)
        failed = sum(offer.failed for offer in offers.values())
        total = sum(offer.gpus for offer in offers.values())
        return Observed.ready(f"{count(total, 'GPU')}, {failed} of them failed" if failed else count(total, "GPU"))

    def apply(self, ctx: LabContext) -> None:
        """Raises WaitTimeout if the plugin does not run or a kubelet does not offer its GPUs; StepFailed, ApiFailed."""
        cluster = ctx.cluster()
        starts = gpu_node_starts(ctx)
        offers = self.offers(ctx)
        refuse_foreign(cluster, self.spec.name, documents := self.documents())
        cluster.apply(documents)
        # The plugin never marks a GPU healthy again (k8s-device-plugin v0.18.0, internal/plugin/server.go).
        nodes = cluster.list("Node", labels=f"{GPU_PRESENT_LABEL}=true")
        serving = self._serving(cluster.list("Pod", NAMESPACE, labels=SELECTOR), starts)
        for node, pod in serving.items():
            if node in offers and offer_differences({node: offers[node]}, nodes):
                cluster.delete("Pod", pod, NAMESPACE, wait=30)
        ctx.progress("waiting for the device plugin")
        cluster.wait(
            "Pod",
            lambda pods: self._serving(pods, starts).keys() >= starts.keys(),
            namespace=NAMESPACE,
            labels=SELECTOR,
            timeout=_PODS_SECONDS,
            fail=StuckPods(images_present=False, crashes=_CRASHES),
            what=f"the device plugin runs on {', '.join(starts)}",
        )
        ctx.progress("waiting for the kubelets to offer the GPUs")
        try:
            wait_for_offers(cluster, offers, timeout=_ALLOCATABLE_SECONDS)
        except WaitTimeout as error:
            raise WaitTimeout(error.what, evidence=[*error.evidence, *_log_tails(cluster)], fix=error.fix) from error

    def verify(self, ctx: LabContext) -> None:
        """Raise StepFailed unless pods, class and allocatable GPUs are as planned at one time."""
        fix = f"kubectl -n {NAMESPACE} logs -l {SELECTOR}"
        require_planned(self.observe(ctx), "GPUs are not offered as planned", fix)

    def documents(self) -> list[dict[str, Any]]:
        """The shipped manifests with the lab's label and the hash of the GPUs."""
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
        """The GPUs that each node should offer. Raises CommandFailed."""
        pools = pools_by_node(self.spec)
        failures = on_nodes(gpu_node_names(ctx), lambda name: failures_on(ctx, name))
        return {name: Offer.of(pools[name].per_node, found.values()) for name, found in failures.items()}

    def config(self) -> list[object]:
        """Everything that the plugin has to discover again when it changes."""
        pools = [(name, pool.per_node, pool.model, pool.memory) for name, pool in pools_by_node(self.spec).items()]
        return [pools, DRIVER_VERSION, CUDA_VERSION, source_digest(node_arch())]

    def config_hash(self) -> str:
        """A hash of ``config`` and of the manifest."""
        manifest = (assets("manifests") / "gpu" / "device-plugin.yaml").read_text()
        return hashlib.sha256(json.dumps([*self.config(), manifest]).encode()).hexdigest()[:16]

    def _serving(self, pods: Iterable[Obj], starts: Mapping[str, datetime]) -> dict[str, str]:
        """Node → plugin pod that runs with the planned GPUs since the node's last start."""
        return {
            pod.node: pod.name
            for pod in map(PodView.of, pods)
            if pod.node in starts
            and pod.ready_since(starts)
            and pod.annotations.get(CONFIG_ANNOTATION) == self.config_hash()
        }


def plugin_pods(cluster: Cluster) -> list[PodView]:
    """Return the device plugin's pods. Raises ApiFailed."""
    return [PodView.of(pod) for pod in cluster.list("Pod", NAMESPACE, labels=SELECTOR)]


def ready_plugins(cluster: Cluster) -> dict[str, str]:
    """Return the name of the ready plugin pod of each node. Raises ApiFailed."""
    return {pod.node: pod.name for pod in plugin_pods(cluster) if pod.ready and not pod.deleting}


def require_plugins(cluster: Cluster, nodes: Iterable[str], error: type[LabError] = StepFailed) -> dict[str, str]:
    """Return ``ready_plugins``. Raises the error unless each of the nodes has one."""
    ready = ready_plugins(cluster)
    if without := [name for name in nodes if name not in ready]:
        raise error(
            f"the device plugin does not run on {', '.join(without)}",
            evidence=[f"{pod.name} on {pod.node}: {pod.phase}" for pod in plugin_pods(cluster)],
            fix="kailab up",
        )
    return ready


def offer_differences(offers: Offers, nodes: Sequence[Obj]) -> list[str]:
    """Return a line for each node that does not offer what it should."""
    seen = {view.name: view.gpus for view in map(NodeView.of, nodes)}
    return [
        f"{name}: {count(seen.get(name, 0), 'GPU')} allocatable, should be {offer}"
        for name, offer in offers.items()
        if seen.get(name, 0) not in offer
    ]


def wait_for_offers(cluster: Cluster, offers: Offers, *, timeout: float, hold: float = 0.0) -> None:
    """Wait until the nodes offer their GPUs, and for ``hold`` seconds more. Raises WaitTimeout."""
    cluster.wait(
        "Node",
        lambda nodes: not offer_differences(offers, nodes),
        labels=f"{GPU_PRESENT_LABEL}=true",
        timeout=timeout,
        hold=hold,
        what=f"kubelets offer GPUs: {', '.join(f'{name}: {offer}' for name, offer in offers.items())}",
    )


def _log_tails(cluster: Cluster) -> list[str]:
    lines = []
    for pod in plugin_pods(cluster):
        with contextlib.suppress(ApiFailed):
            lines += [f"{pod.name}: {line}" for line in cluster.logs(pod.name, NAMESPACE, tail=6).splitlines()]
    return lines

"""GPU nodes: calls on all of them at once, and what step ``gpu-nodes`` does for simulated and for real GPUs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Generic, TypeVar

from lab.config import LabSpec
from lab.engine.step import Observed
from lab.errors import LabError, StepFailed
from lab.gpu.node_state import LabFiles, NodeState
from lab.gpu.pools import node_labels, pools_by_node
from lab.kube import Cluster
from lab.objects.views import NodeView
from lab.session.context import LabContext
from lab.session.step import LabStep
from lab.tools.container import Container

R = TypeVar("R")
F = TypeVar("F", bound=LabFiles)


def gpu_nodes(ctx: LabContext) -> tuple[Container, ...]:
    """Return the node containers that have GPUs, oldest first."""
    names = pools_by_node(ctx.spec)
    return tuple(node for node in ctx.nodes() if node.name in names)


def gpu_node_names(ctx: LabContext) -> list[str]:
    """Return the names of the nodes that have GPUs, oldest first."""
    return [node.name for node in gpu_nodes(ctx)]


def gpu_node_starts(ctx: LabContext) -> dict[str, datetime]:
    """Return the last start of each GPU node's container. Raises CommandFailed."""
    names = pools_by_node(ctx.spec)
    return {name: start for name, start in ctx.node_starts().items() if name in names}


def on_nodes(names: Iterable[str], call: Callable[[str], R]) -> dict[str, R]:
    """Call a function for all nodes at once; returns the results by node."""
    nodes = tuple(names)
    with ThreadPoolExecutor(max_workers=8) as pool:
        return dict(zip(nodes, pool.map(call, nodes), strict=True))


def labels_by_node(cluster: Cluster, selector: str | None = None) -> dict[str, Mapping[str, str]]:
    """Return the labels of the cluster's nodes. Raises ApiFailed."""
    return {view.name: view.labels for view in map(NodeView.of, cluster.list("Node", labels=selector))}


def require_planned(seen: Observed, problem: str, fix: str) -> None:
    """Raise StepFailed with the differences as evidence, if there are any."""
    if seen.diff:
        raise StepFailed(problem, evidence=seen.diff, fix=fix)


@dataclass(frozen=True)
class GpuNodesStep(LabStep, ABC, Generic[F]):
    """Step ``gpu-nodes``: the lab's files on each node, and the labels of the pools on the GPU nodes."""

    spec: LabSpec
    needs: tuple[str, ...] = ("cluster",)
    id: str = "gpu-nodes"
    title: str = "GPUs"

    every_node: ClassVar[bool] = False
    """Whether nodes without GPUs get files too."""

    @abstractmethod
    def files(self, ctx: LabContext, nodes: Sequence[str]) -> dict[str, F]:
        """The files that each node should have."""

    @abstractmethod
    def summary(self, files: Mapping[str, F]) -> str:
        """The GPUs of the nodes, for a node state as planned."""

    @abstractmethod
    def install(self, ctx: LabContext, files: Mapping[str, F], states: Mapping[str, NodeState]) -> None:
        """Write the files to the nodes and run what uses them."""

    def observe(self, ctx: LabContext) -> Observed:
        nodes = {node.name: node.state for node in self._nodes(ctx)}
        if not nodes:
            return Observed.absent()
        if stopped := [name for name, state in nodes.items() if state != "running"]:
            return Observed.drifted("node containers are stopped", [f"{name} is not running" for name in stopped])
        files = self.files(ctx, list(nodes))
        states = on_nodes(files, lambda name: files[name].look(ctx, name))
        if all(files[name].untouched(state) for name, state in states.items()):
            return Observed.absent()
        diff = [f"{name}: {line}" for name, state in states.items() for line in files[name].differences(state)]
        diff += [
            f"{name}: label {key}={value} is missing"
            for name, labels in self._missing_labels(ctx).items()
            for key, value in labels.items()
        ]
        return Observed.drifted("GPU nodes differ", diff) if diff else Observed.ready(self.summary(files))

    def apply(self, ctx: LabContext) -> None:
        """Raises LabError if nodes cannot get GPUs, and CommandFailed if a node refuses the files."""
        files = self.files(ctx, [node.name for node in self._nodes(ctx)])
        states = on_nodes(files, lambda name: files[name].look(ctx, name))
        gpu_nodes = pools_by_node(self.spec)
        obstacles = [
            f"{name}: {line}"
            for name, state in states.items()
            for line in files[name].obstacles(state, gpus=name in gpu_nodes)
        ]
        if obstacles:
            raise LabError(
                f"nodes of lab {self.spec.name} cannot get GPUs: they were created for another gpu.mode",
                evidence=obstacles,
                fix=f"kailab down --name {self.spec.name}, then kailab up again",
            )
        self.install(ctx, files, states)
        for name, labels in self._missing_labels(ctx).items():
            ctx.cluster().patch("Node", name, {"metadata": {"labels": labels}})

    def _nodes(self, ctx: LabContext) -> Sequence[Container]:
        return ctx.kubernetes_nodes() if self.every_node else gpu_nodes(ctx)

    def _missing_labels(self, ctx: LabContext) -> dict[str, dict[str, str]]:
        present = labels_by_node(ctx.cluster())
        missing = {
            name: {key: value for key, value in node_labels(pool).items() if present.get(name, {}).get(key) != value}
            for name, pool in pools_by_node(self.spec).items()
        }
        return {name: labels for name, labels in missing.items() if labels}

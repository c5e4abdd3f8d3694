"""The labels that GPU nodes have from their pools, as the cluster has them."""

from __future__ import annotations

from lab.config import LabSpec
from lab.gpu.pools import node_labels, pools_by_node
from lab.session.context import LabContext


def missing_labels(ctx: LabContext, spec: LabSpec) -> dict[str, dict[str, str]]:
    """The labels that each GPU node lacks; nodes that lack none are left out. Raises ApiFailed."""
    present = {node["metadata"]["name"]: node["metadata"].get("labels") or {} for node in ctx.cluster().list("Node")}
    lacking = {
        name: {key: value for key, value in node_labels(pool).items() if present.get(name, {}).get(key) != value}
        for name, pool in pools_by_node(spec).items()
    }
    return {name: labels for name, labels in lacking.items() if labels}


def missing_lines(ctx: LabContext, spec: LabSpec) -> list[str]:
    """A line for each label that a GPU node lacks. Raises ApiFailed."""
    return [
        f"{name}: label {key}={value} is missing"
        for name, labels in missing_labels(ctx, spec).items()
        for key, value in labels.items()
    ]


def put_labels(ctx: LabContext, spec: LabSpec) -> None:
    """Give the GPU nodes the labels they lack. Raises ApiFailed."""
    cluster = ctx.cluster()
    for name, labels in missing_labels(ctx, spec).items():
        cluster.patch("Node", name, {"metadata": {"labels": labels}})

"""The context of steps."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from lab.session.context import KIND_ROLE_LABEL, LabContext


def test_load_balancer_of_several_control_planes_is_no_node_of_kubernetes() -> None:
    roles = ("control-plane", "worker", "external-load-balancer")
    context: Any = SimpleNamespace(
        nodes=lambda: tuple(SimpleNamespace(labels={KIND_ROLE_LABEL: role}) for role in roles)
    )
    found = LabContext.kubernetes_nodes(context)
    assert [node.labels[KIND_ROLE_LABEL] for node in found] == ["control-plane", "worker"]

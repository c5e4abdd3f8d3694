"""What a killed change of KAI's version leaves in a cluster; the next change, or 'kailab up', finishes it."""

from __future__ import annotations

from lab.kube import Cluster
from lab.steps.kai.release import NAMESPACE
from lab.steps.kai.upgrade import admission_gate
from lab.steps.kai.upgrade.admission_bridge import BRIDGE


def leftovers(cluster: Cluster) -> tuple[str, ...]:
    """Objects of a change that exist; while none runs, a killed one has left them."""
    bridge = cluster.get("Pod", BRIDGE, NAMESPACE) is not None
    found = {
        f"pod {NAMESPACE}/{BRIDGE}": bridge,
        f"admission policy {admission_gate.NAME}": admission_gate.is_left(cluster),
    }
    return tuple(what for what, exists in found.items() if exists)


def delete_bridge(cluster: Cluster) -> None:
    """Delete the admission bridge of a killed change, if any."""
    if cluster.get("Pod", BRIDGE, NAMESPACE) is not None:
        cluster.delete("Pod", BRIDGE, NAMESPACE, grace=1)

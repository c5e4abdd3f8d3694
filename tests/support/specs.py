"""Valid lab files and tenants for tests; a test names only the settings that matter to it."""

from __future__ import annotations

from typing import Any

from lab.config import LabSpec, TenantSpec
from lab.tenants.vcluster.access import Endpoint

EXISTING = {"provider": "existing", "kubeconfig": "/k", "context": "c"}
BUDGET = {"gpus": 4}


def lab_spec(version: str = "0.16.8", *, gpus: str = "", values: Any = None, **more: Any) -> LabSpec:
    """A lab with simulated GPUs; with ``cluster=EXISTING`` one with a budget of that cluster's GPUs."""
    kubernetes = "1.33.4" if version in ("0.7.11", "0.8.5", "0.9.3") else "1.34.4"
    cluster = more.pop("cluster", {"kubernetes": kubernetes})
    existing = cluster.get("provider") == "existing"
    if existing:
        more.setdefault("budget", BUDGET)
    queues = more.pop("queues", [{"name": "default"}, {"name": "test", "parent": "default"}])
    return LabSpec.model_validate(
        {
            "gpu": {"mode": gpus or ("present" if existing else "simulated")},
            "kai": {"version": version, "values": values or {}},
            "cluster": cluster,
            "queues": queues,
            **more,
        }
    )


def published(host: int, node: int) -> Endpoint:
    """Return the endpoint of a port that kind publishes."""
    return Endpoint(f"https://127.0.0.1:{host}", node_port=node)


PORT = published(41000, 30440)


def tenant_spec(mode: str = "host-kai", name: str = "team-a", **more: Any) -> TenantSpec:
    if mode == "own-kai":
        more.setdefault("kai_version", "0.16.8")
    return TenantSpec.model_validate({"name": name, "mode": mode, **more})


def lab_with(*tenants: TenantSpec) -> LabSpec:
    return lab_spec(tenants=[tenant.model_dump() for tenant in tenants])


def simulated_elsewhere(*nodes: str, exclusive: bool = False, **gpu: Any) -> LabSpec:
    """A lab with KAI and 4 simulated H100 on each of these nodes of an existing cluster."""
    section = {"mode": "simulated", "nodes": nodes, "perNode": 4, "model": "H100", "image": "r/kailab:1", **gpu}
    return LabSpec.model_validate(
        {"cluster": {**EXISTING, "exclusive": exclusive}, "budget": BUDGET, "gpu": section, "scheduler": "kai"}
    )

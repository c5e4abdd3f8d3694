"""A tenant's quota as values of its chart: a ResourceQuota on its namespace, and requests for pods that name none."""

from __future__ import annotations

from typing import Any

from lab.config import TenantQuota

CHART_QUOTA = (
    "count/configmaps",
    "count/endpoints",
    "count/persistentvolumeclaims",
    "count/pods",
    "count/secrets",
    "count/services",
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
    "requests.storage",
    "services.loadbalancers",
    "services.nodeports",
)
"""What the chart puts into a quota unless told otherwise (vCluster 0.36.1, chart/values.yaml)."""

_CHART_LIMITS = ("cpu", "ephemeral-storage", "memory")
"""What the chart's LimitRange sets for every container, among it 3 GiB of ephemeral storage (same file)."""

_LEAST_REQUEST = {"cpu": "50m", "memory": "32Mi"}
"""For containers that request nothing: Kubernetes refuses such pods where a quota counts that resource."""


def hard_limits(quota: TenantQuota) -> dict[str, str]:
    """The quota as Kubernetes counts it, ``spec.hard`` of a ResourceQuota; empty without a quota.

    Reservation pods of a KAI inside the tenant count as whole GPUs. Those of the host's KAI are in a namespace of its
    own, so that fractions of a host-kai tenant do not count.
    """
    limits = {
        "requests.nvidia.com/gpu": quota.gpus,
        "requests.cpu": quota.cpu,
        "requests.memory": quota.memory,
        "pods": quota.pods,
    }
    return {name: str(amount) for name, amount in limits.items() if amount is not None}


def quota_values(quota: TenantQuota) -> dict[str, Any]:
    """The values that make exactly this quota: what the chart would add is taken out (null, as Helm reads it)."""
    hard = hard_limits(quota)
    if not hard:
        return {}
    counted = {name: amount for name, amount in _LEAST_REQUEST.items() if f"requests.{name}" in hard}
    limits: dict[str, Any] = {"enabled": bool(counted)}
    if counted:
        none = dict.fromkeys(_CHART_LIMITS)
        limits |= {"default": none, "defaultRequest": {**none, **counted}}
    return {
        "policies": {
            "resourceQuota": {"enabled": True, "quota": {**dict.fromkeys(CHART_QUOTA), **hard}},
            "limitRange": limits,
        }
    }

"""A tenant's quota as chart values: a ResourceQuota on its namespace, and default requests for pods without any."""

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
"""Default limits of the chart's ResourceQuota (vCluster 0.36.1, chart/values.yaml)."""

_CHART_LIMITS = ("cpu", "ephemeral-storage", "memory")
"""Limits that the chart's LimitRange sets for every container, among them 3 GiB of ephemeral storage (same file)."""

_DEFAULT_REQUESTS = {"cpu": "50m", "memory": "32Mi"}
"""For containers without requests: Kubernetes denies such pods where a quota counts the resource."""


def hard_limits(quota: TenantQuota) -> dict[str, str]:
    """``spec.hard`` of the ResourceQuota; empty without a quota.

    Reservation pods of a KAI inside the tenant count as whole GPUs. Those of the host's KAI are in a namespace of its
    own, so fractions of a host-kai tenant do not count.
    """
    limits = {
        "requests.nvidia.com/gpu": quota.gpus,
        "requests.cpu": quota.cpu,
        "requests.memory": quota.memory,
        "pods": quota.pods,
    }
    return {name: str(amount) for name, amount in limits.items() if amount is not None}


def quota_values(quota: TenantQuota) -> dict[str, Any]:
    """Values for exactly this quota: null removes the chart's defaults (Helm)."""
    hard = hard_limits(quota)
    if not hard:
        return {}
    requests = {name: amount for name, amount in _DEFAULT_REQUESTS.items() if f"requests.{name}" in hard}
    limit_range: dict[str, Any] = {"enabled": bool(requests)}
    if requests:
        none = dict.fromkeys(_CHART_LIMITS)
        limit_range |= {"default": none, "defaultRequest": {**none, **requests}}
    return {
        "policies": {
            "resourceQuota": {"enabled": True, "quota": {**dict.fromkeys(CHART_QUOTA), **hard}},
            "limitRange": limit_range,
        }
    }

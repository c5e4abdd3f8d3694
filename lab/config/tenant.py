"""The section ``tenants`` of the lab file: vClusters, each with a scheduler, nodes and a quota."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StringConstraints, WithJsonSchema
from pydantic_core import PydanticCustomError

from lab.config.base import DnsName, Model, Switch, Version
from lab.config.queue import QueueSpec

_QUANTITY = r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$"
_NODE = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"


def _quantity(value: object) -> object:
    if type(value) is int and value >= 0:
        return str(value)
    if value is None or (isinstance(value, str) and re.fullmatch(_QUANTITY, value)):
        return value
    raise PydanticCustomError("quantity", "must be a quantity such as 4, 500m or 16Gi")


def _nodes(value: object) -> object:
    if value is None or (type(value) is int and value > 0):
        return value
    names = value if isinstance(value, list | tuple) else ()
    if names and all(isinstance(name, str) and re.fullmatch(_NODE, name) for name in names):
        if len({*names}) == len(names):
            return value
        raise PydanticCustomError("nodes", "must not name a node twice")
    raise PydanticCustomError("nodes", "must be a number of workers, or a list of short names (worker, worker2, …)")


Quantity = Annotated[
    str,
    BeforeValidator(_quantity),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": _QUANTITY}]}),
]
"""A Kubernetes quantity: ``4``, ``500m``, ``16Gi``. A whole number needs no quotes."""

NodeName = Annotated[str, StringConstraints(pattern=_NODE)]
"""A node's short name, without the lab's name: ``worker2``; in an existing cluster its whole name."""

OwnNodes = Annotated[
    Annotated[int, Field(ge=1, strict=True)] | Annotated[tuple[NodeName, ...], Field(min_length=1)],
    BeforeValidator(_nodes),
]
"""Dedicated workers of a tenant: a number, or a list of names."""


class TenantQuota(Model):
    """ResourceQuota on the tenant's host namespace, so vCluster's own pods count too.

    KAI on the host shares GPUs through reservation pods in a separate namespace, so fractions of a host-kai tenant do
    not count under ``gpus``.
    """

    gpus: Annotated[int, Field(ge=0, strict=True)] | None = None
    """GPUs that its pods may request together (requests.nvidia.com/gpu); own-kai: shared GPUs count too."""
    cpu: Quantity | None = None
    """CPU that its pods may request together, such as 8 or 500m."""
    memory: Quantity | None = None
    """Memory that its pods may request together, such as 16Gi."""
    pods: Annotated[int, Field(ge=1, strict=True)] | None = None
    """Maximum number of pods."""


class TenantSpec(Model):
    """A vCluster."""

    name: DnsName
    """Name of the vCluster; 'kailab kubeconfig NAME' prints its kubeconfig path."""
    mode: Literal["host-kai", "own-kai", "default"] = "host-kai"
    """host-kai: the host's KAI schedules its pods; own-kai: KAI inside, any version; default: no KAI."""
    vcluster: Version = "0.36.1"
    """Version of the vCluster chart, 0.35.3 or newer."""
    kubernetes: Version = "1.34.4"
    """Kubernetes version inside."""
    kai_version: Version | None = None
    """own-kai: version of the KAI inside."""
    kai_values: dict[str, Any] = Field(default_factory=dict)
    """own-kai: additional Helm values of the KAI inside, merged last."""
    gpu_sharing: Switch = True
    """own-kai: fractions of a GPU inside (Helm global.gpuSharing)."""
    queues: tuple[QueueSpec, ...] = ()
    """own-kai: KAI queues inside. Default: 'default' with the leaf queue 'test'."""
    nodes: OwnNodes | None = None
    """Dedicated workers: a number, or a list of short names (worker2). Default for own-kai: one.

    provider existing: a list of the nodes' names."""
    quota: TenantQuota = TenantQuota()
    """Limit on the host resources that its pods may request together."""
    values: dict[str, Any] = Field(default_factory=dict)
    """Additional vcluster.yaml values, merged last and validated against the chart's schema."""

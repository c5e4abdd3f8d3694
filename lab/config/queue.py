"""KAI queues in the lab file: the host's (``queues``) and those inside a tenant (``tenants.N.queues``)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from lab.config.base import DnsName, Model, Share


class QueueResource(Model):
    """Share of one resource; -1 is unlimited. The lab writes all three values, since KAI reads an omitted one as 0."""

    quota: Share = -1
    """Guaranteed: GPUs, CPU millicores, memory in MB (10^6 bytes)."""
    limit: Share = -1
    """Maximum."""
    weight: Annotated[float, Field(ge=0, strict=True, allow_inf_nan=False)] = 1
    """overQuotaWeight: share of the unused resources."""


class QueueSpec(Model):
    """A KAI queue (cluster-scoped)."""

    name: DnsName
    """Name of the queue; workloads name it in the label kai.scheduler/queue."""
    parent: DnsName | None = None
    """Parent queue; workloads go to leaf queues only."""
    priority: Annotated[int, Field(strict=True)] | None = None
    """Order between sibling queues; higher first (KAI's default is 100)."""
    gpu: QueueResource = QueueResource()
    """GPUs, in devices; fractions count."""
    cpu: QueueResource = QueueResource()
    """CPU, in millicores."""
    memory: QueueResource = QueueResource()
    """Memory, in MB (10^6 bytes)."""

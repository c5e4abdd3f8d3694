"""The sections and fields of the lab file as frozen pydantic models. Keys are camelCase in YAML, snake_case in Python.

Models validate single values; rules between values are in ``rules``, ``gpu_rules``, ``queue_rules`` and
``tenant_rules``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from lab.config.base import DnsName, ImageReference, Model, Pin, Switch, Version
from lab.config.gpu import GpuSpec, NodePool
from lab.config.queue import QueueSpec
from lab.config.tenant import TenantSpec


class ClusterSpec(Model):
    """The cluster that the lab runs on."""

    provider: Literal["kind", "existing"] = "kind"
    """kind: the lab creates a cluster; existing: it uses one and changes only objects that it created."""
    engine: Literal["auto", "docker", "podman", "nerdctl"] = "auto"
    """Container engine for kind; auto uses the first that runs."""
    kubernetes: Version = "1.34.4"
    """Kubernetes version of the nodes (provider kind)."""
    control_planes: Literal[1, 3] = 1
    """Number of control-plane nodes."""
    workers: Annotated[int, Field(ge=0, le=16, strict=True)] = 2
    """Number of worker nodes; with 0 the control plane runs the workloads."""
    kubeconfig: Path | None = None
    """provider existing: the kubeconfig file (read only), absolute or relative to the lab file."""
    context: str | None = None
    """provider existing: the context in that file."""
    checkpoint: Switch = False
    """Keep the state of the new lab; the next 'kailab up' of the same lab restores it (provider kind)."""
    exclusive: Switch = False
    """provider existing: nobody else uses the cluster, so suites that disturb others may run."""

    @property
    def own(self) -> bool:
        """Whether the lab creates the cluster, and removes it with everything on it."""
        return self.provider == "kind"


class KaiSpec(Model):
    """NVIDIA KAI Scheduler on the host cluster."""

    manage: Literal["install", "adopt", "none"] = "install"
    """adopt: use the KAI that an existing cluster has, and change nothing of it; none: do not use KAI."""
    version: Version = "0.16.8"
    """Release without the leading v."""
    gpu_sharing: Switch = True
    """Helm global.gpuSharing: fractions of a GPU. Without it KAI refuses pods that request a fraction."""
    values: dict[str, Any] = Field(default_factory=dict)
    """Additional Helm values, merged last."""


class BudgetSpec(Model):
    """What the lab may take of a cluster that others use."""

    gpus: Annotated[float | None, Field(ge=0, allow_inf_nan=False)] = None
    """GPUs in all, fractions count: of default and own-kai tenants, the rest for the queues (provider existing)."""


class InferenceSpec(Model):
    """The inference server that the inference suites run on a fraction of a GPU."""

    image: ImageReference | None = None
    """Image for real GPUs. Otherwise, and by default, the lab's own stand-in, which needs no CUDA."""
    args: tuple[str, ...] = ()
    """Arguments of its container; {model} and {fraction} are replaced."""
    model: str | None = None
    """Model named in requests."""


class SupplySpec(Model):
    """Where binaries, images and charts come from."""

    sources: Annotated[tuple[Literal["present", "bundle", "registry", "build"], ...], Field(min_length=1)] = (
        "present",
        "bundle",
        "registry",
        "build",
    )
    """Tried in this order."""
    bundle: Path | None = None
    """A bundle from 'kailab bundle create', absolute or relative to the lab file."""
    mirrors: dict[str, str] = Field(default_factory=dict)
    """Registry host → mirror host, e.g. {'ghcr.io': 'localhost:5001'}."""
    pull_secrets: tuple[DnsName, ...] = ()
    """Secrets for image pulls in namespace default (provider existing); the lab copies them to its namespaces."""
    pins: dict[str, Pin] = Field(default_factory=dict)
    """Image or address → its digest or sha256, besides those of the catalogue; '' accepts any content."""


class LabFields(Model):
    """Every field of a lab file; ``LabSpec`` adds the rules between them."""

    name: DnsName = "demo"
    """Name of the lab; labs with different names can run at the same time."""
    cluster: ClusterSpec = ClusterSpec()
    """The cluster that the lab runs on."""
    gpu: GpuSpec = GpuSpec()
    """The GPUs of the nodes."""
    scheduler: Literal["auto", "kai", "default"] = "auto"
    """auto: KAI if available, otherwise the default scheduler with a notice."""
    kai: KaiSpec = KaiSpec()
    """NVIDIA KAI Scheduler on the host cluster."""
    budget: BudgetSpec = BudgetSpec()
    """What the lab may take of a cluster that others use."""
    queues: tuple[QueueSpec, ...] = ()
    """KAI queues; each names its parent, and only leaf queues accept workloads."""
    tenants: tuple[TenantSpec, ...] = ()
    """vClusters, each with its own choice of scheduler."""
    inference: InferenceSpec = InferenceSpec()
    """The inference server that the inference suites run on a fraction of a GPU."""
    images: tuple[ImageReference, ...] = ()
    """Additional images for the nodes, for your own workloads."""
    supply: SupplySpec = SupplySpec()
    """Where binaries, images and charts come from."""

    @property
    def gpu_pools(self) -> tuple[NodePool, ...]:
        """The node pools that get GPUs from the lab, in node order; without workers, of control planes.

        In an existing cluster one pool of the named nodes. Empty in mode ``none``, and for the cluster's own GPUs.

        Workers after the last pool have no GPUs.
        """
        if self.gpu.mode in ("none", "present"):
            return ()
        if not self.cluster.own:
            return self.gpu.node_pools(len(self.gpu.nodes)) if self.gpu.nodes else ()
        return self.gpu.node_pools(self.cluster.workers or self.cluster.control_planes)

    @property
    def wants_kai(self) -> bool:
        """Whether the lab has KAI on the host, and so queues; ``auto`` counts as KAI."""
        return self.scheduler != "default" and self.kai.manage != "none"

    @property
    def gpus_outside_queues(self) -> int:
        """GPU quotas of the tenants whose pods are in no queue of the lab; those of host-kai tenants are in one."""
        inside = "host-kai" if self.wants_kai else ""
        return sum(tenant.quota.gpus or 0 for tenant in self.tenants if tenant.mode != inside)

    def mode_of(self, tenant: TenantSpec) -> str:
        """A tenant's mode in words; without KAI on the host, the default scheduler serves its host-kai tenants."""
        without = tenant.mode == "host-kai" and self.scheduler == "default"
        return "default scheduler, without the host's KAI" if without else tenant.mode

    @property
    def tenants_in_words(self) -> str:
        """Its tenants with their modes."""
        return ", ".join(f"{tenant.name} ({self.mode_of(tenant)})" for tenant in self.tenants)

    @property
    def leaf_queues(self) -> tuple[str, ...]:
        """Queues that accept workloads: those without children."""
        parents = {queue.parent for queue in self.queues}
        return tuple(queue.name for queue in self.queues if queue.name not in parents)

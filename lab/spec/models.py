"""The lab file as frozen pydantic models. Keys are camelCase in YAML, snake_case in Python."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator
from pydantic.alias_generators import to_camel

DnsName = Annotated[str, StringConstraints(pattern=r"^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$")]
"""A lower-case DNS label of at most 40 characters: it becomes part of container, namespace and file names."""

Version = Annotated[str, StringConstraints(pattern=r"^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$")]


class Model(BaseModel):
    """Base: frozen, unknown keys refused, camelCase in the file."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True, use_attribute_docstrings=True
    )


class ClusterSpec(Model):
    """The cluster the lab runs on."""

    provider: Literal["kind", "existing"] = "kind"
    """kind: the lab creates a cluster; existing: it uses one and touches nothing it did not create."""
    engine: Literal["auto", "docker", "podman", "nerdctl"] = "auto"
    """Container engine for kind; auto takes the first that runs."""
    kubernetes: Version = "1.34.4"
    """Kubernetes version of the nodes."""
    control_planes: Literal[1, 3] = 1
    """How many control-plane nodes."""
    workers: Annotated[int, Field(ge=0, le=16)] = 2
    """How many worker nodes; with 0 the control plane takes the workloads."""
    kubeconfig: Path | None = None
    """provider existing: the kubeconfig file (read only)."""
    context: str | None = None
    """provider existing: the context in that file."""

    @model_validator(mode="after")
    def _existing_names_its_cluster(self) -> ClusterSpec:
        named = self.kubeconfig is not None and self.context is not None
        if self.provider == "existing" and not named:
            raise ValueError("provider 'existing' needs both kubeconfig and context")
        if self.provider == "kind" and (self.kubeconfig or self.context):
            raise ValueError("kubeconfig and context belong to provider 'existing'")
        return self


class GpuSpec(Model):
    """The GPUs of the nodes."""

    mode: Literal["auto", "nvidia", "simulated", "none"] = "auto"
    """nvidia: real ones; simulated: everything real but the silicon; auto: nvidia where NVML answers, else simulated."""
    per_node: Annotated[int, Field(ge=0, le=16)] = 2
    """GPUs of each GPU node (simulated)."""
    model: str = "NVIDIA A100-SXM4-40GB"
    """Product name that NVML reports (simulated)."""
    memory: Annotated[int, Field(gt=100, alias="memoryMiB")] = 40960
    """Memory of one GPU in MiB (simulated). KAI ignores values up to 100."""


class KaiSpec(Model):
    """NVIDIA KAI Scheduler on the host cluster."""

    version: Version = "0.16.8"
    """Release without the leading v."""
    gpu_sharing: bool = True
    """Helm global.gpuSharing: fractions of a GPU."""
    values: dict[str, Any] = Field(default_factory=dict)
    """Further Helm values, merged last."""


class QueueResource(Model):
    """Share of one resource. -1 is unlimited. KAI reads an omitted limit as 0, so the lab always writes all three."""

    quota: Annotated[float, Field(ge=-1)] = -1
    """Guaranteed: GPUs, CPU millicores, memory in MB (10^6 bytes)."""
    limit: Annotated[float, Field(ge=-1)] = -1
    """Never more than this."""
    weight: Annotated[float, Field(ge=0)] = 1
    """overQuotaWeight: share of what is left over."""

    @model_validator(mode="after")
    def _limit_holds_quota(self) -> QueueResource:
        if self.limit != -1 and (self.quota == -1 or self.quota > self.limit) and "quota" in self.model_fields_set:
            raise ValueError(f"quota {self.quota:g} is above limit {self.limit:g}")
        return self


class QueueSpec(Model):
    """A KAI queue (cluster-scoped)."""

    name: DnsName
    parent: DnsName | None = None
    """Parent queue; workloads go to leaf queues only."""
    priority: int | None = None
    """Order between sibling queues; higher first (KAI's default is 100)."""
    gpu: QueueResource = QueueResource()
    cpu: QueueResource = QueueResource()
    memory: QueueResource = QueueResource()


class TenantSpec(Model):
    """A vCluster."""

    name: DnsName
    mode: Literal["host-kai", "own-kai", "default"] = "host-kai"
    """host-kai: the host's KAI schedules its pods; own-kai: KAI inside, in its own version; default: kube-scheduler."""
    vcluster: Version = "0.36.1"
    """Version of the vCluster chart."""
    kubernetes: Version = "1.34.4"
    """Kubernetes version inside."""
    kai_version: Version | None = None
    """own-kai: the version inside."""
    values: dict[str, Any] = Field(default_factory=dict)
    """Further vcluster.yaml values, merged last and validated against the chart's schema."""


class SupplySpec(Model):
    """Where binaries, images and charts come from."""

    sources: tuple[Literal["present", "bundle", "registry", "build"], ...] = ("present", "bundle", "registry", "build")
    """Tried in this order."""
    bundle: Path | None = None
    """A bundle made by 'lab bundle create'; those in the cache directory are found without being named."""
    mirrors: dict[str, str] = Field(default_factory=dict)
    """Registry host → mirror host, e.g. {'ghcr.io': 'localhost:5001'}."""


class LabSpec(Model):
    """A whole lab."""

    name: DnsName = "demo"
    """Name of the lab; two labs of different names live side by side."""
    cluster: ClusterSpec = ClusterSpec()
    gpu: GpuSpec = GpuSpec()
    scheduler: Literal["auto", "kai", "default"] = "auto"
    """auto: KAI where it can be had, otherwise the default scheduler with a loud notice."""
    kai: KaiSpec = KaiSpec()
    queues: tuple[QueueSpec, ...] = ()
    tenants: tuple[TenantSpec, ...] = ()
    images: tuple[str, ...] = ()
    """Further images to have in the nodes, for your own workloads."""
    supply: SupplySpec = SupplySpec()

    @model_validator(mode="after")
    def _names_are_unique(self) -> LabSpec:
        for what, names in (("queue", [q.name for q in self.queues]), ("tenant", [t.name for t in self.tenants])):
            if twice := sorted({name for name in names if names.count(name) > 1}):
                raise ValueError(f"{what} named twice: {', '.join(twice)}")
        known = {queue.name for queue in self.queues}
        for queue in self.queues:
            if queue.parent is not None and queue.parent not in known:
                raise ValueError(f"queue {queue.name!r}: unknown parent {queue.parent!r}")
        return self

    @property
    def leaf_queues(self) -> tuple[str, ...]:
        """Queues that take workloads: those that are nobody's parent."""
        parents = {queue.parent for queue in self.queues}
        return tuple(queue.name for queue in self.queues if queue.name not in parents)

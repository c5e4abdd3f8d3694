"""The lab file as frozen pydantic models. Keys are camelCase in YAML, snake_case in Python.

What a single value may be is said here; how values must go together is in ``lab.spec.rules``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import InitErrorDetails, PydanticCustomError

from lab.spec import rules

_DNS_NAME = r"^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$"
_VERSION = r"^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$"


def _dns_name(value: object) -> object:
    if isinstance(value, str) and not re.fullmatch(_DNS_NAME, value):
        raise PydanticCustomError(
            "dns_name", "must be 1 to 40 of a-z, 0-9 and '-', a letter first and no '-' at the end"
        )
    return value


def _version(value: object) -> object:
    if isinstance(value, str) and re.fullmatch(_VERSION, value):
        return value
    if isinstance(value, str) and re.fullmatch(_VERSION, value.removeprefix("v")):
        raise PydanticCustomError("version", "must be a version without the leading v")
    raise PydanticCustomError("version", "must be a version of three numbers, such as 1.34.4")


def _share(value: float) -> float:
    if -1 < value < 0:
        raise PydanticCustomError("share", "must be -1 (unlimited), 0 or more")
    return value


DnsName = Annotated[str, StringConstraints(pattern=_DNS_NAME), BeforeValidator(_dns_name)]
"""A lower-case DNS label of at most 40 characters: it becomes part of container, namespace and file names."""

Version = Annotated[str, StringConstraints(pattern=_VERSION), BeforeValidator(_version)]
"""A release such as 1.34.4. YAML reads 1.34 as a number, so three parts are asked for."""

Share = Annotated[float, Field(ge=-1, strict=True, allow_inf_nan=False), AfterValidator(_share)]
"""An amount of a resource; -1 is unlimited."""

Switch = Annotated[bool, Field(strict=True)]
"""true or false; strict, as the JSON Schema is."""

ImageReference = Annotated[str, StringConstraints(pattern=r"^\S+$")]


class Model(BaseModel):
    """Base: frozen, unknown keys refused, camelCase in the file."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        populate_by_name=True,
        use_attribute_docstrings=True,
    )


class ClusterSpec(Model):
    """The cluster the lab runs on."""

    provider: Literal["kind", "existing"] = "kind"
    """kind: the lab creates a cluster; existing: it uses one and touches nothing it did not create."""
    engine: Literal["auto", "docker", "podman", "nerdctl"] = "auto"
    """Container engine for kind; auto takes the first that runs."""
    kubernetes: Version = "1.34.4"
    """Kubernetes version of the nodes (provider kind)."""
    control_planes: Literal[1, 3] = 1
    """How many control-plane nodes."""
    workers: Annotated[int, Field(ge=0, le=16, strict=True)] = 2
    """How many worker nodes; with 0 the control plane takes the workloads."""
    kubeconfig: Path | None = None
    """provider existing: the kubeconfig file (read only). A relative path starts at the lab file."""
    context: str | None = None
    """provider existing: the context in that file."""


class GpuSpec(Model):
    """The GPUs of the nodes."""

    mode: Literal["auto", "nvidia", "simulated", "none"] = "auto"
    """nvidia: real; simulated: all real but the silicon; auto: nvidia where NVML answers, else simulated."""
    per_node: Annotated[int, Field(ge=0, le=16, strict=True)] = 2
    """GPUs of each GPU node (simulated)."""
    model: Annotated[str, StringConstraints(min_length=1, max_length=95)] = "NVIDIA A100-SXM4-40GB"
    """Product name that NVML reports (simulated); NVML's buffer holds 95 characters."""
    memory: Annotated[int, Field(gt=100, strict=True, alias="memoryMiB")] = 40960
    """Memory of one GPU in MiB (simulated). KAI ignores values up to 100."""


class KaiSpec(Model):
    """NVIDIA KAI Scheduler on the host cluster."""

    version: Version = "0.16.8"
    """Release without the leading v."""
    gpu_sharing: Switch = True
    """Helm global.gpuSharing: fractions of a GPU. Without it KAI refuses pods that ask for a fraction."""
    values: dict[str, Any] = Field(default_factory=dict)
    """Further Helm values, merged last."""


class QueueResource(Model):
    """Share of one resource; -1 is unlimited. KAI reads an omitted one as 0, so the lab writes all three."""

    quota: Share = -1
    """Guaranteed: GPUs, CPU millicores, memory in MB (10^6 bytes)."""
    limit: Share = -1
    """Never more than this."""
    weight: Annotated[float, Field(ge=0, strict=True, allow_inf_nan=False)] = 1
    """overQuotaWeight: share of what is left over."""


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


class TenantSpec(Model):
    """A vCluster."""

    name: DnsName
    """Name of the vCluster; 'lab kubeconfig NAME' opens it."""
    mode: Literal["host-kai", "own-kai", "default"] = "host-kai"
    """host-kai: the host's KAI schedules its pods; own-kai: KAI inside, any version; default: no KAI."""
    vcluster: Version = "0.36.1"
    """Version of the vCluster chart, 0.35.3 or newer."""
    kubernetes: Version = "1.34.4"
    """Kubernetes version inside."""
    kai_version: Version | None = None
    """own-kai: the version inside."""
    values: dict[str, Any] = Field(default_factory=dict)
    """Further vcluster.yaml values, merged last and validated against the chart's schema."""


class SupplySpec(Model):
    """Where binaries, images and charts come from."""

    sources: Annotated[
        tuple[Literal["present", "bundle", "registry", "build"], ...], Field(min_length=1)
    ] = ("present", "bundle", "registry", "build")  # fmt: skip
    """Tried in this order."""
    bundle: Path | None = None
    """A bundle made by 'lab bundle create'. A relative path starts at the lab file."""
    mirrors: dict[str, str] = Field(default_factory=dict)
    """Registry host → mirror host, e.g. {'ghcr.io': 'localhost:5001'}."""


class LabSpec(Model):
    """A whole lab."""

    name: DnsName = "demo"
    """Name of the lab; two labs of different names live side by side."""
    cluster: ClusterSpec = ClusterSpec()
    """The cluster the lab runs on."""
    gpu: GpuSpec = GpuSpec()
    """The GPUs of the nodes."""
    scheduler: Literal["auto", "kai", "default"] = "auto"
    """auto: KAI where it can be had, otherwise the default scheduler with a loud notice."""
    kai: KaiSpec = KaiSpec()
    """NVIDIA KAI Scheduler on the host cluster."""
    queues: tuple[QueueSpec, ...] = ()
    """KAI queues; each names its parent, and only leaf queues take workloads."""
    tenants: tuple[TenantSpec, ...] = ()
    """vClusters, each with a scheduler of its choice."""
    images: tuple[ImageReference, ...] = ()
    """Further images to have in the nodes, for your own workloads."""
    supply: SupplySpec = SupplySpec()
    """Where binaries, images and charts come from."""

    @model_validator(mode="after")
    def _goes_together(self) -> LabSpec:
        if broken := tuple(rules.broken(self)):
            raise ValidationError.from_exception_data(
                "LabSpec",
                [
                    InitErrorDetails(
                        type=PydanticCustomError(
                            rules.RULE, "{what}", {"what": rule.what, "about": rule.about}
                        ),
                        loc=rule.loc,
                        input=None,
                    )
                    for rule in broken
                ],
            )
        return self

    @property
    def leaf_queues(self) -> tuple[str, ...]:
        """Queues that take workloads: those that are nobody's parent."""
        parents = {queue.parent for queue in self.queues}
        return tuple(queue.name for queue in self.queues if queue.name not in parents)

    def warnings(self) -> tuple[str, ...]:
        """What is allowed but probably not meant, one sentence each, with the path of the field."""
        return tuple(rules.doubtful(self))


def type_at(loc: tuple[int | str, ...]) -> Any:
    """The annotation of the field at a place in the lab file.

    Any where the file is free-form, None where it has no field. ``type_at(("tenants", 0))`` is
    TenantSpec, ``type_at(("kai", "values", "x"))`` is Any.
    """
    here: Any = LabSpec
    for word in loc:
        if isinstance(here, type) and issubclass(here, Model):
            here = next(
                (f.annotation for key, f in here.model_fields.items() if word == (f.alias or key)), None
            )
        elif getattr(here, "__origin__", None) is tuple:
            here = here.__args__[0] if isinstance(word, int) else None
        elif here is Any or getattr(here, "__origin__", None) is dict:
            here = Any
        else:
            return None
    return here

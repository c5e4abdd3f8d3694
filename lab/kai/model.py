"""Facts about a KAI version as frozen dataclasses; the data is in ``lines/*.toml``, ``defects.toml`` and ``derived/``.

An empty name does not exist in that version, such as ``keys.preemptibility`` before 0.10.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass

from lab.errors import SpecError

_VERSION = re.compile(r"v?(\d+)\.(\d+)\.(\d+)(-[0-9A-Za-z.-]+)?")

Release = tuple[int, int, int, int]
"""Major, minor, patch, and 0 for a candidate (which precedes its release) or 1."""


@functools.cache
def release(version: str) -> Release:
    """A version such as 0.16.8 or 0.9.4-rc.0 as numbers. Raises SpecError for any other text."""
    match = _VERSION.fullmatch(version)
    if match is None:
        raise SpecError(f"invalid version {version!r}", fix="use three numbers, such as 0.16.8")
    major, minor, patch = (int(number) for number in match.groups()[:3])
    return major, minor, patch, 0 if match[4] else 1


@dataclass(frozen=True)
class Keys:
    """Labels and annotations of KAI (pkg/common/constants/constants.go and the plugins)."""

    queue: str  # label of a workload or pod: its queue
    priority_class: str  # label of a workload or pod: its PriorityClass
    preemptibility: str  # label of a workload or pod: preemptible or non-preemptible, regardless of its priority
    subgroup: str  # label of a pod: its subgroup within the PodGroup
    node_pool: str  # label of a node or pod: the scheduling shard
    gpu_group: str  # label of a fractional pod and of the reservation pod of its GPU
    gpu_groups: str  # prefix of that label for pods on several devices, followed by the group
    node_gpu_memory: str  # label of a node: memory of one GPU in MiB, needed for pods that request memory
    fraction: str  # annotation of a pod: share of one GPU, above 0 and below 1
    fraction_container: str  # annotation of a pod: the container that gets the fraction; the first one otherwise
    gpu_memory: str  # annotation of a pod: GPU memory in MiB
    num_devices: str  # annotation of a pod: number of devices with its fraction
    mps: str  # annotation of a pod: CUDA MPS
    pod_group: str  # annotation of a pod: name of its PodGroup, written by the pod-grouper
    received_type: str  # annotation of a bound pod: Regular or Fraction
    shared_gpu_configmap: str  # annotation of a fractional pod: prefix of its ConfigMaps
    reserved_gpu: str  # annotation of a reservation pod: UUID of its GPU, despite the name
    min_member: str  # annotation of a batch Job: number of pods that must start together
    topology: str  # annotation of a workload: its Topology
    required_topology: str  # annotation of a workload: topology level that must contain all of its pods
    preferred_topology: str  # annotation of a workload: topology level that should contain all of its pods
    segment_size: str  # annotation of a workload: pods per segment, which is placed as a unit
    skip_pod_grouper: str  # annotation of a pod: the pod-grouper ignores it
    top_owner: str  # annotation of a PodGroup: its owner, as YAML


@dataclass(frozen=True)
class HelmKeys:
    """Dotted paths in the chart's values."""

    registry: str
    tag: str
    image_pull_policy: str
    gpu_sharing: str
    cluster_autoscaling: str
    leader_election: str
    queue_label: str
    placement: str  # binpack or spread, for pods that request GPUs
    reservation_class: str  # RuntimeClass of the reservation pods
    workload_class: str  # RuntimeClass that admission sets on GPU pods
    default_queues: str  # whether the chart creates its default queues
    default_shard: str  # whether the chart creates the SchedulingShard default
    fips: str  # images with the suffix -fips
    pod_selector: str  # labels of the pods that the webhooks select
    namespace_selector: str  # labels of the namespaces that the webhooks and the pod-grouper select
    node_pool_key: str  # node label with the scheduling shard; the shard ``default`` ignores nodes that have it
    binder_flags: str  # raw flags of the binder
    scheduler_flags: str  # raw flags of the scheduler


@dataclass(frozen=True)
class Defect:
    """A known bug of a KAI version that tests and the lab must tolerate; defects.toml explains the fields."""

    id: str
    what: str
    releases: str  # ranges of releases that have it
    issue: str
    brought: str
    cured: str
    proof: str
    fixed_in: str  # first later release without it; empty: none is known
    workaround: str

    @property
    def next(self) -> str:
        """What to do about it."""
        release = f"use KAI {self.fixed_in} or newer" if self.fixed_in else ""
        return "; or ".join(filter(None, (release, self.workaround)))


@dataclass(frozen=True)
class Support:
    """Statements of the newest SUPPORT.md about a line, and the release's own go.mod."""

    kind: str  # LTS, Standard; empty: not stated
    until: str  # such as "Jun 2027" or "Until v0.16"; empty: not stated
    kubernetes: tuple[str, ...]  # minors that upstream validates, such as 1.34; empty: not stated
    libraries: str  # the Kubernetes minor that the release was built with


@dataclass(frozen=True)
class VersionLine:
    """The facts of one KAI version; lines/every.toml explains the fields."""

    name: str
    version: str
    first: str
    last: str
    registry: str
    base: str
    stale_hook_job: bool
    config_template: str
    scheduler_name: str
    scheduler_app: str
    release: str
    namespace: str
    reservation_namespace: str
    reservation_name: str
    scale_namespace: str
    deployments: Mapping[str, str]
    component_switch: bool
    by_operator: frozenset[str]
    images: tuple[str, ...]
    hook_images: tuple[str, ...]
    scaling_deployment: str
    scaling_images: tuple[str, ...]
    webhooks: tuple[str, ...]
    webhook_only_kai_pods: bool
    crds: tuple[str, ...]
    crds_in_chart: bool
    needs_crds: Mapping[str, str]
    priority_classes: Mapping[str, int]
    default_queues: tuple[str, ...]
    queue_template: str
    queue_levels: int
    unknown_queue_event: bool
    reservation_class: str
    workload_class_clearable: bool
    workload_class_pods: str
    fake_gpu_detection: bool
    topology_api: str
    features: frozenset[str]
    keys: Keys
    helm: HelmKeys
    defects: tuple[Defect, ...]
    support: Support
    exact: bool = True
    newer: bool = False
    warning: str = ""

    @property
    def tag(self) -> str:
        """Tag of the images and version of the chart: the git tag with its v."""
        return f"v{self.version}"

    @property
    def chart(self) -> str:
        return f"oci://{self.registry}/{self.release}"

    @property
    def admission(self) -> str:
        """Deployment that serves the pod webhooks: admission, or the binder in older versions."""
        own = [name for name, key in self.deployments.items() if key == "admission"]
        return own[0] if own else next(name for name, key in self.deployments.items() if key == "binder")

    def outside(self, kubernetes: str) -> str:
        """A sentence if a Kubernetes version is outside those that upstream validates this line with; empty if not."""
        major, minor = release(kubernetes)[:2]
        validated = self.support.kubernetes
        if not validated or f"{major}.{minor}" in validated:
            return ""
        return f"KAI {self.version} is validated with Kubernetes {validated[0]} to {validated[-1]}, not {kubernetes}"

    @property
    def has_operator(self) -> bool:
        """Whether an operator deploys components from the Config kai-config."""
        return "kai-operator" in self.deployments

    @property
    def has_shards(self) -> bool:
        """Whether a SchedulingShard runs the scheduler (0.10 and newer)."""
        return self.scheduler_app in self.by_operator

"""Software that others installed in a cluster, from its objects and Helm's records: KAI, GPUs' software, vClusters."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from lab.errors import ApiFailed, LabError
from lab.kube import OWNER_LABEL, Cluster
from lab.kube.ownership import helm_release, owner_of
from lab.objects.fields import Obj, labels_of, parts
from lab.snapshot.cluster_snapshot import ClusterSnapshot
from lab.snapshot.kai_installation import ADMISSION, KaiInstallation, installation
from lab.tools.helm import Release

_GPU_OPERATOR = "gpu-operator"
_VCLUSTER = "vcluster"
_POD_NETWORKS = {
    "anetd": "GKE Dataplane V2",
    "antrea-agent": "Antrea",
    "aws-node": "Amazon VPC CNI",
    "azure-cns": "Azure CNI",
    "calico-node": "Calico",
    "canal": "Canal",
    "cilium": "Cilium",
    "kindnet": "kindnet",
    "kube-flannel": "Flannel",
    "kube-flannel-ds": "Flannel",
    "kube-ovn-cni": "Kube-OVN",
    "kube-router": "kube-router",
    "ovnkube-node": "OVN-Kubernetes",
    "weave-net": "Weave Net",
}
"""DaemonSet, as the projects' own manifests and charts name it → its project."""

Releases = Mapping[tuple[str, str], Release]
"""Helm releases by namespace and name."""


@dataclass(frozen=True)
class HelmRelease:
    """The newest revision of a Helm release, without its values."""

    name: str
    namespace: str
    chart: str
    version: str
    """Version of the chart."""
    status: str
    """deployed, failed, pending-upgrade, …"""
    revision: int

    @classmethod
    def of(cls, release: Release | None) -> HelmRelease | None:
        if release is None:
            return None
        return cls(
            release.name, release.namespace, release.chart, release.chart_version, release.status, release.revision
        )


@dataclass(frozen=True)
class DevicePlugin:
    """A DaemonSet that gives nvidia.com/gpu to kubelets."""

    name: str
    namespace: str
    image: str
    version: str
    """Tag of its image."""
    owner: str


@dataclass(frozen=True)
class GpuOperator:
    """NVIDIA's GPU Operator."""

    namespace: str
    """Of its Deployment; empty if Deployments cannot be read."""
    version: str
    """Of its chart, or the tag of its image."""
    policy: str
    """Its ClusterPolicy; empty: none."""
    state: str
    """status.state of the ClusterPolicy: ready, notReady, ignored."""
    release: HelmRelease | None


@dataclass(frozen=True)
class Shard:
    """A SchedulingShard: a scheduler of KAI and the nodes that it serves."""

    name: str
    pool: str
    """Value of the node pool label; empty: nodes without the label."""


@dataclass(frozen=True)
class InstalledKai:
    """A KAI installation, with the settings that matter to its users."""

    version: str
    """Without the leading v; empty if the tags of its images are not versions."""
    line: str
    """The version line of kailab that describes it."""
    namespace: str
    namespaces: tuple[str, ...]
    """All namespaces of its components and reservation pods."""
    owner: str
    """Who installed it: ``belongs to lab NAME``, ``belongs to Helm release NAMESPACE/NAME``, …"""
    lab: str
    """The lab of kailab that installed it; empty: none."""
    release: HelmRelease | None
    """None if there is none, or Helm's Secrets cannot be read."""
    config: str
    """Name of its Config (KAI 0.9 and newer); empty: none, or not readable."""
    gpu_sharing: bool | None
    """Whether it takes fractions of a GPU; None if unknown."""
    scheduler_name: str
    queue_key: str
    """Label that names the queue of a pod."""
    pool_key: str
    """Label that assigns nodes to shards; empty: none."""
    namespace_selector: Mapping[str, str]
    """Labels that a namespace needs for KAI to serve it; empty: none."""
    shards: tuple[Shard, ...]
    down: tuple[str, ...]
    """Components that are missing or have no available pod, one line each."""

    @property
    def in_words(self) -> str:
        """Version, namespace, owner and GPU sharing in one line."""
        sharing = {True: "on", False: "off", None: "unknown"}[self.gpu_sharing]
        shards = f", shards {', '.join(shard.name for shard in self.shards)}" if len(self.shards) > 1 else ""
        version = self.version or "of unknown version"
        return f"{version} in namespace {self.namespace}, {self.owner}, gpuSharing {sharing}{shards}"


@dataclass(frozen=True)
class VCluster:
    """A vCluster."""

    name: str
    namespace: str
    version: str
    """Of its chart."""
    lab: str
    """The lab of kailab that it belongs to; empty: none."""
    release: HelmRelease | None


def releases_named(snapshot: ClusterSnapshot) -> frozenset[tuple[str, str]]:
    """Namespace and name of the Helm releases of KAI, the GPU Operator and vClusters, as their objects name them."""
    kai = installation(snapshot)
    objs = [*_deployments(snapshot, kai), *_operators(snapshot), *_control_planes(snapshot)]
    named = {helm_release(obj) for obj in objs}
    return frozenset(release for release in named if all(release))


def helm_releases(cluster: Cluster, wanted: Collection[tuple[str, str]]) -> tuple[Releases, bool]:
    """The newest revisions of these releases, and whether the user may not read some of Helm's Secrets."""
    with ThreadPoolExecutor(max_workers=8, thread_name_prefix="releases") as pool:
        records = dict(zip(wanted, pool.map(lambda key: _records(cluster, *key), wanted), strict=True))
    found = {}
    for key, secrets in records.items():
        try:
            newest = max(secrets or (), key=lambda one: int(labels_of(one["metadata"]).get("version", 0)), default=None)
            if newest is not None:
                found[key] = Release.of_secret(newest)
        except (LabError, ValueError):  # of a newer Helm
            continue
    return found, None in records.values()


def installed_kai(snapshot: ClusterSnapshot, releases: Releases) -> InstalledKai | None:
    """The KAI of a cluster; None if it has none, or Deployments cannot be read."""
    kai = installation(snapshot)
    if kai is None:
        return None
    objs = _deployments(snapshot, kai)
    by_helm = next((obj for obj in objs if all(helm_release(obj))), objs[0])
    namespace = snapshot.get("Namespace", kai.namespace) or {}
    lab = labels_of(namespace.get("metadata") or {}).get(OWNER_LABEL, "")
    config = next(iter(snapshot.of("Config")), None)
    return InstalledKai(
        version=kai.version,
        line=kai.line.name,
        namespace=kai.namespace,
        namespaces=tuple(
            dict.fromkeys(filter(None, (kai.namespace, kai.line.reservation_namespace, kai.line.scale_namespace)))
        ),
        owner=owner_of(namespace if lab else by_helm),
        lab=lab,
        release=HelmRelease.of(releases.get(helm_release(by_helm))),
        config=config["metadata"]["name"] if config else "",
        gpu_sharing=gpu_sharing(kai, config),
        scheduler_name=kai.scheduler_name,
        queue_key=kai.queue_key,
        pool_key=kai.pool_key,
        namespace_selector=kai.namespace_selector,
        shards=tuple(
            Shard(obj["metadata"]["name"], parts(obj)[1].get("partitionLabelValue") or "")
            for obj in snapshot.of("SchedulingShard")
        ),
        down=tuple(component.state()[0] for component in kai.components.values() if not component.up),
    )


def device_plugins(snapshot: ClusterSnapshot) -> tuple[DevicePlugin, ...]:
    """The DaemonSets whose image is a GPU device plugin: NVIDIA's own, and those of cloud providers."""
    return tuple(
        DevicePlugin(meta["name"], meta["namespace"], image, _tag(image), owner_of(obj))
        for obj in snapshot.of("DaemonSet")
        for meta in (obj["metadata"],)
        for image in list(_images(obj))[:1]
        if "device-plugin" in image and any(word in f"{image} {meta['name']}" for word in ("nvidia", "gpu"))
    )


def gpu_operator(snapshot: ClusterSnapshot, releases: Releases, policies: str) -> GpuOperator | None:
    """NVIDIA's GPU Operator, by its Deployment or its ClusterPolicy, which are of the kind ``policies``; None: none."""
    operator = next(iter(_operators(snapshot)), None)
    policy = next(iter(snapshot.of(policies)), None)
    if operator is None and policy is None:
        return None
    release = releases.get(helm_release(operator or policy or {}))
    image = next(_images(operator), "") if operator else ""
    return GpuOperator(
        namespace=operator["metadata"]["namespace"] if operator else "",
        version=release.chart_version if release else _tag(image),
        policy=policy["metadata"]["name"] if policy else "",
        state=str(parts(policy)[2].get("state", "")) if policy else "",
        release=HelmRelease.of(release),
    )


def vclusters(snapshot: ClusterSnapshot, releases: Releases) -> tuple[VCluster, ...]:
    """The vClusters, by the control planes that the chart labels (vcluster/chart, 0.20 and newer)."""
    found = []
    for obj in _control_planes(snapshot):
        meta = obj["metadata"]
        labels = labels_of(meta)
        release = releases.get(helm_release(obj))
        version = release.chart_version if release else labels.get("chart", "").removeprefix(f"{_VCLUSTER}-")
        namespace = snapshot.get("Namespace", meta["namespace"]) or {}
        lab = labels.get(OWNER_LABEL) or labels_of(namespace.get("metadata") or {}).get(OWNER_LABEL, "")
        name = labels.get("release") or meta["name"]
        found.append(VCluster(name, meta["namespace"], version, lab, HelmRelease.of(release)))
    return tuple(sorted(found, key=lambda one: (one.namespace, one.name)))


def pod_networks(snapshot: ClusterSnapshot) -> tuple[str, ...]:
    """The CNI plugins that run as DaemonSets of a known name."""
    names = (obj["metadata"]["name"] for obj in snapshot.of("DaemonSet"))
    return tuple(sorted({_POD_NETWORKS[name] for name in names if name in _POD_NETWORKS}))


def _deployments(snapshot: ClusterSnapshot, kai: KaiInstallation | None) -> list[Obj]:
    components = kai.components.values() if kai else ()
    found = (snapshot.get("Deployment", one.deployment, one.namespace) for one in components)
    return [obj for obj in found if obj is not None]


def _operators(snapshot: ClusterSnapshot) -> Iterator[Obj]:
    """The Deployment of the GPU Operator: its image is .../gpu-operator."""
    for obj in snapshot.of("Deployment"):
        if any(image.partition("@")[0].rpartition("/")[2].partition(":")[0] == _GPU_OPERATOR for image in _images(obj)):
            yield obj


def _control_planes(snapshot: ClusterSnapshot) -> Iterator[Obj]:
    for kind in ("StatefulSet", "Deployment"):
        for obj in snapshot.of(kind):
            if labels_of(obj["metadata"]).get("app") == _VCLUSTER:
                yield obj


def _records(cluster: Cluster, namespace: str, name: str) -> list[Obj] | None:
    """Helm's Secrets of a release, or None if they are forbidden."""
    try:
        return list(cluster.list("Secret", namespace, labels=f"owner=helm,name={name}"))
    except ApiFailed as error:
        if error.status != 403:
            raise
        return None


def gpu_sharing(kai: KaiInstallation, config: Obj | None) -> bool | None:
    """Whether KAI takes fractions of a GPU, None if unknown.

    By the Config; without one, by the option of the admission component (KAI 0.9 to 0.17).
    """
    known = (parts(config)[1].get("admission") or {}).get("gpuSharing") if config else None
    if known is not None:
        return bool(known)
    admission = kai.component(ADMISSION)
    return None if admission is None or admission.missing else admission.option("gpu-sharing-enabled") == "true"


def _images(obj: Obj) -> Iterator[str]:
    spec = (parts(obj)[1].get("template") or {}).get("spec") or {}
    return (str(container.get("image", "")) for container in spec.get("containers") or [])


def _tag(image: str) -> str:
    return image.partition("@")[0].rpartition("/")[2].partition(":")[2]

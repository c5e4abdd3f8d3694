"""A cluster of somebody else: plain kind with names, CNI and KAI of its own, and workloads that run in it.

Nothing of kailab takes part but files: kind, Helm, KAI's chart and images, and a node image with Kubernetes' images.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import yaml

from lab.config import LabSpec, TenantSpec
from lab.kai import line_of
from lab.kube import Cluster
from lab.kube.readiness import is_ready
from lab.steps.kai.values import kai_images
from lab.supply import Supply
from lab.supply.bundle import installed
from lab.tools.container import ContainerEngine
from lab.tools.process import HostRunner
from lab.watch.manifests import LOCAL_IMAGE
from tests.integration.conftest import lacking

MIRROR, SECRET = "mirror.example:5000", "it-pull"
PROBE = "registry.kailab.dev/probe:2"
SPACE = "shop"
"""Namespace of the stranger's workloads."""
QUEUES = ("shop", "shop-web")

_RBAC = "rbac.authorization.k8s.io"
READER = (
    {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "it-reads"},
        "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}],
    },
    {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "it-reads"},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": "it-reads"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": SPACE}],
    },
)
"""What lets ``Stranger.user`` read everything."""

_VOLUMES = "/tmp/hostpath_pv"
_KUBELET = """
kind: KubeletConfiguration
nodeStatusMaxImages: -1
"""
_CGROUP_V1 = """
kind: KubeletConfiguration
cgroupDriver: cgroupfs
"""
_RUNC = """
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
  SystemdCgroup = false
[plugins."io.containerd.grpc.v1.cri"]
  restrict_oom_score_adj = true
"""
_REGISTRIES = """
[plugins."io.containerd.grpc.v1.cri".registry]
  config_path = "/etc/containerd/certs.d"
"""
_CONTROLLERS = f"""
kind: ClusterConfiguration
dns: {{imageTag: v1.12.4}}
controllerManager:
  extraVolumes:
    - {{name: volumes, hostPath: {_VOLUMES}, mountPath: {_VOLUMES}, pathType: DirectoryOrCreate}}
"""

Json = dict[str, Any]


@dataclass(frozen=True)
class Stranger:
    """The cluster and the tools of its owner."""

    name: str
    kubeconfig: Path
    run: HostRunner
    supply: Supply

    @property
    def context(self) -> str:
        return f"kind-{self.name}"

    @property
    def cluster(self) -> Cluster:
        return Cluster(self.kubeconfig, self.context)

    @property
    def nodes(self) -> list[str]:
        return self.run.run([self.supply.binary("kind"), "get", "nodes", "--name", self.name]).out.split()

    @property
    def workers(self) -> list[str]:
        return sorted(node for node in self.nodes if "worker" in node)

    def load(self, *images: str) -> None:
        """``kind load image-archive`` for each image that the nodes lack."""
        worker = self.nodes[-1]
        there = self.run.run(["docker", "exec", worker, "ctr", "-n", "k8s.io", "images", "ls", "-q"]).out.split()
        for image in (image for image in images if image not in there):
            archive = self.supply.image(image)
            self.run.run(
                [self.supply.binary("kind"), "load", "image-archive", archive, "--name", self.name], timeout=300
            )

    def mirror(self, host: str, *images: str) -> None:
        """Load images, and let every node have and report each also by the name that it has at a mirror."""
        self.load(*images)
        names = {f"{host}/{image.partition('/')[2]}" for image in images}
        for node in self.nodes:
            ctr = ["docker", "exec", node, "ctr", "-n", "k8s.io", "images", "tag", "--force"]
            for image in images:
                self.run.run([*ctr, image, f"{host}/{image.partition('/')[2]}"])
        self.cluster.wait(
            "Node",
            lambda nodes: all(
                names <= {name for one in node["status"]["images"] for name in one["names"]} for node in nodes
            ),
            timeout=120,
            what="every node reports the images",
        )

    def secret(self, name: str, logins: Mapping[str, tuple[str, str]] = MappingProxyType({})) -> None:
        """A pull secret in namespace default, with user and password for each registry."""
        meta = {"name": name, "namespace": "default"}
        doc = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": "kubernetes.io/dockerconfigjson"}
        auths = {host: {"username": user, "password": password} for host, (user, password) in logins.items()}
        text = json.dumps({"auths": auths} if auths else {})
        self.cluster.apply([{**doc, "stringData": {".dockerconfigjson": text}}])

    def reach(self, port: int) -> str:
        """Let the nodes pull from a registry without TLS on this machine; returns its address for them."""
        subnets = ["docker", "network", "inspect", self.name, "--format", "{{range .IPAM.Config}}{{.Gateway}} {{end}}"]
        gateway = next(one for one in self.run.run(subnets).out.split() if ":" not in one)
        address = f"{gateway}:{port}"
        hosts = f'server = "http://{address}"\n[host."http://{address}"]\ncapabilities = ["pull", "resolve"]\n'
        folder = f"/etc/containerd/certs.d/{address}"
        for node in self.nodes:
            write = ["sh", "-c", f"mkdir -p {folder} && cat >{folder}/hosts.toml"]
            self.run.run(["docker", "exec", "-i", node, *write], stdin=hosts)
        return address

    def user(self, folder: Path, token: str = "") -> Path:
        """A kubeconfig of ServiceAccount default in namespace shop, or with another token."""
        if not token:
            path = f"/api/v1/namespaces/{SPACE}/serviceaccounts/default/token"
            kind = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
            body = {**kind, "spec": {"expirationSeconds": 7200}}
            token = self.cluster.calls.json("POST", path, title="token", body=body)["status"]["token"]
        config = yaml.safe_load(self.kubeconfig.read_text())
        config["users"] = [{"name": config["users"][0]["name"], "user": {"token": token}}]
        file = folder / "user.kubeconfig"
        file.write_text(yaml.safe_dump(config))
        return file

    def images_of_kai(self, version: str) -> tuple[str, ...]:
        """The images that KAI needs, with those of the chart's hooks."""
        return kai_images(
            LabSpec.model_validate(
                {
                    "cluster": {"provider": "existing", "kubeconfig": self.kubeconfig, "context": self.context},
                    "kai": {"version": version},
                    "gpu": {"mode": "none"},
                }
            )
        )

    @contextmanager
    def without_api(self) -> Iterator[None]:
        """Freeze the control plane; at the end every node is Ready by a heartbeat that came after it went on.

        Leases expire meanwhile: the controllers may call a node not Ready some seconds after the API is back.
        """
        node = f"{self.name}-control-plane"
        self.run.run(["docker", "pause", node])
        try:
            yield
        finally:
            back = datetime.now(UTC)
            self.run.run(["docker", "unpause", node])
        cluster = self.cluster
        cluster.poll(cluster.healthy, timeout=60)

        def late() -> list[str]:
            renewed = {
                lease["metadata"]["name"]
                for lease in cluster.list("Lease", "kube-node-lease")
                if datetime.fromisoformat(lease["spec"]["renewTime"]) > back
            }
            nodes = cluster.list("Node")
            return [name for node in nodes if (name := node["metadata"]["name"]) not in renewed or not is_ready(node)]

        assert cluster.poll(late, until=lambda nodes: not nodes, timeout=120) == []

    def helm(self, *words: str | Path) -> None:
        command = [self.supply.binary("helm"), "--kubeconfig", self.kubeconfig, "--kube-context", self.context]
        self.run.run([*command, *words], timeout=900)

    def install_kai(self, version: str, *settings: str) -> None:
        """``helm install`` with the chart's hooks, as KAI's documentation has it, and these ``KEY=VALUE``."""
        self.load(*self.images_of_kai(version))
        chart = self.supply.chart("kai-scheduler", f"v{version}")
        values = f"global.gpuSharing=true,global.registry={line_of(version).registry}"  # as in the published chart
        options = [
            "--namespace",
            "kai-scheduler",
            "--create-namespace",
            "--set",
            ",".join((values, *settings)),
            "--wait",
        ]
        self.helm("install", "kai-scheduler", chart, *options, "--timeout", "10m")

    def offer_gpus(self, gpus: int) -> None:
        """Let every worker report GPUs that it lacks, as Kubernetes' documentation of extended resources shows."""
        patch = [{"op": "add", "path": "/status/capacity/nvidia.com~1gpu", "value": str(gpus)}]
        kubectl = [self.supply.binary("kubectl"), "--kubeconfig", self.kubeconfig, "--context", self.context]
        for node in self.workers:
            words = ["patch", "node", node, "--subresource=status", "--type=json", "-p", json.dumps(patch)]
            self.run.run([*kubectl, *words])

    def work(self, *, gpus: int = 0) -> None:
        """A Deployment of two pods, and with GPUs a queue tree and a pod that holds them."""
        docs: list[Json] = [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}},
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "web", "namespace": SPACE},
                "spec": {
                    "replicas": 2,
                    "selector": {"matchLabels": {"app": "web"}},
                    "template": {
                        "metadata": {"labels": {"app": "web"}},
                        "spec": {"containers": [{"name": "web", "image": PROBE, "imagePullPolicy": "IfNotPresent"}]},
                    },
                },
            },
        ]
        if gpus:
            share = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
            resources = {"gpu": share, "cpu": share, "memory": share}
            for name, parent in zip(QUEUES, (None, QUEUES[0]), strict=True):
                of = {"parentQueue": parent} if parent else {}
                docs.append(
                    {
                        "apiVersion": "scheduling.run.ai/v2",
                        "kind": "Queue",
                        "metadata": {"name": name},
                        "spec": {"resources": resources, **of},
                    }
                )
            limits = {"nvidia.com/gpu": gpus}
            container = {"name": "train", "image": PROBE, "imagePullPolicy": "IfNotPresent"}
            docs.append(
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"name": "train", "namespace": SPACE, "labels": {"kai.scheduler/queue": QUEUES[1]}},
                    "spec": {
                        "schedulerName": "kai-scheduler",
                        "containers": [{**container, "resources": {"limits": limits}}],
                    },
                }
            )
        kubectl = [self.supply.binary("kubectl"), "--kubeconfig", self.kubeconfig, "--context", self.context]
        command, text = [*kubectl, "apply", "-f", "-"], yaml.safe_dump_all(docs)
        # KAI's webhooks answer a moment after its pods are Ready
        done = self.cluster.poll(lambda: self.run.run(command, stdin=text, check=False).code == 0, timeout=60)
        assert done, "kubectl apply of the stranger's workloads"
        names = {"train"} if gpus else set()
        self.cluster.wait_ready("Deployment", "web", SPACE, timeout=120)
        if names:
            self.cluster.wait_ready("Pod", names, SPACE, timeout=120)


@contextmanager
def strangers_cluster(
    name: str, folder: Path, *, workers: int = 2, tenants: tuple[TenantSpec, ...] = ()
) -> Iterator[Stranger]:
    """A plain kind cluster in ``folder``, deleted at the end with everything on it.

    ``tenants`` are those whose images it will load.
    """
    run = HostRunner()
    spec = LabSpec(tenants=tenants)
    stranger = Stranger(name, folder / "kubeconfig", run, Supply(spec, run, ContainerEngine(run, "docker")))
    kind = stranger.supply.binary("kind")
    image = node_image(run)
    volumes = folder / "nfs"
    volumes.mkdir()
    mounts = [{"hostPath": str(volumes), "containerPath": _VOLUMES}]
    v1 = not Path("/sys/fs/cgroup/cgroup.controllers").exists()
    config = {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "networking": {"disableDefaultCNI": True, "podSubnet": "10.99.0.0/16", "serviceSubnet": "10.98.0.0/16"},
        "nodes": [{"role": role, "extraMounts": mounts} for role in ("control-plane", *["worker"] * workers)],
        "kubeadmConfigPatches": [_CONTROLLERS, _KUBELET, *([_CGROUP_V1] if v1 else [])],
        "containerdConfigPatches": [_REGISTRIES, *([_RUNC] if v1 else [])],
    }
    create, network = [kind, "create", "cluster"], {"KIND_EXPERIMENTAL_DOCKER_NETWORK": name}
    empty = ["docker", "run", "--rm", "-v", f"{volumes}:/v", "--entrypoint", "find", image]
    try:
        run.run(
            [*create, "--name", name, "--image", image, "--config", "-", "--kubeconfig", stranger.kubeconfig],
            stdin=yaml.safe_dump(config),
            env=network,
            timeout=600,
        )
        _cni(stranger)
        stranger.cluster.wait_ready("Node", stranger.nodes, timeout=120)
        stranger.load(PROBE, "registry.k8s.io/coredns/coredns:v1.12.4")
        yield stranger
    finally:
        run.run([kind, "delete", "cluster", "--name", name, "--kubeconfig", stranger.kubeconfig], check=False)
        run.run([*empty, "/v", "-mindepth", "1", "-delete"], check=False)
        run.run(["docker", "network", "rm", name], check=False)  # kind leaves it


@contextmanager
def cluster_without_gpus(name: str, folder: Path, kai: str, *, workers: int = 2) -> Iterator[Stranger]:
    """One with KAI and workloads, whose nodes have kailab's images by the name of a mirror."""
    needs_kai(kai)
    with strangers_cluster(name, folder, workers=workers) as stranger:
        # it has no RuntimeClass nvidia, which KAI would give to pods with a part of a GPU
        stranger.install_kai(kai, "admission.gpuFractionRuntimeClassName=")
        stranger.mirror(MIRROR, PROBE, LOCAL_IMAGE)
        stranger.work()
        stranger.secret(SECRET)
        yield stranger


def node_image(run: HostRunner) -> str:
    """A node image that an earlier lab has made."""
    found = run.run(["docker", "images", "kailab/node", "--format", "{{.Repository}}:{{.Tag}}"]).out.split()
    if not found:
        pytest.skip("needs a node image of an earlier kailab up")
    return found[0]


def _cni(stranger: Stranger) -> None:
    """The stranger's own pod network: bridges and static routes."""
    nodes = {
        node["metadata"]["name"]: node
        for node in stranger.cluster.wait(
            "Node", lambda found: all(one["spec"].get("podCIDR") for one in found), timeout=60, what="pod CIDRs"
        )
    }
    ranges = {name: node["spec"]["podCIDR"] for name, node in nodes.items()}
    address = {
        name: next(one["address"] for one in node["status"]["addresses"] if one["type"] == "InternalIP")
        for name, node in nodes.items()
    }
    for name, cidr in ranges.items():
        plugins = [
            {
                "type": "bridge",
                "bridge": "cbr0",
                "isGateway": True,
                "ipMasq": False,
                "hairpinMode": True,
                "ipam": {"type": "host-local", "ranges": [[{"subnet": cidr}]], "routes": [{"dst": "0.0.0.0/0"}]},
            },
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ]
        conflist = json.dumps({"cniVersion": "1.0.0", "name": "theirs", "plugins": plugins})
        lines = [f"ip route replace {ranges[other]} via {address[other]}" for other in ranges if other != name]
        lines.append(f"iptables -w -t nat -A POSTROUTING -s {cidr} ! -d 10.99.0.0/16 -j MASQUERADE")
        # renamed, as containerd might read half of it otherwise
        lines += ["cd /etc/cni/net.d", f"cat >new <<'X'\n{conflist}\nX", "mv new 10-theirs.conflist"]
        stranger.run.run(["docker", "exec", "-i", name, "sh", "-es"], stdin="\n".join(lines) + "\n")


def needs_kai(version: str) -> None:
    """Skip without a bundle of this KAI in the cache."""
    if not any(entry.version == f"v{version}" for bundle in installed() for entry in bundle.entries):
        lacking("kai", f"no bundle in the cache has KAI {version}")

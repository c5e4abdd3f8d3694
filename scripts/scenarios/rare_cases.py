"""Scenarios that need something rare: a registry with a certain answer, a foreign webhook, a DRA node, a scale-up."""

from __future__ import annotations

import hashlib
import json
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lab.workloads.pods import gpu_pod
from scripts.scenarios.admission_cases import webhook
from scripts.scenarios.cluster_changes import Configured, NodeWithoutKubelet, OnNodes
from scripts.scenarios.manifests import claim, cpu, half, job, main, mounting, one, over, plain
from scripts.scenarios.model import Scenario, Setting
from scripts.scenarios.scheduling_cases import on_fake, storage_class

if TYPE_CHECKING:
    from lab.kube import Cluster

Json = dict[str, Any]
_PORT = 5999
_PID = "/run/s-registry.pid"
_SERVER = (
    "my $s = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => {port}, Listen => 9, ReuseAddr => 1) or die;"
    " while (my $c = $s->accept) {{ while (<$c>) {{ last if /^\\r?$/ }} print $c $ARGV[0]; close $c }}"
)
"""A server of one answer; Debian's perl-base, which nodes have, is enough for it."""
_INDEX = "application/vnd.oci.image.index.v1+json"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_SCALING = "kai-scale-adjust"
_TIMEOUT = '"bindTimeoutSeconds":"5"'


def answering(status: str, body: str = "", **headers: str) -> OnNodes:
    """All workers have a registry on 127.0.0.1 that gives every request the same answer."""
    fields = {"Content-Length": str(len(body)), "Connection": "close", **headers}
    lines = [f"HTTP/1.1 {status}", *(f"{name.replace('_', '-')}: {value}" for name, value in fields.items()), "", body]
    program = shlex.quote(_SERVER.format(port=_PORT))
    answer = shlex.quote("\r\n".join(lines))
    start = f"setsid perl -MIO::Socket::INET -e {program} -- {answer} </dev/null >/dev/null 2>&1 & echo $! > {_PID}"
    return OnNodes(start, f"kill $(cat {_PID}) || true; rm -f {_PID}")


def _for_another_platform() -> OnNodes:
    digest = f"sha256:{hashlib.sha256(b'none').hexdigest()}"
    row = {"mediaType": _MANIFEST, "digest": digest, "size": 4, "platform": {"os": "linux", "architecture": "s390x"}}
    body = json.dumps({"schemaVersion": 2, "mediaType": _INDEX, "manifests": [row]})
    own = f"sha256:{hashlib.sha256(body.encode()).hexdigest()}"
    return answering("200 OK", body, Content_Type=_INDEX, Docker_Content_Digest=own)


def _pulling(s: Setting) -> Json:
    return main(cpu(s), image=f"127.0.0.1:{_PORT}/x:1")


@dataclass(frozen=True)
class ForeignWebhook:
    """A webhook for the pods of a namespace that refuses them all: KAI's for Queues, which cannot read a pod."""

    name: str
    namespace: str

    def do(self, cluster: Cluster) -> None:
        known = cluster.list("ValidatingWebhookConfiguration")
        clients = [
            row["clientConfig"]
            for obj in known
            for row in obj.get("webhooks") or []
            for rule in row.get("rules") or []
            if "queues" in rule["resources"]
        ]
        if not clients:
            raise LookupError("no webhook for Queues in this cluster")
        cluster.create(webhook(self.name, self.namespace, **clients[0]))

    def undo(self, cluster: Cluster) -> None:
        cluster.delete("ValidatingWebhookConfiguration", self.name)


def _devices(s: Setting) -> Json:
    """A ResourceSlice with one GPU on the node without a kubelet."""
    spec = {
        "driver": "gpu.nvidia.com",
        "nodeName": "s-node",
        "pool": {"name": "s-node", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "gpu-0", "attributes": {"productName": {"string": "H100"}}}],
    }
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s-gpus"}, "spec": spec}


def _unscheduled() -> Json:
    """A pod as KAI's node scale adjuster makes it, which waits for a node."""
    waits = plain(nodeSelector={"kailab.dev/scenario": "no-such-node"})
    return over(waits, {"metadata": {"name": "s-scaling", "namespace": _SCALING}})


RARE = (
    Scenario("registry-forbidden", "image.unauthorized", one(_pulling), changes=(answering("403 Forbidden"),)),
    Scenario("registry-broken", "image.pull-failed", one(_pulling), changes=(answering("507 Insufficient Storage"),)),
    Scenario("image-elsewhere", "image.platform", one(_pulling), changes=(_for_another_platform(),)),
    Scenario(
        "webhook-denied",
        "admission.webhook-refused",
        one(lambda s: job(cpu(s))),
        changes=(ForeignWebhook("s-denied", "s-webhook-denied"),),
        settle=3,
    ),
    Scenario(
        "dra-node",
        "nodes.dra",
        one(lambda s: on_fake(gpu_pod("p", queue=s.queue))),
        first=one(_devices),
        changes=(NodeWithoutKubelet({"kailab.dev/scenario": "node", "nvidia.com/gpu.present": "true"}, {}),),
        kai=">=0.13,<0.17",
    ),
    Scenario(
        "volume-unbound",
        "bind.volume",
        lambda s: [claim(storageClassName="s-unbound"), mounting(s)],
        first=one(lambda s: storage_class("s-unbound")),
        changes=(
            Configured(
                {"binder": {"volumeBindingTimeoutSeconds": 5}},
                {"binder": {"volumeBindingTimeoutSeconds": None}},
                "binder",
                _TIMEOUT,
            ),
        ),
    ),
    Scenario(
        "scaling-up",
        "bind.scaling-up",
        lambda s: [_unscheduled(), half(s)],
        first=one(lambda s: {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _SCALING}}),
        alone=True,
    ),
)
"""Situations that a lab has only when they are made with care."""

"""Step ``network``: pods of all nodes reach each other, and nodes become Ready.

A node image with kindnet brings its own network. One made here gets ``ptp`` + ``host-local`` + ``portmap`` from
Debian's CNI plugins, a route to each other node's pods, and one rule for traffic that leaves the pod network.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from lab.config import LabSpec
from lab.engine.step import Effect, Observed
from lab.paths import assets
from lab.session.context import LabContext
from lab.session.step import LabStep
from lab.tools.container import Container

_CONFLIST = "/etc/cni/net.d/10-kailab.conflist"
_SCRIPT = "/etc/kailab/network.sh"
_UNIT = "/etc/systemd/system/kailab-network.service"
_WANTS = "/etc/systemd/system/multi-user.target.wants/kailab-network.service"
_READY_SECONDS = 120.0


@dataclass(frozen=True)
class PodNetwork(LabStep):
    """The pod network.

    Args:
        own_node: the node image was built here and has no CNI of its own.
    """

    spec: LabSpec
    own_node: bool
    needs: tuple[str, ...] = ("cluster",)
    id: str = "network"
    title: str = "Pod network"

    def effects(self) -> tuple[Effect, ...]:
        how = "ptp and host-local CNI, routes between the nodes" if self.own_node else "kindnet from the node image"
        return (Effect("node", f"{how}; wait until all nodes are Ready"),)

    def observe(self, ctx: LabContext) -> Observed:
        nodes = ctx.cluster().list("Node")
        if unready := [node["metadata"]["name"] for node in nodes if not _ready(node)]:
            return Observed.drifted(f"not Ready: {', '.join(unready)}")
        if not self.own_node:
            return Observed.ready("kindnet")
        files = _files(nodes, ctx.nodes())
        with ThreadPoolExecutor(8) as pool:
            same = list(pool.map(lambda item: _in_place(ctx, *item), files.items()))
        return (
            Observed.ready(f"{len(nodes)} nodes Ready") if all(same) else Observed.drifted("routes or CNI files differ")
        )

    def apply(self, ctx: LabContext) -> None:
        cluster = ctx.cluster()
        count = self.spec.cluster.control_planes + self.spec.cluster.workers
        if self.own_node:
            nodes = cluster.wait(
                "Node",
                lambda found: len(found) == count and all(node["spec"].get("podCIDR") for node in found),
                timeout=60,
                what="every node has a pod CIDR",
            )
            with ThreadPoolExecutor(8) as pool:
                list(pool.map(lambda item: _install(ctx, *item), _files(nodes, ctx.nodes()).items()))
        ctx.progress("waiting for nodes")
        cluster.wait(
            "Node",
            lambda found: len(found) == count and all(map(_ready, found)),
            timeout=_READY_SECONDS,
            what="all nodes are Ready",
        )

    def verify(self, ctx: LabContext) -> None:
        """``apply`` ended when the nodes were Ready; what pods reach is proven by the steps that need it."""


def _files(nodes: list[dict[str, Any]], containers: tuple[Container, ...]) -> dict[str, tuple[str, str]]:
    """Conflist and network script of each node container, by its name."""
    template = (assets("kind") / "cni" / "conflist.json").read_text()
    cidrs = {node["metadata"]["name"]: node["spec"]["podCIDR"] for node in nodes}
    addresses = {container.name: container.ip for container in containers}
    made = {}
    for name, cidr in cidrs.items():
        lines = ["set -e"]
        lines += [f"ip route replace {cidrs[other]} via {addresses[other]}" for other in sorted(cidrs) if other != name]
        # -w waits for kube-proxy, which holds the same lock while it writes its rules
        rule = f"POSTROUTING -s {cidr} ! -d 10.244.0.0/16 -j MASQUERADE"
        lines.append(f"iptables -w -t nat -C {rule} 2>/dev/null || iptables -w -t nat -A {rule}")
        made[name] = (template.replace("POD_CIDR", cidr), "\n".join(lines) + "\n")
    return made


def _in_place(ctx: LabContext, node: str, files: tuple[str, str]) -> bool:
    conflist, script = files
    routes = [line.split()[3:6:2] for line in script.splitlines() if line.startswith("ip route")]
    look = ctx.engine.exec(node, ["sh", "-c", f"cat {_CONFLIST} {_SCRIPT}; ip route"], check=False)
    return look.out.startswith(conflist + script) and all(f"{to} via {via}" in look.out for to, via in routes)


def _install(ctx: LabContext, node: str, files: tuple[str, str]) -> None:
    conflist, script = files
    unit = (assets("kind") / "cni" / "kailab-network.service").read_text()
    parts = [(_CONFLIST, conflist), (_SCRIPT, script), (_UNIT, unit)]
    here = [
        f"mkdir -p $(dirname {path})\ncat > {path}.new <<'KAILAB'\n{text}KAILAB\nmv {path}.new {path}"
        for path, text in parts
    ]
    # the routes first: the conflist is what makes containerd start pods
    order = [here[1], f"sh {_SCRIPT}", here[2], f"ln -sf {_UNIT} {_WANTS}", here[0]]
    ctx.engine.exec(node, ["sh", "-s"], stdin="set -e\n" + "\n".join(order) + "\n")


def _ready(node: dict[str, Any]) -> bool:
    conditions = node.get("status", {}).get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)

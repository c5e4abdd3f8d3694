"""Step ``network``: pods of all nodes reach each other and Services, and nodes become Ready.

kind's node image contains kindnet. A node image built here gets ``ptp`` + ``host-local`` + ``portmap`` from Debian's
CNI plugins, a route to each other node's pods, and one rule for traffic that leaves the pod network.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from typing import Any

from lab.config import LabSpec
from lab.engine.step import Effect, Observed
from lab.errors import StepFailed
from lab.kube.readiness import is_ready
from lab.objects.fields import parts
from lab.paths import assets
from lab.session.context import LabContext
from lab.session.step import LabStep
from lab.tools.container import Container

CONFLIST = "/etc/cni/net.d/10-kailab.conflist"
SCRIPT = "/etc/kailab/network.sh"
_UNIT = "/etc/systemd/system/kailab-network.service"
_WANTS = "/etc/systemd/system/multi-user.target.wants/kailab-network.service"
PLACED = (CONFLIST, SCRIPT, _UNIT, _WANTS)
"""What the step places in a node."""
_READY_SECONDS = 120.0
_SERVICES = "Services answer"
_LOOK = f"""cat {CONFLIST} {SCRIPT}; ip route
curl -s -m 2 --noproxy '*' --cacert /etc/kubernetes/pki/ca.crt -o /dev/null "https://$1/livez" && echo {_SERVICES}"""
"""Shows what the step has put into a node, and whether the API server answers there at its Service's address.

A node that has just started again is without Services until its kube-proxy has written its rules, and the API still has
the states of before the start then. In some networks somebody answers at any address, so the certificate counts.
"""


@dataclass(frozen=True)
class PodNetwork(LabStep):
    """The pod network."""

    spec: LabSpec
    own_node: bool  # whether the node image was built here and has no CNI
    needs: tuple[str, ...] = ("cluster",)
    id: str = "network"
    title: str = "Pod network"

    def effects(self) -> tuple[Effect, ...]:
        how = "ptp and host-local CNI, routes between the nodes" if self.own_node else "kindnet from the node image"
        return (Effect("node", f"{how}; wait until all nodes are Ready"),)

    def observe(self, ctx: LabContext) -> Observed:
        nodes = ctx.cluster().list("Node")
        if unready := [node["metadata"]["name"] for node in nodes if not is_ready(node)]:
            return Observed.drifted(f"not Ready: {', '.join(unready)}")
        seen = _look(ctx, nodes)
        files = _files(nodes, ctx.nodes()) if self.own_node else {}
        if not all(_in_place(seen[name], *wanted) for name, wanted in files.items()):
            return Observed.drifted("routes or CNI files differ")
        if silent := _without_services(seen):
            return Observed.drifted(f"no Services in {', '.join(silent)}: kube-proxy has not started")
        return Observed.ready(f"{len(nodes)} nodes Ready" if self.own_node else "kindnet")

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
        nodes = cluster.wait(
            "Node",
            lambda found: len(found) == count and all(map(is_ready, found)),
            timeout=_READY_SECONDS,
            what="all nodes are Ready",
        )
        ctx.progress("waiting for Services")
        if silent := cluster.poll(
            lambda: _without_services(_look(ctx, nodes)),
            until=lambda found: not found,
            timeout=_READY_SECONDS,
            interval=0.5,
        ):
            raise StepFailed(
                f"the API server's Service does not answer in {', '.join(silent)}",
                fix=cluster.kubectl("logs", "-n", "kube-system", "-l", "k8s-app=kube-proxy"),
            )


def _files(nodes: list[dict[str, Any]], containers: tuple[Container, ...]) -> dict[str, tuple[str, str]]:
    """CNI config and network script of each node container, by its name."""
    template, service = ((assets("kind") / "cni" / name).read_text() for name in ("conflist.json", "api-service.sh"))
    # parsed, as they become part of a shell script
    cidrs = {node["metadata"]["name"]: str(ip_network(node["spec"]["podCIDR"])) for node in nodes}
    addresses = {container.name: str(ip_address(container.ip)) for container in containers}
    files = {}
    for name, cidr in cidrs.items():
        lines = ["set -e"]
        lines += [f"ip route replace {cidrs[other]} via {addresses[other]}" for other in sorted(cidrs) if other != name]
        # -w waits for the lock that kube-proxy holds while it writes its rules
        rule = f"POSTROUTING -s {cidr} ! -d 10.244.0.0/16 -j MASQUERADE"
        lines.append(f"iptables -w -t nat -C {rule} 2>/dev/null || iptables -w -t nat -A {rule}")
        files[name] = (template.replace("POD_CIDR", cidr), "\n".join([*lines, service]))
    return files


def _look(ctx: LabContext, nodes: list[dict[str, Any]]) -> dict[str, str]:
    """The output of ``_LOOK`` in each node; the cluster may have a load balancer's container as well."""
    spec = parts(ctx.cluster().get("Service", "kubernetes", "default") or {})[1]
    argv = ["sh", "-c", _LOOK, "kailab", str(spec.get("clusterIP", ""))]
    names = [node["metadata"]["name"] for node in nodes]
    with ThreadPoolExecutor(8) as pool:
        found = pool.map(lambda name: ctx.engine.exec(name, argv, check=False).out, names)
        return dict(zip(names, found, strict=True))


def _without_services(seen: dict[str, str]) -> list[str]:
    return [name for name, found in seen.items() if not found.endswith(f"{_SERVICES}\n")]


def _in_place(found: str, conflist: str, script: str) -> bool:
    routes = [line.split()[3:6:2] for line in script.splitlines() if line.startswith("ip route")]
    return found.startswith(conflist + script) and all(f"{to} via {via}" in found for to, via in routes)


def _install(ctx: LabContext, node: str, files: tuple[str, str]) -> None:
    conflist, script = files
    unit = (assets("kind") / "cni" / "kailab-network.service").read_text()

    def write(path: str, text: str) -> str:
        return f"mkdir -p $(dirname {path})\ncat > {path}.new <<'KAILAB'\n{text}KAILAB\nmv {path}.new {path}"

    # the conflist last, as containerd starts pods once it exists
    lines = ["set -e", write(SCRIPT, script), f"sh {SCRIPT}", write(_UNIT, unit), f"ln -sf {_UNIT} {_WANTS}"]
    ctx.engine.exec(node, ["sh", "-s"], stdin="\n".join([*lines, write(CONFLIST, conflist)]) + "\n")

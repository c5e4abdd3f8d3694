"""Access to a tenant's API in an existing cluster: NodePort, LoadBalancer or port-forward, whichever answers.

The tenant's kubeconfig has the tenant's CA, and expects a certificate for ``localhost``, which vCluster's always is
(0.36.1, pkg/server/cert). So every way is verified by that CA, whatever address it has, and nodes that come and go
change no certificate.
"""

from __future__ import annotations

import contextlib
import socket
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from lab.errors import ApiFailed
from lab.kube import OWNER_LABEL, Cluster
from lab.kube.readiness import is_ready
from lab.objects.fields import parts
from lab.objects.isolation_labels import tenant_namespace
from lab.session.context import LabContext
from lab.session.private_file import write_private
from lab.tenants.vcluster import access
from lab.tenants.vcluster.access import CLAIM, FORWARD_SECONDS, PORT_FORWARD, Endpoint
from lab.tools.processes import end_processes_naming

NODE_PORT, LOAD_BALANCER = "NodePort", "LoadBalancer"

_NODES = 16
"""Nodes whose NodePort is tried: a network that blocks these blocks the others too."""

_TRY_SECONDS = 3.0
_NODE_PORT_SECONDS = 10.0
"""kube-proxy writes the rules of a NodePort after the pod is Ready."""
_LOAD_BALANCER_SECONDS = 30.0
_START_SECONDS = 15.0

_NAME_IN_CERTIFICATE = "localhost"

_LOOP = (
    'while [ -e "$1" ]; do "$2" --kubeconfig "$3" -n "$4" port-forward --address 127.0.0.1 "service/$5" "$6:443"'
    ' >/dev/null 2>"$1"; sleep 1; done'
)
"""kubectl's port-forward ends with the pod; the loop starts it again until the file is removed."""

Json = dict[str, Any]


def connect(ctx: LabContext, name: str, kubeconfig: str) -> Endpoint:
    """Write the tenant's kubeconfig for the first endpoint that answers; the one in use stays if it does.

    ``kubeconfig`` is vCluster's own, with any server. Raises ApiFailed: none answers.
    """
    cluster, known = ctx.cluster(), access.find_endpoint(ctx, name)
    patience = FORWARD_SECONDS if known and known.how == PORT_FORWARD else 0.0
    if known and cluster.poll(lambda: _answers(ctx, kubeconfig, known), timeout=patience):
        return _use(ctx, name, kubeconfig, known)
    end_port_forward(ctx, name)
    ways = partial(_endpoints, cluster, name)
    found = cluster.poll(lambda: _first(ctx, kubeconfig, ways()), timeout=_NODE_PORT_SECONDS)
    if found is None and _has_load_balancers(cluster):
        ctx.progress("waiting for a LoadBalancer")
        cluster.apply([_load_balancer(ctx.spec.name, name)])
        found = cluster.poll(lambda: _first(ctx, kubeconfig, ways()), timeout=_LOAD_BALANCER_SECONDS, interval=1.0)
    if found is None or found.how != LOAD_BALANCER:
        cluster.delete("Service", _service(name), tenant_namespace(name))
    return _use(ctx, name, kubeconfig, found) if found else _forward(ctx, name, kubeconfig, known)


def end_port_forward(ctx: LabContext, name: str) -> None:
    """End the port-forward to a tenant, if there is one."""
    path = ctx.paths.tenant_port_forward(name)
    if path.exists():
        end_processes_naming(path)
        path.unlink(missing_ok=True)


def _forward(ctx: LabContext, name: str, kubeconfig: str, known: Endpoint | None) -> Endpoint:
    """Start a port-forward that outlives this process, on the port that it had before if that is free."""
    port = _free_port(urlsplit(known.server).port if known and known.how == PORT_FORWARD else None)
    endpoint = _use(ctx, name, kubeconfig, Endpoint(f"https://127.0.0.1:{port}", PORT_FORWARD))
    errors = ctx.paths.tenant_port_forward(name)
    ctx.journal.owns("file", str(errors), f"tenant:{name}")
    write_private(errors, "")
    argv = (ctx.supply.binary("kubectl"), ctx.paths.kubeconfig, tenant_namespace(name), name, str(port))
    ctx.run.run(["sh", "-c", f"({_LOOP}) </dev/null >/dev/null 2>&1 &", "port-forward", errors, *argv])
    if not ctx.cluster().poll(lambda: _answers(ctx, kubeconfig, endpoint), timeout=_START_SECONDS):
        evidence = errors.read_text(errors="replace").splitlines()[-4:]
        end_port_forward(ctx, name)
        raise ApiFailed(
            f"tenant {name} answers neither on its NodePort nor on a LoadBalancer nor through a port-forward",
            evidence=evidence,
            fix=ctx.cluster().kubectl("get", "pods,svc", "-n", tenant_namespace(name)),
        )
    return endpoint


def _use(ctx: LabContext, name: str, kubeconfig: str, endpoint: Endpoint) -> Endpoint:
    path = ctx.paths.tenant_kubeconfig(name)
    ctx.journal.owns("file", str(path), f"tenant:{name}")
    ctx.journal.owns(CLAIM, name, f"tenant:{name}", server=endpoint.server, how=endpoint.how)
    write_private(path, _for_server(kubeconfig, endpoint.server))
    ctx.tenant(name).close()  # it may have read an older file
    return endpoint


def _endpoints(cluster: Cluster, name: str) -> Iterator[Endpoint]:
    """The addresses that the tenant's Services have outside the cluster."""
    space = tenant_namespace(name)
    for service in filter(None, (cluster.get("Service", one, space) for one in (name, _service(name)))):
        for port in (port for port in service["spec"].get("ports") or [] if port.get("name") == "https"):
            for address in _ingress(service):
                yield Endpoint(f"https://{_host(address)}:{port['port']}", LOAD_BALANCER)
            if number := port.get("nodePort"):
                for address in _node_addresses(cluster):
                    yield Endpoint(f"https://{_host(address)}:{number}", NODE_PORT)


def _node_addresses(cluster: Cluster) -> Iterator[str]:
    for node in islice(filter(is_ready, cluster.list("Node")), _NODES):
        for one in parts(node)[2].get("addresses") or []:
            if one.get("type") in ("ExternalIP", "InternalIP"):
                yield one["address"]


def _ingress(service: Json) -> list[str]:
    found = (parts(service)[2].get("loadBalancer") or {}).get("ingress") or []
    return [str(one.get("ip") or one.get("hostname")) for one in found]


def _has_load_balancers(cluster: Cluster) -> bool:
    """Whether something in the cluster gives LoadBalancer Services addresses: one of them has an address."""
    return any(map(_ingress, cluster.list("Service")))


def _service(name: str) -> str:
    """Name of the LoadBalancer Service that the lab adds to the chart's Service."""
    return f"{name}-access"


def _load_balancer(lab: str, name: str) -> Json:
    meta = {"name": _service(name), "namespace": tenant_namespace(name), "labels": {OWNER_LABEL: lab}}
    port = {"name": "https", "port": 443, "targetPort": 8443}
    spec = {"type": LOAD_BALANCER, "selector": {"app": "vcluster", "release": name}, "ports": [port]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}


def _first(ctx: LabContext, kubeconfig: str, endpoints: Iterator[Endpoint]) -> Endpoint | None:
    """The first endpoint that answers; all are tried at once."""
    found = list(endpoints)
    with ThreadPoolExecutor(_NODES, thread_name_prefix="access") as pool:
        answers = pool.map(lambda endpoint: _answers(ctx, kubeconfig, endpoint), found)
        return next((endpoint for endpoint, good in zip(found, answers, strict=True) if good), None)


def _answers(ctx: LabContext, kubeconfig: str, endpoint: Endpoint) -> bool:
    """Whether the tenant's API is ready at an endpoint, with a certificate of the tenant's CA."""
    with tempfile.TemporaryDirectory(dir=ctx.paths.root, prefix="try-") as folder:
        file = Path(folder) / "kubeconfig"
        write_private(file, _for_server(kubeconfig, endpoint.server))
        with contextlib.closing(Cluster(file)) as cluster:
            return cluster.healthy(_TRY_SECONDS)


def _for_server(kubeconfig: str, server: str) -> str:
    """A kubeconfig with another address of the same server."""
    import yaml

    data = yaml.safe_load(kubeconfig)
    for entry in data["clusters"]:
        entry["cluster"] |= {"server": server, "tls-server-name": _NAME_IN_CERTIFICATE}
    return yaml.safe_dump(data, sort_keys=False)


def _host(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _free_port(preferred: int | None) -> int:
    for port in (preferred, 0):
        with socket.socket() as listener, contextlib.suppress(OSError):
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", port or 0))
            return int(listener.getsockname()[1])
    raise ApiFailed("127.0.0.1 has no free port", fix="end programs that hold ports")

"""Access to a tenant's API: its address, and a kubeconfig.

On the lab's own cluster it is a NodePort that kind publishes on 127.0.0.1. kind fixes the published ports when it
creates the cluster. The ``cluster`` step writes them into the journal: one for each tenant, and spare ones for tenants
that are added later. In an existing cluster ``existing_access`` finds the address.
"""

from __future__ import annotations

import base64
import contextlib
import threading
from dataclasses import dataclass
from typing import Any

from lab.engine.journal import Owned
from lab.errors import LabError
from lab.kube import Cluster
from lab.session.context import LabContext

CLAIM = "access"
"""Kind of the journal's record of a tenant's endpoint in an existing cluster."""

PORT_FORWARD = "port-forward"
FORWARD_SECONDS = 5.0
"""A port-forward that has ended answers again after this time."""

_SPARE = "spare-"
_lock = threading.Lock()


@dataclass(frozen=True)
class Endpoint:
    """A tenant's API server as this machine reaches it; kind's is on 127.0.0.1, for which its certificate is valid."""

    server: str
    """URL."""
    how: str = ""
    """In an existing cluster NodePort, LoadBalancer or port-forward."""
    node_port: int = 0
    """The NodePort that kind publishes; 0 in an existing cluster, where Kubernetes chooses it."""

    def __str__(self) -> str:
        return f"{self.server} ({self.how})" if self.how else self.server


def find_endpoint(ctx: LabContext, name: str) -> Endpoint | None:
    """The tenant's endpoint, if it has one."""
    owned = next((one for kind in ("port", CLAIM) for one in ctx.journal.owned(kind) if one.name == name), None)
    return _endpoint(owned) if owned else None


def claim_port(ctx: LabContext, name: str) -> Endpoint:
    """The port of a tenant in kind; a tenant without one claims a spare port. Raises LabError: none is left."""
    with _lock:
        if (own := find_endpoint(ctx, name)) is not None:
            return own
        ports = ctx.journal.owned("port")
        # a process that was killed between its two records has left a spare port that a tenant owns
        taken = [owned.facts for owned in ports if not owned.name.startswith(_SPARE)]
        spare = next((one for one in ports if one.name.startswith(_SPARE) and one.facts not in taken), None)
        if spare is None:
            raise LabError(
                f"no published port is left for tenant {name} ({len(ports)} are in use)",
                fix="recreate the cluster, since kind fixes its ports at creation: 'kailab down', then 'kailab up'",
            )
        ctx.journal.owns("port", name, ctx.step, **spare.facts)
        ctx.journal.released("port", spare.name)
        return _endpoint(spare)


def release_port(ctx: LabContext, name: str) -> None:
    """Make the port of a removed tenant a spare one again."""
    with _lock:
        ports = {owned.name: owned for owned in ctx.journal.owned("port")}
        if own := ports.get(name):
            # a process that was killed between its two records has left this port as a spare one too
            if not any(one.name.startswith(_SPARE) and one.facts == own.facts for one in ports.values()):
                spare = next(f"{_SPARE}{n}" for n in range(len(ports) + 1) if f"{_SPARE}{n}" not in ports)
                ctx.journal.owns("port", spare, own.step, **own.facts)
            ctx.journal.released("port", name)


def _endpoint(owned: Owned) -> Endpoint:
    try:
        if owned.kind == CLAIM:
            return Endpoint(owned.facts["server"], owned.facts["how"])
        return Endpoint(f"https://127.0.0.1:{int(owned.facts['host'])}", node_port=int(owned.facts["node"]))
    except (KeyError, ValueError) as error:
        raise LabError(
            f"the journal's entry for {owned.kind} {owned.name} is damaged: {dict(owned.facts)}",
            fix="run 'kailab down', then 'kailab up'",
        ) from error


def context_name(lab: str, tenant: str) -> str:
    """Name of the context in a tenant's kubeconfig."""
    return f"kailab-{lab}-{tenant}"


def answers(ctx: LabContext, name: str) -> bool:
    """Whether the tenant's API is ready through the kubeconfig on disk.

    With a connection of its own: the shared one may have the CA of a kubeconfig that is about to be replaced. A
    port-forward to a pod that has been replaced ends only with the next connection, and is then started again.
    """
    endpoint = find_endpoint(ctx, name)
    patience = FORWARD_SECONDS if endpoint and endpoint.how == PORT_FORWARD else 0.0
    with contextlib.closing(Cluster(ctx.paths.tenant_kubeconfig(name))) as cluster:
        return cluster.poll(cluster.healthy, timeout=patience)


def kubeconfig_in(secret: dict[str, Any], endpoint: Endpoint | None) -> str | None:
    """The kubeconfig in vCluster's Secret ``vc-<name>`` if its server is the tenant's endpoint, or that is None."""
    import yaml

    packed = (secret.get("data") or {}).get("config")
    if not packed:
        return None
    text = base64.b64decode(packed).decode()
    clusters = (yaml.safe_load(text) or {}).get("clusters") or []
    servers = {entry.get("cluster", {}).get("server") for entry in clusters}
    return text if endpoint is None or servers == {endpoint.server} else None

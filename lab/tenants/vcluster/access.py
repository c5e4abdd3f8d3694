"""Access to a tenant's API: a NodePort that kind publishes on 127.0.0.1, and a kubeconfig.

kind fixes the published ports when it creates the cluster. The ``cluster`` step writes them into the journal: one for
each tenant, and spare ones for tenants that are added later.
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

_SPARE = "spare-"
_lock = threading.Lock()


@dataclass(frozen=True)
class Port:
    """A published port: ``host`` on 127.0.0.1, ``node`` is the NodePort."""

    host: int
    node: int


def find_port(ctx: LabContext, name: str) -> Port | None:
    """The tenant's port, if it has one."""
    return next((_port(owned) for owned in ctx.journal.owned("port") if owned.name == name), None)


def claim_port(ctx: LabContext, name: str) -> Port:
    """The tenant's port; a tenant without one claims a spare port. Raises LabError: no spare port is left."""
    with _lock:
        if (own := find_port(ctx, name)) is not None:
            return own
        ports = ctx.journal.owned("port")
        # a process that was killed between its two records has left a spare port that a tenant owns
        taken = [owned.facts for owned in ports if not owned.name.startswith(_SPARE)]
        spare = next((one for one in ports if one.name.startswith(_SPARE) and one.facts not in taken), None)
        if spare is None:
            raise LabError(
                f"no published port is left for tenant {name} ({len(ports)} are in use)",
                fix="recreate the cluster, since kind fixes its ports at creation: 'lab down', then 'lab up'",
            )
        ctx.journal.owns("port", name, ctx.step, **spare.facts)
        ctx.journal.released("port", spare.name)
        return _port(spare)


def release_port(ctx: LabContext, name: str) -> None:
    """Make the port of a removed tenant a spare one again."""
    with _lock:
        ports = {owned.name: owned for owned in ctx.journal.owned("port")}
        if own := ports.get(name):
            spare = next(f"{_SPARE}{n}" for n in range(len(ports) + 1) if f"{_SPARE}{n}" not in ports)
            ctx.journal.owns("port", spare, own.step, **own.facts)
            ctx.journal.released("port", name)


def _port(owned: Owned) -> Port:
    try:
        return Port(int(owned.facts["host"]), int(owned.facts["node"]))
    except (KeyError, ValueError) as error:
        raise LabError(
            f"the journal's entry for port {owned.name} is damaged: {dict(owned.facts)}",
            fix="run 'lab down', then 'lab up'",
        ) from error


def server_of(port: Port) -> str:
    """URL of a tenant's API server on this machine; its certificate is valid for 127.0.0.1."""
    return f"https://127.0.0.1:{port.host}"


def context_name(lab: str, tenant: str) -> str:
    """Name of the context in a tenant's kubeconfig."""
    return f"kailab-{lab}-{tenant}"


def answers(ctx: LabContext, name: str) -> bool:
    """Whether the tenant's API is ready through the kubeconfig on disk.

    With a connection of its own: the shared one may have the CA of a kubeconfig that is about to be replaced.
    """
    with contextlib.closing(Cluster(ctx.paths.tenant_kubeconfig(name))) as cluster:
        return cluster.healthy()


def kubeconfig_in(secret: dict[str, Any], port: Port) -> str | None:
    """The kubeconfig in vCluster's Secret ``vc-<name>`` if its server is the tenant's port."""
    import yaml

    packed = (secret.get("data") or {}).get("config")
    if not packed:
        return None
    text = base64.b64decode(packed).decode()
    clusters = (yaml.safe_load(text) or {}).get("clusters") or []
    servers = {entry.get("cluster", {}).get("server") for entry in clusters}
    return text if servers == {server_of(port)} else None

"""The way to a tenant's API: a NodePort that kind publishes on 127.0.0.1, and a kubeconfig of its own.

Which ports there are is fixed when kind creates the cluster; the ``cluster`` step writes them into the
journal, one for each tenant and some spare ones for tenants that are added later.
"""

from __future__ import annotations

import base64
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.engine.journal import Owned
from lab.errors import LabError
from lab.files import write_atomic
from lab.kube import Cluster
from lab.session.context import LabContext

_SPARE = "spare-"
_taking = threading.Lock()


@dataclass(frozen=True)
class Port:
    """A published port: ``host`` on 127.0.0.1, ``node`` is the NodePort."""

    host: int
    node: int


def find_port(ctx: LabContext, name: str) -> Port | None:
    """The tenant's port, or None while it has none."""
    return next((_port(owned) for owned in ctx.journal.owned("port") if owned.name == name), None)


def tenant_port(ctx: LabContext, name: str) -> Port:
    """The tenant's port; a tenant that was not there when the cluster was made takes a spare one, for good.

    Raises:
        LabError: no port is left, or the cluster publishes none.
    """
    with _taking:
        if (mine := find_port(ctx, name)) is not None:
            return mine
        ports = ctx.journal.owned("port")
        spare = next((owned for owned in ports if owned.name.startswith(_SPARE)), None)
        if spare is None:
            raise LabError(
                f"no published port is left for tenant {name} ({len(ports)} are in use)",
                fix="kind fixes its ports when it makes the cluster: 'lab down', then 'lab up'",
            )
        ctx.journal.owns("port", name, ctx.step, **dict(spare.facts))
        ctx.journal.released("port", spare.name)
        return _port(spare)


def give_back_port(ctx: LabContext, name: str) -> None:
    """Make the port of a tenant that is gone a spare one again."""
    with _taking:
        ports = ctx.journal.owned("port")
        mine = next((owned for owned in ports if owned.name == name), None)
        if mine is None:
            return
        taken = {owned.name for owned in ports}
        free = next(f"{_SPARE}{n}" for n in range(len(ports) + 1) if f"{_SPARE}{n}" not in taken)
        ctx.journal.owns("port", free, mine.step, **dict(mine.facts))
        ctx.journal.released("port", name)


def _port(owned: Owned) -> Port:
    try:
        return Port(int(owned.facts["host"]), int(owned.facts["node"]))
    except (KeyError, ValueError) as error:
        raise LabError(
            f"the journal's entry for port {owned.name} is damaged: {dict(owned.facts)}",
            fix="'lab down', then 'lab up'",
        ) from error


def server_of(port: Port) -> str:
    """URL of a tenant's API server on this machine. Its certificate names 127.0.0.1."""
    return f"https://127.0.0.1:{port.host}"


def context_name(lab: str, tenant: str) -> str:
    """Name of the context in a tenant's kubeconfig."""
    return f"kailab-{lab}-{tenant}"


def answers(ctx: LabContext, name: str) -> bool:
    """Whether the tenant's API is ready by the kubeconfig as it lies on disk.

    By a connection of its own: the shared one would keep the CA of a kubeconfig that is about to be replaced.
    """
    cluster = Cluster(ctx.paths.tenant_kubeconfig(name))
    try:
        return cluster.healthy()
    finally:
        cluster.close()


def kubeconfig_in(secret: dict[str, Any], port: Port) -> str | None:
    """The kubeconfig in vCluster's Secret ``vc-<name>``, once it leads to the tenant's port; else None."""
    import yaml

    packed = (secret.get("data") or {}).get("config")
    if not packed:
        return None
    text = base64.b64decode(packed).decode()
    clusters = (yaml.safe_load(text) or {}).get("clusters") or []
    servers = {entry.get("cluster", {}).get("server") for entry in clusters}
    return text if servers == {server_of(port)} else None


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read (mode 0600), whole or not at all.

    Raises:
        LabError: it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomic(path, text, mode=0o600)
    except OSError as error:
        raise LabError(
            f"{path} cannot be written: {error.strerror}", fix="free space or fix the permissions of that directory"
        ) from error

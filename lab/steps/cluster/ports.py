"""Ports of this machine that lead into the cluster: the API server's, and one for each tenant."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from dataclasses import dataclass

from lab.config import LabSpec

SPARE_PORTS = 4
"""Tenants that can be added to a running lab: kind fixes port mappings when it creates the cluster."""

FIRST_NODE_PORT = 30440


@dataclass(frozen=True)
class PortMapping:
    """A port of 127.0.0.1 on this machine that leads to a NodePort; ``owner`` is a tenant's name or ``spare-<n>``."""

    owner: str
    host: int
    node: int


@dataclass(frozen=True)
class ClusterPorts:
    """What kind is told: the API server's port of 127.0.0.1, and the first control plane's mappings.

    kind itself would take the API server's port at random (0.33.0), and now and then one that the lab has just chosen.
    """

    api: int
    mappings: tuple[PortMapping, ...] = ()


@contextlib.contextmanager
def free_ports(spec: LabSpec) -> Iterator[ClusterPorts]:
    """Ports that are free now, for the API server, the lab file's tenants and spares; held until the block ends."""
    owners = (*(tenant.name for tenant in spec.tenants), *(f"spare-{n}" for n in range(SPARE_PORTS)))
    with contextlib.ExitStack() as held:
        listeners = [held.enter_context(socket.socket()) for _ in ("api", *owners)]
        for listener in listeners:
            listener.bind(("127.0.0.1", 0))
        api, *others = (listener.getsockname()[1] for listener in listeners)
        mappings = zip(owners, others, range(FIRST_NODE_PORT, FIRST_NODE_PORT + len(owners)), strict=True)
        yield ClusterPorts(api, tuple(PortMapping(*mapping) for mapping in mappings))

"""Host ports of the cluster: one for the API server and one per tenant."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from dataclasses import dataclass

from lab.config import LabSpec

SPARE_PORTS = 4  # ports for tenants added later: kind fixes port mappings when it creates the cluster

FIRST_NODE_PORT = 30440


@dataclass(frozen=True)
class PortMapping:
    """A port of 127.0.0.1 that is mapped to a NodePort; ``owner`` is a tenant's name or ``spare-<n>``."""

    owner: str
    host: int
    node: int


@dataclass(frozen=True)
class ClusterPorts:
    """The API server's port of 127.0.0.1, and the mappings of the first control plane.

    kind would choose the API server's port at random (0.33.0), sometimes one that the lab has just chosen.
    """

    api: int
    mappings: tuple[PortMapping, ...] = ()


@contextlib.contextmanager
def free_ports(spec: LabSpec) -> Iterator[ClusterPorts]:
    """Free ports for the API server, the lab file's tenants and spares, held until the block ends."""
    owners = (*(tenant.name for tenant in spec.tenants), *(f"spare-{n}" for n in range(SPARE_PORTS)))
    with contextlib.ExitStack() as held:
        listeners = [held.enter_context(socket.socket()) for _ in ("api", *owners)]
        for listener in listeners:
            listener.bind(("127.0.0.1", 0))
        api, *others = (listener.getsockname()[1] for listener in listeners)
        mappings = zip(owners, others, range(FIRST_NODE_PORT, FIRST_NODE_PORT + len(owners)), strict=True)
        yield ClusterPorts(api, tuple(PortMapping(*mapping) for mapping in mappings))

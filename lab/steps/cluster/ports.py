"""Host ports of the cluster: one for the API server and one per tenant."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from lab.config import LabSpec

SPARE_PORTS = 4  # ports for tenants added later: kind fixes port mappings when it creates the cluster

FIRST_NODE_PORT = 30040
"""In the band that Kubernetes leaves to those who name a port, 30000 to 30085: it chooses from the other ports first
(ServiceNodePortStaticSubrange, 1.29). A tenant's Service has a second NodePort, which could take another tenant's."""


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
def free_ports(spec: LabSpec, wanted: Mapping[str, int] = MappingProxyType({})) -> Iterator[ClusterPorts]:
    """Free ports for the API server, the lab file's tenants and spares, held until the block ends.

    ``wanted`` are ports by owner; one that is in use is replaced.
    """
    owners = (*(tenant.name for tenant in spec.tenants), *(f"spare-{n}" for n in range(SPARE_PORTS)))
    with contextlib.ExitStack() as held:
        listeners = [held.enter_context(socket.socket()) for _ in ("api", *owners)]
        for owner, listener in zip(("", *owners), listeners, strict=True):
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind(("127.0.0.1", wanted.get(owner, 0)))
            except OSError:
                listener.bind(("127.0.0.1", 0))
        api, *others = (listener.getsockname()[1] for listener in listeners)
        mappings = zip(owners, others, range(FIRST_NODE_PORT, FIRST_NODE_PORT + len(owners)), strict=True)
        yield ClusterPorts(api, tuple(PortMapping(*mapping) for mapping in mappings))

"""Which ports of this machine lead into a cluster."""

from __future__ import annotations

import socket

import pytest

from lab.config import LabSpec
from lab.steps.cluster.ports import SPARE_PORTS, free_ports

pytestmark = pytest.mark.loopback

SPEC = LabSpec.model_validate({"tenants": [{"name": "ml"}, {"name": "dev"}]})


def test_tenants_and_spares_get_one_port_each_and_the_api_server_another() -> None:
    with free_ports(SPEC) as ports:
        owners = [port.owner for port in ports.mappings]
        assert owners == ["ml", "dev", *(f"spare-{n}" for n in range(SPARE_PORTS))]
        assert [port.node for port in ports.mappings] == list(range(30440, 30440 + len(owners)))
        assert len({ports.api, *(port.host for port in ports.mappings)}) == 1 + len(owners)


def test_nobody_takes_them_while_they_are_held() -> None:
    with free_ports(SPEC) as ports, socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", ports.api))
    with socket.socket() as other:
        other.bind(("127.0.0.1", ports.api))

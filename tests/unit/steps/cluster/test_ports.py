"""Ports of this machine that kind maps into a cluster."""

from __future__ import annotations

import socket

import pytest

from lab.config import LabSpec
from lab.steps.cluster.ports import SPARE_PORTS, free_ports

pytestmark = pytest.mark.loopback

SPEC = LabSpec.model_validate({"tenants": [{"name": "ml"}, {"name": "dev"}]})


def test_tenants_spares_and_api_server_get_one_port_each() -> None:
    with free_ports(SPEC) as ports:
        owners = [port.owner for port in ports.mappings]
        assert owners == ["ml", "dev", *(f"spare-{n}" for n in range(SPARE_PORTS))]
        assert [port.node for port in ports.mappings] == list(range(30440, 30440 + len(owners)))
        assert len({ports.api, *(port.host for port in ports.mappings)}) == 1 + len(owners)


def test_ports_are_reserved_until_released() -> None:
    with free_ports(SPEC) as ports, socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", ports.api))
    with socket.socket() as other:
        other.bind(("127.0.0.1", ports.api))

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
        assert [port.node for port in ports.mappings] == list(range(30040, 30040 + len(owners)))
        assert len({ports.api, *(port.host for port in ports.mappings)}) == 1 + len(owners)


def test_ports_are_reserved_until_released() -> None:
    with free_ports(SPEC) as ports, socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", ports.api))
    with socket.socket() as other:
        other.bind(("127.0.0.1", ports.api))


def test_ports_of_a_checkpoint_are_used_again_unless_they_are_in_use() -> None:
    with free_ports(SPEC) as ports:
        before = {port.owner: port.host for port in ports.mappings}
    with free_ports(SPEC, before) as again:
        assert {port.owner: port.host for port in again.mappings} == before
    with socket.socket() as other:
        other.bind(("127.0.0.1", before["ml"]))
        with free_ports(SPEC, before) as ports:
            after = {port.owner: port.host for port in ports.mappings}
    assert {owner for owner in before if before[owner] != after[owner]} == {"ml"}

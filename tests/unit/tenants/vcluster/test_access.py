from __future__ import annotations

import base64
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.errors import LabError
from lab.session.private_file import write_private
from lab.tenants.vcluster import access
from lab.tenants.vcluster.access import Endpoint
from tests.support.fakes import FakeRunner
from tests.support.lab_world import LabWorld
from tests.support.specs import lab_spec, published


@pytest.fixture
def world(runner: FakeRunner, tmp_path: Path) -> LabWorld:
    world = LabWorld(lab_spec(), runner, tmp_path)
    for number, name in enumerate(("team-a", "spare-0", "spare-1")):
        world.ctx.journal.owns("port", name, "cluster", host=str(41000 + number), node=str(30440 + number))
    return world


def test_tenant_of_the_lab_file_has_its_own_port(world: LabWorld) -> None:
    assert (
        access.claim_port(world.ctx, "team-a") == access.find_endpoint(world.ctx, "team-a") == published(41000, 30440)
    )


def test_find_endpoint_claims_no_port(world: LabWorld) -> None:
    assert access.find_endpoint(world.ctx, "team-b") is None
    assert world.owned("port") == ["team-a", "spare-0", "spare-1"]


def test_added_tenant_claims_a_spare_port(world: LabWorld) -> None:
    assert access.claim_port(world.ctx, "team-b") == published(41001, 30441)
    assert access.claim_port(world.ctx, "team-b") == published(41001, 30441)
    assert sorted(world.owned("port")) == ["spare-1", "team-a", "team-b"]


def test_concurrent_claims_return_different_ports(world: LabWorld) -> None:
    found: list[Endpoint] = []
    threads = [
        threading.Thread(target=lambda name=name: found.append(access.claim_port(world.ctx, name)))  # type: ignore[misc]
        for name in ("team-b", "team-c")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 2


def test_claim_without_spare_ports_is_refused(world: LabWorld) -> None:
    access.claim_port(world.ctx, "team-b")
    access.claim_port(world.ctx, "team-c")
    with pytest.raises(LabError, match="no published port is left for tenant team-d"):
        access.claim_port(world.ctx, "team-d")


def test_port_of_a_killed_claim_is_not_given_twice(world: LabWorld) -> None:
    """Killed between the record of the tenant's port and the release of the spare one."""
    world.ctx.journal.owns("port", "team-b", "tenant:team-b", host="41001", node="30441")
    assert access.claim_port(world.ctx, "team-b") == published(41001, 30441)
    assert access.claim_port(world.ctx, "team-c") == published(41002, 30442)
    with pytest.raises(LabError, match="no published port is left"):
        access.claim_port(world.ctx, "team-d")


def test_port_of_a_killed_release_is_not_given_twice(world: LabWorld) -> None:
    """Killed between the record of the spare port and the release of the tenant's; the release is repeated."""
    world.ctx.journal.owns("port", "spare-2", "cluster", host="41000", node="30440")
    access.release_port(world.ctx, "team-a")
    assert len([name for name in world.owned("port") if name.startswith("spare-")]) == 3
    assert len({access.claim_port(world.ctx, name).server for name in ("a", "b", "c")}) == 3
    with pytest.raises(LabError, match="no published port is left"):
        access.claim_port(world.ctx, "d")


def test_port_of_a_killed_claim_becomes_one_spare_port(world: LabWorld) -> None:
    """Killed between the record of the tenant's port and the release of the spare one; then the tenant is removed."""
    world.ctx.journal.owns("port", "team-b", "tenant:team-b", host="41001", node="30441")
    access.release_port(world.ctx, "team-b")
    assert sorted(world.owned("port")) == ["spare-0", "spare-1", "team-a"]


def test_released_port_can_be_claimed_again(world: LabWorld) -> None:
    access.release_port(world.ctx, "team-a")
    access.release_port(world.ctx, "team-a")
    assert access.find_endpoint(world.ctx, "team-a") is None
    claimed = {access.claim_port(world.ctx, f"t{n}").server for n in range(3)}
    assert claimed == {f"https://127.0.0.1:{port}" for port in (41000, 41001, 41002)}


def test_damaged_journal_entry_is_named(world: LabWorld) -> None:
    world.ctx.journal.owns("port", "team-x", "cluster", host="many", node="30449")
    with pytest.raises(LabError, match="entry for port team-x is damaged"):
        access.find_endpoint(world.ctx, "team-x")


def secret(server: str) -> dict[str, Any]:
    text = yaml.safe_dump({"clusters": [{"name": "c", "cluster": {"server": server}}]})
    return {"data": {"config": base64.b64encode(text.encode()).decode()}}


def test_kubeconfig_is_used_once_it_points_to_the_port_of_the_tenant() -> None:
    port = published(41000, 30440)
    assert access.kubeconfig_in({"metadata": {}}, port) is None
    assert access.kubeconfig_in(secret("https://localhost:8443"), port) is None
    text = access.kubeconfig_in(secret("https://127.0.0.1:41000"), port)
    assert text is not None
    assert "https://127.0.0.1:41000" in text


def test_private_file_is_replaced_atomically(tmp_path: Path) -> None:
    path = tmp_path / "labs" / "kubeconfig"
    write_private(path, "one")
    path.chmod(0o644)
    write_private(path, "two")
    assert path.read_text() == "two"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in path.parent.iterdir()] == ["kubeconfig"]


def test_unwritable_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LabError, match="cannot be written"):
        write_private(tmp_path / "file" / "kubeconfig", "text")

"""A lab installs KAI and tenants from a mirror in a stranger's cluster: changed under load, removed without trace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from lab.config import TenantSpec
from lab.errors import NotProven
from lab.kube import Cluster
from lab.steps import helm_release
from lab.steps.kai.step import NAMESPACE, RELEASE
from lab.tenants.vcluster.values import tenant_images
from lab.watch.manifests import LOCAL_IMAGE
from tests.integration.conftest import Cli
from tests.integration.kai_lines import two_lines
from tests.integration.strangers_cluster import GUEST, PROBE, Guest, Stranger, strangers_cluster
from tests.support.cluster_objects import changes, objects_in

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]

MIRROR, SECRET = "mirror.example:5000", "it-pull"
TENANTS = {"own": "own-kai", "shared": "host-kai", "plain": "default"}

Json = dict[str, Any]


@pytest.fixture(scope="module")
def stranger(engine: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stranger]:
    """A cluster without KAI and GPUs. Its nodes have all images by the names of a mirror."""
    versions, tenant = two_lines(), TenantSpec(name="plain", mode="default")
    with strangers_cluster("it-hosts", tmp_path_factory.mktemp("hosts"), tenants=(tenant,)) as found:
        images = {PROBE, LOCAL_IMAGE, *tenant_images(tenant)}.union(*map(found.images_of_kai, versions))
        found.mirror(MIRROR, *sorted(images))
        found.secret(SECRET)
        found.work()
        yield found


@pytest.fixture
def guest(cli: Cli, stranger: Stranger) -> Iterator[Guest]:
    """A lab with the older KAI, simulated GPUs and a tenant of each mode; at the end the cluster must be as before."""
    before, (older, _), nodes = objects_in(stranger.cluster), two_lines(), sorted(stranger.nodes)[1:]
    gpus = {"own": 2, "shared": 1, "plain": 1}
    tenants: list[Json] = [{"name": one, "mode": mode, "quota": {"gpus": gpus[one]}} for one, mode in TENANTS.items()]
    # reservation pods of a tenant's KAI need NVML
    tenants[0] |= {"kaiVersion": older, "gpuSharing": False, "nodes": nodes[-1:]}
    made = Guest(cli, stranger)
    made.write(
        kai={"manage": "install", "version": older},
        gpu={"mode": "simulated", "nodes": nodes, "perNode": 2, "model": "A100-40", "image": LOCAL_IMAGE},
        budget={"gpus": 5},  # the load of an upgrade needs two GPUs beside the tenants own and plain
        supply={"mirrors": dict.fromkeys(("ghcr.io", "registry.kailab.dev"), MIRROR), "pullSecrets": [SECRET]},
        tenants=tenants,
    )
    yield made
    cli("down", "--name", GUEST, code=None)
    assert changes(before, objects_in(stranger.cluster)) == []


def kai_of(cluster: Cluster) -> str:
    """Version of the Helm release."""
    release = helm_release.installed(cluster, RELEASE, NAMESPACE)
    return release.chart_version.removeprefix("v") if release else ""


def test_tenants_come_are_upgraded_and_go(guest: Guest) -> None:
    (older, newer), cli, host = two_lines(), guest.cli, guest.stranger.cluster
    named, quick = ("--name", GUEST, "--json"), ("--no-suites",)
    plan = guest.lab("plan", "--json")["existing"]
    assert (plan["missing"], "missing" in plan["images"].values()) == ([], False)
    guest.up()
    assert guest.up()["changed"] == 0
    assert guest.lab("status", "--json")["ok"]
    for name in TENANTS:
        file = Path(cli("kubeconfig", name, "--name", GUEST).out.strip())
        with closing(Cluster(file)) as tenant:
            assert tenant.healthy(), name
            if name == "own":
                assert kai_of(tenant) == older

    # a tenant's KAI, there and back
    found = cli("tenant", "upgrade", "own", "--kai", newer, *named, *quick, code=NotProven.exit_code).json()
    assert (found["reasons"], found["now"]) == ([], newer)
    assert cli("tenant", "rollback", "own", *named).json()["now"] == older

    # the host's own, under load, beside that tenant
    changed = cli("kai", "upgrade", newer, *named, *quick, code=NotProven.exit_code, timeout=1500).json()
    (rehearsal,) = changed["rehearsals"]
    assert (rehearsal["reasons"], changed["now"], kai_of(host)) == ([], newer, newer)
    assert {one["name"]: bool(one["seconds"]) for one in rehearsal["load"]} == dict.fromkeys(
        ("gang", "fractions", "gpu"), True
    )
    assert rehearsal["invariants"]["ok"]
    back = cli("kai", "rollback", *named, timeout=1500).json()
    assert (back["verdict"], back["now"], kai_of(host)) == ("green", older, older)
    assert guest.lab("status", "--json")["ok"]
    guest.down()

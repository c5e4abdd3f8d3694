"""Changes of a running tenant that are refused, and why."""

from __future__ import annotations

import re
from typing import Any

import pytest

from lab.operations.tenant.version_skew import forbidden, store_of
from tests.support.tenancy_world import own_kai

CLAIM = {"controlPlane": {"statefulSet": {"persistence": {"volumeClaim": {"enabled": True}}}}}
ETCD = {"controlPlane": {"backingStore": {"etcd": {"deploy": {"enabled": True}}}}}


def kept(**more: Any) -> Any:
    """A tenant whose control plane has a claim."""
    return own_kai(values=CLAIM, **more)


def test_another_kai_version_is_none_of_it() -> None:
    assert forbidden(own_kai(), own_kai(kaiVersion="0.9.8")) == ()


@pytest.mark.parametrize(
    ("there", "wanted", "why"),
    [
        ({}, {"vcluster": "0.35.0"}, "below 0.35.3"),
        ({"vcluster": "0.36.1"}, {"vcluster": "0.35.3"}, "vCluster 0.36.1 → 0.35.3 is a downgrade"),
        (
            {"kubernetes": "1.34.4"},
            {"kubernetes": "1.33.13"},
            "an older API server cannot read everything that a newer one has stored",
        ),
        ({"kubernetes": "1.32.1"}, {"kubernetes": "1.34.4"}, r"skips a minor.*first 1\.33"),
    ],
)
def test_versions(there: dict[str, str], wanted: dict[str, str], why: str) -> None:
    (found,) = forbidden(kept(**there), kept(**wanted))
    assert re.search(why, found)


def test_a_step_up_is_fine_where_the_data_stays() -> None:
    assert forbidden(kept(kubernetes="1.33.13"), kept(kubernetes="1.34.4")) == ()
    assert forbidden(kept(vcluster="0.35.3"), kept(vcluster="0.36.1")) == ()


def test_a_new_control_plane_on_an_empty_dir_loses_everything() -> None:
    (why,) = forbidden(own_kai(vcluster="0.35.3"), own_kai(vcluster="0.36.1"))
    assert "emptyDir" in why
    assert "persistence.volumeClaim.enabled: true" in why


@pytest.mark.parametrize(("there", "wanted", "refused"), [({}, ETCD, False), (ETCD, {}, True)])
def test_stores(there: dict[str, Any], wanted: dict[str, Any], refused: bool) -> None:
    found = forbidden(own_kai(values=there), own_kai(values=wanted))
    assert bool(found) is refused
    assert not refused or "from deployed etcd to sqlite" in found[0]


def test_synced_namespaces_are_for_life() -> None:
    wanted = own_kai(values={"sync": {"toHost": {"namespaces": {"enabled": True}}}})
    assert "may not change while a vCluster exists" in forbidden(own_kai(), wanted)[0]


def test_store_of() -> None:
    assert (store_of({}), store_of(ETCD)) == ("sqlite", "deployed etcd")
    database = {"controlPlane": {"backingStore": {"database": {"external": {"enabled": True}}}}}
    assert store_of(database) == "external database"

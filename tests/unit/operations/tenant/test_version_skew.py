"""Changes of a running tenant that are refused, with their reasons."""

from __future__ import annotations

import re
from typing import Any

import pytest

from lab.operations.tenant.version_skew import forbidden, store_of
from tests.support.tenancy_world import own_kai

EMPTY_DIR = {"controlPlane": {"statefulSet": {"persistence": {"volumeClaim": {"enabled": False}}}}}
ETCD = {"controlPlane": {"backingStore": {"etcd": {"deploy": {"enabled": True}}}}}


def test_kai_version_may_change() -> None:
    assert forbidden(own_kai(), own_kai(kaiVersion="0.9.8")) == ()


@pytest.mark.parametrize(
    ("current", "wanted", "reason"),
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
def test_unsupported_version_changes_are_refused(current: dict[str, str], wanted: dict[str, str], reason: str) -> None:
    (found,) = forbidden(own_kai(**current), own_kai(**wanted))
    assert re.search(reason, found)


def test_minor_upgrade_with_persistent_data_is_allowed() -> None:
    assert forbidden(own_kai(kubernetes="1.33.13"), own_kai(kubernetes="1.34.4")) == ()
    assert forbidden(own_kai(vcluster="0.35.3"), own_kai(vcluster="0.36.1")) == ()


def test_upgrade_on_empty_dir_is_refused() -> None:
    (reason,) = forbidden(own_kai(vcluster="0.35.3", values=EMPTY_DIR), own_kai(vcluster="0.36.1", values=EMPTY_DIR))
    assert "emptyDir" in reason
    assert "without values.controlPlane.statefulSet.persistence.volumeClaim.enabled: false" in reason


@pytest.mark.parametrize(("current", "wanted", "refused"), [({}, ETCD, False), (ETCD, {}, True)])
def test_store_may_not_change(current: dict[str, Any], wanted: dict[str, Any], refused: bool) -> None:
    found = forbidden(own_kai(values=current), own_kai(values=wanted))
    assert bool(found) is refused
    assert not refused or "from deployed etcd to sqlite" in found[0]


def test_namespace_sync_may_not_change() -> None:
    wanted = own_kai(values={"sync": {"toHost": {"namespaces": {"enabled": True}}}})
    assert "may not change while a vCluster exists" in forbidden(own_kai(), wanted)[0]


def test_store_of_names_the_backing_store() -> None:
    assert (store_of({}), store_of(ETCD)) == ("sqlite", "deployed etcd")
    database = {"controlPlane": {"backingStore": {"database": {"external": {"enabled": True}}}}}
    assert store_of(database) == "external database"

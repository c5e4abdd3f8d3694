"""What a plan says about a lab without KAI."""

from __future__ import annotations

from typing import Any

import pytest

from lab.config import LabSpec, load_profile
from lab.operations.planning import items_needed, loading_steps, no_kai_notice, resolve_scheduler
from lab.supply import Choice, Item
from tests.support.specs import EXISTING, lab_spec, tenant_spec


class NoKai:
    """A supply that has nothing of KAI."""

    def choose(self, items: list[Item]) -> dict[Item, Choice]:
        return {item: Choice(item, "none", "", ("no registry answers",)) for item in items}


def fallen_back(spec: LabSpec) -> tuple[LabSpec, str]:
    supply: Any = NoKai()
    return resolve_scheduler(spec, supply)


@pytest.mark.parametrize("queues", [True, False])
def test_lab_that_got_no_kai_says_so_with_and_without_queues(queues: bool) -> None:
    spec = load_profile("demo", [] if queues else ["queues=[]"], {})
    resolved, why = fallen_back(spec)
    (notice,) = no_kai_notice(resolved, why)
    assert notice.startswith("NO KAI SCHEDULER in this lab: KAI 0.16.8 is not available: ")
    assert "Pods, those of my-vcluster too, run on the default scheduler" in notice
    assert ("queues are left out" in notice) == queues


def test_lab_file_that_wants_no_kai_is_not_warned() -> None:
    resolved, why = fallen_back(load_profile("cpu", ["scheduler=default", "tenants=[]", "queues=[]"], {}))
    assert no_kai_notice(resolved, why) == ()


def test_tenants_are_called_by_the_scheduler_that_they_have() -> None:
    spec = load_profile("demo", (), {})
    assert spec.tenants_in_words == "my-vcluster (host-kai), research-cluster (default)"
    resolved, _ = fallen_back(spec)
    words = "my-vcluster (default scheduler, without the host's KAI), research-cluster (default)"
    assert resolved.tenants_in_words == words


class Cache:
    """A supply that has everything."""

    def choose(self, items: list[Item]) -> dict[Item, Choice]:
        return {item: Choice(item, "present", "cache", ()) for item in items}

    def item(self, kind: str, name: str, version: str = "") -> Item:
        return Item(kind, name, version)


def test_tenants_of_an_existing_cluster_load_no_images_into_nodes() -> None:
    supply: Any = Cache()
    tenant = tenant_spec("default")
    spec = lab_spec(cluster=EXISTING, gpus="none", scheduler="default", tenants=[tenant.model_dump()])
    assert loading_steps(spec, tenant, supply) == ()
    needed = [str(item) for item in items_needed(spec, supply)]
    assert needed == ["chart vcluster 0.36.1", "binary helm", "binary kubectl"]
    assert "binary kubectl" not in map(str, items_needed(spec.model_copy(update={"tenants": ()}), supply))

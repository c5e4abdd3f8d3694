"""What a plan says about a lab without KAI."""

from __future__ import annotations

from typing import Any

import pytest

from lab.config import LabSpec, load_profile
from lab.operations.planning import no_kai_notice, resolve_scheduler
from lab.supply import Choice, Item


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

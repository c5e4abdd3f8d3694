from __future__ import annotations

import json

from lab.config import profile_names
from lab.operations.profiles import profile_offers
from lab.paths import state_root


def test_each_profile_is_offered_with_what_it_needs() -> None:
    offers = {offer.name: offer for offer in profile_offers()}
    assert tuple(offers) == profile_names()
    assert offers["demo"].needs == ("3 node containers", "4 simulated GPUs", "KAI 0.16.8", "2 vClusters")
    assert offers["gpu"].needs == ("2 node containers", "NVIDIA's driver", "KAI 0.16.8")
    assert offers["cpu"].needs == ("2 node containers", "KAI 0.16.8")
    assert offers["minimal"].summary.startswith("The smallest lab with a GPU: one node")
    assert all(offer.seconds is None for offer in offers.values())


def test_time_is_that_of_the_last_run_which_changed_something() -> None:
    folder = state_root() / "runs" / "minimal"
    folder.mkdir(parents=True)
    for day, took, outcome in (("20260101", 41.5, "changed"), ("20260102", 2.0, "ready")):
        record = {
            "verb": "up",
            "ok": True,
            "seconds": took,
            "steps": [{"step": "kai", "outcome": outcome, "seconds": 1}],
        }
        (folder / f"{day}T000000-up.json").write_text(json.dumps(record))
    assert {offer.name: offer.seconds for offer in profile_offers()}["minimal"] == 41.5

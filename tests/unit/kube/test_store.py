"""What is kept of the objects that watches show."""

from __future__ import annotations

from typing import Any

from lab.kube.informers import Cache, InformerEvent
from lab.kube.store import Store
from tests.support.kube_fake import pod

Json = dict[str, Any]


def phase_of(obj: Json) -> str:
    return str(obj["status"]["phase"])


def store() -> Store[Json]:
    return Store(lambda obj: obj, {"phase": lambda obj: (phase_of(obj),)})


def names(items: Any) -> list[str]:
    return [obj["metadata"]["name"] for obj in items]


def test_a_change_gives_the_item_before_and_after_it() -> None:
    kept, waits, runs = store(), pod("a"), pod("a", "Running")
    assert kept.update(("ADDED", waits)) == (None, waits)
    assert kept.update(("MODIFIED", runs)) == (waits, runs)
    assert kept.update(("DELETED", runs)) == (runs, None)
    assert kept.update(("DELETED", runs)) == (None, None)
    assert list(kept) == []


def test_an_index_follows_the_changes() -> None:
    kept = store()
    for obj in (pod("a"), pod("b"), pod("a", "Running")):
        kept.update(("MODIFIED", obj))
    assert names(kept.by_index("phase", "Pending").values()) == ["b"]
    assert names(kept.by_index("phase", "Running").values()) == ["a"]
    kept.update(("DELETED", pod("a", "Running")))
    assert names(kept.by_index("phase", "Running").values()) == []
    assert names(kept.by_index("phase", "Failed").values()) == []


def test_an_object_keeps_its_place_when_it_changes() -> None:
    kept = store()
    for obj in (pod("a"), pod("b"), pod("a", "Running")):
        kept.update(("MODIFIED", obj))
    assert names(kept) == ["a", "b"]


def test_an_object_of_the_same_name_is_another_one() -> None:
    kept = store()
    kept.update(("ADDED", pod("a", uid="1")))
    kept.update(("ADDED", pod("a", uid="2")))
    kept.update(("DELETED", pod("a", uid="1")))
    assert [obj["metadata"]["uid"] for obj in kept] == ["2"]


def cache(*events: InformerEvent) -> Cache:
    kept = Cache(("Pod", "Queue"), lambda obj: {**obj, "seen": True})
    for event in events:
        kept.update(event)
    return kept


LISTED = InformerEvent("lab", "Pod", (("ADDED", pod("a")),), listed=True)


def test_a_kind_is_in_doubt_until_it_is_listed_and_while_its_watch_is_broken() -> None:
    assert cache().doubt("Pod") == "has not been read yet"
    assert cache(LISTED).doubt("Pod") == ""
    broken = cache(LISTED, InformerEvent("lab", "Pod", trouble="cut"))
    assert broken.doubt("Pod") == "cut"
    assert names(broken.objects("Pod")) == ["a"], "the last that was known"
    broken.update(InformerEvent("lab", "Pod"))
    assert broken.doubt("Pod") == ""
    assert cache(InformerEvent("lab", "Queue", absent=True)).doubt("Queue") == "the server does not have it"
    assert cache(InformerEvent("lab", "Queue", refused="forbidden")).doubt("Queue") == "forbidden"


def test_a_cache_is_synced_once_the_server_has_answered_on_every_kind() -> None:
    assert not cache(LISTED).synced
    assert not cache(LISTED, InformerEvent("lab", "Queue", trouble="cut")).synced
    assert cache(LISTED, InformerEvent("lab", "Queue", absent=True)).synced


def test_a_cache_keeps_its_view_of_the_objects() -> None:
    kept = cache()
    ((change, obj),) = kept.update(LISTED)
    assert (change, obj["seen"]) == ("ADDED", True)
    assert kept.objects("Pod") == (obj,)
    kept.update(InformerEvent("lab", "Pod", (("DELETED", pod("a")),)))
    assert kept.objects("Pod") == ()
